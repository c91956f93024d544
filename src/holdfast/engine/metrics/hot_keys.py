"""Hot keys: which keys get the most elements, and which have the most state, from sketches of bounded size.

Elements are counted by a sketch of at most 64 keys (Misra and Gries' form of Space-Saving). A key's count is never too
high, and too low by at most (all given - all counted) / 65, so by at most a 65th of the total. Sketches can be added: the
bound holds for the sum too. If a bundle has more than 200 elements, the sketch is given a sample: every n-th element,
counted n times; a 64th of all elements, but no more than 2,000.

For sizes, the 64 largest seen are kept. Only keys of the sample are measured, 8 to 32 of them per bundle.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from holdfast.engine.state.key_group import KeyGroupState
from holdfast.engine.state.keys import key_of
from holdfast.engine.state.sizes import key_size
from holdfast.engine.tables import Slot

__all__ = ["HeavyKey", "HotKey", "KeySketch", "LargestKeys", "Sample", "sample_of"]

CAPACITY = 64
SAMPLE_MIN, SAMPLE_MAX = 200, 2_000
_SAMPLED = 64
_MEASURED_MIN, _MEASURED_MAX = 8, 32
_VALUES_MAX = 100
_COUNT = itemgetter(1)


class HotKey(NamedTuple):
    """A key, and roughly how many elements it got."""

    key: Any
    elements: int


class HeavyKey(NamedTuple):
    """A key, and roughly how many bytes of state it has."""

    key: Any
    bytes: int


class KeySketch:
    """Counts for the keys with the most elements."""

    __slots__ = ("capacity", "counts", "total")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.counts: dict[Slot, int] = {}
        self.total = 0
        """The total given."""

    def give(self, counts: Mapping[Slot, int]) -> None:
        """Adds to the counts of some keys."""
        self.total += sum(counts.values())
        self._take(counts)

    def add(self, other: KeySketch) -> None:
        """Adds another sketch; the smaller capacity of the two is that of the sum."""
        self.capacity = min(self.capacity, other.capacity)
        self.total += other.total
        self._take(other.counts)

    def cut(self, capacity: int) -> KeySketch:
        """A sketch of the same elements with fewer keys."""
        smaller = KeySketch(capacity)
        smaller.add(self)
        return smaller

    def _take(self, counts: Mapping[Slot, int]) -> None:
        mine = self.counts
        for slot, count in counts.items():
            mine[slot] = mine.get(slot, 0) + count
        if len(mine) > self.capacity:
            # What is subtracted from each key that stays is also subtracted from at least one that goes.
            surplus = sorted(mine.values(), reverse=True)[self.capacity]
            self.counts = {slot: count - surplus for slot, count in mine.items() if count > surplus}

    @property
    def error(self) -> int:
        """The most by which a count may be too low."""
        return (self.total - sum(self.counts.values())) // (self.capacity + 1)

    def top(self, count: int) -> list[HotKey]:
        return [HotKey(key_of(slot), n) for slot, n in heapq.nlargest(count, self.counts.items(), key=_COUNT)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeySketch) and (self.total, self.counts) == (other.total, other.counts)

    __hash__ = None  # type: ignore[assignment]


class LargestKeys:
    """The largest sizes seen, by key."""

    __slots__ = ("capacity", "sizes")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.sizes: dict[Slot, int] = {}

    def give(self, sizes: Mapping[Slot, int]) -> None:
        mine = self.sizes
        for slot, size in sizes.items():
            if size > mine.get(slot, 0):
                mine[slot] = size
        if len(mine) > self.capacity:
            self.sizes = dict(heapq.nlargest(self.capacity, mine.items(), key=_COUNT))

    def add(self, other: LargestKeys) -> None:
        self.give(other.sizes)

    def top(self, count: int) -> list[HeavyKey]:
        return [HeavyKey(key_of(slot), n) for slot, n in self.largest(count)]

    def largest(self, count: int) -> list[tuple[Slot, int]]:
        return heapq.nlargest(count, self.sizes.items(), key=_COUNT)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LargestKeys) and self.sizes == other.sizes

    __hash__ = None  # type: ignore[assignment]


class Sample(NamedTuple):
    """How often keys occur in a bundle, judged by some of its elements."""

    counts: dict[Slot, int]

    def sizes(self, state: KeyGroupState) -> dict[Slot, int]:
        """The sizes of some keys that have state; half of them are the most frequent keys."""
        counts = self.counts
        half = min(max(_MEASURED_MIN, len(counts) // _SAMPLED), _MEASURED_MAX) // 2
        if len(counts) <= 2 * half:
            chosen: Iterable[Slot] = counts
        else:
            most = [slot for slot, _ in heapq.nlargest(half, counts.items(), key=_COUNT)]
            others = list(counts)[:: -(-len(counts) // half)]
            chosen = dict.fromkeys(most + others)
        return {slot: size for slot in chosen if (size := key_size(state, slot, _VALUES_MAX))}


def sample_of(slots: Sequence[Slot], weights: Sequence[int] | None = None) -> Sample:
    """Samples some elements of a bundle, spread evenly. `weights`: how many elements each of them stands for."""
    # An odd step, so that keys that alternate are all sampled.
    wanted = min(max(SAMPLE_MIN, len(slots) // _SAMPLED), SAMPLE_MAX)
    step = 1 if len(slots) <= wanted else -(-len(slots) // wanted) | 1
    if weights is None:
        counts: dict[Slot, int] = Counter(slots if step == 1 else slots[::step])
    else:
        counts = {}
        for slot, weight in zip(slots[::step], weights[::step], strict=True):
            counts[slot] = counts.get(slot, 0) + weight
    return Sample(counts if step == 1 else {slot: count * step for slot, count in counts.items()})
