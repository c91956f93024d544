"""Your own function as a sink."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from holdfast.errors import InvalidStep
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.upsert import Upsert

__all__ = ["ForeachBatch"]


class ForeachBatch(Sink):
    """Calls a function with the rows and the number of each micro-batch. It is exactly-once if the function is.

    Append and upsert: which of them it does, and how, is the function's own affair, so `mode="upsert"` is refused. After a
    crash it may get the last micro-batch once more. The number alone does not identify a micro-batch: a new checkpoint
    starts at 0 again. A function with a third required argument gets the `BatchInfo`, with the query's id and the plan.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        problems = [*_problems(function)]
        if problems:
            raise InvalidStep.of("ForeachBatch", problems)
        self._function = function
        self._wants_info = _required(function) == 3

    def __repr__(self) -> str:
        return f"ForeachBatch({getattr(self._function, '__qualname__', repr(self._function))})"

    def upserting(self, upsert: Upsert) -> Sink:
        cannot = f"{self!r} cannot upsert by itself: its function decides how rows are written. Leave out mode and key."
        raise InvalidStep.of_sink(self, [cannot])

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        more = (info,) if self._wants_info else ()
        self._function(rows, info.batch_id, *more)


def _problems(function: Any) -> Iterator[str]:
    if not callable(function):
        yield f"{function!r} cannot be called: give a function of the rows and the number of a micro-batch."
        return
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    called = plain if inspect.isroutine(plain) else type(plain).__call__
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        yield f"{plain!r} is async: it would never be awaited, and nothing would be written. Give a plain function."
    elif inspect.isgeneratorfunction(called):
        yield f"{plain!r} is a generator: calling it runs nothing. Give a function without yield."
    elif not _takes_rows_and_number(function):
        yield f"{plain!r} must take the rows and the number of a micro-batch, and may take a third argument, the BatchInfo."


def _takes_rows_and_number(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    for given in ((None, None), (None, None, None)):
        with contextlib.suppress(TypeError):
            signature.bind(*given)
            return True
    return False


def _required(function: Callable[..., Any]) -> int:
    """How many arguments a function requires."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in places and p.default is inspect.Parameter.empty for p in parameters)
