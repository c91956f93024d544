"""Flink's inner door to durations."""

from holdfast.model.flink.times import Time
from holdfast.model.time.timestamps import Duration

__all__ = ["Duration", "Time"]
