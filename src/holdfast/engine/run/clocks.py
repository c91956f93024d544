"""The times of a bundle, and the pause of garbage collection while it runs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["Clocks", "collection_paused"]


class Clocks:
    """The times of a bundle, in microseconds: `late` decides which elements are late, `watermark` and `now` decide which
    timers are due after them. `final`: the input has ended, which makes everything due."""

    __slots__ = ("final", "late", "now", "watermark")

    def __init__(self, late: int, watermark: int, now: int, final: bool = False) -> None:
        self.late = late
        self.watermark = watermark
        self.now = now
        self.final = final


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No cyclic garbage collection while a bundle makes many small, acyclic objects over a large heap.

    Wrap everything done for one bundle in it: most of what the bundle makes is gone by the end.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
