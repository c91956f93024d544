"""What a user did in one visit, in order."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.rows import plain, read

__all__ = ["ClickTrail"]

Trail = tuple[object, hf.Timestamp, hf.Timestamp, list[object]]


class ClickTrail(Recipe):
    """Gives each visit as (key, first time, last time, [clicks]), once no click has come for `gap`.

    A click that comes exactly `gap` after another begins a new visit, as with `Sessions`. Of a row only the field `click`
    is kept, or all of it as a dict. A visit that reaches `max_clicks` is given at once, and the next click begins another.
    The time of a result is the end of the visit plus `gap`; of one that was full, that of its last click.

    Keeps for each key and window: the clicks of the visit that is open, its first and its last time.

    Frees it: when the visit is given.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late clicks go to the output `late`.
    """

    needs_time_sorted_input = True

    CLICKS = hf.BagStateSpec("clicks", doc="The clicks of the visit that is open.")
    VISIT = hf.ValueStateSpec(
        "visit",
        hf.TupleCoder([hf.TimestampCoder(), hf.TimestampCoder(), hf.VarIntCoder()]),
        doc="When the visit began, its last click, and how many there are.",
    )
    OVER = hf.TimerSpec("over", hf.TimeDomain.WATERMARK)

    def __init__(self, gap: Span, *, click: str | None = None, max_clicks: int = 1000) -> None:
        super().__init__()
        self._gap = self._arguments.span("gap", gap)
        self._click = self._arguments.optional_field("click", click)
        self._max_clicks = self._arguments.whole("max_clicks", max_clicks)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        clicks: hf.BagState[object] = hf.DoFn.StateParam(CLICKS),
        visit: hf.ValueState[tuple[hf.Timestamp, hf.Timestamp, int]] = hf.DoFn.StateParam(VISIT),
        over: hf.Timer = hf.DoFn.TimerParam(OVER),
    ) -> Iterator[Trail | hf.TimestampedValue]:
        key, value = element
        known = visit.read()
        # A click that comes exactly with the timer may come before it.
        if known is not None and at >= known[1] + self._gap:
            for trail in self._end(key, clicks, visit):
                yield hf.TimestampedValue(trail, known[1] + self._gap)
            known = None
        first, count = (at, 1) if known is None else (known[0], known[2] + 1)
        clicks.add(plain(read(value, self._click)))
        visit.write((first, at, count))
        over.set(at + self._gap)
        if count == self._max_clicks:
            over.clear()
            yield from self._end(key, clicks, visit)

    @hf.on_timer(OVER)
    def on_over(
        self,
        key: object = hf.DoFn.KeyParam,
        clicks: hf.BagState[object] = hf.DoFn.StateParam(CLICKS),
        visit: hf.ValueState[tuple[hf.Timestamp, hf.Timestamp, int]] = hf.DoFn.StateParam(VISIT),
    ) -> Iterator[Trail]:
        yield from self._end(key, clicks, visit)

    def _end(
        self, key: object, clicks: hf.BagState[object], visit: hf.ValueState[tuple[hf.Timestamp, hf.Timestamp, int]]
    ) -> Iterator[Trail]:
        known = visit.read()
        trail = list(clicks.read())
        clicks.clear()
        visit.clear()
        if known is not None:
            yield key, known[0], known[1], trail
