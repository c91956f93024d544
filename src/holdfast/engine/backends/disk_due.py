"""When each key of a disk backend's file next has something due, so that not all keys have to be read.

Invariant: `due` has exactly the times that the cells have. Each of its rows is visited at most once in a bundle.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.engine.backends.disk_file import WorkingFile
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.keys import slot_to_bytes
from holdfast.engine.tables import Slot
from holdfast.engine.tables.expiring import NEVER_TOUCHED
from holdfast.model.present import BundleClocks
from holdfast.model.time.timers import TimeDomain

__all__ = ["DueTimes"]

_EVENT, _REAL, _TTL_REAL, _TTL_EVENT, _AGE = range(5)
_LAST = 2**63 - 1
_BEFORE_ALL = (-(2**63), b"")
_DUE = """
SELECT time, slot FROM due WHERE kind = ? AND time <= ? AND (time, slot) > (?, ?) ORDER BY time, slot LIMIT ?
"""


class DueTimes:
    """The table `due`. Keys are bytes, at most `part_keys` at a time."""

    def __init__(self, file: WorkingFile, layout: Layout, part_keys: int) -> None:
        self._file = file
        self._layout = layout
        self._part_keys = part_keys
        self.is_kept = bool(layout.timers or layout.stamps) or (layout.held, layout.age, layout.sessions) != (None,) * 3
        """Whether anything can become due in this step, or its keys have ages."""

    def save(self, state: KeyGroupState, names: list[bytes]) -> None:
        """Records what is due for these keys; the state has everything they have."""
        if not self.is_kept:
            return
        self._file.many("DELETE FROM due WHERE slot = ?", ((name,) for name in names))
        # What is due after the end of time is clamped to it.
        rows = [(slot_to_bytes(slot), kind, min(when, _LAST)) for (slot, kind), when in _due_times(state).items()]
        self._file.many("INSERT OR REPLACE INTO due VALUES (?, ?, ?)", rows)

    def timers(self, clocks: BundleClocks) -> Iterator[list[bytes]]:
        """The keys with a timer, a held-back element or a session due."""
        if self.is_kept:
            for kind, limit in ((_EVENT, clocks.watermark), (_REAL, clocks.now)):
                yield from self._until(kind, limit)

    def expired(self, clocks: BundleClocks, budget: int) -> Iterator[list[bytes]]:
        """The keys with an expired cell: as many as a bundle may remove, in parts that are swept completely."""
        if not self._layout.stamps:
            return
        limits = {_TTL_REAL: clocks.now}
        if clocks.watermark != NEVER_TOUCHED:
            limits[_TTL_EVENT] = clocks.watermark
        for kind, limit in limits.items():
            for names in self._until(kind, limit):
                yield names[:budget]
                budget -= len(names)
                if budget <= 0:
                    return

    def count(self) -> int:
        """For how many keys a timer is set, an element is held back, or a session is open."""
        if not self.is_kept:
            return 0
        count: int = self._file.sql("SELECT count(*) FROM due WHERE kind IN (?, ?)", _EVENT, _REAL).fetchone()[0]
        return count

    def oldest(self) -> list[bytes]:
        """The keys that are evicted first."""
        select = "SELECT slot FROM due WHERE kind = ? ORDER BY time, slot LIMIT ?"
        return [name for (name,) in self._file.sql(select, _AGE, self._part_keys)]

    @property
    def next_event(self) -> int | None:
        """When the watermark next matters to a timer, a held-back element, a session or a time to live."""
        times = [self._next(kind) for kind in (_EVENT, _TTL_EVENT)]
        return min((when for when in times if when is not None), default=None)

    @property
    def next_real(self) -> int | None:
        """When a processing-time timer is next due."""
        return self._next(_REAL)

    def _next(self, kind: int) -> int | None:
        when: int | None = self._file.sql("SELECT min(time) FROM due WHERE kind = ?", kind).fetchone()[0]
        return when

    def _until(self, kind: int, limit: int) -> Iterator[list[bytes]]:
        """The keys that have something due, by time. No key comes twice, even if it stays due."""
        last = _BEFORE_ALL
        while True:
            found = self._file.sql(_DUE, kind, limit, *last, self._part_keys).fetchall()
            if not found:
                return
            last = found[-1]
            yield [name for _, name in found]


def _due_times(state: KeyGroupState) -> dict[tuple[Slot, int], int]:
    """When each key next has something due, by kind of time."""
    times: dict[tuple[Slot, int], int] = {}
    layout = state.layout
    if layout.age is not None:
        times = {(slot, _AGE): state.age_of(slot) for window in state.windows.values() for slot in window.slots()}
    lateness = layout.step.windowing.allowed_lateness.micros
    for window in state.windows.values():
        for entry, when in window.pending():
            kind = _EVENT if layout.domains[entry.timer] is TimeDomain.WATERMARK else _REAL
            name = (entry.slot, kind)
            times[name] = min(when, times.get(name, when))
        if layout.held is not None:
            for slot, series in window.held.values.items():
                when = series.first + lateness
                times[slot, _EVENT] = min(when, times.get((slot, _EVENT), when))
        if layout.sessions is not None:
            table = window.sessions
            times.update({(slot, _EVENT): table.due_of(entry) for slot, entry in table.values.items()})
        for cell in layout.stamps:
            ttl = layout.cells[cell].ttl
            assert ttl is not None
            kind, micros = _TTL_EVENT if ttl.in_event_time else _TTL_REAL, ttl.micros
            stamped = window.stamps(cell).values
            for slot in window.tables[cell].values:
                stamp = stamped.get(slot, NEVER_TOUCHED)
                when = NEVER_TOUCHED if stamp == NEVER_TOUCHED else stamp + micros
                times[slot, kind] = min(when, times.get((slot, kind), when))
    return times
