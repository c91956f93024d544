"""The velocity rule: alert when a card pays five times within three minutes. A payment without an amount is refused."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf
from holdfast.demo.payments import Payment

__all__ = ["PAYMENTS_MAX", "SPAN_SECONDS", "Velocity"]

PAYMENTS_MAX = 5
SPAN_SECONDS = 180


class Velocity(hf.DoFn):
    """Keeps at most four payments per card, none older than three minutes; an alert starts the count anew.

    It looks back from each payment, so it needs them in order of time: requires_time_sorted_input=True.
    """

    RECENT = hf.OrderedListStateSpec("recent", hf.FloatCoder())
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, Payment],
        paid_at: hf.Timestamp = hf.DoFn.TimestampParam,
        recent: hf.OrderedListState[float] = hf.DoFn.StateParam(RECENT),
        quiet: hf.Timer = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[str, str, hf.Timestamp, str]]:
        card, payment = element
        if payment.amount is None or payment.amount <= 0:
            raise ValueError(f"an amount of {payment.amount}")
        recent.clear_range(hf.MIN_TIMESTAMP, paid_at - SPAN_SECONDS)
        recent.add((paid_at, payment.amount))
        within = recent.read()
        if len(within) == PAYMENTS_MAX:
            total = sum(amount for _, amount in within)
            yield card, "velocity", paid_at, f"{len(within)} payments, {total:.2f} in all"
            recent.clear()
        quiet.set(paid_at + SPAN_SECONDS)

    @hf.on_timer(QUIET)
    def on_quiet(self, recent: hf.OrderedListState[float] = hf.DoFn.StateParam(RECENT)) -> None:
        recent.clear()
