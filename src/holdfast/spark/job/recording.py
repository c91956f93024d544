"""Records what a job does, micro-batch by micro-batch, in the history beside its checkpoint.

Spark reports a micro-batch after it has committed it. The reports come twice, through a listener as soon as they are made,
and once more when the query has ended, so that none is missing then; each is taken once.

Nothing that goes wrong here fails the job: a record that cannot be written is left out, with a note. It is tried again with
later ones, less and less often, so that neither a full disk for a moment ends a history, nor a file system that does not
answer is asked all the time.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.checkpoint.files.choice import Files, files_of, join
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.stored.readable import visible
from holdfast.spark.job.batch_records import StepHolding, batch_record, without_pause
from holdfast.spark.job.executed import was_executed
from holdfast.spark.session.listening import Listener, listen
from holdfast.spark.stages.metrics import reports_of
from holdfast.watch.history import History, HistoryFile, read_history
from holdfast.watch.outlets.dispatch import Dispatch
from holdfast.watch.records import BatchRecord, EventRecord, Record

__all__ = ["Recorder"]

_TEXT_MAX = 500
_PASSED_OVER_MAX = 64
_LOG = logging.getLogger("holdfast")


class Recorder:
    """Takes Spark's reports of a job's queries, one query after another."""

    def __init__(
        self,
        job: str,
        interval_ms: int | None,
        dispatch: Dispatch,
        on_ended: Callable[[str], None],
        is_ours: Callable[[], bool] = lambda: True,
        paused_ms: Callable[[int], int] = lambda batch: 0,
    ) -> None:
        self._job = job
        self._interval_ms = interval_ms
        self._dispatch = dispatch
        self._on_ended = on_ended
        """Called with the run of a query that has ended, whether or not anybody waits for that; it is to call `end`."""
        self._is_ours = is_ours
        """Whether the checkpoint has not been taken over by somebody else, whose history it is then."""
        self._paused_ms = paused_ms
        """For how long a micro-batch was made to wait before it began."""
        self.metrics: dict[str, StepMetrics] = {}
        """The sums over all micro-batches that were reported, by step."""
        self.last: Any = None
        """Spark's last report."""
        self._turn = threading.RLock()
        self._holdings: dict[str, StepHolding] = {}
        self._file: HistoryFile | None = None
        self._failures = 0
        """How many records in a row could not be written, of those that were tried."""
        self._passed_over = 0
        self._query: StreamingQuery | None = None
        self._begun = False
        self._ended: set[str] = set()
        """Runs that have ended; their reports come too late."""
        self._taken: int | None = None
        """The last micro-batch of the present query that was taken."""
        self._committed: int | None = None
        """The last micro-batch that was committed, by this query or before it."""
        self._end_listening: Callable[[], None] | None = None

    def begin(self, spark: SparkSession, checkpoint: str, key_groups: Mapping[str, int], committed: int | None) -> None:
        """Prepares for a query. `key_groups` has the steps, `committed` is the micro-batch that it goes on from."""
        with self._turn:
            self._query, self._taken, self.last, self._begun = None, None, None, True
            self._committed = committed
            self._holdings = {name: StepHolding(count, began_empty=committed is None) for name, count in key_groups.items()}
            for name in key_groups:
                self.metrics.setdefault(name, StepMetrics())
            history = History()
            self._failures = 0
            files = files_of(spark, checkpoint)
            self._file = HistoryFile(files, checkpoint)
            try:
                history = read_history(files, checkpoint)
                if not _state_is_newer(files, checkpoint, history.last):
                    self._resume(history, committed)
            except Exception as error:
                self._cannot_keep(error)
            self._dispatch.begin(history)
            self._record(EventRecord("started", _now_ms(), batch=committed, job=self._job))
            if self._end_listening is None:
                self._end_listening = listen(spark, _Reports(self))

    def watch(self, query: StreamingQuery) -> None:
        """Says which query it is, once it has started. Its first report may have come before."""
        with self._turn:
            self._query = query

    def take(self, progress: Any) -> None:
        """Takes one of Spark's reports, unless it was taken before, is of another query, or of no micro-batch."""
        with self._turn:
            if progress.name != self._job or str(progress.runId) in self._ended or not was_executed(progress):
                return
            self.last = progress
            if self._taken is not None and progress.batchId <= self._taken:
                return
            self._taken = self._committed = progress.batchId
            try:
                reports = list(reports_of(progress.observedMetrics))
                record, metrics = batch_record(progress, reports, self._holdings, self._interval_ms)
                for name, counted in metrics.items():
                    self.metrics.setdefault(name, StepMetrics()).add(counted)
                self._record(without_pause(record, self._paused_ms(progress.batchId)))
            except Exception:
                _LOG.warning("Micro-batch %s of %r could not be recorded.", progress.batchId, self._job, exc_info=True)

    def catch_up(self) -> None:
        """Takes what Spark has reported and the listener has not brought yet."""
        with self._turn:
            query = self._query
            if query is None:
                return
            # Spark may be gone.
            with contextlib.suppress(Exception):
                last = query.lastProgress
                if last is None or (self._taken is not None and last.batchId <= self._taken):
                    return
                for progress in sorted(query.recentProgress, key=lambda report: int(report.batchId)):
                    self.take(progress)

    def end(self, failure: str | None = None, run: str | None = None) -> None:
        """Ends with the query, which failed if there is a line that says why; does nothing if it has ended before. With
        `run`, only if no later one has begun."""
        with self._turn:
            if run is not None and run in self._ended and self._begun:
                return
            self._end(failure)
        # Not in turn: an outlet that is waited for may ask for metrics. And not in Spark's listener: all queries of the
        # session would wait.
        self._dispatch.end(wait=run is None)

    def _end(self, failure: str | None) -> None:
        with self._turn:
            self.catch_up()
            if self._end_listening is not None:
                self._end_listening()
            self._end_listening = None
            if not self._begun:
                return
            self._begun = False
            if self._query is not None:
                self._ended.add(str(self._query.runId))
            self._query = None
            text = "" if failure is None else visible(failure)[:_TEXT_MAX]
            event: Literal["stopped", "failed"] = "stopped" if failure is None else "failed"
            self._record(EventRecord(event, _now_ms(), batch=self._committed, job=self._job, text=text))

    def ended(self, run: str) -> None:
        """Called when Spark says that a query has ended."""
        query = self._query
        if query is not None and str(query.runId) == run:
            self._on_ended(run)

    def _resume(self, history: History, committed: int | None) -> None:
        last = history.last
        if last is None or committed is None or last.batch != committed:
            return
        for name, recorded in last.steps.items():
            holding = self._holdings.get(name)
            if holding is not None and recorded.key_groups == holding.key_groups:
                holding.resume(recorded)

    def _record(self, record: Record) -> None:
        if self._is_ours():
            self._keep(record)
        self._dispatch.put(record)

    def _keep(self, record: Record) -> None:
        is_turn = isinstance(record, EventRecord) or self._passed_over >= min(2**self._failures, _PASSED_OVER_MAX) - 1
        if self._file is None or not is_turn:
            self._passed_over += 1
            return
        self._passed_over = 0
        try:
            self._file.append(record)
        except Exception as error:
            self._cannot_keep(error)
        else:
            self._failures = 0

    def _cannot_keep(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            _LOG.warning("The history of the job %r cannot be kept: %s", self._job, visible(str(error)))


class _Reports(Listener):
    """Brings the reports of the recorder's query."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def reported(self, report: StreamingQueryProgress) -> None:
        self._recorder.take(report)

    def ended(self, run_id: str) -> None:
        self._recorder.ended(run_id)


def _state_is_newer(files: Files, checkpoint: str, last: BatchRecord | None) -> bool:
    """Whether all state was replaced after the last record, as by an import: then it is not what was recorded."""
    state = files.info(join(checkpoint, "state"))
    return last is not None and state is not None and state.modified_seconds * 1000 > last.at_ms + last.duration_ms + 1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
