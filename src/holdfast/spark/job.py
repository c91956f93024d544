"""A job: outputs bound to sinks, run as one streaming query, so that no step is run twice.

    with hf.Job("alerts", checkpoint="/data/alerts/checkpoint", trigger="10 seconds") as job:
        job.write(alerts, hf.sinks.Parquet("/data/alerts/rows"))
        job.run()

Life of a job: `write` as often as there are outputs, then `start`, then `stop`; or `run`, which starts, waits and
stops, also on Ctrl-C and SIGTERM. A stop waits for the micro-batch that is running, so that nothing is done twice.
From its start to its end a job has the lock on its checkpoint, and `holdfast stop` can stop it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.engine.metrics import StepMetrics
from holdfast.errors import CheckpointLocked, HoldfastError, InvalidStep, JobFailed
from holdfast.model.timestamps import Duration
from holdfast.spark.checkpoint_files import file_settings
from holdfast.spark.failures import query_failure
from holdfast.spark.job_manifest import check_job_manifest
from holdfast.spark.lineage import steps_above
from holdfast.spark.lock import LockInfo
from holdfast.spark.paths import normalised
from holdfast.spark.presence import Presence
from holdfast.spark.progress import Progress
from holdfast.spark.session import apply_settings, with_settings
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.triggers import AvailableNow, Batches, Every, read_trigger
from holdfast.spark.unpack import Origin, origin_of, unpack

__all__ = ["Job"]

_POLL_SECONDS = 0.1
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


class Job:
    """Outputs, sinks, a checkpoint and a trigger.

    `tolerated_failures`: how many times in a row a failed query is started again from the same checkpoint without
    having committed anything new, before `run` gives up with the cause. `retained_batches`: how many micro-batches one
    can go back. `progress`: whether to show what the job does while it runs.
    """

    def __init__(
        self,
        name: str,
        *,
        checkpoint: str,
        trigger: Any = None,
        tolerated_failures: int = 0,
        retained_batches: int | None = None,
        progress: bool = True,
    ) -> None:
        self.name = name
        self.checkpoint = str(checkpoint)
        self._trigger = read_trigger(trigger)
        self._tolerated_failures = tolerated_failures
        self._retained_batches = retained_batches
        self._writes: list[tuple[DataFrame, Sink]] = []
        self._progress = Progress(name, enabled=progress)
        self._presence = Presence(name, self.checkpoint)
        self._query: StreamingQuery | None = None
        self._starting = False
        self._stop_turn = threading.Lock()
        self._stopping = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._held_back = threading.Event()
        self._interrupted = False
        self._batches_done = 0

    def write(self, df: DataFrame, sink: Sink) -> Job:
        """Binds an output to a sink."""
        problems = []
        if not isinstance(sink, Sink):
            problems.append(f"{sink!r} is no sink: give hf.sinks.Parquet(...), Sqlite(...) or ForeachBatch(function).")
        if not isinstance(df, DataFrame) or not df.isStreaming:
            problems.append("What is written must be a streaming DataFrame; a batch one has its own df.write.")
        if self._query is not None:
            problems.append("The job has been started; bind all outputs before.")
        if problems:
            raise InvalidStep(self.name, problems)
        self._writes.append((df, sink))
        return self

    def start(self) -> Job:
        """Starts the query, after checking the stored state against the steps.

        Raises CheckpointLocked if another job runs on the checkpoint, or a tool works on it.
        """
        if not self._writes:
            raise InvalidStep(self.name, ["Nothing is written: bind an output to a sink with job.write(df, sink)."])
        frame, sink_all = self._root()
        spark = frame.sparkSession
        steps = _unique_steps(self.name, [df for df, _ in self._writes])
        with self._starts(spark):
            self._start_query(spark, frame, sink_all, steps)
        return self

    def run(self) -> Job:
        """Starts the job and waits for its end; starts it again after a failure, as often as that is tolerated."""
        failures, last = 0, -1
        while True:
            try:
                with self._signals():
                    self.start()
                    self.wait()
                return self
            except HoldfastError as error:
                committed = self._committed()
                failures = 1 if committed != last else failures + 1
                last = committed
                if failures > self._tolerated_failures or isinstance(error, (InvalidStep, CheckpointLocked)):
                    raise
                self._query = None

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the query has ended, or so many seconds; whether it has. Raises what it failed with."""
        query = self._running()
        deadline = None if seconds is None else time.monotonic() + seconds
        while query.isActive:
            self._progress.show(query.lastProgress)
            if self._stopping.is_set():
                self.stop()
                break
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        self._progress.show(query.lastProgress, final=True)
        self._progress.close()
        self._presence.end()
        self._raise_failure(query)
        return True

    def stop(self, timeout_seconds: float = 300.0) -> None:
        """Stops at the end of the micro-batch that is running. State, offsets and sinks then agree."""
        query = self._running()
        self._stopping.set()
        with self._stop_turn:
            if query.isActive:
                self._stop_query(query, timeout_seconds)
        self._presence.end()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle of the running query."""
        return self._running()

    @property
    def metrics(self) -> dict[str, StepMetrics]:
        """What each step has done since it was built, by its name."""
        origins = [origin_of(df) for df, _ in self._writes]
        return {origin.plan.name: origin.metrics.value for origin in origins if origin is not None}

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._query is not None:
            self.stop()

    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise JobFailed(f"The job {self.name!r} has not been started.", todo="call job.start() or job.run()")
        return self._query

    def _start_query(
        self, spark: SparkSession, frame: DataFrame, sinks: list[tuple[Origin | None, Sink]], steps: list[Any]
    ) -> None:
        apply_settings(spark)
        for note in check_job_manifest(spark, self.checkpoint, self.name, steps):
            self._progress.note(f"stored state, {note}")
        self._stopping.clear()
        self._held_back.clear()
        self._interrupted = False
        writer = frame.writeStream.queryName(self.name).option("checkpointLocation", normalised(self.checkpoint))
        writer = self._triggered(writer.outputMode("append"))
        with self._settings(spark, steps):
            self._query = writer.foreachBatch(self._handler(sinks)).start()

    @contextlib.contextmanager
    def _starts(self, spark: SparkSession) -> Iterator[None]:
        """Has the lock from before the start, and gives it back if there is none."""
        self._starting = True
        try:
            self._presence.begin(spark, runs=self._runs, stop=self.stop, abandon=self._abandon)
            try:
                yield
            except BaseException:
                self._presence.end()
                raise
        finally:
            self._starting = False

    def _runs(self) -> bool:
        """Whether there is a query, or about to be one."""
        try:
            return self._starting or (self._query is not None and self._query.isActive)
        except Exception:
            # Spark itself is gone.
            return False

    def _abandon(self, taken_by: LockInfo) -> None:
        """Another has the checkpoint, and nothing more may be written to it."""
        while self._starting:
            time.sleep(_POLL_SECONDS)
        if self._query is not None:
            self._interrupted = True
            self._query.stop()

    def _stop_query(self, query: StreamingQuery, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        before = query.lastProgress
        while query.isActive and not self._at_boundary(query, before) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS / 2)
        # What Spark fails with from here on is our interruption of a micro-batch that the next start does from anew.
        self._interrupted = query.isActive
        query.stop()

    def _root(self) -> tuple[DataFrame, list[tuple[Origin | None, Sink]]]:
        """The DataFrame that the query runs, and for each sink what to take out of it."""
        origins = [origin_of(df) for df, _ in self._writes]
        sinks = [sink for _, sink in self._writes]
        first = origins[0]
        if first is not None and all(o is not None and o.packed is first.packed for o in origins):
            return first.packed, list(zip(origins, sinks, strict=True))
        if len(self._writes) == 1:
            return self._writes[0][0], [(None, sinks[0])]
        raise InvalidStep(
            self.name,
            [
                "Several outputs in one query must be outputs of one step, unchanged. Select and filter inside the "
                "sink (hf.sinks.ForeachBatch), or write them with jobs of their own."
            ],
        )

    def _handler(self, sinks: list[tuple[Origin | None, Sink]]) -> Any:
        """What Spark calls with each micro-batch."""

        def handle(batch: DataFrame, batch_id: int) -> None:
            if self._stopping.is_set():
                self._hold_back()
                return
            self._idle.clear()
            try:
                info = BatchInfo(self._query_id(), batch_id)
                _write_all(batch, sinks, info)
                self._batches_done += 1
            finally:
                self._idle.set()
            if isinstance(self._trigger, Batches) and self._batches_done >= self._trigger.count:
                self._stopping.set()

        return handle

    def _hold_back(self) -> None:
        """The next micro-batch has begun before the stop arrived: leave it, untouched, for the next start."""
        self._held_back.set()
        while self._running().isActive:
            time.sleep(_POLL_SECONDS / 2)

    def _query_id(self) -> str:
        while self._query is None:
            time.sleep(0.01)
        return str(self._query.id)

    def _at_boundary(self, query: StreamingQuery, before: Any) -> bool:
        """Whether no micro-batch is under way: the last one has been committed, which its report says."""
        if self._held_back.is_set():
            return True
        if not self._idle.is_set():
            return False
        report = query.lastProgress
        if not query.status["isTriggerActive"]:
            return True
        return report is not None and (before is None or report.batchId != before.batchId)

    def _triggered(self, writer: Any) -> Any:
        trigger = self._trigger
        if isinstance(trigger, AvailableNow):
            return writer.trigger(availableNow=True)
        assert isinstance(trigger, (Every, Batches))
        milliseconds = Duration.of(trigger.interval).micros // 1000
        return writer.trigger(processingTime=f"{milliseconds} milliseconds")

    def _settings(self, spark: SparkSession, steps: list[Any]) -> contextlib.AbstractContextManager[None]:
        """Settings that only this query needs; it copies them when it starts."""
        wanted = file_settings(spark, self.checkpoint)
        if isinstance(self._trigger, AvailableNow) and any(step.uses_processing_time for step in steps):
            # In this mode Spark would run empty micro-batches for ever, waiting for timers.
            wanted[_NO_DATA] = "false"
        if self._retained_batches is not None:
            wanted["spark.sql.streaming.minBatchesToRetain"] = str(self._retained_batches)
        return with_settings(spark, wanted)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM stop the job at a micro-batch boundary."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: FrameType | None) -> None:
            self._stopping.set()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _committed(self) -> int:
        report = None if self._query is None else self._query.lastProgress
        return -1 if report is None else int(report.batchId)

    def _raise_failure(self, query: StreamingQuery) -> None:
        self._presence.check()
        error = None if self._interrupted else query.exception()
        if error is not None:
            raise query_failure(error, self.checkpoint, self.name) from error


def _write_all(batch: DataFrame, sinks: list[tuple[Origin | None, Sink]], info: BatchInfo) -> None:
    """Evaluates the steps once, whatever the sinks do with the rows."""
    if sinks[0][0] is None:
        sinks[0][1].write_batch(batch, info)
        return
    batch.persist()
    try:
        batch.count()
        for origin, sink in sinks:
            assert origin is not None
            sink.write_batch(unpack(batch, origin.tag, origin.schema), info)
    finally:
        batch.unpersist()


def _unique_steps(job: str, frames: list[DataFrame]) -> list[Any]:
    """The steps of the query; their names, by which their state is found, must differ."""
    steps: dict[int, Any] = {}
    for frame in frames:
        steps |= {id(step): step for step in steps_above(frame)}
    names = [step.name for step in steps.values()]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidStep(
            job, [f"Two steps have the name {name!r}; give one of them another: name='...'." for name in doubled]
        )
    return list(steps.values())
