"""Limits on how much a key may do: a fixed number, a number in any span of time, a bucket of tokens.

Each lets an element through as it is, as (key, value). What is refused is left out, or goes to the output that `refused`
names.
"""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span

__all__ = ["CountLimit", "SlidingLimit", "TokenBucket"]

Element = tuple[object, object]


class _Limit(Recipe):
    """What the limits share: where a refused element goes."""

    def __init__(self, refused: str | None) -> None:
        super().__init__()
        self._refused = self._arguments.tag("refused", refused)

    def _given(self, element: Element, is_let_through: bool) -> Iterator[Element | hf.TaggedOutput]:
        if is_let_through:
            yield element
        elif self._refused is not None:
            yield hf.TaggedOutput(self._refused, element)


class CountLimit(_Limit):
    """Lets the first `limit` elements of each key and window through: in `FixedWindows("1 minute")`, so many a minute.

    Keeps for each key and window: one whole number.

    Frees it: when the window ends; in the global window never.

    Order: any. Elements are counted in order of arrival, each in the window of its time. Late ones go to the output `late`,
    and count for nothing.
    """

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder(), doc="How many elements were let through.")

    def __init__(self, limit: int, *, refused: str | None = None) -> None:
        super().__init__(refused)
        self._limit = self._arguments.whole("limit", limit)

    def process(
        self, element: Element, count: hf.ValueState[int] = hf.DoFn.StateParam(COUNT)
    ) -> Iterator[Element | hf.TaggedOutput]:
        so_far = count.read() or 0
        is_let_through = so_far < self._limit
        if is_let_through:
            count.write(so_far + 1)
        yield from self._given(element, is_let_through)


class SlidingLimit(_Limit):
    """Lets an element through if fewer than `limit` were let through in the span `per` that ends with it.

    So no span of that length, wherever it begins, has more than `limit`. What is refused does not count. An element that
    comes exactly `per` after another is no longer in its span.

    Keeps for each key and window: the times of at most `limit` elements.

    Frees it: when the watermark is `per` beyond the last element that was let through.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late elements go to the output `late`.
    """

    needs_time_sorted_input = True

    PASSED = hf.OrderedListStateSpec("passed", hf.BooleanCoder(), doc="When elements were let through.")
    OVER = hf.TimerSpec("over", hf.TimeDomain.WATERMARK)

    def __init__(self, limit: int, per: Span, *, refused: str | None = None) -> None:
        super().__init__(refused)
        self._limit = self._arguments.whole("limit", limit)
        self._per = self._arguments.span("per", per)

    def process(
        self,
        element: Element,
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        passed: hf.OrderedListState[bool] = hf.DoFn.StateParam(PASSED),
        over: hf.Timer = hf.DoFn.TimerParam(OVER),
    ) -> Iterator[Element | hf.TaggedOutput]:
        passed.clear_range(hf.MIN_TIMESTAMP, (at - self._per).successor())
        is_let_through = len(passed.read()) < self._limit
        if is_let_through:
            passed.add((at, True))
            over.set(at + self._per)
        yield from self._given(element, is_let_through)

    @hf.on_timer(OVER)
    def on_over(self, passed: hf.OrderedListState[bool] = hf.DoFn.StateParam(PASSED)) -> None:
        passed.clear()


class TokenBucket(_Limit):
    """Lets an element through if there is a token for it. A bucket holds `capacity` tokens and gets one back every `refill`.

    It begins full. So a key may do `capacity` things at once, and one every `refill` in the long run. Times are whole
    microseconds: nothing is rounded, however long it runs.

    Keeps for each key and window: one time, at which the bucket will be full again.

    Frees it: when the watermark reaches that time, since a full bucket is as good as none.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late elements go to the output `late`.
    """

    needs_time_sorted_input = True

    FULL = hf.ValueStateSpec("full", hf.TimestampCoder(), doc="When the bucket will be full again.")
    REFILLED = hf.TimerSpec("refilled", hf.TimeDomain.WATERMARK)

    def __init__(self, capacity: int, refill: Span, *, refused: str | None = None) -> None:
        super().__init__(refused)
        self._refill = self._arguments.span("refill", refill)
        self._whole = self._refill * self._arguments.whole("capacity", capacity)

    def process(
        self,
        element: Element,
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        full: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(FULL),
        refilled: hf.Timer = hf.DoFn.TimerParam(REFILLED),
    ) -> Iterator[Element | hf.TaggedOutput]:
        then = full.read()
        # One token less means that it will be full one `refill` later.
        after = (at if then is None else max(then, at)) + self._refill
        is_let_through = after - at <= self._whole
        if is_let_through:
            full.write(after)
            refilled.set(after)
        yield from self._given(element, is_let_through)

    @hf.on_timer(REFILLED)
    def on_refilled(self, full: hf.ValueState[hf.Timestamp] = hf.DoFn.StateParam(FULL)) -> None:
        full.clear()
