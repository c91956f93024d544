"""What a job tells of itself while it runs: its history and metrics, its health, its picture, its dashboard, its progress.

None of it can fail the job, nor does a micro-batch wait for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.checkpoint.files.choice import files_of
from holdfast.checkpoint.layout import last_committed
from holdfast.engine.metrics.step import StepMetrics
from holdfast.spark.errors.failures import failure_line
from holdfast.spark.graph.placing import Placement
from holdfast.spark.job.dashboard import Dashboard
from holdfast.spark.job.explaining import keep_graph
from holdfast.spark.job.progress import Progress
from holdfast.spark.job.recording import Recorder
from holdfast.spark.job.root import Outline
from holdfast.spark.sinks.base import Sink
from holdfast.watch.health.judging import judge
from holdfast.watch.health.report import Health
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.history import read_history
from holdfast.watch.outlets.callback import HealthCallback
from holdfast.watch.outlets.dispatch import Dispatch
from holdfast.watch.outlets.protocol import Outlet

__all__ = ["Audience", "Watching"]


@dataclass(frozen=True)
class Audience:
    """Who is told what a job does."""

    history: bool = True
    ui: bool = False
    progress: bool = True
    outlets: Sequence[Outlet] = ()
    on_health: Callable[[Health], object] | None = None
    thresholds: Thresholds | None = None

    @property
    def everyone(self) -> list[Outlet]:
        """All outlets; the function that takes the health is one of them."""
        return [*self.outlets, *([] if self.on_health is None else [HealthCallback(self.on_health)])]


class Watching:
    """Watches the queries of a job, one after the other.

    For each: `begin`, and `started` once Spark has it, or `failed_to_start`; then `show` as often as anybody looks; then
    `query_ended`. `end` when the job has ended.
    """

    def __init__(
        self,
        job: str,
        audience: Audience,
        interval_ms: int | None,
        on_ended: Callable[[str], None],
        is_ours: Callable[[], bool],
        paused_ms: Callable[[int], int],
    ) -> None:
        """`on_ended`, `is_ours` and `paused_ms` are the recorder's."""
        self._job = job
        self._audience = audience
        dispatch = Dispatch(audience.everyone, audience.thresholds, job)
        self.recorder = Recorder(job, interval_ms, dispatch, on_ended, is_ours, paused_ms)
        self.progress = Progress(job, enabled=audience.progress)
        self.dashboard = Dashboard() if audience.ui else None

    def begin(
        self, spark: SparkSession, checkpoint: str, outline: Outline, sinks: Sequence[Sink], placement: Placement | None
    ) -> None:
        """A query is about to begin."""
        files = files_of(spark, checkpoint)
        # A picture of the job is no reason for it not to run.
        with contextlib.suppress(Exception):
            keep_graph(files, checkpoint, outline, self._job, sinks, placement)
        if self._audience.history:
            groups = {step.plan.name: step.plan.key_groups for step in outline.steps}
            self.recorder.begin(spark, checkpoint, groups, last_committed(files, checkpoint))
        if self.dashboard is not None:
            self.dashboard.begin(checkpoint, lambda note: self.progress.note(f"{self._job}: {note}"))

    def started(self, query: StreamingQuery) -> None:
        self.recorder.watch(query)

    def failed_to_start(self, error: Exception) -> None:
        self.recorder.end(failure_line(error))

    def staying(self) -> contextlib.AbstractContextManager[None]:
        """Within this, the dashboard outlives the end of a query, after which another may be started."""
        return contextlib.nullcontext() if self.dashboard is None else self.dashboard.staying()

    def query_ended(
        self, query: StreamingQuery | None, is_no_failure: Callable[[Exception], bool], run: str | None = None
    ) -> None:
        """A query has ended, or there was none; with `run`, only if no later one has begun."""
        failure = None
        try:
            error = None if query is None else query.exception()
            if error is not None and not is_no_failure(error):
                failure = failure_line(error)
        except Exception:
            failure = "Spark was stopped."
        self.recorder.end(failure, run)

    def end(self) -> None:
        if self.dashboard is not None:
            self.dashboard.end()

    def show(self, query: StreamingQuery) -> None:
        """Shows how far it is, if that is new."""
        # Asking Spark costs it some milliseconds, and this asks ten times a second.
        report = self.recorder.last if self._audience.history else query.lastProgress
        if report is None:
            self.progress.waiting(query.status["message"])
        else:
            self.progress.show(report, lambda: query.recentProgress)

    def show_last(self, query: StreamingQuery) -> None:
        self.progress.show(query.lastProgress, lambda: query.recentProgress, final=True)

    @property
    def url(self) -> str | None:
        """Where the dashboard is, once it is there."""
        return None if self.dashboard is None else self.dashboard.url

    def metrics(self, steps: Iterable[str]) -> Mapping[str, StepMetrics]:
        """What each step has done in the micro-batches that were committed; these are named even if they did nothing."""
        self.recorder.catch_up()
        return {**{name: StepMetrics() for name in steps}, **self.recorder.metrics}

    def health(self, spark: SparkSession | None, checkpoint: str, running: bool) -> Health:
        """How the job is, judged by its history."""
        self.recorder.catch_up()
        history = read_history(files_of(spark, checkpoint), checkpoint)
        return judge(history, self._audience.thresholds, running=running, job=self._job)
