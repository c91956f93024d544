"""The ledger of a key group: how many keys it has and how large they are, kept up to date bundle by bundle.

Invariants
- After `account`, `keys` and `total` are what counting and measuring everything again would give. So a fresh worker, which
  does that once, decides like one that has been there all along.
- Only keys that a bundle has changed are measured again.
- A ledger may know the sizes of only some keys, those that a backend has loaded; `keys` and `total` always cover all.
- When a key was last used is recorded in the window of the key that ends last, and so for as long as the key has state.
"""

from __future__ import annotations

import heapq
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from holdfast.engine.state.ages import AgeIndex
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.engine.state.sizes import sizes_of, sizes_of_window
from holdfast.engine.tables import Slot

__all__ = ["Ledger", "ledger_of"]

_INDEX_SLACK = 1_000
_ENDS_SLACK = 100
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
        self._ends: list[tuple[int, bytes]] = []
        """The windows in order of their ends; some may be gone."""
        self._index: AgeIndex | None = None
        self._moved: dict[Slot, None] = {}
        """Keys that may need another entry in the index: new ones, and those that have lost a window."""

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
        self.sizes, self._windows, self._index = {}, {}, None
        self._gone, self._moved = {}, {}
        self._ends = sorted((state.windows[data].expiry, data) for data in self._held)
        for sizes in self._held.values():
            for slot, size in sizes.items():
                self.sizes[slot] = self.sizes.get(slot, 0) + size
                self._windows[slot] = self._windows.get(slot, 0) + 1

    def account(self, state: KeyGroupState, used: Iterable[Slot] = ()) -> None:
        """Accounts for what a bundle has changed. `used`: the keys that it has used."""
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
        if state.layout.keeps_last_use:
            self._stamp_last_use(state, changes, used)
        elif state.layout.age is not None:
            self._stamp_first(state, changes)
        self._enter_moved(state)

    def follow(self, state: KeyGroupState, touched: Mapping[bytes, Iterable[Slot]]) -> None:
        """Accounts for stored deltas that were applied to a state: the keys that they touched, by window."""
        self._forget_windows()
        for data, slots in touched.items():
            if data in state.windows:
                self.measure(state, data, slots)
        self._enter_moved(state)

    def window_gone(self, data: bytes) -> None:
        """A window is discarded; accounted for with the bundle or the delta, when it may be there again with other keys."""
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
        if data not in self._held:
            self._held[data] = {}
            self._enter_end(state.windows[data].expiry, data)
        held = self._held[data]
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

    def _enter_end(self, expiry: int, data: bytes) -> None:
        position = bisect_left(self._ends, (expiry, data))
        if self._ends[position : position + 1] != [(expiry, data)]:
            self._ends.insert(position, (expiry, data))
        if len(self._ends) > 2 * len(self._held) + _ENDS_SLACK:
            self._ends = [end for end in self._ends if end[1] in self._held]

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
            self._moved[slot] = None
        self.sizes[slot] += size
        self._windows[slot] += windows
        if windows < 0:
            self._moved[slot] = None
        if not self._windows[slot]:
            self.keys -= 1
            del self.sizes[slot], self._windows[slot]

    def _enter_moved(self, state: KeyGroupState) -> None:
        """Keeps the promise of the index: every key has an entry at its age or before."""
        moved, self._moved = self._moved, {}
        if self._index is None:
            return
        for slot in moved:
            if slot in self.sizes:
                self._index.enter(slot, state.age_of(slot))
        if len(self._index) > 2 * len(self.sizes) + _INDEX_SLACK:
            # Most entries are of keys that are gone. The index is rebuilt when needed.
            self._index = None

    def _stamp_first(self, state: KeyGroupState, changes: Mapping[bytes, Iterable[Slot]]) -> None:
        """Records when keys first appeared, in each of their windows."""
        unknown: dict[Slot, list[bytes]] = {}
        for data, changed in changes.items():
            held, ages = self._held[data], state.windows[data].ages
            for slot in changed:
                if slot not in held:
                    ages.drop(slot)
                elif slot not in ages.values:
                    unknown.setdefault(slot, []).append(data)
        for slot, windows in unknown.items():
            # A key is as old as its first window.
            is_new = self._windows[slot] == len(windows)
            age = state.bundle if is_new else state.age_of(slot, besides=windows)
            for data in windows:
                state.windows[data].ages.put(slot, age)

    def _stamp_last_use(self, state: KeyGroupState, changes: Mapping[bytes, Iterable[Slot]], used: Iterable[Slot]) -> None:
        """Records when keys were last used. A key that has left the window where that was recorded takes it along."""
        uses: dict[Slot, int] = {}
        touched: dict[Slot, list[bytes]] = {}
        for data, changed in changes.items():
            held, ages = self._held[data], state.windows[data].ages
            for slot in changed:
                known = ages.values.get(slot)
                if slot in held:
                    touched.setdefault(slot, []).append(data)
                    if known is None:
                        ages.put(slot, state.bundle)
                elif known is not None:
                    ages.drop(slot)
                    if slot in self.sizes:
                        uses[slot] = max(known, uses.get(slot, known))
        uses.update(dict.fromkeys((slot for slot in used if slot in self.sizes), state.bundle))
        for slot, age in uses.items():
            window = state.windows[self._last_window(state, slot, touched.get(slot, []))]
            if window.ages.values.get(slot, -1) < age:
                window.activate()
                window.ages.put(slot, age)

    def _last_window(self, state: KeyGroupState, slot: Slot, touched: list[bytes]) -> bytes:
        """The window of a key that ends last. `touched`: those that the bundle has touched, nearly always all."""
        if len(touched) == self._windows[slot]:
            return touched[0] if len(touched) == 1 else max(touched, key=lambda data: (state.windows[data].expiry, data))
        return next(data for _, data in reversed(self._ends) if slot in self._held.get(data, ()))


def ledger_of(state: KeyGroupState) -> Ledger:
    """The ledger of a state, created by measuring everything if there is none yet."""
    if state.ledger is None:
        state.ledger = Ledger.of(state)
    return state.ledger
