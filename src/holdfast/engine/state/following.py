"""Following: keeps what is derived from a state right while deltas are applied to it, at the cost of what they touch.

A worker's copy that has missed some bundles is brought up to date by their deltas. Its indexes of timers and of expiring
cells, and its ledger, could be made anew; that takes as long as the state is large, for however small a delta.

Order of calls: `window_dropped`, `keys_dropped` and `changing` before each section is applied, `finish` after the last.
Afterwards the invariants of the indexes and of the ledger hold, as they do after `KeyGroupState.reindex`.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.engine.state.key_group import KeyGroupState, WindowState
from holdfast.engine.state.timers import HELD, Entry
from holdfast.engine.tables import Slot
from holdfast.engine.tables.expiring import NEVER_TOUCHED
from holdfast.model.state.ttl import lump
from holdfast.model.time.timers import TimeDomain

__all__ = ["Follower"]


class Follower:
    """Follows the deltas that are applied to one state."""

    def __init__(self, state: KeyGroupState) -> None:
        self._state = state
        layout = state.layout
        self._watched = set(range(layout.first_timer, layout.first_timer + 2 * len(layout.timers)))
        self._watched.update(layout.stamps, layout.stamps.values(), [] if layout.held is None else [layout.held])
        self._changed: dict[tuple[bytes, int], dict[Slot, None]] = {}
        """The keys that changed in the tables that matter, by window and table."""
        self._tags: dict[tuple[bytes, int], dict[Slot, set[str]]] = {}
        """The tags that were set before."""
        self._stamps: dict[tuple[bytes, int], dict[Slot, int | None]] = {}
        """The stamps that were there before."""
        self._touched: dict[bytes, dict[Slot, None]] = {}
        """All keys that changed, by window."""

    def window_dropped(self, data: bytes) -> None:
        """A window goes, with everything in it."""
        self._touched[data] = {}
        for noted in (self._changed, self._tags, self._stamps):
            for name in [name for name in noted if name[0] == data]:
                del noted[name]

    def keys_dropped(self, window: WindowState, slots: list[Slot]) -> None:
        """Keys are about to lose everything that they have in a window."""
        for slot in slots:
            self._state.unschedule(window, slot)
        self._touch(window, slots)

    def changing(self, window: WindowState, position: int, slots: list[Slot]) -> None:
        """A section is about to be applied to a table."""
        self._touch(window, slots)
        if position not in self._watched:
            return
        layout, name = self._state.layout, (window.data, position)
        self._changed.setdefault(name, {}).update(dict.fromkeys(slots))
        values = window.tables[position].values
        timer, is_tagged = divmod(position - layout.first_timer, 2)
        if 0 <= timer < len(layout.timers) and is_tagged:
            tags = self._tags.setdefault(name, {})
            for slot in slots:
                tags.setdefault(slot, set()).update(values.get(slot, ()))
        elif position in layout.stamps.values():
            stamps = self._stamps.setdefault(name, {})
            for slot in slots:
                stamps.setdefault(slot, values.get(slot))

    def finish(self) -> None:
        """Brings the indexes and the ledger up to date with what was applied."""
        state, layout = self._state, self._state.layout
        for (data, position), slots in self._changed.items():
            window = state.windows[data]
            timer, is_tagged = divmod(position - layout.first_timer, 2)
            if position == layout.held:
                self._follow_held(window, slots)
            elif 0 <= timer < len(layout.timers):
                (self._follow_tags if is_tagged else self._follow_timer)(window, timer, slots)
        for cell, stamps in layout.stamps.items():
            self._follow_stamps(cell, stamps)
        if state.ledger is not None:
            state.ledger.follow(state, self._touched)
        state.forget_empty_windows()

    def _touch(self, window: WindowState, slots: list[Slot]) -> None:
        if self._state.ledger is not None:
            self._touched.setdefault(window.data, {}).update(dict.fromkeys(slots))

    def _follow_timer(self, window: WindowState, timer: int, slots: Iterable[Slot]) -> None:
        times = window.tables[self._state.layout.first_timer + 2 * timer].values
        for slot in slots:
            self._enter(Entry(timer, window.data, slot, ""), times.get(slot))

    def _follow_tags(self, window: WindowState, timer: int, slots: Iterable[Slot]) -> None:
        position = self._state.layout.first_timer + 2 * timer + 1
        tagged, before = window.tables[position].values, self._tags[window.data, position]
        for slot in slots:
            times = tagged.get(slot, {})
            for tag in before[slot] | times.keys():
                self._enter(Entry(timer, window.data, slot, tag), times.get(tag))

    def _enter(self, entry: Entry, time: int | None) -> None:
        index = self._state.indexes[self._state.layout.domains[entry.timer]]
        if time is None:
            index.leave(entry)
        else:
            index.enter(entry, time)

    def _follow_held(self, window: WindowState, slots: Iterable[Slot]) -> None:
        index = self._state.indexes[TimeDomain.WATERMARK]
        for slot in slots:
            entry, series = Entry(HELD, window.data, slot, ""), window.held.values.get(slot)
            if series is None:
                index.leave(entry)
            else:
                index.enter(entry, series.first + self._state.lateness)

    def _follow_stamps(self, cell: int, position: int) -> None:
        """Enters the keys that have a stamp now and had none, or a later one; others have an entry that is early enough."""
        ttl = self._state.layout.cells[cell].ttl
        assert ttl is not None
        index, micros = self._state.expiring[ttl.in_event_time], ttl.micros
        for data in dict.fromkeys(data for data, changed in self._changed if changed in (cell, position)):
            held, stamps = (self._state.windows[data].tables[table].values for table in (cell, position))
            before = self._stamps.get((data, position), {})
            changed = (self._changed.get((data, table), {}) for table in (cell, position))
            for slot in dict.fromkeys(slot for slots in changed for slot in slots):
                stamp = stamps.get(slot)
                if slot not in held:
                    continue
                if stamp is None:
                    # From before the cell had a time to live.
                    index.enter(data, cell, slot, NEVER_TOUCHED)
                elif slot in before and ((known := before[slot]) is None or stamp < known):
                    index.enter(data, cell, slot, lump(stamp + micros, micros))
