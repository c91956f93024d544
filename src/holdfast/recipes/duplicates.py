"""The first occurrence of a key, and no other: make the key what must not come twice, such as the id of an order."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span

__all__ = ["FirstOccurrence", "FirstOccurrenceWithin"]


class FirstOccurrence(Recipe):
    """Lets the first element of each key and window through, as (key, value), and no other.

    Keeps for each key and window: one flag.

    Frees it: when the window ends; in the global window never, so every key there ever was is kept. Use
    `FirstOccurrenceWithin` if duplicates come soon.

    Order: any. The first is the first to arrive.
    """

    SEEN = hf.ValueStateSpec("seen", hf.BooleanCoder(), doc="Whether there was an element.")

    def process(
        self, element: tuple[object, object], seen: hf.ValueState[bool] = hf.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[object, object]]:
        if not seen.read():
            seen.write(True)
            yield element


class FirstOccurrenceWithin(Recipe):
    """Lets an element of a key through, as (key, value), if none was let through less than `ttl` from it in event time.

    Duplicates do not prolong the time: it counts from the element that was let through.

    Keeps for each key and window: one time.

    Frees it: when the watermark is `ttl` beyond that time. A duplicate that comes even later is let through.

    Order: any. The first is the first to arrive. An element that is `ttl` or more older than the one that is remembered
    is let through and not remembered.
    """

    FIRST = hf.ValueStateSpec("first", hf.TimestampCoder(), doc="The time of the element that was let through last.")
    OVER = hf.TimerSpec("over", hf.TimeDomain.WATERMARK)

    def __init__(self, ttl: Span) -> None:
        super().__init__()
        self._ttl = self._arguments.span("ttl", ttl)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        first: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(FIRST),
        over: hf.Timer = hf.DoFn.TimerParam(OVER),
    ) -> Iterator[tuple[object, object]]:
        known = first.read()
        if known is not None and abs(at - known) < self._ttl:
            return
        if known is None or at > known:
            first.write(at)
            over.set(at + self._ttl)
        yield element

    @hf.on_timer(OVER)
    def on_over(self, first: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(FIRST)) -> None:
        first.clear()
