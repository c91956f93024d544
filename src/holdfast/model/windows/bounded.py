"""Windows: the spans of event time that elements are assigned to.

A window holds the timestamps from its start, included, to its end, excluded. `max_timestamp()` is its last
microsecond. Windows are values: do not change one after making it.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import TimeError
from holdfast.model.time.timestamps import MIN_TIMESTAMP, Timestamp

__all__ = ["BoundedWindow", "GlobalWindow", "IntervalWindow"]


class BoundedWindow:
    """A window with an end.

    A user's own subclass defines `__eq__` and `__hash__`, and its window function gives it a coder with
    `get_window_coder()`.
    """

    __slots__ = ("end",)
    end: Timestamp

    def __init__(self, end: Timestamp | float) -> None:
        self.end = Timestamp.of(end)

    def max_timestamp(self) -> Timestamp:
        """The last timestamp that lies in the window: one microsecond before the end."""
        return self.end.predecessor()


class IntervalWindow(BoundedWindow):
    """The window from `start` to `end`. Ordered by start, then end."""

    __slots__ = ("start",)
    start: Timestamp

    def __init__(self, start: Timestamp | float, end: Timestamp | float) -> None:
        self.start = Timestamp.of(start)
        self.end = Timestamp.of(end)
        if self.end < self.start:
            raise TimeError(f"A window cannot end at {self.end}, before its start at {self.start}.")

    @classmethod
    def _of_micros(cls, start: int, end: int) -> IntervalWindow:
        """Makes one from ints that are known to be in range and in order: no checks."""
        made = cls.__new__(cls)
        made.start = Timestamp._of_micros(start)
        made.end = Timestamp._of_micros(end)
        return made

    def intersects(self, other: IntervalWindow) -> bool:
        """Whether some timestamp lies in both. Windows that only touch do not intersect."""
        return self.start < other.end and other.start < self.end

    def union(self, other: IntervalWindow) -> IntervalWindow:
        """The smallest window that covers both."""
        return IntervalWindow(min(self.start, other.start), max(self.end, other.end))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalWindow) or type(self) is not type(other):
            return NotImplemented
        return self.start.micros == other.start.micros and self.end.micros == other.end.micros

    def __hash__(self) -> int:
        return hash((self.start.micros, self.end.micros))

    def __lt__(self, other: Any) -> bool:
        return self._order() < other._order() if isinstance(other, IntervalWindow) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self._order() <= other._order() if isinstance(other, IntervalWindow) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self._order() > other._order() if isinstance(other, IntervalWindow) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return self._order() >= other._order() if isinstance(other, IntervalWindow) else NotImplemented

    def _order(self) -> tuple[int, int]:
        return self.start.micros, self.end.micros

    def __repr__(self) -> str:
        return f"[{self.start}, {self.end})"


class GlobalWindow(BoundedWindow):
    """The one window that holds all of time. `GlobalWindow()` always gives the same object.

    Its end lies a day before `MAX_TIMESTAMP`, so that a timer can still be set after it.
    """

    __slots__ = ()
    _only: GlobalWindow | None = None

    def __new__(cls) -> GlobalWindow:
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only.end = Timestamp._of_micros(9223371950454775000)
        return cls._only

    def __init__(self) -> None:
        pass

    @property
    def start(self) -> Timestamp:
        return MIN_TIMESTAMP

    def __reduce__(self) -> tuple[Any, ...]:
        return (GlobalWindow, ())

    def __copy__(self) -> GlobalWindow:
        return self

    def __deepcopy__(self, memo: Any) -> GlobalWindow:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return hash(self.end)

    def __repr__(self) -> str:
        return "GlobalWindow"
