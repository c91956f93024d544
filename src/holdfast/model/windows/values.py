"""An element together with its time, its windows and the pane it came in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.bounded import BoundedWindow

__all__ = ["PANE_INFO_UNKNOWN", "PaneInfo", "PaneInfoTiming", "TimestampedValue", "WindowedValue"]


class PaneInfoTiming(IntEnum):
    """When a pane fired, relative to the watermark passing the end of the window."""

    EARLY = 0
    ON_TIME = 1
    LATE = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class PaneInfo:
    """Which result of a window this is.

    `index` counts all panes of the window, `nonspeculative_index` those that were not early.
    """

    is_first: bool
    is_last: bool
    timing: PaneInfoTiming
    index: int
    nonspeculative_index: int


PANE_INFO_UNKNOWN = PaneInfo(True, True, PaneInfoTiming.UNKNOWN, 0, 0)
"""The pane of an element that has not been through a grouping."""


class TimestampedValue:
    """A value to output at a timestamp other than the input's."""

    __slots__ = ("timestamp", "value")

    def __init__(self, value: object, timestamp: Timestamp | float) -> None:
        self.value: Any = value
        self.timestamp = Timestamp.of(timestamp)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimestampedValue):
            return NotImplemented
        return bool(self.value == other.value) and self.timestamp == other.timestamp

    def __hash__(self) -> int:
        return hash((self.value, self.timestamp))

    def __repr__(self) -> str:
        return f"TimestampedValue({self.value!r}, {self.timestamp!r})"


class WindowedValue:
    """A value with its timestamp, the windows it is in, and its pane."""

    __slots__ = ("pane_info", "timestamp", "value", "windows")

    def __init__(
        self,
        value: object,
        timestamp: Timestamp | float,
        windows: Iterable[BoundedWindow],
        pane_info: PaneInfo = PANE_INFO_UNKNOWN,
    ) -> None:
        self.value: Any = value
        self.timestamp = Timestamp.of(timestamp)
        self.windows = tuple(windows)
        self.pane_info = pane_info

    def with_value(self, value: object) -> WindowedValue:
        """The same timestamp, windows and pane with another value."""
        return WindowedValue(value, self.timestamp, self.windows, self.pane_info)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WindowedValue):
            return NotImplemented
        return (
            bool(self.value == other.value)
            and self.timestamp == other.timestamp
            and self.windows == other.windows
            and self.pane_info == other.pane_info
        )

    def __hash__(self) -> int:
        return hash((self.value, self.timestamp, self.windows, self.pane_info))

    def __repr__(self) -> str:
        pane = "" if self.pane_info == PANE_INFO_UNKNOWN else f", {self.pane_info!r}"
        return f"WindowedValue({self.value!r}, {self.timestamp!r}, {self.windows!r}{pane})"
