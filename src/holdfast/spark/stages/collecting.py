"""Garbage collection in a worker, at a bounded cost: between the bundles of a task, and after a task.

A bundle makes many objects that are gone when its outputs have left. If Python looked for garbage as soon as the bundle is
over, it would walk through all of them. So it does not by itself while a task runs; before each bundle we look, if much is
new that did not go.

Spark's daemon has each worker search everything that it has in memory for garbage after every task. That takes longer the
more state a worker keeps, and a small micro-batch has six tasks. Here only what is new since the last search is looked at,
and everything once the time that this takes is a small part of the time that has passed, or the process has grown.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from holdfast.spark.stages.resident import resident_bytes

__all__ = ["Collector", "between_bundles", "paused_for_task", "task_over"]

_NEW_MAX = 200_000
"""So many objects may be new before a bundle without a search for garbage among them, which takes some milliseconds."""
_SHARE = 50
"""Searching everything takes one part in so many of a worker's time, while it does not grow."""
_GROWN_BYTES, _GROWN_RATIO = 64 * 1024 * 1024, 0.1
"""A worker that has grown by so much, whichever is more, is searched at once: garbage is not counted by any budget."""


def paused_for_task() -> None:
    """Called when a task begins that has bundles."""
    gc.disable()


def between_bundles() -> None:
    """Called before each bundle of the task."""
    if gc.get_count()[0] > _NEW_MAX:
        gc.collect(1)


def task_over() -> None:
    """Called when the task has run. If it fails instead, Spark ends the process."""
    gc.enable()


class Collector:
    """Stands in the place of the module `gc` in Spark's daemon."""

    def __init__(self, resident_bytes: Callable[[], int] = resident_bytes) -> None:
        self._resident_bytes = resident_bytes
        self._whole_from = 0.0
        self._whole_above = 0

    def collect(self) -> int:
        """Removes garbage; returns how many objects that were."""
        began = time.perf_counter()
        if began < self._whole_from and 0 < self._resident_bytes() < self._whole_above:
            return gc.collect(1)
        found = gc.collect()
        ended = time.perf_counter()
        self._whole_from = ended + _SHARE * (ended - began)
        size = self._resident_bytes()
        self._whole_above = size + max(_GROWN_BYTES, int(_GROWN_RATIO * size))
        return found
