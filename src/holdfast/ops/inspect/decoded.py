"""What a `StateReader` keeps: decoded key groups, and the rule by which the oldest go."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import Generic, TypeVar

from holdfast.engine.stored.reading import HIDDEN, Blobs, read_group
from holdfast.engine.tables import Slot
from holdfast.ops.inspect.showing import ShownCell, shown_cells
from holdfast.ops.reading.keys import key_text

__all__ = ["DecodedGroup", "LeastRecent"]

V = TypeVar("V")


class DecodedGroup:
    """A key group after a micro-batch, decoded. Nothing changes it, so that several threads can read it."""

    def __init__(self, label: int, blobs: Blobs, *, trust_pickle: bool = False) -> None:
        self.label = label
        self._ordering = threading.Lock()
        self._group = read_group(blobs, trust_pickle=trust_pickle)
        self.size = self._group.head.snapshot_bytes + self._group.head.delta_bytes
        """In bytes, as it is stored but without compression."""

    @property
    def _keys(self) -> list[tuple[str, Slot]]:
        """The keys that have anything to show, with their texts, ordered by them."""
        with self._ordering:
            return self._ordered_keys

    @cached_property
    def _ordered_keys(self) -> list[tuple[str, Slot]]:
        layout = self._group.layout
        slots: set[Slot] = set()
        for window in self._group.state.windows.values():
            for spec, table in zip(layout.specs, window.tables, strict=True):
                if layout.kind_of(spec) != HIDDEN:
                    slots.update(table.values)
        return sorted(((key_text(slot), slot) for slot in slots), key=lambda pair: pair[0])

    def keys_from(self, prefix: str) -> Iterator[tuple[str, Slot]]:
        """The keys whose text begins with something, ordered by it."""
        keys = self._keys
        for place in range(bisect_left(keys, prefix, key=lambda pair: pair[0]), len(keys)):
            if not keys[place][0].startswith(prefix):
                return
            yield keys[place]

    def count_from(self, prefix: str) -> int:
        """How many keys have a text that begins with something."""
        return sum(1 for _ in self.keys_from(prefix)) if prefix else len(self._keys)

    def shown(self, step: str, slot: Slot) -> list[ShownCell]:
        """Everything that a key has."""
        found = (cell for cell in self._group.cells([slot]) if cell.kind != HIDDEN)
        return [shown for cell in found for shown in shown_cells(step, cell)]


class LeastRecent(Generic[V]):
    """Keeps things up to a limit of their sizes; those used longest ago go first. What is larger than the limit by itself is
    not kept. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._turn = threading.Lock()

    def get(self, key: Hashable) -> tuple[V] | None:
        """What is kept under a key, in a tuple; None if nothing is."""
        with self._turn:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return (found[0],)

    def put(self, key: Hashable, value: V, size: int) -> None:
        with self._turn:
            self._drop(key)
            self._kept[key] = (value, size)
            self._size += size
            while self._size > self._limit:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        with self._turn:
            self._kept.clear()
            self._size = 0

    def _drop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._size -= found[1]
