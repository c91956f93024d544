"""Sinks of one's own: a function, or a list in the driver's memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from holdfast.spark.sinks.base import BatchInfo, Sink

__all__ = ["Collect", "ForeachBatch"]


class ForeachBatch(Sink):
    """Calls a function with the rows and the number of each micro-batch. It is exactly once if the function is.

    The number alone does not say whose micro-batch it is: a new checkpoint begins with 0 again. A function that must have a
    third argument is given the `BatchInfo`, with the query's id and the plan.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._wants_info = _required(function) == 3

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        more = (info,) if self._wants_info else ()
        self._function(rows, info.batch_id, *more)


def _required(function: Callable[..., Any]) -> int:
    """How many arguments a function must have."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in places and p.default is inspect.Parameter.empty for p in parameters)


class Collect(Sink):
    """Keeps all rows in memory: for tests and small demonstrations. What it holds does not survive the process."""

    evaluates_all = True

    def __init__(self) -> None:
        self._batches: dict[str, dict[int, list[Any]]] = {}
        """By query and micro-batch."""

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        collected = rows.collect()
        batches = self._batches.setdefault(info.query_id, {})
        for later in [batch for batch in batches if batch > info.batch_id]:
            # The checkpoint was taken back: what comes now takes their place.
            del batches[later]
        batches[info.batch_id] = collected

    @property
    def rows(self) -> list[Any]:
        """All rows, in order of the micro-batches; those of another query after those of the first."""
        return [row for batches in self._batches.values() for batch in sorted(batches) for row in batches[batch]]
