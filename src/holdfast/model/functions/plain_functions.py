"""Plain functions in place of a DoFn: their names, their modules, and whether they take the right parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.model.foreign import foreign_problem

__all__ = ["call_problems", "label_of", "module_of"]


def label_of(fn: object, otherwise: str) -> str:
    """The name of a function; a lambda has none."""
    name = str(getattr(_inner(fn), "__name__", ""))
    return name if name.isidentifier() else otherwise


def module_of(fn: object) -> str:
    """The module whose code travels with the function."""
    return str(getattr(_inner(fn), "__module__", "builtins"))


def call_problems(fn: Any, method: str, parameters: Sequence[str]) -> Iterator[str]:
    """Why the function cannot be called with these parameters, in sentences."""
    wanted, count = f"({', '.join(parameters)})", {2: "two", 3: "three"}[len(parameters)]
    foreign = foreign_problem(fn)
    if foreign is not None:
        yield f"{method} takes a function of {wanted}: {foreign}"
        return
    if not callable(fn):
        yield f"{method} was given {fn!r}; give a function of {wanted}."
        return
    try:
        inspect.signature(fn).bind(*parameters)
    except TypeError as error:
        name = getattr(fn, "__name__", repr(fn))
        yield f"{name} cannot be called with {wanted}: {error}. Give it these {count} parameters."
    except ValueError:
        pass  # A function without an inspectable signature.


def _inner(fn: Any) -> Any:
    """The function inside a `functools.partial`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn
