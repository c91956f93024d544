"""The state of one key group in memory: for each window a table for every cell, and the index of timers.

The layout is fixed by the step: its cells; two hidden cells for each timer; one that remembers which keys a window has
seen (only where `on_window_expiration` needs it); one that holds back elements (only where they must be sorted by time);
one that counts results (only in an aggregation that keeps whole windows; empty unless they may give several); one with the
time of the last touch for each cell that has a time to live; and one with the age of the key (only where limits may evict
it). The names of hidden cells begin with `~`, which users' cells cannot.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import ormsgpack

from holdfast.engine.state.ages import age_spec
from holdfast.engine.state.expiry import ExpiryIndex
from holdfast.engine.state.timers import DOMAINS, HELD, Entry, TimerIndex, timer_cells
from holdfast.engine.tables import Slot, Table, make_table
from holdfast.engine.tables.expiring import NEVER_TOUCHED, stamp_spec
from holdfast.engine.tables.ordered import OrderedListTable
from holdfast.engine.tables.sessions import SessionsTable
from holdfast.engine.tables.value import ValueTable
from holdfast.errors import StateConflict
from holdfast.model.coders import BooleanCoder, Coder, VarIntCoder, default_coder
from holdfast.model.state.specs import OrderedListStateSpec, State, StateSpec, ValueStateSpec
from holdfast.model.time.timers import TimeDomain
from holdfast.model.windows.ready import BoundedWindow, GlobalWindow

if TYPE_CHECKING:
    from holdfast.engine.state.ledger import Ledger
    from holdfast.model.functions.step import Step

__all__ = ["KeyGroupState", "Layout", "WindowState", "undeclared"]

_STALE_MIN = 100
"""Up to this many dead entries of an index are not worth removing."""


class Layout:
    """The tables that a window of the step has, in order."""

    def __init__(self, step: Step, value_coder: Coder[Any] | None = None) -> None:
        self.step = step
        self.cells: list[StateSpec[State]] = list(step.cells)
        self.timers = [timer_cells(spec) for spec in step.timers]
        self.domains = [spec.time_domain for spec in step.timers]
        self.first_timer = len(self.cells)
        specs = self.cells + [cell for pair in self.timers for cell in pair]
        self.seen: int | None = None
        self.held: int | None = None
        if step.on_expiration is not None:
            self.seen = len(specs)
            specs.append(ValueStateSpec("~seen", BooleanCoder()))
        if step.time_sorted:
            self.held = len(specs)
            specs.append(OrderedListStateSpec("~held", value_coder or default_coder()))
        self.panes: int | None = None
        grouping = step.grouping
        self.gives_whole_windows = grouping is not None and grouping.keeps_whole_windows
        if self.gives_whole_windows:
            self.panes = len(specs)
            specs.append(ValueStateSpec("~panes", VarIntCoder()))
        self.sessions: int | None = 0 if grouping is not None and grouping.keeps_sessions else None
        """Where the open sessions of an aggregation are, if it keeps them in one cell."""
        self.stamps: dict[int, int] = {}
        """From the index of a cell that has a time to live to the index of its stamps."""
        for position, cell in enumerate(self.cells):
            if cell.ttl is not None:
                self.stamps[position] = len(specs)
                specs.append(stamp_spec(cell))
        self.age: int | None = None
        self.keeps_last_use = step.limits is not None and step.limits.policy == "evict_lru"
        """Whether the age of a key is when it was last used, not when it first appeared."""
        if step.limits is not None and step.limits.evicts:
            self.age = len(specs)
            specs.append(age_spec())
        self.specs = specs
        self.positions = {spec.name: position for position, spec in enumerate(specs)}

    def keeping(self, kept: list[StateSpec[State]]) -> Layout:
        """The same layout, followed by cells that the step does not have but whose stored content is kept."""
        return self.of_specs([*self.specs, *kept])

    def of_specs(self, specs: list[StateSpec[State]]) -> Layout:
        """The same step with other tables."""
        layout = copy.copy(self)
        layout.specs = specs
        layout.positions = {spec.name: position for position, spec in enumerate(specs)}
        return layout


class WindowState:
    """The tables of one window."""

    __slots__ = (
        "_active",
        "counted",
        "counted_expiring",
        "data",
        "expiring",
        "expiry",
        "fired",
        "indexes",
        "layout",
        "tables",
        "window",
    )

    def __init__(
        self,
        layout: Layout,
        window: BoundedWindow | None,
        data: bytes,
        expiry: int,
        indexes: dict[TimeDomain, TimerIndex],
        expiring: dict[bool, ExpiryIndex],
        active: dict[bytes, WindowState],
    ) -> None:
        self.layout = layout
        self.window: Any = window
        self.data = data
        self.expiry = expiry
        """When its state is dropped, in microseconds of event time."""
        self.indexes = indexes
        self.expiring = expiring
        self._active = active
        self.counted = 0
        """Its share of the entries that its state has counted."""
        self.counted_expiring = 0
        """The same for the cells that have a time to live."""
        self.fired = False
        """In an aggregation: whether all keys have given their on-time result. A fresh worker has to find out."""
        self.tables: list[Table] = [make_table(spec) for spec in layout.specs]

    def activate(self) -> None:
        """Must be called before anything is changed in a window that `KeyGroupState.window` has not given in this bundle."""
        self._active[self.data] = self

    def entries(self) -> int:
        """The number of entries in all of its tables."""
        return sum(len(table.values) for table in self.tables)

    @property
    def seen(self) -> ValueTable:
        assert self.layout.seen is not None
        return self.tables[self.layout.seen]  # type: ignore[return-value]

    @property
    def panes(self) -> ValueTable:
        assert self.layout.panes is not None
        return self.tables[self.layout.panes]  # type: ignore[return-value]

    @property
    def sessions(self) -> SessionsTable:
        assert self.layout.sessions is not None
        return self.tables[self.layout.sessions]  # type: ignore[return-value]

    @property
    def held(self) -> OrderedListTable:
        assert self.layout.held is not None
        return self.tables[self.layout.held]  # type: ignore[return-value]

    @property
    def ages(self) -> ValueTable:
        assert self.layout.age is not None
        return self.tables[self.layout.age]  # type: ignore[return-value]

    def stamps(self, cell: int) -> ValueTable:
        """When a cell that has a time to live was last touched, for each key."""
        return self.tables[self.layout.stamps[cell]]  # type: ignore[return-value]

    def is_empty(self) -> bool:
        return not any(table.values for table in self.tables)

    def forget(self, slots: Iterable[Slot]) -> None:
        """Drops keys from all tables, as a change that is already stored."""
        for slot in slots:
            for table in self.tables:
                table.values.pop(slot, None)

    def pack(self, slot: Slot) -> bytes:
        """Everything a key has in this window, including timers; empty if it has nothing. Cells are identified by name."""
        packed = {table.spec.name: table.pack(table.values[slot]) for table in self.tables if slot in table.values}
        return ormsgpack.packb(packed) if packed else b""

    def unpack(self, slot: Slot, data: bytes) -> None:
        """The inverse of `pack`, as a change that is already stored."""
        for name, packed in ormsgpack.unpackb(data).items() if data else ():
            position = self.layout.positions.get(name)
            if position is not None:
                self.tables[position].values[slot] = self.tables[position].unpack(packed)
            elif not name.startswith("~"):
                raise undeclared(name, self.layout)

    def slots(self) -> set[Slot]:
        """The keys that have anything in this window."""
        return set().union(*(table.values.keys() for table in self.tables))

    def pending(self, slot: Slot | None = None) -> Iterator[tuple[Entry, int]]:
        """The timers that are set, for one key or all."""
        for position in range(len(self.layout.timers)):
            untagged, tagged = (self.tables[self.layout.first_timer + 2 * position + i] for i in (0, 1))
            for key in untagged.values if slot is None else [slot]:
                if key in untagged.values:
                    yield Entry(position, self.data, key, ""), untagged.values[key]
            for key in tagged.values if slot is None else [slot]:
                for tag, time in tagged.values.get(key, {}).items():
                    yield Entry(position, self.data, key, tag), time

    def time_of(self, entry: Entry) -> int | None:
        """The time a timer of this window is set to, in microseconds."""
        untagged, tagged = (self.tables[self.layout.first_timer + 2 * entry.timer + i] for i in (0, 1))
        time: int | None = tagged.values.get(entry.slot, {}).get(entry.tag) if entry.tag else untagged.values.get(entry.slot)
        return time


class KeyGroupState:
    """All windows of a key group.

    Invariant: what differs from the last commit is in `dropped`, `evicted` and the windows that are active. So a commit
    looks at those alone, however many windows are open.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.windows: dict[bytes, WindowState] = {}
        self._active: dict[bytes, WindowState] = {}
        self._counted = 0
        """Entries in all windows, but for what has changed in active ones."""
        self._counted_expiring = 0
        """Those of them that have a time to live."""
        self.indexes = {domain: TimerIndex() for domain in DOMAINS}
        self.expiring = {in_event_time: ExpiryIndex() for in_event_time in (False, True)}
        """Cells with a time to live, by kind of time."""
        self.dropped: list[bytes] = []
        """Windows that expired since the last commit."""
        self.evicted: dict[bytes, list[Slot]] = {}
        """Keys that were removed from windows since the last commit, with everything they had."""
        self.bundle = 1
        """The number of the current bundle in the key group's log."""
        self.ledger: Ledger | None = None
        """How much state there is, if anything needs to know."""
        self._expiries: list[tuple[int, bytes]] = []
        self._ends: list[tuple[int, bytes]] = []
        """The ends of windows that may have yet to give their results, where results are given window by window."""
        self._window_fn = layout.step.windowing.window_fn
        self.lateness = layout.step.windowing.allowed_lateness.micros

    def window(self, window: BoundedWindow) -> WindowState:
        """The state of a window, created if needed, and active."""
        data = self._window_fn.encode_window(window)
        return self._activated(self.windows.get(data) or self._make(window, data))

    def nowhere(self) -> WindowState:
        """A window outside this state, for cells between bundles."""
        return WindowState(self.layout, None, b"", 0, self.indexes, self.expiring, {})

    def window_of(self, data: bytes) -> WindowState:
        """The same by the window's bytes."""
        return self._activated(self.windows.get(data) or self._make(self._window_fn.decode_window(data), data))

    def _activated(self, window: WindowState) -> WindowState:
        self._active[window.data] = window
        return window

    def active_windows(self) -> list[WindowState]:
        """The windows that may have changed since the last commit, in the order of their bytes."""
        # One that was dropped may have been activated after that.
        return [window for data, window in sorted(self._active.items()) if self.windows.get(data) is window]

    @property
    def entries(self) -> int:
        """The number of entries in all tables."""
        return self._counted + sum(window.entries() - window.counted for window in self.active_windows())

    def _make(self, window: BoundedWindow, data: bytes) -> WindowState:
        expiry = self.expiry_of(window)
        state = WindowState(self.layout, window, data, expiry, self.indexes, self.expiring, self._active)
        self.windows[data] = state
        if not isinstance(window, GlobalWindow):
            # The global window has no end.
            heapq.heappush(self._expiries, (expiry, data))
            if len(self._expiries) > 2 * len(self.windows) + _STALE_MIN:
                # Most entries are of windows that were dropped otherwise, or are duplicates.
                self._expiries = sorted({(window.expiry, data) for data, window in self.windows.items()})
            if self.layout.gives_whole_windows:
                heapq.heappush(self._ends, (int(window.end.micros), data))
        return state

    def expiry_of(self, window: BoundedWindow) -> int:
        """When the watermark ends a window: its end plus the allowed lateness."""
        return self.layout.step.windowing.expiry(int(window.end.micros))

    def take_expired(self) -> WindowState:
        """The next window to expire; `next_expiry` has said that there is one."""
        _, data = heapq.heappop(self._expiries)
        return self._activated(self.windows[data])

    def next_end(self) -> int | None:
        """The end of the next window that has not given its results, where results are given window by window."""
        while self._ends and self._is_over(self._ends[0][1]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def take_ended(self, watermark: int) -> Iterator[WindowState]:
        """The windows that have ended and not given their results. Each is given once: it must give them now."""
        while (end := self.next_end()) is not None and end <= watermark:
            yield self._activated(self.windows[heapq.heappop(self._ends)[1]])

    def _is_over(self, data: bytes) -> bool:
        window = self.windows.get(data)
        return window is None or window.fired

    def drop(self, window: WindowState) -> None:
        """Forgets a window and everything in it."""
        self.discard(window.data)
        if any(table.values or table.changes for table in window.tables):
            self.dropped.append(window.data)

    def evict(self, slot: Slot) -> None:
        """Removes everything a key has: its cells and timers in all windows."""
        for data, window in self.windows.items():
            if any(slot in table.values or slot in table.changes for table in window.tables):
                window.activate()
                self.unschedule(window, slot)
                for table in window.tables:
                    table.values.pop(slot, None)
                    table.changes.pop(slot, None)
                self.evicted.setdefault(data, []).append(slot)

    def unschedule(self, window: WindowState, slot: Slot) -> None:
        """Removes everything that is due for a key in a window."""
        for entry, _ in window.pending(slot):
            self.indexes[self.layout.domains[entry.timer]].leave(entry)
        self.indexes[TimeDomain.WATERMARK].leave(Entry(HELD, window.data, slot, ""))

    def age_of(self, slot: Slot, besides: Collection[bytes] = ()) -> int:
        """The age of a key over all windows except `besides`; 0 if its state is older than ages."""
        ages = [
            window.ages.values.get(slot, 0)
            for data, window in self.windows.items()
            if data not in besides and any(slot in table.values for table in window.tables)
        ]
        if self.layout.keeps_last_use:
            return max(ages, default=0)
        return min(ages, default=self.bundle)

    def reindex(self) -> None:
        """Rebuilds the indexes from the cells after loading."""
        self.ledger = None
        self.forget_empty_windows()
        self.indexes.update({domain: TimerIndex() for domain in DOMAINS})
        self._reindex_expiring()
        for window in self.windows.values():
            window.indexes = self.indexes
            if self.layout.sessions is not None:
                window.sessions.forget_index()
            times: dict[TimeDomain, dict[Entry, int]] = {domain: {} for domain in DOMAINS}
            by_timer = [times[domain] for domain in self.layout.domains]
            for entry, time in window.pending():
                by_timer[entry.timer][entry] = time
            for domain, index in self.indexes.items():
                index.fill(window.data, times[domain])
            if self.layout.held is not None:
                for slot, series in window.held.values.items():
                    due = series.first + self.lateness
                    self.indexes[TimeDomain.WATERMARK].enter(Entry(HELD, window.data, slot, ""), due)

    def _reindex_expiring(self) -> None:
        self.expiring.update({in_event_time: ExpiryIndex() for in_event_time in (False, True)})
        for cell, stamps in self.layout.stamps.items():
            ttl = self.layout.cells[cell].ttl
            assert ttl is not None
            index, micros = self.expiring[ttl.in_event_time], ttl.micros
            for data, window in self.windows.items():
                stamped = window.tables[stamps].values
                index.enter_all(data, cell, stamped, micros)
                if len(stamped) < len(window.tables[cell].values):
                    # From before the cell had a time to live: that starts when the sweep gets there.
                    for slot in window.tables[cell].values.keys() - stamped.keys():
                        index.enter(data, cell, slot, NEVER_TOUCHED)

    def _tidy_expiring(self) -> None:
        """Rebuilds the indexes of expiring cells if most of their entries are dead or duplicates."""
        if sum(map(len, self.expiring.values())) > 2 * self._counted_expiring + _STALE_MIN:
            self._reindex_expiring()

    def next_expiry(self) -> int | None:
        """The time of the next window to expire, if any."""
        while self._expiries and self._expiries[0][1] not in self.windows:
            heapq.heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else None

    def touched(self) -> list[tuple[bytes, Slot]]:
        """The (window, key) pairs that changed since the last commit, with windows as bytes.

        Pairs of dropped windows are not included: `dropped` has those windows.
        """
        active = self.active_windows()
        found = ((window.data, slot) for window in active for table in window.tables for slot in table.changes)
        return list(dict.fromkeys(found))

    def is_changed(self) -> bool:
        return bool(self.dropped or self.evicted) or any(t.changes for w in self.active_windows() for t in w.tables)

    def settle(self) -> None:
        """Called when the changes have been stored."""
        self.dropped = []
        self.evicted = {}
        for window in self.active_windows():
            for table in window.tables:
                if table.changes:
                    table.settle()
        self.forget_empty_windows()
        for window in self.active_windows():
            self._count(window)
        self._active.clear()
        if self.layout.stamps:
            self._tidy_expiring()

    def _count(self, window: WindowState) -> None:
        entries, expiring = window.entries(), sum(len(window.tables[cell].values) for cell in self.layout.stamps)
        self._counted += entries - window.counted
        self._counted_expiring += expiring - window.counted_expiring
        window.counted, window.counted_expiring = entries, expiring

    def forget_empty_windows(self) -> None:
        """An empty window is not stored, so it must not stay in memory either: it would expire in this worker only. No
        window gets empty without being active."""
        for window in self.active_windows():
            if window.is_empty() and not isinstance(window.window, GlobalWindow):
                self.discard(window.data)

    def discard(self, data: bytes) -> None:
        """Removes a window, if it is there, without recording it."""
        window = self.windows.pop(data, None)
        if window is not None:
            self._counted -= window.counted
            self._counted_expiring -= window.counted_expiring
            self._active.pop(data, None)
            if self.ledger is not None:
                self.ledger.window_gone(data)
            for index in self.indexes.values():
                index.drop(data)


def undeclared(cell: str, layout: Layout) -> StateConflict:
    """The error for a stored cell that the step does not have."""
    return StateConflict(
        f"The stored state has a cell {cell!r}, which the step {layout.step.name!r} does not declare.",
        todo="declare the cell again under the same name and kind, or start with a new checkpoint",
    )
