"""Ages: the order in which keys are evicted.

The age of a key is a hidden cell in each of its windows: the number of a bundle in the key group's log. For "lru" it is the
last bundle that used the key, for "oldest" the one in which the key first appeared. So ages are stored state, and keys are
evicted by age, then by the bytes of the key.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator

from holdfast.engine.state.keys import slot_from_bytes, slot_to_bytes
from holdfast.engine.tables import Slot
from holdfast.model.coders import VarIntCoder
from holdfast.model.state.specs import ValueStateSpec

__all__ = ["AGE", "AgeIndex", "age_spec"]

AGE = "~age"

_SAMPLE = 16


def age_spec() -> ValueStateSpec[int]:
    """The hidden cell with the age of a key."""
    return ValueStateSpec(AGE, VarIntCoder())


class AgeIndex:
    """Keys by age. It is lazy: a key that is used again stays where it is, and moves when its turn comes.

    Invariant: every key has an entry at its age or before.
    """

    def __init__(self, ages: Iterable[tuple[Slot, int]]) -> None:
        self._heap = [(age, slot_to_bytes(slot)) for slot, age in ages]
        heapq.heapify(self._heap)

    def enter(self, slot: Slot, age: int) -> None:
        heapq.heappush(self._heap, (age, slot_to_bytes(slot)))

    def first(self, age_of: Callable[[Slot], int | None]) -> Iterator[Slot]:
        """Keys in eviction order, each removed as it is yielded. `age_of` returns None for a key that is gone."""
        while self._heap:
            entered, data = heapq.heappop(self._heap)
            slot = slot_from_bytes(data)
            age = age_of(slot)
            if age is not None and age > entered:
                heapq.heappush(self._heap, (age, data))
            elif age is not None:
                yield slot

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def memory_bytes(self) -> int:
        """Roughly how much memory it takes."""
        some = self._heap[:_SAMPLE]
        each = sum(map(sys.getsizeof, some)) + sum(sys.getsizeof(data) for _, data in some)
        return sys.getsizeof(self._heap) + len(self._heap) * each // max(len(some), 1)
