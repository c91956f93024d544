"""A job's history as it grows, for many who look at once.

Invariants:

* `version` changes whenever what can be seen of the history may have, and only then.
* Memory is bounded: so many micro-batches and events are kept, and key groups and keys of the newest micro-batches only.
"""

from __future__ import annotations

import threading
from pathlib import Path

from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.files.paths import local_path
from holdfast.errors import InputError
from holdfast.watch.history import History
from holdfast.watch.tail import HistoryTail

__all__ = ["SharedTail", "folder_of"]

_BATCHES_MAX = 20_000
_DETAILED_MAX = 300


class SharedTail:
    """The history beside one checkpoint. `refresh` looks for what is new; calls may come from any thread."""

    def __init__(self, checkpoint: str) -> None:
        folder_of(checkpoint)
        self._tail = HistoryTail(LocalFiles(), checkpoint, records_max=_BATCHES_MAX, detailed_max=_DETAILED_MAX)
        self._turn = threading.Lock()
        self.history = History()
        self.version = 0
        self.rewrites = 0
        """Another number whenever something that was read before does not hold any more."""

    def __del__(self) -> None:
        # A job that is no longer listed; whoever still has its history does not need the file.
        tail = getattr(self, "_tail", None)
        if tail is not None:
            tail.close()

    def refresh(self) -> int:
        """Reads what is new; gives the version."""
        with self._turn:
            if self._tail.read():
                self.history, self.rewrites = self._tail.history, self._tail.rewrites
                self.version += 1
            return self.version


def folder_of(checkpoint: str) -> Path:
    """A checkpoint's folder. Raises InputError unless it is on this machine's file system."""
    folder = local_path(checkpoint)
    if folder is None:
        raise InputError(
            f"The dashboard cannot read {checkpoint!r}: it is not on a file system of this machine.",
            todo="run it where the checkpoint is, or mount that file system here",
        )
    return folder
