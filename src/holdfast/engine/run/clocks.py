"""The times of a bundle, and the pause of garbage collection while it runs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["Clocks", "collection_paused"]


class Clocks:
    """The times of a bundle, in microseconds: `late` decides which elements are late, `watermark` and `now` which
    timers are due after them. `final` says that the input has ended: then everything is due."""

    __slots__ = ("final", "late", "now", "watermark")

    def __init__(self, late: int, watermark: int, now: int, final: bool = False) -> None:
        self.late = late
        self.watermark = watermark
        self.now = now
        self.final = final


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No cyclic garbage collection while a bundle makes its many small, acyclic objects over a large heap.

    For whoever runs bundles, around all that is done for one: most of what it made is gone again at the end.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
