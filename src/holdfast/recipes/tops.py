"""The most of something in each window: the pages with the most views, the products with the most revenue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import holdfast as hf
from holdfast.recipes.arguments import Arguments
from holdfast.recipes.rows import exact_number_in, read

__all__ = ["TopItem", "TopItems"]


class TopItem(NamedTuple):
    """An item and its total."""

    item: object
    total: object


# Totals are numbers of the rows' own kind: ints, floats or decimals.
_Totals = dict[object, Any]


class TopItems(hf.CombineFn[object, _Totals, list[TopItem]]):
    """The `n` items of a key and window that come most often, or whose `amount` adds up to most: a list of (item, total).

    The largest total comes first; equal ones in the order of their items. `item` is the field that names the item; a row
    where it, or the amount, is None is left out. An amount that is no finite number is an InputError: a NaN has no place in
    an order. To compare single rows rather than totals, use `hf.Largest` or `hf.Top`.

    Keeps for each key and window: a total for every distinct item, not only for the best `n`, for any of them may still
    become one. It is as small while values are combined before the shuffle.

    Frees it: when the window ends.

    Order: any.
    """

    def __init__(self, n: int, item: str, *, amount: str | None = None) -> None:
        check = Arguments()
        self._n = check.whole("n", n)
        self._item, self._amount = check.field("item", item), check.optional_field("amount", amount)
        check.check("TopItems")

    def create_accumulator(self) -> _Totals:
        return {}

    def add_input(self, mutable_accumulator: _Totals, element: object) -> _Totals:
        item = read(element, self._item)
        if item is None or (self._amount is not None and read(element, self._amount) is None):
            return mutable_accumulator
        amount = 1 if self._amount is None else exact_number_in(element, self._amount)
        mutable_accumulator[item] = mutable_accumulator.get(item, 0) + amount
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[_Totals]) -> _Totals:
        merged = self.create_accumulator()
        for held in accumulators:
            for item, total in held.items():
                merged[item] = merged.get(item, 0) + total
        return merged

    def extract_output(self, accumulator: _Totals) -> list[TopItem]:
        ranked = sorted(accumulator.items(), key=_rank)
        return [TopItem(item, total) for item, total in ranked[: self._n]]


def _rank(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    item, total = pair
    return -total, item
