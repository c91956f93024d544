"""Velocity: so many payments within so much time."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.rows import number_in

__all__ = ["Velocity"]


class Velocity(Recipe):
    """Alerts when a key pays `count` times within the span `within`, wherever it begins: (key, first time, total).

    Two payments exactly `within` apart are within it. An alert starts the count anew, so a series of payments alerts once
    for every `count` of them. The total is that of the field `amount`, or of the values themselves.

    Keeps for each key and window: at most `count` - 1 payments, none older than `within`.

    Frees it: with an alert, and when the watermark is beyond the last time at which another payment could count.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late payments go to the output `late`.
    """

    needs_time_sorted_input = True

    RECENT = hf.OrderedListStateSpec("recent", hf.FloatCoder(), doc="The payments that still count.")
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def __init__(self, count: int, within: Span, *, amount: str | None = None) -> None:
        super().__init__()
        self._count = self._arguments.whole("count", count, least=2)
        self._within = self._arguments.span("within", within)
        self._amount = self._arguments.optional_field("amount", amount)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        recent: hf.OrderedListState[float] = hf.DoFn.StateParam(RECENT),
        quiet: hf.Timer = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[object, hf.Timestamp, float]]:
        key, payment = element
        amount = number_in(payment, self._amount)
        recent.clear_range(hf.MIN_TIMESTAMP, at - self._within)
        recent.add((at, amount))
        quiet.set((at + self._within).successor())
        payments = recent.read()
        if len(payments) == self._count:
            recent.clear()
            quiet.clear()
            yield key, payments[0][0], sum(paid for _, paid in payments)

    @hf.on_timer(QUIET)
    def on_quiet(self, recent: hf.OrderedListState[float] = hf.DoFn.StateParam(RECENT)) -> None:
        recent.clear()
