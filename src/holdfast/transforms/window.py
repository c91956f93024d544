"""Beam's door to the windows."""

from holdfast.model.windowed_values import TimestampedValue, WindowedValue
from holdfast.model.windows import (
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)

__all__ = [
    "BoundedWindow",
    "FixedWindows",
    "GlobalWindow",
    "GlobalWindows",
    "IntervalWindow",
    "NonMergingWindowFn",
    "Sessions",
    "SlidingWindows",
    "TimestampCombiner",
    "TimestampedValue",
    "WindowFn",
    "WindowedValue",
]
