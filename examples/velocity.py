"""The velocity rule: alert when a card pays five times within three minutes."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast as hf

PAYMENTS_MAX = 5
SPAN_SECONDS = 180


class Velocity(hf.DoFn):
    """Keeps each card's payments of the last three minutes; forgets a card that has been quiet for as long."""

    RECENT = hf.OrderedListStateSpec("recent", hf.FloatCoder())
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, float],
        paid_at: hf.Timestamp = hf.DoFn.TimestampParam,
        recent: hf.OrderedListState[float] = hf.DoFn.StateParam(RECENT),
        quiet: hf.Timer = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[str, int, float]]:
        card, amount = element
        recent.add((paid_at, amount))
        within = recent.read_range(paid_at - SPAN_SECONDS, paid_at.successor())
        if len(within) == PAYMENTS_MAX:
            yield card, len(within), sum(paid for _, paid in within)
        quiet.set(paid_at + SPAN_SECONDS)

    @hf.on_timer(QUIET)
    def on_quiet(self, recent: hf.OrderedListState[float] = hf.DoFn.StateParam(RECENT)) -> None:
        recent.clear()
