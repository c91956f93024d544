"""The built-in combiners.

Those that take a `field` read that field of each element and leave out None: `Sum("total")`. Accumulators are
plain numbers, tuples, lists, sets and dicts. Those that compare values need a total order: with NaN among the
values, their result depends on the order of arrival.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.errors import InputError, InvalidStep
from holdfast.model.aggregate.combine import CombineFn, FieldCombineFn, added
from holdfast.model.aggregate.sketches import ApproximateDistinct
from holdfast.model.foreign import foreign_problem

__all__ = [
    "ApproximateDistinct",
    "Count",
    "CountCombineFn",
    "Largest",
    "Max",
    "Mean",
    "MeanCombineFn",
    "Min",
    "Smallest",
    "Sum",
    "ToDict",
    "ToDictCombineFn",
    "ToList",
    "ToListCombineFn",
    "ToSet",
    "ToSetCombineFn",
    "Top",
    "TopCombineFn",
]


class Sum(FieldCombineFn[Any, Any]):
    """The sum, by plain addition from 0. The sum of nothing is 0."""

    def create_accumulator(self) -> Any:
        return 0

    def _add(self, accumulator: Any, value: Any) -> Any:
        return accumulator + value

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return added(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class Count(FieldCombineFn[int, int]):
    """The number of elements; with a field, of those where it is not None."""

    def create_accumulator(self) -> int:
        return 0

    def _add(self, accumulator: int, value: Any) -> int:
        return accumulator + 1

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class Mean(FieldCombineFn[tuple[Any, int], Any]):
    """The arithmetic mean; NaN without values. The accumulator is (sum, count)."""

    def create_accumulator(self) -> tuple[Any, int]:
        return (0, 0)

    def _add(self, accumulator: tuple[Any, int], value: Any) -> tuple[Any, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, int]]) -> tuple[Any, int]:
        total: Any = 0
        count = 0
        for held_total, held_count in accumulators:
            total, count = total + held_total, count + held_count
        return (total, count)

    def extract_output(self, accumulator: tuple[Any, int]) -> Any:
        total, count = accumulator
        return total / count if count else math.nan


class _Extreme(FieldCombineFn[tuple[Any, ...], Any]):
    """The first of the extreme values. The accumulator is () while empty, then (value,)."""

    def create_accumulator(self) -> tuple[Any, ...]:
        return ()

    def _add(self, accumulator: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        return accumulator if accumulator and not self._beats(value, accumulator[0]) else (value,)

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        best: tuple[Any, ...] = ()
        for held in accumulators:
            if held:
                best = self._add(best, held[0])
        return best

    def extract_output(self, accumulator: tuple[Any, ...]) -> Any:
        return accumulator[0] if accumulator else None

    def _beats(self, value: Any, other: Any) -> bool:
        raise NotImplementedError


class Min(_Extreme):
    """The smallest value, the first of equal ones. None without values, where the builtin `min` raises."""

    def _beats(self, value: Any, other: Any) -> bool:
        return bool(value < other)


class Max(_Extreme):
    """The largest value, the first of equal ones. None without values, where the builtin `max` raises."""

    def _beats(self, value: Any, other: Any) -> bool:
        return bool(other < value)


class Top(CombineFn[Any, list[Any], list[Any]]):
    """The `n` largest elements as a list, largest first; with `reverse` the smallest, smallest first.

    They are compared by `key(element)` if there is a key. Among equals, earlier ones win and come first.

    The accumulator is a list of at most 2n elements; `compact` keeps n of them.
    """

    def __init__(self, n: int, key: Callable[..., object] | None = None, reverse: bool = False) -> None:
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise InvalidStep(type(self).__name__, [f"n must be a whole number of at least 1, but is {n!r}"])
        foreign = None if key is None else foreign_problem(key)
        if foreign is not None or not (key is None or callable(key)):
            reason = foreign or "give a function from an element to the value to compare it by"
            raise InvalidStep.of(type(self).__name__, [f"key is {key!r}: {reason}"])
        self.n = n
        self.key: Any = key
        self.reverse = reverse

    def create_accumulator(self) -> list[object]:
        return []

    def add_input(self, mutable_accumulator: list[object], element: object) -> list[object]:
        mutable_accumulator.append(element)
        # Sorting only every n-th time keeps the cost per element small.
        return self.compact(mutable_accumulator) if len(mutable_accumulator) > 2 * self.n else mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[list[object]]) -> list[object]:
        return self.compact([element for held in accumulators for element in held])

    def compact(self, accumulator: list[object]) -> list[object]:
        # Sorting is stable both ways, so equal elements stay in order of arrival.
        elements: list[Any] = accumulator
        return sorted(elements, key=self.key, reverse=not self.reverse)[: self.n]

    def extract_output(self, accumulator: list[object]) -> list[object]:
        return self.compact(accumulator)

    def default_label(self) -> str:
        return f"{type(self).__name__}({self.n})"

    __repr__ = default_label


class Largest(Top):
    """The `n` largest elements as a list, largest first."""

    def __init__(self, n: int, key: Callable[..., object] | None = None) -> None:
        super().__init__(n, key)


class Smallest(Top):
    """The `n` smallest elements as a list, smallest first."""

    def __init__(self, n: int, key: Callable[..., object] | None = None) -> None:
        super().__init__(n, key, reverse=True)


class ToList(FieldCombineFn[list[Any], list[Any]]):
    """All values as a list, in order of arrival. It grows without bound."""

    def create_accumulator(self) -> list[object]:
        return []

    def _add(self, accumulator: list[object], value: object) -> list[object]:
        accumulator.append(value)
        return accumulator

    def add_inputs(self, mutable_accumulator: list[object], elements: Iterable[object]) -> list[object]:
        mutable_accumulator.extend(self._values(elements))
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[list[object]]) -> list[object]:
        return [value for held in accumulators for value in held]

    def extract_output(self, accumulator: list[object]) -> list[object]:
        return list(accumulator)


class ToSet(FieldCombineFn[set[Any], set[Any]]):
    """The distinct values as a set. It grows with their number."""

    def create_accumulator(self) -> set[object]:
        return set()

    def _add(self, accumulator: set[object], value: object) -> set[object]:
        accumulator.add(value)
        return accumulator

    def add_inputs(self, mutable_accumulator: set[object], elements: Iterable[object]) -> set[object]:
        mutable_accumulator.update(self._values(elements))
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[set[object]]) -> set[object]:
        return set().union(*accumulators)

    def extract_output(self, accumulator: set[object]) -> set[object]:
        return set(accumulator)


class ToDict(CombineFn[tuple[Any, Any], dict[Any, Any], dict[Any, Any]]):
    """The (key, value) pairs as a dict; the last value of a key wins. It grows with the number of keys."""

    def create_accumulator(self) -> dict[object, object]:
        return {}

    def add_input(self, mutable_accumulator: dict[object, object], element: tuple[object, object]) -> dict[object, object]:
        try:
            key, value = element
        except (TypeError, ValueError):
            raise InputError("ToDict takes (key, value) pairs.", detail=f"The element is {element!r:.200}") from None
        mutable_accumulator[key] = value
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[object, object]]) -> dict[object, object]:
        merged: dict[object, object] = {}
        for held in accumulators:
            merged.update(held)
        return merged

    def extract_output(self, accumulator: dict[object, object]) -> dict[object, object]:
        return dict(accumulator)


CountCombineFn = Count
MeanCombineFn = Mean
TopCombineFn = Top
ToDictCombineFn = ToDict
ToListCombineFn = ToList
ToSetCombineFn = ToSet
