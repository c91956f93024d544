"""Expiry: finds the cells whose time to live is up, without looking at all of them.

The time of the last touch is a hidden cell beside the cell. An index leads from a time to the keys that may expire then.
It is lazy: a key that is touched again stays where it is, and is moved on when its turn comes. So a touch costs nothing
more than noting its time. A key that was cleared leaves its entry behind, and gets another when it is back; when such
entries are most, the state builds the index anew from the stamps. Times are lumped: keys that expire about the same
time are taken together, and those among them whose time has not quite come go back.

Invariants
- Every key with a stamp has an entry at a time that is not later than when it expires.
- What a sweep removes depends on the stamps alone: it takes keys in the order of their lumps and then of the keys, so many
  in a bundle. A fresh worker, whose index is new, does the same.
"""

from __future__ import annotations

import heapq
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.engine.state.keys import sort_slots
from holdfast.engine.tables import Slot
from holdfast.model.state.ttl import lump_width

__all__ = ["ExpiryIndex", "Piece"]

_PIECE_KEYS = 1_000
_PLACE_BYTES = sys.getsizeof((b"", 0)) + sys.getsizeof(2**50)


class Piece(NamedTuple):
    """Keys of which one cell may have expired, in the order in which they go: a lump, or as much of it as fits."""

    time: int
    """Of the lump."""
    window: bytes
    cell: int
    """Its place in the layout."""
    slots: list[Slot]

    def split(self, count: int) -> tuple[Piece, Piece]:
        """The first so many of the keys, and the others."""
        return self._replace(slots=self.slots[:count]), self._replace(slots=self.slots[count:])


class ExpiryIndex:
    """From times to the cells to be looked at then."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, dict[tuple[bytes, int], list[Slot]]] = {}
        self._queue: deque[Piece] = deque()

    def enter(self, window: bytes, cell: int, slot: Slot, time: int) -> None:
        self._places(time).setdefault((window, cell), []).append(slot)

    def _places(self, time: int) -> dict[tuple[bytes, int], list[Slot]]:
        places = self._at.get(time)
        if places is None:
            self._at[time] = places = {}
            heapq.heappush(self._times, time)
        return places

    def enter_all(self, window: bytes, cell: int, stamps: Mapping[Slot, int], micros: int) -> None:
        """Enters many keys by the times of their last touches, with a time to live of so many microseconds."""
        width = lump_width(micros)
        lumps: defaultdict[int, list[Slot]] = defaultdict(list)
        for slot, stamp in stamps.items():
            expires = stamp + micros
            lumps[expires - expires % width].append(slot)
        for time, slots in lumps.items():
            self._places(time).setdefault((window, cell), []).extend(slots)

    def take(self, limit: int) -> Piece | None:
        """The keys that are first, of those whose time has come. They are no longer in the index."""
        while self._times and self._times[0] <= limit and (not self._queue or self._times[0] <= self._queue[0].time):
            self._take_lump()
        if not self._queue or self._queue[0].time > limit:
            return None
        return self._queue.popleft()

    def put_back(self, piece: Piece) -> None:
        """Makes the first what was taken last."""
        self._queue.appendleft(piece)

    def _take_lump(self) -> None:
        time = heapq.heappop(self._times)
        places = self._at.pop(time)
        while self._queue and self._queue[0].time == time:
            # Left from a sweep before: all of a lump go in one order, whenever they came into it.
            left = self._queue.popleft()
            places.setdefault((left.window, left.cell), []).extend(left.slots)
        pieces = [
            Piece(time, window, cell, some)
            for (window, cell), slots in sorted(places.items())
            for some in _cut(sort_slots(dict.fromkeys(slots)))
        ]
        # What was left in the queue is later: it goes on after these.
        self._queue.extendleft(reversed(pieces))

    @property
    def next_time(self) -> int | None:
        """A time before which nothing expires."""
        times = ([self._queue[0].time] if self._queue else []) + self._times[:1]
        return min(times, default=None)

    def __len__(self) -> int:
        """How many keys it holds; a key may be there more than once."""
        waiting = sum(len(slots) for places in self._at.values() for slots in places.values())
        return waiting + sum(len(piece.slots) for piece in self._queue)

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes, without the keys, which the cells have too."""
        places = [slots for places in self._at.values() for slots in places.values()]
        lists = sum(map(sys.getsizeof, [*places, *(piece.slots for piece in self._queue), *self._at.values()]))
        return lists + sys.getsizeof(self._at) + sys.getsizeof(self._times) + _PLACE_BYTES * len(places)


def _cut(slots: list[Slot]) -> Iterable[list[Slot]]:
    return (slots[first : first + _PIECE_KEYS] for first in range(0, len(slots), _PIECE_KEYS))
