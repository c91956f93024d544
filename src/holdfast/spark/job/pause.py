"""The pause between micro-batches: Flink's minimum pause between checkpoints, for here each micro-batch is one.

Spark has no such thing: a micro-batch that took longer than the interval is followed by the next at once. So the handler of
a micro-batch waits before it begins. What came in meanwhile is for the one after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.spark.job.life import Life

__all__ = ["Pause"]


class Pause:
    """Keeps micro-batches apart: one begins no earlier than so many seconds after the last one ended."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ended: float | None = None
        self._last = (-1, 0.0)
        """The last micro-batch that waited, and for how long."""

    def begin(self) -> None:
        """A query begins: there is nothing to be apart from."""
        self._ended = None

    def ended(self) -> None:
        """A micro-batch has ended."""
        self._ended = self._clock()

    def wait(self, batch: int, life: Life) -> None:
        """Waits as long as is left of the pause, or until the job is asked to stop."""
        if self._ended is None:
            return
        began = self._clock()
        left = self._ended + self._seconds - began
        if left > 0:
            life.wait_until_asked(left)
            self._last = (batch, self._clock() - began)

    def millis(self, batch: int) -> int:
        """For how long a micro-batch has waited, which is part of what Spark says that it took."""
        return round(self._last[1] * 1000) if self._last[0] == batch else 0
