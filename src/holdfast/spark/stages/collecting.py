"""Garbage collection after a task, at a bounded cost.

Spark's daemon has each worker search everything that it has in memory for garbage after every task. That takes longer the
more state a worker keeps, and a small micro-batch has six tasks. Here only what is new since the last search is looked at,
and everything once the time that this takes is a small part of the time that has passed.
"""

from __future__ import annotations

import gc
import time

__all__ = ["Collector"]

_SHARE = 50
"""Searching everything takes at most one part in so many of a worker's time."""


class Collector:
    """Stands in the place of the module `gc` in Spark's daemon."""

    def __init__(self) -> None:
        self._whole_from = 0.0

    def collect(self) -> int:
        """Removes garbage; returns how many objects that were."""
        began = time.perf_counter()
        if began < self._whole_from:
            return gc.collect(1)
        found = gc.collect()
        ended = time.perf_counter()
        self._whole_from = ended + _SHARE * (ended - began)
        return found
