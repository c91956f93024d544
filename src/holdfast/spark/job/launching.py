"""Starts the queries of a job: what Spark is told of them, and what it is told only while they start."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from holdfast.checkpoint.files.paths import normalised
from holdfast.errors import InvalidStep, JobFailed, SinkError
from holdfast.model.time.timestamps import Duration
from holdfast.spark.errors.failures import first_cause, query_failure
from holdfast.spark.errors.transport import rebuilding
from holdfast.spark.job.handler import Handler
from holdfast.spark.job.triggers import AvailableNow, Batches, Every, JobTrigger
from holdfast.spark.session.checkpoint_files import file_settings
from holdfast.spark.session.properties import BACKEND, MEMORY_BUDGET, STATE_DIR, TELLS_NOTHING, local_property
from holdfast.spark.session.settings import session_lacks, with_settings
from holdfast.spark.sinks.base import Sink
from holdfast.spark.sinks.plans import stored_query_id

__all__ = ["Launch", "check_name_is_free", "interval_ms", "open_sinks"]

_LEAVING_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.01
_STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True)
class Launch:
    """How the queries of a job are started."""

    job: str
    trigger: JobTrigger
    retained_batches: int | None
    memory_budget_bytes: int | None
    backend: str | None
    """Of the steps that have not named one."""
    state_dir: str | None
    """Where the disk backend has its working files, as tasks are told."""
    history: bool
    """Whether steps count what they do."""

    def start(
        self, spark: SparkSession, checkpoint: str, frame: DataFrame, handler: Handler, waits_for_time: bool
    ) -> StreamingQuery:
        """Starts a query. `waits_for_time`: whether one of its steps uses processing time."""
        writer = frame.writeStream.queryName(self.job).option("checkpointLocation", normalised(checkpoint))
        writer = self._triggered(writer.outputMode("append"))
        try:
            with self._settings(spark, checkpoint, waits_for_time), rebuilding(spark), self._properties(spark):
                return writer.foreachBatch(handler).start()
        except Py4JJavaError as error:
            raise query_failure(error, checkpoint, self.job) from error

    def _triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        if isinstance(self.trigger, AvailableNow):
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{_interval_ms(self.trigger)} milliseconds")

    def _settings(
        self, spark: SparkSession, checkpoint: str, waits_for_time: bool
    ) -> contextlib.AbstractContextManager[None]:
        """Settings that only this query needs; it copies them when it starts."""
        # The other format has names for its files that no tool here knows.
        wanted = {**session_lacks(spark), **file_settings(spark, checkpoint), _STATE_FORMAT: "1"}
        if isinstance(self.trigger, AvailableNow) and waits_for_time:
            # In this mode Spark would run empty micro-batches for ever, waiting for timers.
            wanted[_NO_DATA] = "false"
        if self.retained_batches is not None:
            wanted["spark.sql.streaming.minBatchesToRetain"] = str(self.retained_batches)
        return with_settings(spark, wanted)

    @contextlib.contextmanager
    def _properties(self, spark: SparkSession) -> Iterator[None]:
        """What the tasks of this query are told."""
        budget = None if self.memory_budget_bytes is None else str(self.memory_budget_bytes)
        with (
            local_property(spark, MEMORY_BUDGET, budget),
            local_property(spark, TELLS_NOTHING, None if self.history else "true"),
            local_property(spark, BACKEND, self.backend),
            local_property(spark, STATE_DIR, self.state_dir),
        ):
            yield


def open_sinks(spark: SparkSession, checkpoint: str, job: str, writes: Sequence[tuple[DataFrame, Sink]]) -> None:
    """Opens the sinks of a job. Raises InvalidStep if two are the same place."""
    query_id = stored_query_id(spark, checkpoint)
    for df, sink in writes:
        with _opening(sink):
            sink.open(spark, df.schema, query_id)
    places = [sink.place for _, sink in writes if sink.place is not None]
    if len(set(places)) < len(places):
        # Now that they are open, sinks know it: one server has many names.
        raise InvalidStep.of_job(job, ["Two outputs are written to the same place: give each a place of its own."])


@contextlib.contextmanager
def _opening(sink: Sink) -> Iterator[None]:
    """Turns an error of Spark's JVM into a sentence."""
    try:
        yield
    except Py4JJavaError as error:
        raise SinkError(
            f"{sink!r} could not be opened: {first_cause(str(error))}",
            todo="check that its place exists and can be written; nothing was processed",
        ) from error


def interval_ms(trigger: JobTrigger) -> int | None:
    """The time between the beginnings of micro-batches, if it is set."""
    return _interval_ms(trigger) or None


def _interval_ms(trigger: JobTrigger) -> int:
    interval = trigger.interval if isinstance(trigger, (Every, Batches)) else 0
    return Duration.of(interval).micros // 1000


def check_name_is_free(spark: SparkSession, name: str) -> None:
    """Raises JobFailed if a query of this name is running."""
    if _is_running(spark, name):
        raise JobFailed(
            f"The job {name!r} cannot start: another query of this name is running in the same session.",
            todo="stop that one first, or give this job another name",
        )


def _is_running(spark: SparkSession, name: str) -> bool:
    """Whether a query of this name is running. One that has ended stays in Spark's list for a moment, until which Spark
    would not start another: that is waited for."""
    deadline = time.monotonic() + _LEAVING_SECONDS_MAX
    while listed := [query for query in spark.streams.active if query.name == name]:
        if any(query.isActive for query in listed) or time.monotonic() > deadline:
            return True
        time.sleep(_POLL_SECONDS)
    return False
