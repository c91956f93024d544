"""Outlets together: a function that is told of each change, and several ways out as one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

from holdfast.watch.health.report import Health
from holdfast.watch.outlets.protocol import Outlet
from holdfast.watch.records import BatchRecord, EventRecord

__all__ = ["HealthCallback", "Outlets"]

_log = logging.getLogger("holdfast.watch")


class HealthCallback:
    """Calls a function with the health of a job after every micro-batch: `hf.Job(..., on_health=function)`."""

    def __init__(self, function: Callable[[Health], object]) -> None:
        self._function = function

    def batch(self, record: BatchRecord, health: Health) -> None:
        self._function(health)

    def event(self, record: EventRecord) -> None:
        """A function is told of health alone."""

    def close(self) -> None:
        """There is nothing to end."""


class Outlets:
    """Several outlets as one that never raises: what one of them raises is reported, once, and the others go on."""

    def __init__(self, outlets: Iterable[Outlet]) -> None:
        self._outlets = list(outlets)
        self._failed: set[int] = set()

    def batch(self, record: BatchRecord, health: Health) -> None:
        for number, outlet in enumerate(self._outlets):
            with self._guarded(number, outlet):
                outlet.batch(record, health)

    def event(self, record: EventRecord) -> None:
        for number, outlet in enumerate(self._outlets):
            with self._guarded(number, outlet):
                outlet.event(record)

    def close(self) -> None:
        for number, outlet in enumerate(self._outlets):
            with self._guarded(number, outlet):
                outlet.close()

    @contextlib.contextmanager
    def _guarded(self, number: int, outlet: Outlet) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # Also what would end a thread: sys.exit() in one outlet would silence all of them.
            if number not in self._failed:
                self._failed.add(number)
                # Not its message: it may tell what nobody but the outlet should know.
                _log.warning("The outlet %s raised %s; the job goes on.", type(outlet).__name__, type(error).__name__)
