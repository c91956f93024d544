"""Spark functions and columns given where Python's are meant, as after `from pyspark.sql.functions import *`.

This does not import Spark: its objects are recognised by their module.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

__all__ = ["foreign_globals", "foreign_problem", "global_names"]

_SPARK = "pyspark."
_FUNCTIONS = "pyspark.sql.functions"
_READY = {
    "sum": "hf.Sum()",
    "count": "hf.Count()",
    "avg": "hf.Mean()",
    "mean": "hf.Mean()",
    "min": "hf.Min()",
    "max": "hf.Max()",
    "collect_list": "hf.ToList()",
    "collect_set": "hf.ToSet()",
    "approx_count_distinct": "hf.ApproximateDistinct()",
}


def foreign_problem(given: Any) -> str | None:
    """Why the object cannot be called with values: it makes a column, or is one."""
    inner = given.func if isinstance(given, functools.partial) else given
    if type(inner).__module__.startswith(_SPARK):
        return f"it is a {type(inner).__name__} of Spark's, not a function from values to a value."
    if not str(getattr(inner, "__module__", "")).startswith(_SPARK):
        return None
    name = str(getattr(inner, "__name__", "it"))
    means = " or ".join(_meant(name)) or "a function of Python's"
    return (
        f"{name} is Spark's function ({_FUNCTIONS}.{name}), which makes a column and takes no values: give {means}. After "
        f"'from {_FUNCTIONS} import *' some names no longer mean Python's own; 'import {_FUNCTIONS} as F' leaves them alone."
    )


def _meant(name: str) -> Iterator[str]:
    if name in _READY:
        yield _READY[name]
    if hasattr(builtins, name):
        yield f"builtins.{name} (after 'import builtins')"


def foreign_globals(function: Callable[..., Any], method: str) -> Iterator[str]:
    """Calls of Spark functions by their bare names: there is no Spark where the method runs."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code, names = getattr(inner, "__code__", None), getattr(inner, "__globals__", {})
    for name in sorted(global_names(code)) if isinstance(code, CodeType) else ():
        value = names.get(name)
        if callable(value) and str(getattr(value, "__module__", "")).startswith(_FUNCTIONS):
            meant = f": write builtins.{name} (after 'import builtins'), or" if hasattr(builtins, name) else ":"
            yield (
                f"{method} uses {name}, which is Spark's function here ({_FUNCTIONS}.{name}) and makes a column{meant} "
                f"import Spark's functions as 'import {_FUNCTIONS} as F'."
            )


def global_names(code: CodeType) -> set[str]:
    """The globals used by a function and by the functions defined inside it."""
    names = {str(i.argval) for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names.union(*map(global_names, inner))
