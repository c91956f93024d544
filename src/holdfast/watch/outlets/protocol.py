"""What a way out of a job has to do."""

from __future__ import annotations

from typing import Protocol

from holdfast.watch.health.report import Health
from holdfast.watch.records import BatchRecord, EventRecord

__all__ = ["Outlet"]


class Outlet(Protocol):
    """Told what a job does, in order, from one thread that is not the job's own: it may take its time, but while it does,
    later records wait, and the oldest of them are let go if it takes too long. What it raises is reported once and goes no
    further.

    The first call is an `event` that says `started`, the last is `close`. A job that is started again begins anew.
    """

    def batch(self, record: BatchRecord, health: Health) -> None:
        """A micro-batch was committed; and how the job is after it."""

    def event(self, record: EventRecord) -> None:
        """The job started, stopped or failed."""

    def close(self) -> None:
        """The job has ended."""
