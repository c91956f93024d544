"""Hands a job's records to its outlets, on a thread of its own, so that no outlet can hold up the job."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence

from holdfast.watch.health.judging import judge
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.history import History, Telling
from holdfast.watch.outlets.callback import Outlets
from holdfast.watch.outlets.protocol import Outlet
from holdfast.watch.records import BatchRecord, Record

__all__ = ["Dispatch"]

_WAITING_MAX = 1_000
_RECORDS_MAX = 1_000
"""How much history health is judged by."""
_CLOSING_SECONDS = 10.0
_log = logging.getLogger("holdfast.watch")


class Dispatch:
    """From `begin` to `end`, what is put in is given to the outlets in order. If they are too slow, the oldest records that
    wait are let go, with a warning. `end` waits for those that are left, but not for ever.

    Safe to use from several threads: a job's end is noticed by more than one.
    """

    def __init__(self, outlets: Sequence[Outlet], thresholds: Thresholds | None, job: str) -> None:
        self._outlets = list(outlets)
        self._thresholds = thresholds
        self._job = job
        self._turn = threading.Lock()
        self._now: _Delivery | None = None
        self._before: _Delivery | None = None

    def begin(self, history: History) -> None:
        """Starts the thread, if there is anything to tell anybody; `history` is what was before."""
        with self._turn:
            if not self._outlets or self._now is not None:
                return
            self._now = _Delivery(Outlets(self._outlets), self._thresholds, self._job, history, self._before)

    def put(self, record: Record) -> None:
        with self._turn:
            if self._now is not None:
                self._now.put(record)

    def end(self, wait: bool = True) -> None:
        with self._turn:
            if self._now is not None:
                self._now.end()
                self._before, self._now = self._now, None
            ending = self._before
        if ending is not None and wait:
            ending.wait()


class _Delivery:
    """What one run of the job has to tell, and the thread that does. It begins when the one of the run before has ended, so
    that an outlet is never called by two at once."""

    def __init__(
        self, outlets: Outlets, thresholds: Thresholds | None, job: str, history: History, before: _Delivery | None
    ) -> None:
        self._outlets = outlets
        self._thresholds = thresholds
        self._job = job
        self._waiting: deque[Record | None] = deque()
        self._changed = threading.Condition()
        self._let_go = 0
        self._until = float("inf")
        self._thread = threading.Thread(target=self._run, args=(history, before), name="holdfast-outlets", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Says that nothing more comes."""
        self._until = time.monotonic() + _CLOSING_SECONDS
        self.put(None)

    def put(self, record: Record | None) -> None:
        with self._changed:
            if len(self._waiting) >= _WAITING_MAX:
                self._waiting.popleft()
                self._let_go += 1
                if self._let_go == 1:
                    _log.warning("The outlets of the job %r are too slow: records are let go.", self._job)
            self._waiting.append(record)
            self._changed.notify()

    def wait(self) -> None:
        """Waits until all is told, but not long after the end, however many wait one after the other; and not at all in an
        outlet, which may be what ends the job."""
        if threading.current_thread() is not self._thread:
            self._thread.join(max(0.0, self._until - time.monotonic()))

    def _run(self, history: History, before: _Delivery | None) -> None:
        if before is not None:
            before._thread.join()
        telling = Telling(_RECORDS_MAX)
        # Events first: what they made void is not there any more.
        for event in history.events:
            telling.add(event)
        for batch in history.batches:
            telling.add(batch)
        while (record := self._next()) is not None:
            telling.add(record)
            if isinstance(record, BatchRecord):
                self._tell(record, telling)
            else:
                self._outlets.event(record)
        self._outlets.close()

    def _tell(self, record: BatchRecord, telling: Telling) -> None:
        try:
            health = judge(telling.history(), self._thresholds, running=True, job=self._job)
        except Exception:
            # A history is read from a file. Whatever is in it, the next micro-batch is told.
            _log.warning("The health of the job %r could not be judged.", self._job, exc_info=True)
            return
        self._outlets.batch(record, health)

    def _next(self) -> Record | None:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            return self._waiting.popleft()
