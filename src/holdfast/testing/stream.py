"""TestStream: a scripted stream. Everything that happens, including faults, is an item of the script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import TimeError
from holdfast.model.aggregate.triggers import Accumulation, Trigger
from holdfast.model.coders import Coder
from holdfast.model.functions.grouping import CombinePerKey, GroupByKey
from holdfast.model.functions.options import DurationLike, StepOptions
from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from holdfast.model.windows.ready import GlobalWindows, WindowFn
from holdfast.model.windows.values import TimestampedValue

__all__ = ["AddElements", "AdvanceProcessingTime", "AdvanceWatermark", "Crash", "SideStream", "TestStream"]


class SideStream:
    """A side input that is a stream, in a script: `run(fn, stream, side_inputs={"models": hf.AsDict(models)})`.

    Its rows are (key, value) pairs, in these windows: those that the script adds with `add_elements(…, to=models)`. Or they
    are `results_of` an aggregation of the script's own elements, with the options of `window_into`; that is for the runtime
    in memory, as is `coder`, for values that are not plain, such as those of a class of your own.
    """

    def __init__(
        self,
        windowing: WindowFn | None = None,
        *,
        results_of: CombinePerKey | GroupByKey | None = None,
        trigger: Trigger | None = None,
        accumulation_mode: Accumulation | None = None,
        allowed_lateness: DurationLike = 0,
        coder: Coder[Any] | None = None,
    ) -> None:
        self.windowing = GlobalWindows() if windowing is None else windowing
        self.coder = coder
        self.results_of = results_of
        self.options = StepOptions(
            windowing=windowing,
            trigger=trigger,
            accumulation_mode=accumulation_mode,
            allowed_lateness=allowed_lateness,
        )

    def __deepcopy__(self, memo: object) -> SideStream:
        """Itself: a script adds to it by its identity."""
        return self


@dataclass(frozen=True)
class AddElements:
    """One bundle of elements with their event times."""

    elements: tuple[tuple[Any, Timestamp], ...]
    to: SideStream | None = None
    """The side input whose rows they are."""


@dataclass(frozen=True)
class AdvanceWatermark:
    """The watermark moves to a time; MAX_TIMESTAMP ends the input."""

    to: Timestamp

    @property
    def is_final(self) -> bool:
        return self.to == MAX_TIMESTAMP


@dataclass(frozen=True)
class AdvanceProcessingTime:
    """The processing-time clock moves forward."""

    by: Duration


@dataclass(frozen=True)
class Crash:
    """All memory is lost; committed state is restored."""


Event = AddElements | AdvanceWatermark | AdvanceProcessingTime | Crash


class TestStream:
    """A scripted stream, built by chained calls; each call returns the stream.

    The watermark starts at the beginning of time, processing time at 0. Nothing is implied at the end of the script: only
    `advance_watermark_to_infinity` ends the input.
    """

    __test__ = False  # not a test class, whatever its name says to pytest

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._watermark = MIN_TIMESTAMP

    def add_elements(
        self,
        elements: Iterable[object],
        event_timestamp: Timestamp | int | float | None = None,
        *,
        to: SideStream | None = None,
    ) -> TestStream:
        """Adds one bundle. An element may be a TimestampedValue; without a time it gets `event_timestamp`, else the
        watermark's time, or 0 before the watermark first moves. With `to` they are rows of a side input, (key, value)."""
        self._check_open()
        default = self._default_time() if event_timestamp is None else Timestamp.of(event_timestamp)
        timed = []
        for element in elements:
            if isinstance(element, TimestampedValue):
                timed.append((element.value, Timestamp.of(element.timestamp)))
            else:
                timed.append((element, default))
        self.events.append(AddElements(tuple(timed), to))
        return self

    def advance_watermark_to(self, timestamp: Timestamp | int | float) -> TestStream:
        """Moves the watermark; it must not go back."""
        self._check_open()
        to = Timestamp.of(timestamp)
        if to < self._watermark:
            raise TimeError(
                f"The watermark cannot go back: it is at {self._watermark!r} and would move to {to!r}.",
                todo="put the steps of the script in order of the watermark",
            )
        self._watermark = to
        self.events.append(AdvanceWatermark(to))
        return self

    def advance_watermark_to_infinity(self) -> TestStream:
        """Ends the input: every timer of both domains fires, every window expires."""
        return self.advance_watermark_to(MAX_TIMESTAMP)

    def advance_processing_time(self, seconds: Duration | int | float | str) -> TestStream:
        """Moves the processing-time clock forward by this many seconds."""
        self._check_open()
        by = Duration.of(seconds)
        if by < Duration(0):
            raise TimeError(
                f"Processing time cannot go back: it would move by {by!r}.",
                todo="advance it by zero or more seconds",
            )
        self.events.append(AdvanceProcessingTime(by))
        return self

    def crash(self) -> TestStream:
        """Loses all memory; the next item starts from the committed log."""
        self.events.append(Crash())
        return self

    def _default_time(self) -> Timestamp:
        return Timestamp(0) if self._watermark == MIN_TIMESTAMP else self._watermark

    def _check_open(self) -> None:
        if self._watermark == MAX_TIMESTAMP:
            raise TimeError(
                "The input has ended: nothing can come after advance_watermark_to_infinity().",
                todo="make it the last step of the script; only crash() may follow it",
            )

    def __repr__(self) -> str:
        return f"TestStream({len(self.events)} events)"
