"""How much a key group holds after a bundle."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Holding", "Recount"]

_SHARE = 100


class Holding(NamedTuple):
    """What is cheap to know without walking through the keys; the sizes are exact, the counts may be some bundles old."""

    keys: int = 0
    """(key, window) pairs that have state in the cell that most of them have; a key may have another cell alone."""
    bytes: int = 0
    """Size of the log in the store, before compression: the snapshot and the deltas after it."""
    timers: int = 0
    """Timers that are set, and keys whose elements are held back."""
    windows: int = 0


class Recount:
    """Numbers that are counted anew only so often that counting takes at most a hundredth of the time."""

    def __init__(self) -> None:
        self._counted = (0, 0, 0)
        self._again_at = 0.0

    def __call__(self, count: Callable[[], tuple[int, int, int]]) -> tuple[int, int, int]:
        """The keys, timers and windows as they were when last counted."""
        now = time.perf_counter()
        if now >= self._again_at:
            self._counted = count()
            self._again_at = now + _SHARE * (time.perf_counter() - now)
        return self._counted
