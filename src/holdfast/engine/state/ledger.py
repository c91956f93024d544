"""The ledger of a key group: how many keys it has and how large they are, kept up to date bundle by bundle.

Invariants
- After `account`, `keys` and `total` are what counting and measuring everything again would give. So a fresh worker, which
  does that once, decides like one that has been there all along.
- Only keys that a bundle has changed are measured again.
- A ledger may know the sizes of only some keys, those that a backend has loaded; `keys` and `total` always cover all.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Iterator, Mapping

from holdfast.engine.state.ages import AgeIndex
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.engine.state.sizes import sizes_of, sizes_of_window
from holdfast.engine.tables import Slot

__all__ = ["Ledger", "ledger_of"]

_INDEX_SLACK = 1_000
_NUMBER_BYTES = sys.getsizeof(1_000)


class Ledger:
    """Keys and sizes. `keys` and `total` are the starting values, if known."""

    def __init__(self, keys: int = 0, total: int = 0) -> None:
        self.keys = keys
        self.total = total
        """In bytes."""
        self.sizes: dict[Slot, int] = {}
        """For the loaded keys, in all windows together."""
        self._held: dict[bytes, dict[Slot, int]] = {}
        self._windows: dict[Slot, int] = {}
        self._gone: dict[bytes, None] = {}
        """Windows that were discarded and are not accounted for yet."""
        self._index: AgeIndex | None = None

    @classmethod
    def of(cls, state: KeyGroupState) -> Ledger:
        """Measures everything."""
        ledger = cls()
        ledger.look_at(state)
        ledger.keys = len(ledger.sizes)
        ledger.total = sum(ledger.sizes.values())
        return ledger

    def look_at(self, state: KeyGroupState) -> None:
        """Measures the keys of a state; the ledger's counts already include them."""
        self._held = dict(sizes_of(state))
        self._gone = {}
        self.sizes, self._windows, self._index = {}, {}, None
        for sizes in self._held.values():
            for slot, size in sizes.items():
                self.sizes[slot] = self.sizes.get(slot, 0) + size
                self._windows[slot] = self._windows.get(slot, 0) + 1

    def account(self, state: KeyGroupState, used: Iterable[Slot] = ()) -> None:
        """Accounts for what a bundle has changed. `used`: the keys of its elements."""
        self._forget_windows()
        changes: dict[bytes, dict[Slot, None]] = {}
        for window in state.active_windows():
            changed: dict[Slot, None] = {}
            for table in window.tables:
                if table.changes:
                    table.prepare()
                    changed.update(dict.fromkeys(table.changes))
            if changed:
                self.measure(state, window.data, changed)
                changes[window.data] = changed
        # Only now: the age of a key depends on all of its windows, whichever is stamped first.
        stamped = self._stamp(state, changes)
        if state.layout.keeps_last_use:
            self._stamp_used(state, used, stamped)

    def follow(self, state: KeyGroupState, touched: Mapping[bytes, Iterable[Slot]]) -> None:
        """Accounts for stored deltas that were applied to a state: the keys that they touched, by window."""
        self._forget_windows()
        for data, slots in touched.items():
            new = [slot for slot in slots if slot not in self.sizes]
            if data in state.windows:
                self.measure(state, data, slots)
            if self._index is not None:
                for slot in new:
                    if slot in self.sizes:
                        self._index.enter(slot, state.age_of(slot))

    def window_gone(self, data: bytes) -> None:
        """A window is discarded; accounted for when the bundle or the delta is."""
        self._gone[data] = None

    def _forget_windows(self) -> None:
        """Accounts for windows that are gone."""
        for data in self._gone:
            for slot, size in self._held.pop(data, {}).items():
                self._note(slot, -size, -1)
        self._gone = {}

    def recount(self, state: KeyGroupState) -> None:
        """Accounts for all changes to the loaded keys, whatever made them."""
        keys, total = len(self.sizes), sum(self.sizes.values())
        self.look_at(state)
        self.keys += len(self.sizes) - keys
        self.total += sum(self.sizes.values()) - total

    def measure(self, state: KeyGroupState, data: bytes, slots: Iterable[Slot]) -> None:
        """Measures keys again in one window."""
        held = self._held.setdefault(data, {})
        slots = slots if isinstance(slots, dict) else list(slots)
        sizes = sizes_of_window(state.windows[data], slots)
        for slot in slots:
            before, after = held.get(slot), sizes.get(slot)
            if before == after:
                continue
            if after is not None:
                held[slot] = after
                self._note(slot, after - (before or 0), 1 if before is None else 0)
            elif before is not None:
                del held[slot]
                self._note(slot, -before, -1)

    def forget(self, slot: Slot) -> None:
        """Removes a key that is gone from all windows."""
        for held in self._held.values():
            size = held.pop(slot, None)
            if size is not None:
                self._note(slot, -size, -1)

    def heaviest(self, count: int) -> list[tuple[Slot, int]]:
        """The largest of the loaded keys."""
        return heapq.nlargest(count, self.sizes.items(), key=lambda item: item[1])

    def in_order(self, state: KeyGroupState) -> Iterator[Slot]:
        """The loaded keys in eviction order; each one yielded must be evicted."""
        if self._index is None:
            self._index = AgeIndex((slot, state.age_of(slot)) for slot in self.sizes)
        return self._index.first(lambda slot: state.age_of(slot) if slot in self.sizes else None)

    @property
    def memory_bytes(self) -> int:
        """Roughly how much memory it takes, without the keys, which the cells hold too."""
        dicts = sum(map(sys.getsizeof, (self.sizes, self._windows, self._held, *self._held.values())))
        numbers = len(self.sizes) + sum(map(len, self._held.values()))
        ages = 0 if self._index is None else self._index.memory_bytes
        return dicts + _NUMBER_BYTES * numbers + ages

    def _note(self, slot: Slot, size: int, windows: int) -> None:
        self.total += size
        if slot not in self.sizes:
            self.keys += 1
            self.sizes[slot] = self._windows[slot] = 0
        self.sizes[slot] += size
        self._windows[slot] += windows
        if not self._windows[slot]:
            self.keys -= 1
            del self.sizes[slot], self._windows[slot]

    def _stamp(self, state: KeyGroupState, changes: Mapping[bytes, Iterable[Slot]]) -> set[Slot]:
        """Records the ages of changed keys, window by window; returns the keys that have one."""
        if state.layout.age is None:
            return set()
        stamped: set[Slot] = set()
        unknown: dict[Slot, list[bytes]] = {}
        for data, changed in changes.items():
            held, ages = self._held[data], state.windows[data].ages
            for slot in changed:
                known = ages.values.get(slot)
                if slot not in held:
                    ages.drop(slot)
                    continue
                stamped.add(slot)
                if known is None:
                    unknown.setdefault(slot, []).append(data)
                elif state.layout.keeps_last_use and known != state.bundle:
                    ages.put(slot, state.bundle)
        for slot, windows in unknown.items():
            age = state.bundle
            if not state.layout.keeps_last_use and self._windows[slot] > len(windows):
                # A key is as old as its first window.
                age = state.age_of(slot, besides=windows)
            for data in windows:
                state.windows[data].ages.put(slot, age)
            if self._index is not None:
                self._index.enter(slot, age)
        if self._index is not None and len(self._index) > 2 * len(self.sizes) + _INDEX_SLACK:
            # Most entries are of keys that are gone. The index is rebuilt when needed.
            self._index = None
        return stamped

    def _stamp_used(self, state: KeyGroupState, used: Iterable[Slot], stamped: set[Slot]) -> None:
        """Stamps keys that were used but not changed: one of their windows is enough."""
        idle = [slot for slot in dict.fromkeys(used) if slot not in stamped and slot in self.sizes]
        if not idle:
            return
        windows = sorted(self._held)
        for slot in idle:
            window = state.windows[next(data for data in windows if slot in self._held[data])]
            if window.ages.values.get(slot) != state.bundle:
                window.activate()
                window.ages.put(slot, state.bundle)


def ledger_of(state: KeyGroupState) -> Ledger:
    """The ledger of a state, created by measuring everything if there is none yet."""
    if state.ledger is None:
        state.ledger = Ledger.of(state)
    return state.ledger
