"""The contract of a sink."""

from __future__ import annotations

import abc
from collections.abc import Hashable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

__all__ = ["BatchInfo", "Sink"]


@dataclass(frozen=True)
class BatchInfo:
    """Which micro-batch is being written. All of it together never stands for other rows, also after a restart."""

    query_id: str
    """Stays the same as long as the checkpoint does, also in one that was restored from a savepoint of it."""
    batch_id: int
    plan: str = ""
    """Tells micro-batches of one number apart: where a checkpoint was taken back, the next one is planned anew and may have
    other rows. Empty if it is not known."""


class Sink(abc.ABC):
    """Takes micro-batches in order. After a crash the last one may come again, with the same BatchInfo and the same
    rows: a sink is exactly once if the second time changes nothing.

    A checkpoint may be taken back, by restoring an older savepoint. Then micro-batches come with numbers that have been
    written, and with other rows. A sink must not take them for what it has.
    """

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:  # noqa: B027
        """Called when a job starts, before anything is processed: the place for what makes writing impossible.

        `schema` is that of the rows. `query_id` is None if the checkpoint is new, so that the query has no id yet.
        """

    @property
    def place(self) -> Hashable:
        """Where the rows go: a job writes one output to a place. None: nobody can tell, and any number may."""
        return None

    evaluates_all = False
    """Whether `write_batch` always evaluates all rows, and once. If not, the job sees to it before."""

    @abc.abstractmethod
    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        """Writes one micro-batch. When it returns, the rows are durable."""
