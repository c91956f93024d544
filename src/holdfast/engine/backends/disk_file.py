"""The file of the disk backend: a worker's copy of one key group, in SQLite on the local disk.

    meta     name → value             the token, the number of the last delta, a fingerprint of the layout; with limits,
                                      the number of keys and bytes
    cells    slot, window → data      what a key has in a window: a MessagePack map from the index of a cell to its entry
    due      slot, kind → time        when a key next has something due, by kind of time; and its age, if it may be evicted
    windows  window → rows, fired     how many keys have something there, and whether an aggregation has given its results

`disk_rows` reads and writes `cells` and `windows`, `disk_due` reads and writes `due`.

Invariants
- Either everything done between `begin` and `commit` is in the file afterwards, or nothing.
- A second attempt at the same key group that finds the file locked works on its own file, and removes it in the end.
- A file that was deleted or replaced under an open connection is never touched again by that connection, and its leftover
  log is never opened by another: SQLite finds the log of a file only by its path, and would mix the two. Each connection
  then works on its own file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["MEMORY_BYTES", "DamagedFile", "WorkingFile"]

_CACHE_KIB = 8 * 1024
MEMORY_BYTES = 2 * _CACHE_KIB * 1024
"""Roughly how much memory an open file takes."""

_LOCK_SECONDS = 1.0
_own_files = itertools.count()
_lost: list[sqlite3.Connection] = []
"""Connections to files that are no longer at their path. Closing one would delete the log of the file that is there now."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (slot BLOB, window BLOB, data BLOB, PRIMARY KEY (slot, window)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS due (slot BLOB, kind INTEGER, time INTEGER, PRIMARY KEY (slot, kind)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS due_by_time ON due (kind, time, slot);
CREATE TABLE IF NOT EXISTS windows (window BLOB PRIMARY KEY, rows INTEGER, fired INTEGER) WITHOUT ROWID;
"""
_BY_WINDOW = "CREATE INDEX IF NOT EXISTS cells_by_window ON cells (window, slot)"


class DamagedFile(sqlite3.DatabaseError):
    """The file can be read, but its content makes no sense."""


class WorkingFile:
    """A file that may be locked, damaged or gone. `by_window`: index the keys by window."""

    def __init__(self, path: str | Path, *, by_window: bool) -> None:
        self._path = Path(path)
        self.at = self._path
        """The open file: the given one, or a private one."""
        self._by_window = by_window
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def begin(self) -> None:
        """Opens the file, if needed, and begins an exclusive transaction."""
        if self._is_lost():
            self.close()
            self._begin_own()
            return
        try:
            if self._connection is None:
                self._connect(self._path)
            self.sql("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            # Another attempt is using the file, or was killed just now while using it.
            self.close()
            self._begin_own()

    def _begin_own(self) -> None:
        self.at = self._path.with_name(f"{self._path.name}.{os.getpid()}-{next(_own_files)}")
        self._connect(self.at)
        self.sql("BEGIN IMMEDIATE")

    def _is_lost(self) -> bool:
        """Whether the open file is no longer the one at its path."""
        return self._connection is not None and _identity(self.at) != self._identity

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        if self._connection is not None:
            self._end("ROLLBACK")

    def _end(self, how: str) -> None:
        assert self._connection is not None
        if self._connection.in_transaction:
            self._connection.execute(how)

    def sql(self, statement: str, *values: Any) -> sqlite3.Cursor:
        assert self._connection is not None
        return self._connection.execute(statement, values)

    def many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Runs the statement for each row."""
        assert self._connection is not None
        self._connection.executemany(statement, rows)

    def empty(self) -> None:
        for table in ("meta", "cells", "due", "windows"):
            self.sql(f"DELETE FROM {table}")

    def close(self) -> None:
        if self._connection is not None:
            if self._is_lost():
                _lost.append(self._connection)
            else:
                self._connection.close()
            self._connection = None
        if self.at != self._path:
            _remove(self.at)
            self.at = self._path

    def discard(self) -> None:
        """Closes and removes the file, unless another one has replaced it."""
        path, is_lost = self.at, self._is_lost()
        self.close()
        if not is_lost:
            _remove(path)

    def _connect(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() and path.with_name(f"{path.name}-wal").exists():
            raise sqlite3.OperationalError(f"{path} is gone, but not its log")
        file = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        self._connection = file
        self._identity = _identity(path)
        # If the process dies, the file stays intact; if the machine dies, the whole directory is gone anyway.
        for setting in ("journal_mode = WAL", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}", "temp_store = MEMORY"):
            file.execute(f"PRAGMA {setting}")
        file.executescript(_SCHEMA)
        if self._by_window:
            file.execute(_BY_WINDOW)
        file.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (slot BLOB PRIMARY KEY) WITHOUT ROWID")


def _identity(path: Path) -> tuple[int, int] | None:
    """Identifies the file that is at this path now."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(name).unlink()
