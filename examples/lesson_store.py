"""A state store as a lesson about Spark has it: a dict, with changes that are persisted or rolled back.

    hf.keyed(...).par_do(fn, output=..., backend=CustomStateStore("/data/state"))

The methods are those of the lesson; `persist_to_disk` and `rollback_changes`, which it leaves open, are filled in. The
entries of a key group are in one SQLite file. `holdfast.backends.KeyValueBackend` makes versions of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from holdfast.backends import KeyValueBackend, Place


class CustomStateStore(KeyValueBackend):
    """Keeps the entries of a key group in a dict, and on disk. All workers must share the folder."""

    name = "lesson"

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def init(self, place: Place) -> None:
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        self.file = sqlite3.connect(Path(self.folder) / f"{place.name}.sqlite", timeout=60, isolation_level=None)
        self.file.execute("PRAGMA journal_mode = WAL")
        self.file.execute("CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        self.state_store: dict[bytes, bytes] = dict(self.file.execute("SELECT key, value FROM entries"))
        self.changes: dict[bytes, bytes | None] = {}
        self.version = 0

    def get(self, key: bytes) -> bytes | None:
        return self.state_store.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self.changes[key] = value

    def remove(self, key: bytes) -> None:
        self.changes[key] = None

    def commit(self) -> int:
        self.persist_to_disk()
        self.version += 1
        return self.version

    def abort(self) -> None:
        self.rollback_changes()

    def iterator(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(list(self.state_store.items()))

    def persist_to_disk(self) -> None:
        """Only what has changed: other workers have entries in the same file."""
        self.file.execute("BEGIN IMMEDIATE")
        try:
            for key, value in self.changes.items():
                if value is None:
                    self.file.execute("DELETE FROM entries WHERE key = ?", (key,))
                    self.state_store.pop(key, None)
                else:
                    self.file.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", (key, value))
                    self.state_store[key] = value
            self.file.execute("COMMIT")
        except BaseException:
            self.file.execute("ROLLBACK")
            raise
        self.changes = {}

    def rollback_changes(self) -> None:
        self.changes = {}

    def close(self) -> None:
        self.file.close()
