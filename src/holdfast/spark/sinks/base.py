"""The contract of a sink."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from pyspark.sql import DataFrame

__all__ = ["BatchInfo", "Sink"]


@dataclass(frozen=True)
class BatchInfo:
    """Which micro-batch is being written. The two together never stand for other rows, also after a restart."""

    query_id: str
    """Stays the same as long as the checkpoint does."""
    batch_id: int


class Sink(abc.ABC):
    """Takes micro-batches in order. After a crash the last one may come again, with the same BatchInfo and the same
    rows: a sink is exactly once if the second time changes nothing."""

    evaluates_all = False
    """Whether `write_batch` always evaluates all rows, and once. If not, the job sees to it before."""

    @abc.abstractmethod
    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        """Writes one micro-batch. When it returns, the rows are durable."""
