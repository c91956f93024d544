"""Limiting: keeps the state of a key group within the limits of its step.

At intake, elements are diverted (the policy "over_limit"). At the end of a bundle, before anything is committed, excess
state raises ("fail") or is evicted ("evict_lru", "evict_oldest"). Each key group has its share of the step's limits: the
limit divided by the number of key groups, rounded up.

Decisions depend only on the stored state and the bundle's elements: at intake on the state before the bundle, at its end
on the state then, however the backend splits it into parts.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.intake import Assigned
from holdfast.engine.state.key_group import KeyGroupState, WindowState
from holdfast.engine.state.keys import key_of, sort_slots
from holdfast.engine.state.ledger import Ledger, ledger_of
from holdfast.engine.tables import Slot
from holdfast.engine.tables.bag import BagTable
from holdfast.errors import LimitExceeded
from holdfast.model.coders.base import shortened
from holdfast.model.functions.step import Step

if TYPE_CHECKING:
    from holdfast.engine.run.step_runner import StepRunner

__all__ = ["Limiter"]

_NAMED = 5
"""How many of the heaviest keys an error names."""


class _Start(NamedTuple):
    """Sizes at the start of the bundle."""

    keys: int
    total: int


class Limiter:
    """Enforces the limits of a step, on behalf of its runner. `begin` is called before each bundle."""

    def __init__(self, step: Step) -> None:
        assert step.limits is not None
        self.limits = step.limits
        self.metrics = StepMetrics()
        self.fails = self.limits.fails
        self.suspects: dict[Slot, None] = {}
        """Keys that this bundle may have made too large."""
        self._step = step
        self._max_keys = _share(self.limits.max_keys, step.key_groups)
        self._max_bytes = _share(self.limits.max_bytes, step.key_groups)
        self._bags = [position for position, cell in enumerate(step.cells) if cell.kind == "bag"]
        self._start: _Start | None = None
        self._admitted = 0
        self._used: dict[Slot, None] = {}
        """The keys that the present part has used."""

    def begin(self) -> None:
        self.metrics = StepMetrics()
        self.suspects = {}
        self._start = None
        self._admitted = 0

    # Intake.

    def look(self, state: KeyGroupState) -> None:
        """Called before a part runs: before the first, records how much state there is."""
        if self._start is None:
            ledger = ledger_of(state)
            self._start = _Start(ledger.keys, ledger.total)

    def admit(self, runner: StepRunner, state: KeyGroupState, assigned: Assigned) -> Assigned:
        """Diverts elements that are over the limit; returns the others."""
        if not self.limits.diverts:
            return assigned
        sizes = ledger_of(state).sizes
        refused = {slot for slot in dict.fromkeys(assigned.elements.slots) if self._is_refused(sizes.get(slot))}
        if not refused:
            return assigned
        elements, windows = assigned.elements, assigned.windows
        kept = []
        for position, slot in enumerate(elements.slots):
            if slot in refused:
                window = windows if isinstance(windows, WindowState) else windows[position]
                runner.over_limit(elements.pairs[position], elements.times[position], window.window)
            else:
                kept.append(position)
        if not isinstance(windows, WindowState):
            windows = [windows[position] for position in kept]
        return assigned._replace(elements=elements.take(kept), windows=windows)

    def _is_refused(self, size: int | None) -> bool:
        assert self._start is not None
        if size is not None:
            return self.limits.max_bytes_per_key is not None and size > self.limits.max_bytes_per_key
        if self._max_bytes is not None and self._start.total >= self._max_bytes:
            return True
        if self._max_keys is not None and self._start.keys + self._admitted >= self._max_keys:
            return True
        self._admitted += 1
        return False

    # The end of a bundle.

    def note_uses(self, state: KeyGroupState, slots: Iterable[Slot]) -> None:
        """Called when a part has run, with the keys of its elements. What is swept after that is no use of a key."""
        self._used = dict.fromkeys(slots)
        if state.layout.keeps_last_use:
            for window in state.active_windows():
                for table in window.tables:
                    self._used.update(dict.fromkeys(table.changes))

    def account(self, state: KeyGroupState) -> None:
        """Called then: accounts for the changes of the part, and records keys that may have become too large."""
        ledger = ledger_of(state)
        ledger.account(state, self._used)
        if self.limits.diverts:
            return
        most = self.limits.max_bytes_per_key
        for window in state.active_windows():
            for table in window.tables:
                if most is not None and table.changes:
                    sizes = ledger.sizes
                    self.suspects.update((slot, None) for slot in table.changes if sizes.get(slot, 0) > most)
            for table in self._bags_of(window):
                self.suspects.update((slot, None) for slot in table.changes if self._is_too_full(table, slot))

    def trim(self, state: KeyGroupState) -> None:
        """Checks the suspects among the keys of a state: shortens their bags, and removes keys that are still too large."""
        ledger = ledger_of(state)
        found = [slot for slot in self.suspects if slot in ledger.sizes]
        if not found:
            return
        if self.limits.fails:
            self._fail_for_one(state, ledger, found)
            return
        for window in state.windows.values():
            for table in self._bags_of(window):
                assert self.limits.max_bag_size is not None
                shortened_slots = [slot for slot in found if self._is_too_full(table, slot)]
                window.activate()
                for slot in shortened_slots:
                    self.metrics.elements_evicted += table.shorten(slot, self.limits.max_bag_size)
                ledger.measure(state, window.data, shortened_slots)
        most = self.limits.max_bytes_per_key
        for slot in sort_slots(found):
            if most is not None and ledger.sizes[slot] > most:
                self._evict(state, ledger, slot)

    def is_over(self, ledger: Ledger) -> bool:
        """Whether the key group exceeds a share that it must keep within."""
        return not self.limits.diverts and (self._has_too_many(ledger) or self._has_too_much(ledger))

    def evict(self, state: KeyGroupState) -> None:
        """Removes keys of a state, in eviction order, until it is within its limits; or raises."""
        ledger = ledger_of(state)
        if not self.is_over(ledger):
            return
        if self.limits.fails:
            self._fail_for_all(ledger)
        for slot in ledger.in_order(state):
            self._evict(state, ledger, slot)
            if not self.is_over(ledger):
                break

    def _evict(self, state: KeyGroupState, ledger: Ledger, slot: Slot) -> None:
        state.evict(slot)
        ledger.forget(slot)
        self.metrics.keys_evicted += 1

    def _has_too_many(self, ledger: Ledger) -> bool:
        return self._max_keys is not None and ledger.keys > self._max_keys

    def _has_too_much(self, ledger: Ledger) -> bool:
        return self._max_bytes is not None and ledger.total > self._max_bytes

    def _bags_of(self, window: WindowState) -> Iterator[BagTable]:
        if self.limits.max_bag_size is not None:
            for position in self._bags:
                yield window.tables[position]  # type: ignore[misc]

    def _is_too_full(self, table: BagTable, slot: Slot) -> bool:
        most = self.limits.max_bag_size
        return most is not None and len(table.values.get(slot, ())) > most

    # Errors.

    def _fail_for_one(self, state: KeyGroupState, ledger: Ledger, found: list[Slot]) -> None:
        most = self.limits.max_bytes_per_key
        heavy = [(slot, ledger.sizes[slot]) for slot in found if most is not None and ledger.sizes[slot] > most]
        if heavy:
            heavy = heapq.nlargest(_NAMED, heavy, key=itemgetter(1))
            raise self._error("max_bytes_per_key", f"A key has {heavy[0][1]:,} bytes of state", heavy)
        bags = [
            (len(table.values[slot]), table.spec.name, slot)
            for window in state.windows.values()
            for table in self._bags_of(window)
            for slot in found
            if self._is_too_full(table, slot)
        ]
        if bags:
            size, cell, _ = max(bags, key=lambda bag: bag[0])
            slots = dict.fromkeys(slot for _, _, slot in sorted(bags, key=lambda bag: -bag[0]))
            heavy = [(slot, ledger.sizes[slot]) for slot in slots][:_NAMED]
            raise self._error("max_bag_size", f"The bag {cell!r} of a key has {size:,} elements", heavy)

    def _fail_for_all(self, ledger: Ledger) -> None:
        heavy = ledger.heaviest(_NAMED)
        if self._has_too_many(ledger):
            raise self._error("max_keys", self._of_group(f"{ledger.keys:,} keys", self._max_keys), heavy)
        raise self._error("max_bytes", self._of_group(f"{ledger.total:,} bytes of state", self._max_bytes), heavy)

    def in_a_callback(self, method: str, cell: str) -> LimitExceeded:
        """The error for a full bag in a call that has no element to divert."""
        return LimitExceeded(
            f"The step {self._step.name!r} is over its limit: max_bag_size is {self.limits.max_bag_size:,}.",
            detail=f"{method} adds to the bag {cell!r}, which is full, and has no element to divert.",
            todo="check the size of the bag before adding, or choose another policy",
        )

    def _of_group(self, amount: str, share: int | None) -> str:
        groups = self._step.key_groups
        if groups == 1:
            return f"The step has {amount}"
        return f"A key group has {amount}, where its share of {groups} key groups is {share:,}"

    def _error(self, limit: str, what: str, heavy: list[tuple[Slot, int]]) -> LimitExceeded:
        keys = ", ".join(f"{shortened(key_of(slot))} with {size:,}" for slot, size in heavy)
        return LimitExceeded(
            f"The step {self._step.name!r} is over its limit: {limit} is {getattr(self.limits, limit):,}.",
            detail=f"{what}. The heaviest keys, by bytes: {keys}.",
            todo="raise the limit, clear state that is no longer needed (with a TTL or a timer), or choose another "
            "policy; the state is as of the last committed micro-batch",
        )


def _share(limit: int | None, key_groups: Any) -> int | None:
    return None if limit is None else -(-limit // key_groups)
