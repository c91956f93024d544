"""The clock of processing time that a step sees, and the scope of what a worker may keep."""

from __future__ import annotations

import time
from typing import Any, Protocol

__all__ = ["BatchClock", "Clock", "spark_now_micros"]


class Clock(Protocol):
    """What the time is in a micro-batch. It travels with the plan, so that a test can bring a clock of its own."""

    def scope(self) -> str:
        """Changes when the worker is to forget everything."""

    def now_micros(self, times: Any, batch_time: int | None) -> int:
        """The time of the micro-batch: `times` are Spark's, `batch_time` what came with the rows, if anything did."""

    def is_final(self) -> bool:
        """Whether the input has ended: then everything is due."""

    def wake_millis(self, due: int, soon: int) -> int:
        """At which time of Spark's own clock to look again, if something is due at a time of this one."""


class BatchClock:
    """The micro-batch's own time, which a replay sees again."""

    def scope(self) -> str:
        return ""

    def now_micros(self, times: Any, batch_time: int | None) -> int:
        return spark_now_micros(times) if batch_time is None else batch_time

    def is_final(self) -> bool:
        return False

    def wake_millis(self, due: int, soon: int) -> int:
        return max(due, soon)


def spark_now_micros(times: Any) -> int:
    """The time of the micro-batch by Spark, in microseconds. Without a time mode Spark gives none."""
    milliseconds: int = times.getCurrentProcessingTimeInMs()
    return milliseconds * 1000 if milliseconds >= 0 else time.time_ns() // 1000
