"""Whether a job is well, by the history beside its checkpoint. For a local path this needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.checkpoint.files.choice import files_of, join
from holdfast.checkpoint.running import find_running, is_running
from holdfast.errors import CheckpointError
from holdfast.watch.health.judging import judge
from holdfast.watch.health.report import Health
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.tail import HistoryTail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Watched", "health"]

_PARTS = ("holdfast", "offsets", "metadata", "commits")


def health(
    job: str, thresholds: Thresholds | Mapping[str, object] | None = None, *, spark: SparkSession | None = None
) -> Health:
    """Judges a job, given by its checkpoint, or by its name if it runs on this machine as this user.

    Only a checkpoint that is not on a local path needs a session. Raises CheckpointError if there is no such job, and
    InputError for thresholds that make no sense.
    """
    with Watched(job, spark=spark) as watched:
        return watched.judge(thresholds)


class Watched:
    """A job that is looked at again and again: each time, only what is new of its history is read."""

    def __init__(self, job: str, *, spark: SparkSession | None = None) -> None:
        self._spark = spark
        self.checkpoint = find_running(spark, job)
        files = files_of(spark, self.checkpoint)
        if all(files.info(join(self.checkpoint, part)) is None for part in _PARTS):
            raise CheckpointError(
                f"{self.checkpoint!r} is not a checkpoint: it has none of the parts of one.",
                todo="give the checkpoint of a job, or the name of one that is running",
            )
        self._name = job if job != self.checkpoint and "/" not in job else ""
        self.tail = HistoryTail(files, self.checkpoint)

    def judge(self, thresholds: Thresholds | Mapping[str, object] | None = None) -> Health:
        """Reads what is new, and judges all of it."""
        if isinstance(thresholds, Mapping):
            thresholds = Thresholds.from_mapping(thresholds)
        self.tail.read()
        running = is_running(self._spark, self.checkpoint)
        found = judge(self.tail.history, thresholds, running=running, job=self._name)
        if not found.job:
            # Jobs that were never told of have at least a place.
            return judge(self.tail.history, thresholds, running=running, job=self.checkpoint.rpartition("/")[2])
        return found

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self.tail.close()
