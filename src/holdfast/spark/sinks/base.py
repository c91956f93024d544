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
    """Identifies the micro-batch being written. Equal infos always mean the same rows, even after a restart."""

    query_id: str
    """Belongs to the checkpoint, and is kept by a checkpoint restored from a savepoint of it."""
    batch_id: int
    plan: str = ""
    """Tells micro-batches with the same number apart: after a checkpoint was rolled back, the next one is planned anew and
    may have other rows. Empty if unknown."""


class Sink(abc.ABC):
    """Takes micro-batches in order. After a crash the last one may come again, with the same BatchInfo and the same
    rows: a sink is exactly-once if the second time changes nothing.

    Restoring an older savepoint rolls a checkpoint back. Then numbers that have been written come again with other rows. A
    sink must not mistake these for what it already has.
    """

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:  # noqa: B027
        """Called when a job starts, before anything is processed: raise here if writing is impossible.

        `schema` is that of the rows. `query_id` is None for a new checkpoint, whose query has no id yet.
        """

    @property
    def place(self) -> Hashable:
        """Identifies where the rows go: a job writes only one output there. None means unknown, and is not checked."""
        return None

    evaluates_all = False
    """Whether `write_batch` always evaluates all rows, exactly once. If not, the job does so beforehand."""

    @abc.abstractmethod
    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        """Writes one micro-batch. When it returns, the rows are durable."""
