"""Timers of a key group: their times are cells, and an index finds those that are due.

Invariants
- The cells decide what is set: the untagged time of a key is a value cell, the tagged ones are a map cell.
- The index has exactly one entry for every timer that is set to a time t, at some time ≤ t, and no others. If the timer has
  been moved later, the entry moves when its time comes, so moving a timer with every element costs no index work.
- The size of the index is proportional to the number of timers set. An entry that is removed or moved earlier leaves a
  trace; when traces outnumber entries, all are removed together, so each costs bounded time.
- The index identifies windows by their bytes, so it does not keep a dropped window alive.
- Millions of timers need one wake-up: `next_time`.
"""

from __future__ import annotations

import heapq
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.state.keys import sort_slots
from holdfast.engine.tables.base import Focus, Slot, Undo
from holdfast.engine.tables.maps import MapCell
from holdfast.engine.tables.value import value_cell
from holdfast.errors import OutputError, TimeError
from holdfast.model.coders import StrUtf8Coder, VarIntCoder
from holdfast.model.state.specs import MapStateSpec, State, StateSpec, ValueStateSpec
from holdfast.model.time.timers import TimeDomain, Timer, TimerSpec
from holdfast.model.time.timestamps import Timestamp

if TYPE_CHECKING:
    from holdfast.engine.state.key_group import WindowState

__all__ = ["DOMAINS", "HELD", "Entry", "TimerHandle", "TimerIndex", "timer_cells"]

DOMAINS = (TimeDomain.WATERMARK, TimeDomain.REAL_TIME)

HELD = -1
"""The timer number of an index entry that stands for a key's held-back elements instead of a timer."""

_TRACES_MIN = 100
"""Up to this many traces are not worth removing."""


class Entry(NamedTuple):
    """A timer's identity."""

    timer: int
    """Its index among the step's timers."""
    window: bytes
    slot: Slot
    tag: str


_ENTRY_BYTES = sys.getsizeof(Entry(0, b"", "", "")) + 8
_LIST_BYTES = sys.getsizeof([None, None])
_TIME_BYTES = sys.getsizeof(2**50)


def timer_cells(spec: TimerSpec) -> tuple[StateSpec[State], StateSpec[State]]:
    """The cells that keep a timer's times in microseconds: without a tag, and by tag."""
    return (
        ValueStateSpec(f"~timer:{spec.name}", VarIntCoder()),
        MapStateSpec(f"~tags:{spec.name}", StrUtf8Coder(), VarIntCoder()),
    )


class TimerIndex:
    """The timers of one domain by time.

    `_entered`: window → {entry: the time at which it is checked}; `_at`: time → entries and traces, without a list if there
    is only one; `_times`: the keys of `_at`, as a heap.
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, Entry | list[Entry]] = {}
        self._entered: dict[bytes, dict[Entry, int]] = {}
        self._length = 0
        self._traces = 0

    def enter(self, entry: Entry, time: int) -> None:
        """Makes sure that the entry is checked, at `time` or earlier."""
        entered = self._entered.get(entry.window)
        if entered is None:
            entered = self._entered[entry.window] = {}
        known = entered.get(entry)
        if known is not None and known <= time:
            return
        entered[entry] = time
        self._put(entry, time)
        if known is None:
            self._length += 1
        else:
            self._left(1)

    def fill(self, window: bytes, times: dict[Entry, int]) -> None:
        """Enters the timers of a window that has none here yet."""
        if times:
            self._entered[window] = times
            self._length += len(times)
            for entry, time in times.items():
                self._put(entry, time)

    def leave(self, entry: Entry) -> int | None:
        """Removes the entry; returns the time at which it would have been checked, if it was there."""
        entered = self._entered.get(entry.window)
        known = None if entered is None else entered.pop(entry, None)
        if entered is not None and known is not None:
            if not entered:
                del self._entered[entry.window]
            self._length -= 1
            self._left(1)
        return known

    def reset(self, entry: Entry, time: int | None) -> None:
        """Makes the index as if the entry had been entered at exactly this time, or not at all."""
        if self.time_of(entry) != time:
            self.leave(entry)
            if time is not None:
                self.enter(entry, time)

    def drop(self, window: bytes) -> None:
        """Removes all entries of a window."""
        entered = self._entered.pop(window, None)
        if entered is not None:
            self._length -= len(entered)
            self._left(len(entered))

    def time_of(self, entry: Entry) -> int | None:
        """When the entry will be checked."""
        entered = self._entered.get(entry.window)
        return None if entered is None else entered.get(entry)

    def take(self, limit: int) -> tuple[int, list[Entry]] | None:
        """Removes and returns the entries of the earliest time ≤ limit, in an order that depends only on the entries."""
        time = self.next_time
        if time is None or time > limit:
            return None
        heapq.heappop(self._times)
        placed = self.placed_at(time)
        del self._at[time]
        # An entry that was here, moved earlier and came back is here twice.
        entries = [entry for entry in dict.fromkeys(placed) if self.time_of(entry) == time]
        self._traces -= len(placed)
        for entry in entries:
            # Each leaves one trace fewer here than `leave` counts.
            self.leave(entry)
        return time, entries if len(entries) < 2 else _sorted(entries)

    def forget(self) -> None:
        self._times.clear()
        self._at.clear()
        self._entered.clear()
        self._length = self._traces = 0

    @property
    def next_time(self) -> int | None:
        """A time before which nothing is due. Nothing may be due even then, if a timer was moved."""
        while self._times:
            time = self._times[0]
            placed = self._at[time]
            if isinstance(placed, list):
                while placed and self.time_of(placed[-1]) != time:
                    placed.pop()
                    self._traces -= 1
                if placed:
                    return time
            elif self.time_of(placed) == time:
                return time
            else:
                self._traces -= 1
            del self._at[heapq.heappop(self._times)]
        return None

    def placed_at(self, time: int) -> list[Entry]:
        """The entries and traces at this time."""
        placed = self._at[time]
        return placed if isinstance(placed, list) else [placed]

    @property
    def traces(self) -> int:
        """The number of traces of former entries."""
        return self._traces

    def __len__(self) -> int:
        return self._length

    @property
    def memory_bytes(self) -> int:
        """Roughly how much memory it takes, without the keys and tags, which the cells hold too."""
        dicts = sum(map(sys.getsizeof, (self._times, self._at, self._entered, *self._entered.values())))
        placed = self._length + self._traces
        lists = min(len(self._times), placed - len(self._times))
        return dicts + _ENTRY_BYTES * placed + _TIME_BYTES * len(self._times) + _LIST_BYTES * lists

    def _put(self, entry: Entry, time: int) -> None:
        placed = self._at.get(time)
        if placed is None:
            self._at[time] = entry
            heapq.heappush(self._times, time)
        elif isinstance(placed, list):
            placed.append(entry)
        else:
            self._at[time] = [placed, entry]

    def _left(self, count: int) -> None:
        self._traces += count
        if self._traces > self._length + _TRACES_MIN:
            self._remove_traces()

    def _remove_traces(self) -> None:
        self._at, self._times, self._traces = {}, [], 0
        for entered in self._entered.values():
            for entry, time in entered.items():
                self._put(entry, time)


def _sorted(entries: list[Entry]) -> list[Entry]:
    rank = {slot: position for position, slot in enumerate(sort_slots({e.slot for e in entries}))}
    return sorted(entries, key=lambda e: (rank[e.slot], e.timer, e.tag, e.window))


class TimerHandle(Timer):
    """The user's handle on a timer."""

    __slots__ = ("_focus", "_index", "_number", "_spec", "_tagged", "_undo", "_untagged", "_window")

    def __init__(
        self, number: int, spec: TimerSpec, cells: tuple[StateSpec[State], StateSpec[State]], focus: Focus, undo: Undo | None
    ) -> None:
        self._number = number
        self._spec = spec
        self._focus = focus
        self._undo = undo
        self._untagged = value_cell(cells[0], focus, undo)
        self._tagged = MapCell(cells[1], focus, undo)  # type: ignore[arg-type]

    def attach(self, window: WindowState, untagged: Any, tagged: Any) -> None:
        self._window = window.data
        self._index = window.indexes[self._spec.time_domain]
        self._untagged.attach(untagged)
        self._tagged.attach(tagged)

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        time = timestamp.micros if type(timestamp) is Timestamp else self._micros(timestamp)
        if dynamic_timer_tag == "":
            self._untagged.write(time)
        else:
            self._tagged.put(self._checked(dynamic_timer_tag), time)
        self._index.enter(self._entry(dynamic_timer_tag), time)

    def _micros(self, timestamp: Any) -> int:
        try:
            return Timestamp.of(timestamp).micros
        except TimeError as refused:
            refused.within(timer=self._spec.name)
            raise

    def clear(self, dynamic_timer_tag: str = "") -> None:
        if dynamic_timer_tag == "":
            self._untagged.clear()
        else:
            self._tagged.remove(self._checked(dynamic_timer_tag))
        self._index.leave(self._entry(dynamic_timer_tag))

    def _entry(self, tag: str) -> Entry:
        """The timer's entry, about to be changed."""
        entry = Entry(self._number, self._window, self._focus.key, tag)
        if self._undo is not None:
            self._undo.add(self._index.reset, entry, self._index.time_of(entry))
        return entry

    def _checked(self, tag: Any) -> str:
        if not isinstance(tag, str):
            raise OutputError(f"The tag of the timer {self._spec.name!r} must be a string, not {tag!r}.")
        return tag

    def time(self, tag: str) -> int | None:
        """The time the timer is set to, in microseconds."""
        time: int | None = self._untagged.read() if tag == "" else self._tagged.get(tag)
        return time
