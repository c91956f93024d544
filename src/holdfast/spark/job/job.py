"""A job: outputs bound to sinks, run as one streaming query, so that no step is run twice.

    with hf.Job("alerts", checkpoint="/data/alerts/checkpoint", trigger="10 seconds") as job:
        job.write(alerts, hf.sinks.Parquet("/data/alerts/rows"))
        job.run()

Life of a job: `write` as often as there are outputs, then `start`, then `stop`; or `run`, which starts, waits and
stops, also on Ctrl-C and SIGTERM. A stop waits for the micro-batch that is running, so that nothing is done twice;
`spark/job/life.py` says why none is lost. From its start to its end a job has the lock on its checkpoint, and
`holdfast stop` can stop it.
"""

from __future__ import annotations

import contextlib
import html
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.checkpoint.destination import writing
from holdfast.checkpoint.files.shared import resolved
from holdfast.checkpoint.lock import LockInfo
from holdfast.checkpoint.presence import Presence
from holdfast.engine.backends.choice import BackendWord
from holdfast.engine.metrics.step import StepMetrics
from holdfast.errors import (
    CheckpointError,
    CheckpointLocked,
    CorruptState,
    HoldfastError,
    InvalidStep,
    JobFailed,
    StateConflict,
)
from holdfast.spark.errors.failures import is_worker_trouble, query_failure
from holdfast.spark.graph.picture.explanation import Explanation
from holdfast.spark.graph.placing import Placement
from holdfast.spark.job.arranging import GraphChanges, arranged
from holdfast.spark.job.beginning import begin
from holdfast.spark.job.checks import change_problems, option_problems, watch_problems
from holdfast.spark.job.explaining import explained
from holdfast.spark.job.handler import Handler
from holdfast.spark.job.lag import source_lags
from holdfast.spark.job.launching import Launch, check_name_is_free, interval_ms, open_sinks
from holdfast.spark.job.life import Life, Phase, Stop, Streak
from holdfast.spark.job.pause import Pause
from holdfast.spark.job.root import Outline
from holdfast.spark.job.signals import stopped_by_signals
from holdfast.spark.job.triggers import Batches, TriggerLike
from holdfast.spark.job.watching import Audience, Watching
from holdfast.spark.job.words import Span, backend_of_job, failures_of, pause_seconds, state_dir_of, trigger_of
from holdfast.spark.job.working import WorkingFiles
from holdfast.spark.session.settings import required_problems, with_stop_timeout
from holdfast.spark.sinks.base import Sink
from holdfast.spark.sinks.modes import Mode, in_mode
from holdfast.spark.stages.unpack import Outputs
from holdfast.spark.steps.lineage import steps_above
from holdfast.watch.health.report import Health
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.outlets.protocol import Outlet

__all__ = ["Job"]

_POLL_SECONDS = 0.1
_WORKER_TRIES = 4
"""As often as a cluster tries a task; on one machine Spark itself tries once."""
_FOR_GOOD = (InvalidStep, CheckpointLocked, CheckpointError, CorruptState, StateConflict)
"""What another try would meet again, or must not touch."""


class Job:
    """Outputs, sinks, a checkpoint and a trigger.

    `checkpoint_interval`: Flink's word for a trigger that is a span of time. `min_pause`: the shortest time from the end
    of a micro-batch to the beginning of the next. `backend`: that of the steps that have not named one. `state_dir`:
    where the disk backend has its working files on each worker's machine, in place of Spark's own directory.

    `tolerated_failures`, or Flink's `tolerable_failures`: how many times in a row a failed query is started again from
    the same checkpoint without having committed anything new, before `run` gives up with the cause. A worker that could
    not be started, or died, is no such failure: while `run` or `wait` watches, the query is started again up to three
    times. `retained_batches`: how many micro-batches one can go back. `memory_budget_bytes`: how much state a Python
    worker keeps between micro-batches, of all steps together, in place of what the session says. `drop_steps`: removed
    steps whose stored state should be deleted. `rename_steps`: old names of steps, with their new ones. `progress`:
    whether to show what the job does while it runs. `history`: whether to count what its steps do, and to keep a record
    of each micro-batch beside the checkpoint. `ui`: whether to serve a dashboard on this machine while it runs; its
    address is shown. `outlets`: where its metrics and its health go after each micro-batch, such as
    hf.watch.Prometheus(9464). `on_health`: a function that is called with its health. `thresholds`: what its health is
    judged by.
    """

    def __init__(
        self,
        name: str,
        *,
        checkpoint: str,
        trigger: TriggerLike = None,
        checkpoint_interval: Span | None = None,
        min_pause: Span | None = None,
        tolerated_failures: int | None = None,
        tolerable_failures: int | None = None,
        backend: BackendWord | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        retained_batches: int | None = None,
        memory_budget_bytes: int | None = None,
        drop_steps: Sequence[str] = (),
        rename_steps: Mapping[str, str] | None = None,
        progress: bool = True,
        history: bool = True,
        ui: bool = False,
        outlets: Sequence[Outlet] = (),
        on_health: Callable[[Health], object] | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.name = name
        self.checkpoint = str(checkpoint)
        problems: list[str] = []
        self._trigger = trigger_of(trigger, checkpoint_interval, problems)
        self._pause = Pause(pause_seconds(min_pause, problems))
        self._tolerated_failures = failures_of(tolerated_failures, tolerable_failures, problems)
        self._backend = backend_of_job(backend, problems)
        self._working = WorkingFiles(state_dir_of(state_dir, problems))
        self._writes: list[tuple[DataFrame, Sink]] = []
        self._placement: Placement | None = None
        """Where the steps are, once the job has started with all of them in a line."""
        self._presence: Presence | None = None
        self._query: StreamingQuery | None = None
        self._handler: Handler | None = None
        self._life = Life(name)
        self._stop_turn = threading.Lock()
        self._start_turn = threading.Lock()
        self._worker_failures = Streak()
        self._told: StreamingQuery | None = None
        """The query whose failure has been raised."""
        problems += [
            *option_problems(name, checkpoint, self._tolerated_failures, retained_batches, memory_budget_bytes),
            *change_problems(drop_steps, rename_steps),
            *watch_problems(history, ui, outlets, on_health, thresholds),
        ]
        if problems:
            raise InvalidStep.of_job(str(name), problems)
        self._changes = GraphChanges(frozenset(drop_steps), dict(rename_steps or {}))
        audience = Audience(history, ui, progress, tuple(outlets), on_health, thresholds)
        every, paused = interval_ms(self._trigger), self._pause.millis
        self._watching = Watching(name, audience, every, self._query_ended, self._has_checkpoint, paused)
        told = self._working.told
        self._launch = Launch(name, self._trigger, retained_batches, memory_budget_bytes, self._backend, told, history)

    def write(self, df: DataFrame, sink: Sink, *, mode: Mode = "append", key: str | Sequence[str] | None = None) -> Job:
        """Binds an output to a sink.

        With `mode="upsert"` the sink holds one row for each value of the columns `key`: the newest. For results that
        replace each other, such as the panes of a window. A row without a value in a key column fails its micro-batch.
        Not every sink can: hf.sinks.Sqlite, Postgres, DuckDB, Delta and Collect can.
        """
        problems = []
        if not isinstance(sink, Sink):
            problems.append(f"{sink!r} is no sink: give hf.sinks.Parquet(...), Postgres(...) or another of hf.sinks.")
        elif sink.place is not None and sink.place in [other.place for _, other in self._writes]:
            problems.append(f"{sink!r} is written by another output of this job already: give each a place of its own.")
        if isinstance(df, Outputs):
            problems.append(
                f"What is written is one output, not all of them: give one of {', '.join(df)}, such as outputs.main."
            )
        elif not isinstance(df, DataFrame) or not df.isStreaming:
            problems.append("What is written must be a streaming DataFrame; a batch one has its own df.write.")
        if self._query is not None:
            problems.append("The job has been started; bind all outputs before.")
        sink, refused = in_mode(sink, df.schema if isinstance(df, DataFrame) else None, mode, key)
        problems += refused
        if problems:
            raise InvalidStep.of_job(self.name, problems)
        self._writes.append((df, sink))
        return self

    def start(self) -> Job:
        """Starts the query, after checking the stored state against the steps.

        Raises CheckpointLocked if another job runs on the checkpoint, or a tool works on it.
        """
        self._check_can_start()
        self._begin()
        self._start()
        return self

    def run(self) -> Job:
        """Starts the job and waits for its end; starts it again after a failure, as often as that is tolerated."""
        self._check_can_start()
        self._begin()
        failures = Streak()
        with stopped_by_signals(self._life, self._announce), self._watching.staying():
            while True:
                try:
                    self._start()
                    self.wait()
                    return self
                except HoldfastError as error:
                    if isinstance(error, _FOR_GOOD) or self._life.asked:
                        raise
                    if failures.count_at(self._life.done) > self._tolerated_failures:
                        raise
                    self._life.start_again()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the query has ended, or so many seconds; whether it has. Raises what it failed with."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if self._query is None and self._life.asked:
                break
            query = self._running()
            if not self._watch(query, deadline):
                return False
            if not self._starts_again_after(query):
                self._watching.show_last(query)
                break
        self._watching.progress.close()
        self._end()
        if self._query is not None:
            self._raise_failure(self._query)
        return True

    def stop(self, timeout_seconds: float | None = None) -> None:
        """Stops at the end of the micro-batch that is running. State, offsets and sinks then agree.

        With a timeout, a micro-batch that does not end in that time is interrupted; the next start does it anew. Raises what
        the query failed with, if it did and nobody has been told.
        """
        if self._life.phase is Phase.NEW:
            self._running()
        self._stop(timeout_seconds)
        query = self._query
        if query is not None and query is not self._told and not self._life.is_handler:
            self._raise_failure(query)

    def _stop(self, timeout_seconds: float | None = None) -> None:
        self._ask(Stop.AFTER_BATCH)
        if self._life.is_handler:
            # The handler is what would be waited for.
            threading.Thread(target=self._stop, args=(timeout_seconds,), name="holdfast-stop", daemon=True).start()
            return
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._life.wait_until_started(timeout_seconds)
        with self._stop_turn:
            if self._query is not None:
                self._stop_query(self._query, deadline)
        self._end()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle of the running query."""
        return self._running()

    @property
    def metrics(self) -> dict[str, StepMetrics]:
        """What each step has done in the micro-batches that this job has committed, by its name."""
        return dict(self._watching.metrics(step.plan.name for df, _ in self._writes for step in steps_above(df)))

    @property
    def health(self) -> Health:
        """How the job is, judged by its history. A notebook shows it as a table."""
        spark = self._writes[0][0].sparkSession if self._writes else None
        checkpoint = self.checkpoint if spark is None else resolved(spark, self.checkpoint)
        return self._watching.health(spark, checkpoint, self._runs())

    @property
    def dashboard(self) -> str | None:
        """The address of the dashboard, with `ui=True`; None before it can be looked at."""
        return self._watching.url

    @property
    def source_lag(self) -> dict[str, int]:
        """How many records of each Kafka source had not been read after the last micro-batch, by Spark's name of the source.
        Empty before the first."""
        return source_lags(self._running().lastProgress)

    def explain(self) -> Explanation:
        """How the job runs: its sources, its steps with what they keep and which share an operator, and its sinks. Print it,
        let a notebook show it, or save it as a picture.

        Before the job has started, it is as on a new checkpoint: the checkpoint is not touched. Raises InvalidStep if one
        query cannot give all that is written.
        """
        self._check_writes()
        return explained(self.name, self._writes, self._placement, self._backend)

    def __repr__(self) -> str:
        sinks = ", ".join(repr(sink) for _, sink in self._writes) or "nothing yet"
        return f"Job({self.name!r}, checkpoint={self.checkpoint!r}: {self._life.phase.value}, writes {sinks})"

    def _repr_html_(self) -> str:
        shown = f"<p><code>{html.escape(repr(self))}</code></p>"
        # To show a job must not fail, even if it cannot run, or Spark has been stopped.
        with contextlib.suppress(Exception):
            shown += self.explain()._repr_html_()
        with contextlib.suppress(Exception):
            if self._query is not None:
                shown += self.health._repr_html_()
        return shown

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._query is None:
            return
        if error is None:
            self.stop()
        else:
            # What is under way says more than what the job may have failed with.
            with contextlib.suppress(HoldfastError):
                self._stop()

    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise JobFailed(f"The job {self.name!r} has not been started.", todo="call job.start() or job.run()")
        return self._query

    # Starting

    def _check_writes(self) -> None:
        if not self._writes:
            raise InvalidStep.of_job(self.name, ["Nothing is written: bind an output to a sink with job.write(df, sink)."])

    def _check_can_start(self) -> None:
        self._check_writes()
        if self._runs():
            raise CheckpointLocked(f"The job {self.name!r} is running already.", todo="stop it first: job.stop()")

    def _begin(self) -> None:
        self._query = None
        self._worker_failures = Streak()
        self._life.begin()

    def _start(self) -> None:
        """Starts a query, unless a stop was asked for meanwhile."""
        try:
            outline = Outline(self.name, self._writes, self._backend)
            spark = outline.spark
            checkpoint = resolved(spark, self.checkpoint)
            for done in begin(spark, self.name, checkpoint):
                self._watching.progress.note(f"{self.name}: {done}")
            self._presence = self._presence or Presence(self.name, checkpoint)
            self._presence.begin(spark, runs=self._runs, stop=self._stop, abandon=self._abandon)
            if self._life.asked:
                self._query = None
            else:
                self._watching.progress.begin(checkpoint)
                self._query = self._start_query(spark, self._presence, checkpoint, outline)
            self._life.started()
        except BaseException as error:
            if isinstance(error, Exception):
                self._watching.failed_to_start(error)
            self._end()
            raise

    def _start_query(self, spark: SparkSession, presence: Presence, checkpoint: str, outline: Outline) -> StreamingQuery:
        check_name_is_free(spark, self.name)
        plans = [step.plan for step in outline.steps]
        problems = required_problems(spark) if plans else []
        if problems:
            raise InvalidStep.of_job(self.name, problems)
        self._working.check(spark)
        with writing(checkpoint):
            root, notes = arranged(outline, self.name, checkpoint, self._changes)
        self._placement = root.placement
        for note in notes:
            self._watching.progress.note(f"stored state, {note}")
        open_sinks(spark, checkpoint, self.name, self._writes)
        self._pause.begin()
        self._handler = handler = Handler(self._life, presence, checkpoint, root.sinks, self._batches_max(), self._pause)
        self._watching.begin(spark, checkpoint, outline, [sink for _, sink in self._writes], self._placement)
        waits_for_time = any(plan.uses_processing_time for plan in plans)
        query = self._launch.start(spark, checkpoint, root.frame, handler, waits_for_time)
        handler.query_id.set(str(query.id))
        self._watching.started(query)
        return query

    def _runs(self) -> bool:
        """Whether there is a query, or about to be one, or what is left of one: a handler that goes on writing."""
        if self._life.phase is Phase.STARTING or self._life.inside is not None:
            return True
        try:
            return self._life.phase is Phase.RUNNING and self._query is not None and self._query.isActive
        except Exception:
            # Spark itself is gone.
            return False

    def _starts_again_after(self, query: StreamingQuery) -> bool:
        """Whether the query, which has ended, is started again because a worker was to blame."""
        with self._start_turn:
            if self._query is not query:
                # Another thread that waits has done so.
                return self._query is not None
            error = query.exception()
            if error is None or self._life.asked or not is_worker_trouble(error):
                return False
            assert self._presence is not None
            self._presence.check()
            tries = self._worker_failures.count_at(self._life.done)
            if tries >= _WORKER_TRIES:
                return False
            self._query_ended()
            self._life.start_again()
            again = f"starting again, try {tries + 1}"
            self._watching.progress.note(f"{self.name}: a Python worker could not be started, or died; {again}")
            self._start()
            return True

    # Waiting and stopping

    def _watch(self, query: StreamingQuery, deadline: float | None) -> bool:
        """Shows progress until the query ends, or the time does; whether it has ended."""
        while self._is_active(query):
            self._watching.show(query)
            if self._life.asked and (self._life.asked is Stop.NOW or self._at_boundary(query)):
                self._stop()
                return True
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _is_active(self, query: StreamingQuery) -> bool:
        """Whether the query goes on. Raises JobFailed if Spark itself has been stopped: it does not say so of queries."""
        context = self._writes[0][0].sparkSession.sparkContext
        try:
            if getattr(context, "_jsc", None) is not None:
                return bool(query.isActive)
        except (Py4JError, OSError):
            # Its process is gone.
            pass
        # There is nothing left that could be started again.
        self._life.ask(Stop.NOW)
        self._end()
        raise JobFailed(
            f"Spark was stopped while the job {self.name!r} was running.",
            todo="stop the job first: job.stop(); it resumes from the last committed micro-batch",
            context={"checkpoint": self.checkpoint},
        )

    def _ask(self, how: Stop) -> None:
        # The end of a `with` block stops what may have ended by itself.
        is_over = self._life.phase is Phase.ENDED
        if self._life.ask(how) and not is_over:
            self._announce(how)

    def _announce(self, how: Stop) -> None:
        inside = self._life.inside
        if how is Stop.AFTER_BATCH:
            when = "" if inside is None else f" after micro-batch {inside}, which is being processed"
            self._watching.progress.note(f"{self.name}: stopping{when} …")
        else:
            left = "" if inside is None else f"; micro-batch {inside} is left for the next start unless it finishes first"
            self._watching.progress.note(f"{self.name}: stopping at once{left}")

    def _abandon(self, taken_by: LockInfo) -> None:
        """Another has the checkpoint, and nothing more may be written to it."""
        self._life.ask(Stop.NOW)
        self._life.wait_until_started(None)
        if self._query is not None:
            self._query.stop()

    def _stop_query(self, query: StreamingQuery, deadline: float | None) -> None:
        while self._is_active(query) and not self._at_boundary(query) and self._life.asked is not Stop.NOW:
            if deadline is not None and time.monotonic() > deadline:
                self._ask(Stop.NOW)
            time.sleep(_POLL_SECONDS / 5)
        try:
            with with_stop_timeout(self._writes[0][0].sparkSession):
                query.stop()
        except Exception as error:
            self._is_active(query)  # Raises if the reason is that there is no Spark any more.
            raise JobFailed(
                f"The job {self.name!r} does not stop: what it is doing in micro-batch {self._life.inside} does not end.",
                detail=f"Spark says: {error}",
                todo="end its process; the next start does this micro-batch anew",
                context={"checkpoint": self.checkpoint},
            ) from error

    def _at_boundary(self, query: StreamingQuery) -> bool:
        """Whether no micro-batch is being processed, and the last one is committed, which Spark's report of it says.

        This only spares a micro-batch from being done twice, and the first one from being interrupted while it is planned,
        which leaves traces on the terminal. Nothing is wrong if the next one begins meanwhile.
        """
        if self._life.inside is not None:
            return False
        done, report = self._life.done_by_query, query.lastProgress
        if done is not None and report is not None and report.batchId >= done:
            return True
        return not query.status["isTriggerActive"]

    def _has_checkpoint(self) -> bool:
        """Whether nobody else has taken over the checkpoint."""
        try:
            if self._presence is not None:
                self._presence.check()
        except CheckpointLocked:
            return False
        return True

    def _query_ended(self, run: str | None = None) -> None:
        self._watching.query_ended(self._query, self._is_left_for_the_next_start, run)

    def _end(self) -> None:
        self._life.ended()
        self._query_ended()
        self._watching.end()
        if self._presence is not None and self._life.inside is None:
            # Else the handler still writes; when it has left, the lock goes by itself.
            self._presence.end()
            self._working.remove()

    def _raise_failure(self, query: StreamingQuery) -> None:
        assert self._presence is not None
        self._presence.check()
        error = query.exception()
        if error is None or self._is_left_for_the_next_start(error):
            return
        self._told = query
        if self._handler is not None and self._handler.failure is not None:
            raise self._handler.failure.within(job=self.name)
        raise query_failure(error, self.checkpoint, self.name) from error

    def _is_left_for_the_next_start(self, error: Exception) -> bool:
        """Whether what ended the query is no failure. A worker may go down with a stop, as with Ctrl-C at a terminal."""
        return self._life.held_back or (bool(self._life.asked) and is_worker_trouble(error))

    def _batches_max(self) -> int | None:
        return self._trigger.count if isinstance(self._trigger, Batches) else None
