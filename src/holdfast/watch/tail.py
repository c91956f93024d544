"""The history of a job as it grows: only what is new is read, and only so much is kept.

The file stays open, so that nothing is missed when `now.jsonl` becomes `before.jsonl`: what was left in it is read first.
If the file is another one and did not become `before.jsonl`, the checkpoint was deleted or replaced: what was read of it is
forgotten as soon as there is another history. What is read at once is bounded, also of a file that is larger than any
history; of such a one the end is read. Anything but a regular file is as if it were not there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from holdfast.checkpoint.files.access import Files
from holdfast.checkpoint.files.paths import join, local_path
from holdfast.watch.history import BEFORE, NOW, History, Telling

__all__ = ["HistoryTail"]

_READ_BYTES_MAX = 8 << 20
_RECORDS_MAX = 5_000
_OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class HistoryTail:
    """Follows the history beside a checkpoint. On other file systems than the local one, all of it is read when it grows."""

    def __init__(
        self, files: Files, checkpoint: str, *, records_max: int = _RECORDS_MAX, detailed_max: int | None = None
    ) -> None:
        self._files = files
        self._remote = None if local_path(checkpoint) is not None else checkpoint
        now, before = (local_path(join(checkpoint, name)) for name in (NOW, BEFORE))
        self._now, self._before = now or Path(), before or Path()
        self._max, self._detailed_max = records_max, detailed_max
        self._telling = Telling(records_max, detailed_max)
        self._rewrites = 0
        self._file: BinaryIO | None = None
        self._rest = b""
        self._size: tuple[tuple[int, float], ...] = ()
        self._begun = False
        self._lost = False
        """Whether the file that was read is gone, and no other was there yet."""

    @property
    def history(self) -> History:
        """All that has been read so far, and is kept."""
        return self._telling.history()

    @property
    def rewrites(self) -> int:
        """Another number whenever something that was read before does not hold any more."""
        return self._rewrites + self._telling.rewrites

    def read(self) -> bool:
        """Reads what is new; returns whether anything was."""
        return self._read_local() if self._remote is None else self._read_remote(self._remote)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> HistoryTail:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _read_local(self) -> bool:
        found = False
        if not self._begun:
            found = self._begin()
        elif self._is_another():
            self._lost = not self._became_before()
            found = self._rest_of_the_old()
        if self._file is None:
            self._file = _opened(self._now)
            if self._file is not None:
                _to_the_end(self._file)
        if self._lost and self._file is not None:
            self._forget()
            self._begin()
            found = True
        return self._take_new() or found

    def _forget(self) -> None:
        self.close()
        self._rewrites += self._telling.rewrites + 1
        self._telling = Telling(self._max, self._detailed_max)
        self._lost = False
        self._rest = b""

    def _begin(self) -> bool:
        """Takes the older file. The newer one is opened before it, so that nothing is missed if it becomes the older one
        meanwhile."""
        self._begun = True
        self._file = _opened(self._now)
        if self._file is not None:
            _to_the_end(self._file)
        before = _opened(self._before)
        if before is None:
            return False
        with before:
            if self._file is not None and _is_same(before, self._file):
                return False
            _to_the_end(before)
            found = self._take(before.read(_READ_BYTES_MAX))
        self._rest = b""
        return found

    def _is_another(self) -> bool:
        """Whether `now` is no longer the file that is open."""
        if self._file is None:
            return False
        try:
            there, here = self._now.stat(), os.fstat(self._file.fileno())
        except OSError:
            return True
        is_shorter = there.st_size < self._file.tell()
        return is_shorter or (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def _became_before(self) -> bool:
        """Whether the file that is open is now the older one, as it is when the newer one was full."""
        if self._file is None:
            return True
        try:
            there = self._before.stat()
        except OSError:
            return False
        return os.path.samestat(there, os.fstat(self._file.fileno()))

    def _rest_of_the_old(self) -> bool:
        found = self._take_new()
        self.close()
        self._rest = b""
        return found

    def _take_new(self) -> bool:
        return self._file is not None and self._take(self._file.read(_READ_BYTES_MAX))

    def _take(self, data: bytes) -> bool:
        """Takes whole lines; the last may not be whole yet."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= _READ_BYTES_MAX else b""
        for line in lines:
            self._telling.line(line)
        return any(lines)

    def _read_remote(self, checkpoint: str) -> bool:
        paths = [join(checkpoint, name) for name in (BEFORE, NOW)]
        infos = [self._files.info(path) for path in paths]
        size = tuple((-1, 0.0) if info is None else (info.size, info.modified_seconds) for info in infos)
        if size == self._size:
            return False
        self._size = size
        self._rewrites += self._telling.rewrites
        self._telling = Telling(self._max, self._detailed_max)
        for path in paths:
            for line in (self._files.read(path) or b"").splitlines():
                self._telling.line(line)
        return True


def _opened(path: Path) -> BinaryIO | None:
    """A file of a history, without waiting; None if it cannot be opened or is no regular file."""
    try:
        number = os.open(path, _OPENING)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None
    return os.fdopen(number, "rb")


def _is_same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.sameopenfile(one.fileno(), other.fileno())


def _to_the_end(file: BinaryIO) -> None:
    """Of a file that is too large, only the end is read, from the next whole line on."""
    size = os.fstat(file.fileno()).st_size
    if size > _READ_BYTES_MAX:
        file.seek(size - _READ_BYTES_MAX)
        file.readline(_READ_BYTES_MAX)
