"""The contract of a sink."""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sinks.upsert import CAN_UPSERT, Upsert

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
    planned: Callable[[int], str] = field(default=lambda number: "", compare=False, repr=False)
    """The plan of an earlier micro-batch of this checkpoint, from its number; empty if it is no longer known. What a sink
    has of this query by another plan was written by another job, with a checkpoint of its own."""


class Sink(abc.ABC):
    """Takes micro-batches in order. After a crash the last one may come again, with the same BatchInfo and the same
    rows: a sink is exactly-once if the second time changes nothing.

    Restoring an older savepoint rolls a checkpoint back. Then numbers that have been written come again with other rows. A
    sink must not mistake these for what it already has.

    A sink appends, unless `upserting` made it. What was appended must not be upserted later, nor the other way round: a sink
    that outlives the job keeps a note of it, and refuses.
    """

    def upserting(self, upsert: Upsert) -> Sink:
        """This sink, writing to the same place, but with one row for each key: the newest.

        A job calls it in `write`, and from then on uses only what it returns: most simply a copy that keeps `upsert`. The
        schema comes with `open`. Raise InvalidStep, with a sentence for each problem, if the sink cannot upsert, as this
        one does; then neither `open` nor `write_batch` is called.

        Each row replaces, as a whole, the one with its key: INSERT ... ON CONFLICT (key) DO UPDATE, or MERGE. Rows of one
        key may come several times in a micro-batch. The last one wins; `upsert.newest` leaves out the others.
        """
        name = type(self).__name__
        cannot = f"{name} cannot upsert: it has no method `upserting`. Use {CAN_UPSERT}, or leave out mode and key."
        raise InvalidStep.of_sink(self, [cannot])

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:  # noqa: B027
        """Called when a job starts, before anything is processed: raise here if writing is impossible.

        `schema` is that of the rows. `query_id` is None for a new checkpoint, whose query has no id yet.
        """

    @property
    def place(self) -> Hashable:
        """Identifies where the rows go: a job writes only one output there. None means unknown, and is not checked. A job
        asks before `open`, and again after it, when a sink may know better."""
        return None

    evaluates_all = False
    """Whether `write_batch` always evaluates all rows, exactly once. If not, the job does so beforehand."""

    @abc.abstractmethod
    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        """Writes one micro-batch. When it returns, the rows are durable."""
