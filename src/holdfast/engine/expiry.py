"""Expiry: finds the cells whose time to live is up, without looking at all of them.

The time of the last touch is a hidden cell beside the cell. An index leads from a time to the keys that may expire then.
It is lazy: a key that is touched again stays where it is, and is moved on when its turn comes. So a touch costs nothing
more than noting its time, and each key has one entry. Times are lumped: keys that expire about the same time are taken
together, and those among them whose time has not quite come go back.

Invariants
- Every key with a stamp has an entry at a time that is not later than when it expires.
- What a sweep removes depends on the stamps alone: it takes keys in the order of their lumps and then of the keys, so many
  in a bundle. A fresh worker, whose index is new, does the same.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.engine.keys import sort_slots
from holdfast.engine.tables import Slot

__all__ = ["Expiring", "ExpiryIndex"]


class Expiring(NamedTuple):
    """A cell that may have expired."""

    window: bytes
    cell: int
    """Its place in the layout."""
    slot: Slot


class ExpiryIndex:
    """From times to the cells to be looked at then."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, dict[tuple[bytes, int], list[Slot]]] = {}
        self._queue: deque[tuple[int, Expiring]] = deque()

    def enter(self, window: bytes, cell: int, slot: Slot, time: int) -> None:
        places = self._at.get(time)
        if places is None:
            self._at[time] = places = {}
            heapq.heappush(self._times, time)
        places.setdefault((window, cell), []).append(slot)

    def due(self, limit: int) -> Iterator[tuple[int, Expiring]]:
        """Entries whose time has come, earliest first, each taken out as it is given. It may be left at any time."""
        while True:
            while self._times and self._times[0] <= limit and (not self._queue or self._times[0] <= self._queue[0][0]):
                self._take()
            if not self._queue or self._queue[0][0] > limit:
                return
            yield self._queue.popleft()

    def _take(self) -> None:
        time = heapq.heappop(self._times)
        places = self._at.pop(time)
        while self._queue and self._queue[0][0] == time:
            # Left from a sweep before: all of a lump go in one order, whenever they came into it.
            _, left = self._queue.popleft()
            places.setdefault((left.window, left.cell), []).append(left.slot)
        entries = [
            (time, Expiring(window, cell, slot))
            for (window, cell), slots in sorted(places.items())
            for slot in sort_slots(dict.fromkeys(slots))
        ]
        # What was left in the queue is later: it goes on after these.
        self._queue.extendleft(reversed(entries))

    @property
    def next_time(self) -> int | None:
        """A time before which nothing expires."""
        times = ([self._queue[0][0]] if self._queue else []) + self._times[:1]
        return min(times, default=None)
