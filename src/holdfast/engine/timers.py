"""Timers of a key group: their times are cells, and an index finds those that are due.

Invariants
- What is set is what the cells say: the untagged time of a key is a value cell, the tagged ones are a map cell.
- For every timer that is set to a time t, the index has an entry at some time ≤ t. The index may hold more: an entry
  whose timer has been cleared is dropped, and one whose timer has been moved later is entered again, when its time
  comes. So moving a timer on with every element costs no index work, and the index needs neither log nor undo.
- Millions of timers need one wake-up: `next_time`.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.keys import sort_slots
from holdfast.engine.tables.base import Focus, Slot, Undo
from holdfast.engine.tables.maps import MapCell
from holdfast.engine.tables.value import value_cell
from holdfast.errors import OutputError, TimeError
from holdfast.model.coders import StrUtf8Coder, VarIntCoder
from holdfast.model.state import MapStateSpec, StateSpec, ValueStateSpec
from holdfast.model.timers import TimeDomain, Timer, TimerSpec
from holdfast.model.timestamps import Timestamp

if TYPE_CHECKING:
    from holdfast.engine.state import WindowState

__all__ = ["DOMAINS", "HELD", "Entry", "TimerHandle", "TimerIndex", "timer_cells"]

DOMAINS = (TimeDomain.WATERMARK, TimeDomain.REAL_TIME)

HELD = -1
"""The place of an index entry that stands for a key's held-back elements rather than for a timer."""


class Entry(NamedTuple):
    """A timer's identity."""

    timer: int
    """Its place among the step's timers."""
    window: WindowState
    slot: Slot
    tag: str


def timer_cells(spec: TimerSpec) -> tuple[StateSpec, StateSpec]:
    """The cells that keep a timer's times in microseconds: without a tag, and by tag."""
    return (
        ValueStateSpec(f"~timer:{spec.name}", VarIntCoder()),
        MapStateSpec(f"~tags:{spec.name}", StrUtf8Coder(), VarIntCoder()),
    )


class TimerIndex:
    """The timers of one domain by time."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, list[Entry]] = {}
        self._entered: dict[Entry, int] = {}

    def enter(self, entry: Entry, time: int) -> None:
        """Sees to it that the entry is looked at, at `time` or before."""
        known = self._entered.get(entry)
        if known is not None and known <= time:
            return
        self._entered[entry] = time
        entries = self._at.get(time)
        if entries is None:
            self._at[time] = [entry]
            heapq.heappush(self._times, time)
        else:
            entries.append(entry)

    def take(self, limit: int) -> tuple[int, list[Entry]] | None:
        """The entries of the earliest time that is ≤ limit, in an order that depends on themselves alone."""
        if not self._times or self._times[0] > limit:
            return None
        time = heapq.heappop(self._times)
        # One that was here, was moved before and came back is here twice.
        entries = [e for e in dict.fromkeys(self._at.pop(time)) if self._entered.get(e) == time]
        for entry in entries:
            del self._entered[entry]
        return time, entries if len(entries) < 2 else _sorted(entries)

    def forget(self) -> None:
        self._times.clear()
        self._at.clear()
        self._entered.clear()

    @property
    def next_time(self) -> int | None:
        """A time before which nothing is due. There may be nothing then, if a timer was moved or cleared."""
        return self._times[0] if self._times else None

    def __len__(self) -> int:
        return len(self._entered)


def _sorted(entries: list[Entry]) -> list[Entry]:
    place = {slot: position for position, slot in enumerate(sort_slots({e.slot for e in entries}))}
    return sorted(entries, key=lambda e: (place[e.slot], e.timer, e.tag, e.window.data))


class TimerHandle(Timer):
    """A user's hand on a timer."""

    __slots__ = ("_focus", "_index", "_place", "_spec", "_tagged", "_untagged", "_window")

    def __init__(
        self, place: int, spec: TimerSpec, cells: tuple[StateSpec, StateSpec], focus: Focus, undo: Undo | None
    ) -> None:
        self._place = place
        self._spec = spec
        self._focus = focus
        self._untagged = value_cell(cells[0], focus, undo)
        self._tagged = MapCell(cells[1], focus, undo)  # type: ignore[arg-type]

    def attach(self, window: WindowState, untagged: Any, tagged: Any) -> None:
        self._window = window
        self._index = window.indexes[self._spec.time_domain]
        self._untagged.attach(untagged)
        self._tagged.attach(tagged)

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        try:
            time = Timestamp.of(timestamp).micros
        except TimeError as refused:
            refused.within(timer=self._spec.name)
            raise
        if dynamic_timer_tag == "":
            self._untagged.write(time)
        else:
            self._tagged.put(self._checked(dynamic_timer_tag), time)
        self._index.enter(Entry(self._place, self._window, self._focus.key, dynamic_timer_tag), time)

    def clear(self, dynamic_timer_tag: str = "") -> None:
        if dynamic_timer_tag == "":
            self._untagged.clear()
        else:
            self._tagged.remove(self._checked(dynamic_timer_tag))

    def _checked(self, tag: Any) -> str:
        if not isinstance(tag, str):
            raise OutputError(f"The tag of the timer {self._spec.name!r} must be a string, not {tag!r}.")
        return tag

    def time(self, tag: str) -> int | None:
        """When the timer is set for, in microseconds."""
        time: int | None = self._untagged.read() if tag == "" else self._tagged.get(tag)
        return time
