"""The processing-time clock that a step sees, and the scope of what a worker may keep."""

from __future__ import annotations

import time
from typing import Any, Protocol

__all__ = ["BatchClock", "Clock", "spark_now_micros"]


class Clock(Protocol):
    """The time in a micro-batch. It travels with the plan, so that a test can bring its own clock."""

    def scope(self) -> str:
        """Changes when the worker should forget everything."""

    def now_micros(self, times: Any, batch_time: int | None) -> int:
        """The time of the micro-batch: `times` are Spark's, `batch_time` what came with the rows, if anything did."""

    def is_final(self) -> bool:
        """Whether the input has ended: then everything is due."""

    def wake_millis(self, due: int, soon: int) -> int:
        """When to wake up by Spark's own clock, if something is due at a time of this one."""


class BatchClock:
    """The micro-batch's own time, which is the same in a replay."""

    def scope(self) -> str:
        return ""

    def now_micros(self, times: Any, batch_time: int | None) -> int:
        return spark_now_micros(times) if batch_time is None else batch_time

    def is_final(self) -> bool:
        return False

    def wake_millis(self, due: int, soon: int) -> int:
        return max(due, soon)


def spark_now_micros(times: Any) -> int:
    """Spark's time of the micro-batch, in microseconds. Without a time mode Spark gives none."""
    milliseconds: int = times.getCurrentProcessingTimeInMs()
    return milliseconds * 1000 if milliseconds >= 0 else time.time_ns() // 1000
