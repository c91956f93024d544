"""The built-in window functions: which windows an element belongs to.

Sizes, periods, gaps and offsets are whatever `Duration.of` takes: seconds, a `timedelta`, or "10 minutes". A
timestamp whose window would reach beyond `MIN_TIMESTAMP` or `MAX_TIMESTAMP` is a `TimeError`.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import cast

import numpy
from numpy.typing import NDArray

from holdfast.errors import TimeError
from holdfast.model.time.timestamps import Duration
from holdfast.model.time.units import MAX_MICROS, MIN_MICROS
from holdfast.model.windows.bounded import BoundedWindow, GlobalWindow, IntervalWindow
from holdfast.model.windows.codec import window_from_bytes, window_to_bytes
from holdfast.model.windows.functions import NonMergingWindowFn, WindowFn

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
    "WindowFn",
    "window_from_bytes",
    "window_to_bytes",
]

Span = Duration | float | Decimal | timedelta | str
Micros = NDArray[numpy.int64]


class TimestampCombiner:
    """Which timestamp the result of a grouping gets."""

    OUTPUT_AT_EOW = "OUTPUT_AT_EOW"
    OUTPUT_AT_EARLIEST = "OUTPUT_AT_EARLIEST"
    OUTPUT_AT_LATEST = "OUTPUT_AT_LATEST"
    OUTPUT_AT_EARLIEST_TRANSFORMED = "OUTPUT_AT_EARLIEST_TRANSFORMED"


class GlobalWindows(NonMergingWindowFn):
    """Puts all elements into the one global window."""

    def assign(self, assign_context: WindowFn.AssignContext) -> list[BoundedWindow]:
        return [GlobalWindow()]

    def describe(self) -> dict[str, object]:
        return _own_description(self, "GlobalWindows")


class FixedWindows(NonMergingWindowFn):
    """Windows of one size, side by side: each timestamp lies in exactly one. One starts at `offset`."""

    def __init__(self, size: Span, offset: Span = 0) -> None:
        self.size = _positive(size, "size")
        self.offset = Duration.of(offset) % self.size

    @property
    def size_micros(self) -> int:
        return self.size.micros

    def assign(self, assign_context: WindowFn.AssignContext) -> list[BoundedWindow]:
        return [IntervalWindow._of_micros(*pair) for pair in self.assign_micros(assign_context.timestamp.micros)]

    def assign_micros(self, micros: int) -> list[tuple[int, int]]:
        """Start and end of the window of a timestamp, in microseconds."""
        start = micros - (micros - self.offset.micros) % self.size.micros
        return [_checked(start, start + self.size.micros)]

    def assign_block(self, micros: Micros) -> tuple[Micros, Micros]:
        """For a block of timestamps: the index of each element and the start of its window."""
        _check_block(self, micros)
        return numpy.arange(len(micros)), micros - _since_start(micros, self.size.micros, self.offset.micros)

    def describe(self) -> dict[str, object]:
        return _own_description(self, "FixedWindows", size_micros=self.size.micros, offset_micros=self.offset.micros)


class SlidingWindows(NonMergingWindowFn):
    """Windows of one size that start every `period`, newest first. A period beyond the size leaves gaps."""

    def __init__(self, size: Span, period: Span, offset: Span = 0) -> None:
        self.size = _positive(size, "size")
        self.period = _positive(period, "period")
        self.offset = Duration.of(offset) % self.period

    @property
    def size_micros(self) -> int:
        return self.size.micros

    def assign(self, assign_context: WindowFn.AssignContext) -> list[BoundedWindow]:
        return [IntervalWindow._of_micros(*pair) for pair in self.assign_micros(assign_context.timestamp.micros)]

    def assign_micros(self, micros: int) -> list[tuple[int, int]]:
        """Start and end of each window of a timestamp, newest first, in microseconds."""
        size, period = self.size.micros, self.period.micros
        newest = micros - (micros - self.offset.micros) % period
        return [_checked(start, start + size) for start in range(newest, micros - size, -period)]

    def assign_block(self, micros: Micros) -> tuple[Micros, Micros]:
        """For a block of timestamps: element index and window start of each pair.

        The pairs are in the order of the elements; for each element, newest window first.
        """
        _check_block(self, micros)
        size, period = self.size.micros, self.period.micros
        since = _since_start(micros, period, self.offset.micros)
        # The starts of an element are newest - n * period, as long as since + n * period < size.
        counts = numpy.maximum(-((since - size) // period), 0)
        index = numpy.repeat(numpy.arange(len(micros)), counts)
        steps_back = numpy.arange(len(index)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        return index, (micros - since)[index] - steps_back * period

    def describe(self) -> dict[str, object]:
        return _own_description(
            self,
            "SlidingWindows",
            size_micros=self.size.micros,
            period_micros=self.period.micros,
            offset_micros=self.offset.micros,
        )


class Sessions(WindowFn):
    """A window that lasts as long as the elements of a key are less than `gap_size` apart.

    Each element opens a window from its timestamp to `gap_size` later; overlapping windows become one.
    Windows that only touch stay apart: exactly `gap_size` of silence ends a session.
    """

    def __init__(self, gap_size: Span) -> None:
        self.gap_size = _positive(gap_size, "size")

    def assign(self, assign_context: WindowFn.AssignContext) -> list[BoundedWindow]:
        micros = assign_context.timestamp.micros
        return [IntervalWindow._of_micros(*_checked(micros, micros + self.gap_size.micros))]

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        windows: list[IntervalWindow] = sorted(cast(list[IntervalWindow], merge_context.windows))
        overlapping: list[IntervalWindow] = []
        end = MIN_MICROS
        for window in windows:
            if overlapping and end <= window.start.micros:
                _merge_session(merge_context, overlapping, end)
                overlapping = []
            end = max(end, window.end.micros) if overlapping else window.end.micros
            overlapping.append(window)
        _merge_session(merge_context, overlapping, end)

    def describe(self) -> dict[str, object]:
        return _own_description(self, "Sessions", gap_micros=self.gap_size.micros)


def _merge_session(context: WindowFn.MergeContext, windows: list[IntervalWindow], end: int) -> None:
    if len(windows) > 1:
        context.merge(windows, IntervalWindow._of_micros(windows[0].start.micros, end))


def _positive(span: Span, name: str) -> Duration:
    duration = Duration.of(span)
    if duration.micros <= 0:
        raise TimeError(f"The {name} parameter must be strictly positive.", detail=f"It is {duration!r}.")
    if duration.micros > MAX_MICROS:
        raise TimeError(f"The {name} parameter is out of range.", detail=f"It is {duration!r}.")
    return duration


def _checked(start: int, end: int) -> tuple[int, int]:
    if start >= MIN_MICROS and end <= MAX_MICROS:
        return start, end
    raise TimeError(
        f"A window cannot go from {start} to {end} microseconds: that is beyond all timestamps.",
        todo="Give the elements timestamps: those without one are at MIN_TIMESTAMP.",
    )


def _check_block(window_fn: FixedWindows | SlidingWindows, micros: Micros) -> None:
    # Later timestamps never have earlier windows, so checking both ends of the block is enough.
    if len(micros):
        window_fn.assign_micros(int(micros.min()))
        window_fn.assign_micros(int(micros.max()))


def _since_start(micros: Micros, period: int, offset: int) -> Micros:
    """The time since the last window start. Taking the remainder first keeps the difference within 64 bits."""
    return (micros % period - offset) % period


def _own_description(window_fn: WindowFn, name: str, **parameters: int) -> dict[str, object]:
    """A user's subclass of one of ours has other windows, so it is described by its own class and version."""
    own = type(window_fn).__module__ == __name__
    name = f"holdfast.{name}" if own else f"{type(window_fn).__module__}.{type(window_fn).__qualname__}"
    return {"id": name, "version": window_fn.version, **parameters}
