"""Counting: a running count, a count for as long as a key is active, and a number for each element."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span

__all__ = ["AssignIndex", "CountWhileActive", "RunningCount"]


class RunningCount(Recipe):
    """How many elements of the key there were so far: (key, count) for each element.

    Keeps for each key and window: one whole number.

    Frees it: when the window ends; in the global window never, so give the step `limits=` if keys keep coming, or use
    `CountWhileActive`.

    Order: any. Elements are counted in order of arrival.
    """

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder(), doc="How many elements there were so far.")

    def process(
        self, element: tuple[object, object], count: hf.ValueState[int] = hf.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[object, int]]:
        key, _ = element
        so_far = (count.read() or 0) + 1
        count.write(so_far)
        yield key, so_far


class CountWhileActive(Recipe):
    """A running count that begins anew when the key was idle for long enough: (key, count) for each element.

    An element that comes `idle` or more after the newest one before it is the first of a new count.

    Keeps for each key and window: one whole number and the time of the newest element.

    Frees it: when the watermark is `idle` beyond the newest element.

    Order: any. An element that is older than the newest belongs to the count that is open. With
    `requires_time_sorted_input=True` the counts do not depend on the order of arrival.
    """

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder(), doc="How many elements there were since the last silence.")
    NEWEST = hf.ValueStateSpec("newest", hf.TimestampCoder(), doc="The time of the newest element.")
    IDLE = hf.TimerSpec("idle", hf.TimeDomain.WATERMARK)

    def __init__(self, idle: Span) -> None:
        super().__init__()
        self._idle = self._arguments.span("idle", idle)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        count: hf.ValueState[int] = hf.DoFn.StateParam(COUNT),
        newest: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(NEWEST),
        idle: hf.Timer = hf.DoFn.TimerParam(IDLE),
    ) -> Iterator[tuple[object, int]]:
        key, _ = element
        before = newest.read()
        # The comparison decides, and the timer only frees: so nothing depends on when the watermark moves.
        goes_on = before is not None and at < before + self._idle
        so_far = (count.read() or 0) + 1 if goes_on else 1
        latest = at if before is None else max(before, at)
        count.write(so_far)
        newest.write(latest)
        idle.set(latest + self._idle)
        yield key, so_far

    @hf.on_timer(IDLE)
    def on_idle(
        self,
        count: hf.ValueState[int] = hf.DoFn.StateParam(COUNT),
        newest: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(NEWEST),
    ) -> None:
        count.clear()
        newest.clear()


class AssignIndex(Recipe):
    """Numbers the elements of a key and window: (key, index, value), from 0, without gaps and without duplicates.

    Keeps for each key and window: one whole number.

    Frees it: when the window ends; in the global window never.

    Order: any. Which element gets which number follows the order of arrival.
    """

    INDEX = hf.ValueStateSpec("index", hf.VarIntCoder(), doc="The number that the next element gets.")

    def process(
        self, element: tuple[object, object], index: hf.ValueState[int] = hf.DoFn.StateParam(INDEX)
    ) -> Iterator[tuple[object, int, object]]:
        key, value = element
        current = index.read() or 0
        index.write(current + 1)
        yield key, current, value
