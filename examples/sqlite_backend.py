"""A backend of your own: the state of each key group in a SQLite file outside Spark.

Spark's store has only the token of the current version. The file has the last few versions of each key and window. A
version is found by its token and never overwritten, so a micro-batch that fails, runs twice or is rolled back does no
harm. Going back further than the file reaches is refused, and so is a file that belongs to another state.

    hf.keyed(...).par_do(fn, output=..., backend=SqliteBackend("/data/state"))

docs/backends.md says what you give up with a store that is not Spark's.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast import CorruptState, TimeDomain
from holdfast.backends import (
    BlobStore,
    BundleClocks,
    Commit,
    Due,
    KeyGroupState,
    Layout,
    Part,
    Place,
    Schedule,
    Slot,
    slot_from_bytes,
    slot_to_bytes,
    sweep_budget,
)

VERSION = "sqlite"
"""The name of the token in Spark's store."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS versions (token BLOB PRIMARY KEY, parent BLOB, number INTEGER);
CREATE TABLE IF NOT EXISTS cells (
    slot BLOB, window BLOB, token BLOB, number INTEGER, data BLOB, PRIMARY KEY (slot, window, number, token)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS cells_by_number ON cells (number);
"""


@dataclass(frozen=True)
class SqliteBackend:
    """What `backend=` takes. All workers must share the folder, so here they are on one machine."""

    folder: str
    versions: int = 10
    """How many versions you can go back."""
    name: str = "sqlite"

    def make(self, layout: Layout, place: Place) -> SqliteState:
        return SqliteState(layout, Path(self.folder) / f"{place.name}.sqlite", self.versions)


class SqliteState:
    """Keeps one key group: in memory while it is in use, in the file for good."""

    def __init__(self, layout: Layout, path: Path, versions: int) -> None:
        self._layout = layout
        self._path = path
        self._versions = versions
        self._connection: sqlite3.Connection | None = None
        self._state = KeyGroupState(layout)
        self._held: bytes | None = None
        """The token of what is in memory; None while a bundle may change it."""
        self._token = b""
        self._loads = 0

    def open(self, store: BlobStore) -> None:
        self._token = store.get(VERSION) or b""
        self._loads = 0
        if self._held != self._token:
            self._state = self._read(self._token)
            self._loads = 1
        self._held = None

    def parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]:
        yield Part(self._state, None, sweep_budget(len(slots)))

    def commit(self, store: BlobStore) -> Commit:
        rows = self._changed()
        if rows:
            self._token = self._write(rows)
            store.put(VERSION, self._token)
        self._state.settle()
        self._held = self._token
        return Commit(delta_bytes=sum(len(data or b"") for _, _, data in rows), loads=self._loads)

    def abandon(self) -> None:
        self._held = None

    def next_due(self, runner: Schedule) -> Due:
        return Due(runner.next_event(self._state), self._state.indexes[TimeDomain.REAL_TIME].next_time)

    def everything(self, store: BlobStore) -> Iterator[KeyGroupState]:
        yield self._read(store.get(VERSION) or b"")

    def release(self) -> None:
        self._held, self._state = None, KeyGroupState(self._layout)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def memory_bytes(self) -> int:
        return 500 * sum(len(table.values) for window in self._state.windows.values() for table in window.tables)

    # The file.

    @property
    def _file(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Another attempt may be writing for a moment.
            self._connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(SCHEMA)
        return self._connection

    def _chain(self, token: bytes) -> list[tuple[int, bytes]]:
        """The versions that led to one, from it to the oldest that is kept: (number, token)."""
        chain: list[tuple[int, bytes]] = []
        select = "SELECT number, parent FROM versions WHERE token = ?"
        parent = token
        while found := self._file.execute(select, (parent,)).fetchone():
            chain.append((found[0], parent))
            parent = found[1]
        first = self._file.execute("SELECT min(number) FROM versions").fetchone()[0]
        if not chain and (token or (first or 1) > 1):
            raise CorruptState(
                f"The file {str(self._path)!r} does not have the version {token.hex() or 'none'}, which is Spark's.",
                detail=f"It keeps {self._versions} versions. It may be another file, or the query went back further.",
                todo="put the file of that version in its place, or start with a new checkpoint",
            )
        return chain

    def _read(self, token: bytes) -> KeyGroupState:
        """The state of a version. Before the oldest that is kept, all rows are of the versions that led to it."""
        state = KeyGroupState(self._layout)
        self._file.execute("BEGIN")
        try:
            chain = self._chain(token)
            ours, oldest = {version for _, version in chain}, chain[-1][0] if chain else 0
            select = "SELECT slot, window, token, number, data FROM cells ORDER BY slot, window, number"
            for slot, window, version, number, data in self._file.execute(select):
                if number < oldest or version in ours:
                    held = state.window_of(window)
                    held.forget([slot_from_bytes(slot)])
                    held.unpack(slot_from_bytes(slot), data or b"")
        finally:
            self._file.execute("COMMIT")
        state.reindex()
        return state

    def _changed(self) -> list[tuple[bytes, bytes, bytes | None]]:
        """The rows of what changed: (slot, window, what it has now); None for nothing."""
        rows: list[tuple[bytes, bytes, bytes | None]] = []
        for window, slot in self._state.touched():
            rows.append((slot_to_bytes(slot), window, self._state.windows[window].pack(slot) or None))
        select = "SELECT DISTINCT slot FROM cells WHERE window = ?"
        for window in self._state.dropped:
            rows += [(slot, window, None) for (slot,) in self._file.execute(select, (window,))]
        return sorted(rows, key=lambda row: row[:2])

    def _write(self, rows: list[tuple[bytes, bytes, bytes | None]]) -> bytes:
        """A new version after the present one. Its token follows from both, so the same bundle gives the same."""
        token = hashlib.blake2b(self._token + repr(rows).encode(), digest_size=16).digest()
        self._file.execute("BEGIN IMMEDIATE")
        try:
            chain = self._chain(self._token)
            number = chain[0][0] + 1 if chain else 1
            self._file.execute("INSERT OR IGNORE INTO versions VALUES (?, ?, ?)", (token, self._token, number))
            new = ((slot, window, token, number, data) for slot, window, data in rows)
            self._file.executemany("INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?, ?)", new)
            if len(chain) > self._versions:
                self._fold(chain[-1], chain[-2])
            self._file.execute("COMMIT")
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        return token

    def _fold(self, oldest: tuple[int, bytes], next_one: tuple[int, bytes]) -> None:
        """Makes the next version the oldest: removes what it replaced, and failed attempts."""
        number = next_one[0]
        for version in (oldest, next_one):
            self._file.execute("DELETE FROM cells WHERE number = ? AND token != ?", version)
        replaced = "(slot, window) IN (SELECT slot, window FROM cells WHERE number = ?)"
        self._file.execute(f"DELETE FROM cells WHERE number < ? AND {replaced}", (number, number))
        self._file.execute("DELETE FROM cells WHERE number = ? AND data IS NULL", (number,))
        self._file.execute("DELETE FROM versions WHERE number < ? OR (number = ? AND token != ?)", (number, *next_one))
