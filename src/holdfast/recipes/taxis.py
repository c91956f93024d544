"""Rides of each taxi zone and hour."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import holdfast as hf
from holdfast.recipes.arguments import Arguments
from holdfast.recipes.rows import number_in, read

__all__ = ["RideTotals", "ZoneRides"]


class RideTotals(NamedTuple):
    """What a zone had in a window."""

    num_trips: int
    revenue: float
    mean_total: float | None
    """None if no ride says what it brought in."""
    largest_total: float | None


_Sums = tuple[int, int, float, float]


class ZoneRides(hf.CombineFn[object, _Sums, RideTotals]):
    """How many rides began in a zone, and what they brought in; key the rides by zone, in `FixedWindows("1 hour")`.

    `total` is the field with the amount. A ride without one, None, counts as a ride and brings in nothing.

    Keeps for each key and window: two counts, a sum and the largest amount, also while values are combined before the
    shuffle.

    Frees it: when the window ends, after its result was given; with `allowed_lateness` that much later.

    Order: any. Late rides go to the output `late`.
    """

    def __init__(self, total: str = "total_amount") -> None:
        check = Arguments()
        self._total = check.field("total", total)
        check.check("ZoneRides")

    def create_accumulator(self) -> _Sums:
        return 0, 0, 0.0, 0.0

    def add_input(self, mutable_accumulator: _Sums, element: object) -> _Sums:
        rides, paid, revenue, largest = mutable_accumulator
        if read(element, self._total) is None:
            return rides + 1, paid, revenue, largest
        total = number_in(element, self._total)
        return rides + 1, paid + 1, revenue + total, max(largest, total) if paid else total

    def merge_accumulators(self, accumulators: Iterable[_Sums]) -> _Sums:
        rides, paid, revenue, largest = self.create_accumulator()
        for held_rides, held_paid, held_revenue, held_largest in accumulators:
            if held_paid:
                largest = max(largest, held_largest) if paid else held_largest
            rides, paid, revenue = rides + held_rides, paid + held_paid, revenue + held_revenue
        return rides, paid, revenue, largest

    def extract_output(self, accumulator: _Sums) -> RideTotals:
        rides, paid, revenue, largest = accumulator
        return RideTotals(rides, revenue, revenue / paid if paid else None, largest if paid else None)
