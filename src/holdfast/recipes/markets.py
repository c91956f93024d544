"""Prices: the volume-weighted average price of a window, and moving averages with every trade."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import holdfast as hf
from holdfast.recipes.arguments import Arguments, Recipe, Span
from holdfast.recipes.rows import exact_number_in, number_in, read

__all__ = ["MovingPrices", "Vwap"]

# Numbers of the rows' own kind: ints, floats or decimals.
_Sums = tuple[Any, Any]


class Vwap(hf.CombineFn[object, _Sums, object]):
    """The volume-weighted average price of a key and window: Σ price · volume / Σ volume; None if no volume was traded.

    Decimals are added up as decimals, without rounding beyond the context's; do not mix them with floats. A trade without a
    price or a volume is left out. A price or a volume that is no finite number, or a negative volume, is an InputError.

    Keeps for each key and window: two sums, also while values are combined before the shuffle.

    Frees it: when the window ends.

    Order: any.
    """

    def __init__(self, price: str = "price", volume: str = "volume") -> None:
        check = Arguments()
        self._price, self._volume = check.field("price", price), check.field("volume", volume)
        check.check("Vwap")

    def create_accumulator(self) -> _Sums:
        return 0, 0

    def add_input(self, mutable_accumulator: _Sums, element: object) -> _Sums:
        if read(element, self._price) is None or read(element, self._volume) is None:
            return mutable_accumulator
        price, volume = exact_number_in(element, self._price), exact_number_in(element, self._volume)
        _check_volume(volume)
        return mutable_accumulator[0] + price * volume, mutable_accumulator[1] + volume

    def merge_accumulators(self, accumulators: Iterable[_Sums]) -> _Sums:
        value, volume = self.create_accumulator()
        for held_value, held_volume in accumulators:
            value, volume = value + held_value, volume + held_volume
        return value, volume

    def extract_output(self, accumulator: _Sums) -> object:
        value, volume = accumulator
        return value / volume if volume else None


class MovingPrices(Recipe):
    """With each trade the averages over the last `span`: (key, time, mean price, volume-weighted price, trades).

    A trade exactly `span` old no longer counts. Sums are taken afresh each time, so no rounding error builds up. The
    volume-weighted price is None if no volume was traded. Prices and volumes become floats; a negative volume is an
    InputError.

    Keeps for each key and window: price and volume of each trade of the last `span`, so it grows with their number.

    Frees it: when the watermark is `span` beyond the last trade.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late trades go to the output `late`. Of trades
    with equal times, each is averaged with those that came before it.
    """

    needs_time_sorted_input = True

    TRADES = hf.OrderedListStateSpec(
        "trades", hf.TupleCoder([hf.FloatCoder(), hf.FloatCoder()]), doc="Price and volume of the trades that count."
    )
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def __init__(self, span: Span, *, price: str = "price", volume: str = "volume") -> None:
        super().__init__()
        self._span = self._arguments.span("span", span)
        self._price, self._volume = self._arguments.field("price", price), self._arguments.field("volume", volume)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        trades: hf.OrderedListState[tuple[float, float]] = hf.DoFn.StateParam(TRADES),
        quiet: hf.Timer = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[object, hf.Timestamp, float, float | None, int]]:
        key, trade = element
        price, volume = number_in(trade, self._price), number_in(trade, self._volume)
        _check_volume(volume)
        trades.clear_range(hf.MIN_TIMESTAMP, (at - self._span).successor())
        trades.add((at, (price, volume)))
        quiet.set(at + self._span)
        held = [pair for _, pair in trades.read()]
        traded = math.fsum(amount for _, amount in held)
        mean = math.fsum(paid for paid, _ in held) / len(held)
        weighted = math.fsum(paid * amount for paid, amount in held) / traded if traded else None
        yield key, at, mean, weighted, len(held)

    @hf.on_timer(QUIET)
    def on_quiet(self, trades: hf.OrderedListState[tuple[float, float]] = hf.DoFn.StateParam(TRADES)) -> None:
        trades.clear()


def _check_volume(volume: Any) -> None:
    if volume < 0:
        raise hf.InputError(f"A trade has the volume {volume}; it cannot be negative.")
