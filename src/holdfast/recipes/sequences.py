"""Sequences: one thing, then another within some time, and not a third between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.rows import plain

__all__ = ["Sequence"]

Found = tuple[object, hf.Timestamp, object, hf.Timestamp, object]


class Sequence(Recipe):
    """Finds a value that is `first`, then one that is `then` at most `within` later, without one that is `unless` between.

    The three are functions of a value. What comes out is (key, first time, first value, then time, then value); a row is
    given as a dict of its fields. A `then` is paired with the latest `first` before it, and both are used up; so is a
    `first` by an `unless`. A value that is several of the three is looked at as an `unless`, as a `then` and as a `first`,
    in that order: so `first` and `then` may be the same function, for two of a kind.

    Keeps for each key and window: the latest `first`, with its time.

    Frees it: when it is used up, and when the watermark is beyond the last time at which a `then` could follow.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late values go to the output `late`. Of
    values with equal times, the one that arrives first comes first.
    """

    needs_time_sorted_input = True

    BEGUN = hf.ValueStateSpec(
        "begun", hf.TupleCoder([hf.TimestampCoder(), hf.PlainCoder()]), doc="The latest first, with its time."
    )
    OVER = hf.TimerSpec("over", hf.TimeDomain.WATERMARK)

    def __init__(
        self,
        first: Callable[[object], object],
        then: Callable[[object], object],
        within: Span,
        *,
        unless: Callable[[object], object] | None = None,
    ) -> None:
        super().__init__()
        self._arguments.function("first", first)
        self._arguments.function("then", then)
        if unless is not None:
            self._arguments.function("unless", unless)
        self._first, self._then, self._unless = first, then, unless
        self._within = self._arguments.span("within", within)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        begun: hf.ValueState[tuple[hf.Timestamp, object]] = hf.DoFn.StateParam(BEGUN),
        over: hf.Timer = hf.DoFn.TimerParam(OVER),
    ) -> Iterator[Found]:
        key, value = element
        known = begun.read()
        if known is not None and self._unless is not None and self._unless(value):
            known = None
            self._forget(begun, over)
        if known is not None and at <= known[0] + self._within and self._then(value):
            self._forget(begun, over)
            yield key, known[0], known[1], at, plain(value)
        if self._first(value):
            begun.write((at, plain(value)))
            over.set((at + self._within).successor())

    @hf.on_timer(OVER)
    def on_over(self, begun: hf.ValueState[tuple[hf.Timestamp, object]] = hf.DoFn.StateParam(BEGUN)) -> None:
        begun.clear()

    def _forget(self, begun: hf.ValueState[tuple[hf.Timestamp, object]], over: hf.Timer) -> None:
        begun.clear()
        over.clear()
