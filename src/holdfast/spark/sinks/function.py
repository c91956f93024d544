"""Sinks of one's own: a function, or a list in the driver's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from holdfast.spark.sinks.base import BatchInfo, Sink

__all__ = ["Collect", "ForeachBatch"]


class ForeachBatch(Sink):
    """Calls a function with the rows and the number of each micro-batch. It is exactly once if the function is."""

    def __init__(self, function: Callable[[DataFrame, int], Any]) -> None:
        self._function = function

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        self._function(rows, info.batch_id)


class Collect(Sink):
    """Keeps all rows in memory: for tests and small demonstrations. What it holds does not survive the process."""

    evaluates_all = True

    def __init__(self) -> None:
        self._batches: dict[int, list[Any]] = {}

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        self._batches[info.batch_id] = rows.collect()

    @property
    def rows(self) -> list[Any]:
        """All rows, in order of the micro-batches."""
        return [row for batch in sorted(self._batches) for row in self._batches[batch]]
