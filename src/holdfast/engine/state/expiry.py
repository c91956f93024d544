"""Expiry: finds expired cells without looking at all of them.

The time of the last touch, the stamp, is a hidden cell beside the cell. An index maps times to the keys that may expire
then. It is lazy: a key that is touched again stays where it is, and moves when its turn comes. So a touch costs no more
than recording its time. A key that is cleared leaves its entry behind, and gets another when it is back; when most entries
are such leftovers, the state rebuilds the index from the stamps. Times are lumped: keys that expire at about the same time
are taken together, and those that are not quite due go back.

Invariants
- Every key with a stamp has an entry no later than the time it expires.
- What a sweep removes depends only on the stamps: it takes keys in the order of their lumps, then of the keys, up to the
  bundle's budget. A fresh worker with a new index does the same.
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
_CELL_BYTES = sys.getsizeof((b"", 0)) + sys.getsizeof(2**50)


class Piece(NamedTuple):
    """Keys whose cell may have expired, in the order of removal: a lump, or as much of it as fits."""

    time: int
    """Of the lump."""
    window: bytes
    cell: int
    """Its index in the layout."""
    slots: list[Slot]

    def split(self, count: int) -> tuple[Piece, Piece]:
        """The first `count` keys, and the others."""
        return self._replace(slots=self.slots[:count]), self._replace(slots=self.slots[count:])


class ExpiryIndex:
    """Maps times to the cells to check then."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, dict[tuple[bytes, int], list[Slot]]] = {}
        self._queue: deque[Piece] = deque()
        self._length = 0

    def enter(self, window: bytes, cell: int, slot: Slot, time: int) -> None:
        self._cells_at(time).setdefault((window, cell), []).append(slot)
        self._length += 1

    def _cells_at(self, time: int) -> dict[tuple[bytes, int], list[Slot]]:
        cells = self._at.get(time)
        if cells is None:
            self._at[time] = cells = {}
            heapq.heappush(self._times, time)
        return cells

    def enter_all(self, window: bytes, cell: int, stamps: Mapping[Slot, int], micros: int) -> None:
        """Enters many keys by the times of their last touches, with a time to live of `micros`."""
        width = lump_width(micros)
        lumps: defaultdict[int, list[Slot]] = defaultdict(list)
        for slot, stamp in stamps.items():
            expires = stamp + micros
            lumps[expires - expires % width].append(slot)
        for time, slots in lumps.items():
            self._cells_at(time).setdefault((window, cell), []).extend(slots)
        self._length += len(stamps)

    def take(self, limit: int) -> Piece | None:
        """Removes and returns the first keys that are due by `limit`."""
        while self._times and self._times[0] <= limit and (not self._queue or self._times[0] <= self._queue[0].time):
            self._take_lump()
        if not self._queue or self._queue[0].time > limit:
            return None
        self._length -= len(self._queue[0].slots)
        return self._queue.popleft()

    def put_back(self, piece: Piece) -> None:
        """Puts back, in front, the piece that was taken last."""
        self._queue.appendleft(piece)
        self._length += len(piece.slots)

    def _take_lump(self) -> None:
        time = heapq.heappop(self._times)
        cells = self._at.pop(time)
        while self._queue and self._queue[0].time == time:
            # Left over from an earlier sweep: all of a lump go in one order, whenever they were entered.
            left = self._queue.popleft()
            cells.setdefault((left.window, left.cell), []).extend(left.slots)
        pieces = [
            Piece(time, window, cell, some)
            for (window, cell), slots in sorted(cells.items())
            for some in _cut(sort_slots(dict.fromkeys(slots)))
        ]
        # Those that were there twice go once.
        self._length += sum(len(piece.slots) for piece in pieces) - sum(map(len, cells.values()))
        # What was left in the queue is later, so it follows these.
        self._queue.extendleft(reversed(pieces))

    @property
    def next_time(self) -> int | None:
        """A time before which nothing expires."""
        times = ([self._queue[0].time] if self._queue else []) + self._times[:1]
        return min(times, default=None)

    def __len__(self) -> int:
        """The number of entries; a key may have several."""
        return self._length

    @property
    def memory_bytes(self) -> int:
        """Roughly how much memory it takes, without the keys, which the cells hold too."""
        cells = [slots for cells in self._at.values() for slots in cells.values()]
        lists = sum(map(sys.getsizeof, [*cells, *(piece.slots for piece in self._queue), *self._at.values()]))
        return lists + sys.getsizeof(self._at) + sys.getsizeof(self._times) + _CELL_BYTES * len(cells)


def _cut(slots: list[Slot]) -> Iterable[list[Slot]]:
    return (slots[first : first + _PIECE_KEYS] for first in range(0, len(slots), _PIECE_KEYS))
