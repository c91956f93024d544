"""When keys are due: an index for tables whose keys become due many at a time.

Entries are kept in sorted runs of NumPy arrays. A new run is merged with those before it that are not much larger, so there
are few runs and each entry is merged a logarithmic number of times. What has become due is cut off the front of each run.
Entries are never removed otherwise: whoever takes a key from here checks whether it is really due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.engine.tables.base import Slot

__all__ = ["DueIndex", "in_order_of"]

_Run = tuple[Any, Any]
"""Times in ascending order, and the keys that belong to them."""

_RATIO = 2
_ENTRY_BYTES = 16


class DueIndex:
    """Keys by time, in microseconds."""

    def __init__(self, times: Sequence[int] = (), slots: Sequence[Slot] = ()) -> None:
        self._runs: list[_Run] = []
        self.enter(times, slots)

    def enter(self, times: Sequence[int], slots: Sequence[Slot]) -> None:
        """Adds an entry for each of these keys."""
        if not len(times):
            return
        run = _sorted(np.asarray(times, dtype=np.int64), np.fromiter(slots, dtype=object, count=len(slots)))
        while self._runs and len(self._runs[-1][0]) <= _RATIO * len(run[0]):
            before = self._runs.pop()
            run = _sorted(*map(np.concatenate, zip(before, run, strict=True)))
        self._runs.append(run)

    def take(self, limit: int) -> list[Slot]:
        """Removes all entries up to a time, and returns their keys, each once."""
        taken: dict[Slot, None] = {}
        left = []
        for times, slots in self._runs:
            cut = int(np.searchsorted(times, limit, side="right"))
            taken.update(dict.fromkeys(slots[:cut].tolist()))
            if cut < len(times):
                # A copy, because a slice would keep all of the run in memory.
                left.append((times[cut:].copy(), slots[cut:].copy()) if cut else (times, slots))
        self._runs = left
        return list(taken)

    @property
    def next_time(self) -> int | None:
        """The time of the first entry."""
        return min((int(times[0]) for times, _ in self._runs), default=None)

    def __len__(self) -> int:
        return sum(len(times) for times, _ in self._runs)

    @property
    def memory_bytes(self) -> int:
        """How much memory it takes, without the keys, which the table holds too."""
        return _ENTRY_BYTES * len(self)


def _sorted(times: Any, slots: Any) -> _Run:
    order = np.argsort(times, kind="stable")
    return times[order], slots[order]


def in_order_of(times: Sequence[int], ranks: Any) -> list[int]:
    """The positions of times in ascending order; equal ones in order of `ranks()`, which is called only if there are any."""
    array = np.asarray(times, dtype=np.int64)
    order = np.argsort(array, kind="stable")
    ascending = array[order]
    if (ascending[1:] == ascending[:-1]).any():
        order = np.lexsort((ranks(), array))
    positions: list[int] = order.tolist()
    return positions
