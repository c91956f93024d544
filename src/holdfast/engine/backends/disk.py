"""The disk backend: for state that is larger than memory.

The same log as the heap backend's is in the store. But the copy that a worker works on is a SQLite file on the local
disk, not a dict in memory: a bundle reads the keys that it touches, in parts of bounded size, and writes them back. The
file is a cache. It has the token of the state that it holds, set in the same transaction as the state itself, and
`open` trusts it only if that token is in the chain that the store has. All workers of a machine share the files: a key
group that another worker had last needs no catching up.

Tables of the file:

    meta     name → value             the token, the number of the last delta, what tables the cells are of; with limits,
                                      how many keys and bytes there are
    cells    slot, window → data      what a key has in a window: a MessagePack map from the place of a cell to its entry
    due      slot, kind → time        when a key next has something due, by kind of time; and its age, if it may be evicted
    windows  window → rows, fired     how many keys have something there, and whether an aggregation gave its results

Invariants: those of the heap backend, with "in memory" read as "in the file", and
- Nothing in the file is needed. One that is damaged is removed, and what it held is read from the log again: at once if
  `open` finds out, else when the bundle that found out is run again.
- A second attempt at the same key group that finds the file locked works on a file of its own, and removes it in the end.
- `due` has exactly the times that the cells have. Each of its rows is visited once in a bundle, whatever it says.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ormsgpack

from holdfast.engine.backends.protocol import BlobStore, Commit, Due, Limiting, Part, Schedule
from holdfast.engine.keys import decode_slots, slot_from_bytes, slot_to_bytes
from holdfast.engine.ledger import Ledger
from holdfast.engine.log.blob import DROP_WINDOW, NOTE, Blob, Section
from holdfast.engine.log.chain import SnapshotOptions, append, delta_name, missed, read_head, whole
from holdfast.engine.log.head import NO_TOKEN, Head
from holdfast.engine.log.sections import apply_sections, delta_sections, dropped_keys, segments
from holdfast.engine.state import KeyGroupState, Layout, WindowState
from holdfast.engine.sweeping import sweep_budget
from holdfast.engine.tables import Slot
from holdfast.engine.tables.expiring import NEVER_TOUCHED
from holdfast.errors import CoderError, CorruptState
from holdfast.model.present import BundleClocks
from holdfast.model.timers import TimeDomain
from holdfast.model.windows import GlobalWindow, GlobalWindows

__all__ = ["DiskBackend"]

_CACHE_KIB = 8 * 1024
_MEMORY_BYTES = 2 * _CACHE_KIB * 1024
_LOCK_SECONDS = 1.0
_EVENT, _REAL, _TTL_REAL, _TTL_EVENT, _AGE = range(5)
_HEAVIEST = 20
_BEFORE_ALL = (-(2**63), b"")
_own_files = itertools.count()

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (slot BLOB, window BLOB, data BLOB, PRIMARY KEY (slot, window)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS due (slot BLOB, kind INTEGER, time INTEGER, PRIMARY KEY (slot, kind)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS due_by_time ON due (kind, time, slot);
CREATE TABLE IF NOT EXISTS windows (window BLOB PRIMARY KEY, rows INTEGER, fired INTEGER) WITHOUT ROWID;
"""
_IN_WINDOW = "SELECT slot FROM cells WHERE window = ? AND slot > ? ORDER BY slot LIMIT ?"
_DUE = """
SELECT time, slot FROM due WHERE kind = ? AND time <= ? AND (time, slot) > (?, ?) ORDER BY time, slot LIMIT ?
"""
_BY_WINDOW = "CREATE INDEX IF NOT EXISTS cells_by_window ON cells (window, slot)"


class _Damaged(sqlite3.DatabaseError):
    """The file can be read, but what it says makes no sense."""


class _Window(NamedTuple):
    """What the file knows of a window."""

    rows: int
    fired: bool


class DiskBackend:
    """Keeps one key group in a file and its log in the store."""

    def __init__(
        self, layout: Layout, path: str | Path, options: SnapshotOptions | None = None, *, part_keys: int = 20_000
    ) -> None:
        self._layout = layout
        self._path = Path(path)
        self._at = self._path
        """The file that is open: the one given, or one of its own."""
        self._part_keys = part_keys
        self._options = options or SnapshotOptions()
        self._head = Head()
        self._file: sqlite3.Connection | None = None
        self._windows: dict[bytes, _Window] = {}
        self._sections: list[Section] = []
        self._costs = (0, 0)
        self._keeps_due = bool(layout.timers or layout.stamps) or (layout.held, layout.age) != (None, None)
        self._ledger: Ledger | None = None
        self._is_windowed = not _is_global(layout)
        self._tables = _fingerprint(layout)

    # The order of calls.

    def open(self, store: BlobStore) -> None:
        head = read_head(store)
        self._sections = []
        self._costs = (0, 0)
        if self._file is not None:
            # A bundle that was neither committed nor abandoned.
            self._end("ROLLBACK")
        try:
            self._lock()
            self._agree(store, head)
        except sqlite3.DatabaseError:
            # The file is damaged, which costs a reading of the log and nothing else.
            self._discard()
            self._lock()
            self._agree(store, head)
        self._head = head

    def parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]:
        with self._or_discarded():
            yield from self._parts(slots, clocks, runner)

    def _parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]:
        places: dict[bytes, list[int]] = {}
        for place, data in enumerate(map(slot_to_bytes, slots)):
            places.setdefault(data, []).append(place)
        names = list(places)
        for first in range(0, len(names), self._part_keys):
            chunk = names[first : first + self._part_keys]
            yield from self._part(chunk, sorted(place for name in chunk for place in places[name]))
        for chunk in self._due_chunks(clocks, runner, places):
            yield from self._part(chunk, [])
        for chunk in self._expired_chunks(clocks, sweep_budget(len(slots))):
            yield from self._part(chunk, [], sweep=len(chunk) * len(self._layout.stamps))

    def limit(self, limiter: Limiting) -> None:
        suspects = list(map(slot_to_bytes, limiter.suspects))
        for first in range(0, len(suspects), self._part_keys):
            for part in self._part(suspects[first : first + self._part_keys], []):
                limiter.trim(part.state)
        assert self._ledger is not None
        while limiter.is_over(self._ledger):
            if limiter.fails:
                names = self._sql("SELECT slot FROM cells GROUP BY slot ORDER BY sum(length(data)) DESC LIMIT ?", _HEAVIEST)
            else:
                select = "SELECT slot FROM due WHERE kind = ? ORDER BY time, slot LIMIT ?"
                names = self._sql(select, _AGE, self._part_keys)
            chunk = [bytes(name) for (name,) in names]
            if not chunk and not limiter.fails:
                break
            for part in self._part(chunk, []):
                limiter.evict(part.state)

    def commit(self, store: BlobStore) -> Commit:
        with self._or_discarded():
            return self._commit(store)

    def _commit(self, store: BlobStore) -> Commit:
        if not self._sections:
            self._end("COMMIT")
            return Commit(0, 0, *self._costs)
        began = time.perf_counter_ns()
        appended = append(store, self._head, self._sections, self._options, self._snapshot())
        self._head = appended.head
        self._note_head(appended.head)
        self._end("COMMIT")
        self._sections = []
        took = (time.perf_counter_ns() - began) // 1000 if appended.snapshot_bytes else 0
        return Commit(appended.delta_bytes, appended.snapshot_bytes, *self._costs, took)

    def abandon(self) -> None:
        self._sections = []
        if self._file is not None:
            self._end("ROLLBACK")

    @contextlib.contextmanager
    def _or_discarded(self) -> Iterator[None]:
        """A file that turns out to be damaged is removed, or the same bundle would meet it again and again."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            path = self._at
            self._discard()
            raise CorruptState(
                f"The working copy of a key group on the local disk is damaged, or cannot be written: {error}",
                detail=f"The file {str(path)!r} was removed. What is stored in the log is as it was.",
                todo="run the micro-batch again; if it comes back, look at the disk and the room on it",
            ) from error

    def next_due(self, runner: Schedule) -> Due:
        select = "SELECT min(time) FROM due WHERE kind = ?"
        times = {kind: self._sql(select, kind).fetchone()[0] for kind in (_EVENT, _REAL, _TTL_EVENT)}
        event = [
            times.get(_EVENT),
            times.get(_TTL_EVENT),
            *(self._window_due(data, known, runner) for data, known in self._windows.items()),
        ]
        return Due(min((when for when in event if when is not None), default=None), times.get(_REAL))

    def everything(self, store: BlobStore) -> Iterator[KeyGroupState]:
        """Read from the log, not from the file: it is what a fresh worker would have."""
        state = KeyGroupState(self._layout)
        for name, blob in whole(store, read_head(store)):
            apply_sections(state, blob.sections, name)
        state.reindex()
        yield state

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._at != self._path:
            self._remove(self._at)
            self._at = self._path

    @property
    def is_new(self) -> bool:
        return self._head.last == 0

    @property
    def memory_bytes(self) -> int:
        return _MEMORY_BYTES if self._file is not None else 0

    # The file.

    def _sql(self, statement: str, *values: Any) -> sqlite3.Cursor:
        assert self._file is not None
        return self._file.execute(statement, values)

    def _lock(self) -> None:
        """Opens the file, if it is not open, and begins a transaction that nobody else can have at the same time."""
        try:
            if self._file is None:
                self._connect(self._path)
            self._sql("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            # Another attempt is at work on it, or was killed at it just now.
            self.release()
            self._at = self._path.with_name(f"{self._path.name}.{os.getpid()}-{next(_own_files)}")
            self._connect(self._at)
            self._sql("BEGIN IMMEDIATE")

    def _connect(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        self._file = file
        # A process that dies leaves the file whole; a machine that does takes the whole directory with it.
        for setting in ("journal_mode = WAL", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}", "temp_store = MEMORY"):
            file.execute(f"PRAGMA {setting}")
        file.executescript(_SCHEMA)
        if self._is_windowed:
            file.execute(_BY_WINDOW)
        file.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (slot BLOB PRIMARY KEY) WITHOUT ROWID")

    def _discard(self) -> None:
        path = self._at
        self.release()
        self._remove(path)

    @staticmethod
    def _remove(path: Path) -> None:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(name).unlink()

    def _end(self, how: str) -> None:
        assert self._file is not None
        if self._file.in_transaction:
            self._file.execute(how)

    def _note_head(self, head: Head) -> None:
        rows: list[tuple[str, Any]] = [("token", head.token), ("last", head.last), ("tables", self._tables)]
        if self._ledger is not None:
            rows += [("keys", self._ledger.keys), ("bytes", self._ledger.total)]
        assert self._file is not None
        self._file.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        self._file.execute("DELETE FROM windows")
        known = [(data, window.rows, window.fired) for data, window in self._windows.items()]
        self._file.executemany("INSERT INTO windows VALUES (?, ?, ?)", known)

    # Agreeing with the store.

    def _agree(self, store: BlobStore, head: Head) -> None:
        """Makes the file hold what the head stands for."""
        meta = dict(self._sql("SELECT name, value FROM meta"))
        token, last = meta.get("token", NO_TOKEN), meta.get("last", 0)
        if meta and meta.get("tables") != self._tables:
            # Of other code, which had other cells in these places.
            token = None
        if self._layout.step.limits is not None:
            self._ledger = Ledger(int(meta.get("keys", 0)), int(meta.get("bytes", 0)))
            if "keys" not in meta:
                token, last = (NO_TOKEN, 0) if not meta else (None, 0)
        self._windows = {
            window: _Window(rows, bool(fired))
            for window, rows, fired in self._sql("SELECT window, rows, fired FROM windows")
        }
        if (token, last) == (head.token, head.last):
            return
        behind = missed(store, head, token, last)
        if behind is None:
            for table in ("meta", "cells", "due", "windows"):
                self._sql(f"DELETE FROM {table}")
            self._windows = {}
            if self._ledger is not None:
                self._ledger = Ledger()
            for name, blob in whole(store, head):
                self._replay(name, blob)
            self._costs = (1, 0)
        else:
            for blob in behind:
                self._replay(delta_name(blob.sequence), blob)
            self._costs = (0, 1) if last else (1, 0)
        self._note_head(head)

    def _replay(self, name: str, blob: Blob) -> None:
        """Does to the file what a blob says."""
        held: list[Section] = []
        slots: dict[bytes, None] = {}
        for section in blob.sections:
            if section.operation == DROP_WINDOW:
                self._replay_sections(name, held, slots)
                held, slots = [], {}
                self._drop_window(section.window)
                continue
            if section.operation == NOTE:
                continue
            held.append(section)
            slots.update(dict.fromkeys(map(slot_to_bytes, decode_slots(section.keys))))
            if len(slots) >= self._part_keys:
                self._replay_sections(name, held, slots)
                held, slots = [], {}
        self._replay_sections(name, held, slots)

    def _replay_sections(self, name: str, sections: list[Section], slots: Iterable[bytes]) -> None:
        if not sections:
            return
        names = list(slots)
        state, before = self._load(names)
        apply_sections(state, sections, name)
        if self._ledger is not None:
            self._ledger.recount(state)
        touched = {(window.data, slot) for window in state.windows.values() for slot in window.slots()}
        self._save(state, touched.union(before))
        self._save_due(state, names)

    def _drop_window(self, window: bytes) -> None:
        while True:
            names = [name for (name,) in self._sql(_IN_WINDOW, window, b"", self._part_keys)]
            if not names:
                break
            if self._ledger is not None:
                state, _ = self._load(names)
                state.windows.pop(window, None)
                self._ledger.recount(state)
            assert self._file is not None
            self._file.executemany("DELETE FROM cells WHERE slot = ? AND window = ?", ((name, window) for name in names))
            if self._keeps_due:
                self._save_due(self._load(names)[0], names)
        self._windows.pop(window, None)

    # Parts.

    def _part(self, names: list[bytes], places: list[int], sweep: int = 0) -> Iterator[Part]:
        state, before = self._load(names)
        state.reindex()
        state.ledger = self._ledger
        yield Part(state, places, sweep)
        touched = {(w.data, slot) for w in state.windows.values() for table in w.tables for slot in table.changes}
        for data in state.dropped:
            gone = [slot for window, slot in before if window == data]
            if gone:
                self._sections.append(dropped_keys(data, gone))
            touched |= {(data, slot) for slot in gone}
        touched |= {(data, slot) for data, slots in state.evicted.items() for slot in slots}
        state.dropped = []
        self._sections += delta_sections(state)
        if touched:
            self._save(state, touched)
            self._save_due(state, names)

    def _load(self, names: list[bytes]) -> tuple[KeyGroupState, dict[tuple[bytes, Slot], None]]:
        """The state of some keys, and which (window, slot) pairs it has, in the order of their bytes."""
        assert self._file is not None
        state = KeyGroupState(self._layout)
        self._file.execute("DELETE FROM temp.wanted")
        self._file.executemany("INSERT OR IGNORE INTO temp.wanted VALUES (?)", ((name,) for name in names))
        before: dict[tuple[bytes, Slot], None] = {}
        found = self._file.execute(
            "SELECT cells.slot, cells.window, cells.data FROM temp.wanted CROSS JOIN cells ON cells.slot = wanted.slot"
        )
        try:
            for name, window, data in found:
                slot = slot_from_bytes(name)
                held = state.window_of(window)
                tables = held.tables
                for place, packed in ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS).items():
                    tables[place].values[slot] = tables[place].unpack(packed)
                before[window, slot] = None
        except (CoderError, ValueError, TypeError, AttributeError, LookupError) as error:
            raise _Damaged(f"a row of it makes no sense: {error}") from error
        for data, window_state in state.windows.items():
            window_state.fired = data in self._windows and self._windows[data].fired
        state.bundle = self._head.last + 1
        if self._ledger is not None:
            self._ledger.look_at(state)
        return state, before

    def _save(self, state: KeyGroupState, touched: Iterable[tuple[bytes, Slot]]) -> None:
        """Writes what these keys have in these windows."""
        assert self._file is not None
        written, gone = [], []
        for data, slot in touched:
            window = state.windows.get(data)
            packed = {} if window is None else _packed(window, slot)
            if packed:
                written.append((slot_to_bytes(slot), data, ormsgpack.packb(packed, option=ormsgpack.OPT_NON_STR_KEYS)))
            else:
                gone.append((slot_to_bytes(slot), data))
        counts = self._counts(written, gone) if self._is_windowed else {}
        self._file.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?, ?)", written)
        self._file.executemany("DELETE FROM cells WHERE slot = ? AND window = ?", gone)
        for data, change in counts.items():
            known = self._windows.get(data, _Window(0, False))
            self._windows[data] = _Window(known.rows + change, known.fired)
            if self._windows[data].rows <= 0:
                del self._windows[data]

    def _counts(self, written: list[Any], gone: list[Any]) -> dict[bytes, int]:
        """By how much the number of keys of each window changes."""
        changes: dict[bytes, int] = {}
        exists = "SELECT 1 FROM cells WHERE slot = ? AND window = ?"
        for name, data, _ in written:
            if self._sql(exists, name, data).fetchone() is None:
                changes[data] = changes.get(data, 0) + 1
        for name, data in gone:
            if self._sql(exists, name, data).fetchone() is not None:
                changes[data] = changes.get(data, 0) - 1
        return changes

    def _save_due(self, state: KeyGroupState, names: list[bytes]) -> None:
        if not self._keeps_due:
            return
        assert self._file is not None
        self._file.executemany("DELETE FROM due WHERE slot = ?", ((name,) for name in names))
        rows = [(slot_to_bytes(slot), kind, when) for (slot, kind), when in _due_times(state).items()]
        self._file.executemany("INSERT OR REPLACE INTO due VALUES (?, ?, ?)", rows)

    # What is due.

    def _window_due(self, data: bytes, known: _Window, runner: Schedule) -> int | None:
        window = self._layout.step.windowing.window_fn.decode_window(data)
        if isinstance(window, GlobalWindow):
            return None
        end = int(window.end.micros)
        return runner.window_due(end, end + self._layout.step.windowing.allowed_lateness.micros, known.fired)

    def _due_chunks(self, clocks: BundleClocks, runner: Schedule, done: Any) -> Iterator[list[bytes]]:
        """The keys for which something is due, without those of `done`."""
        if clocks.final:
            yield from self._cursor("SELECT DISTINCT slot FROM cells WHERE slot > ? ORDER BY slot LIMIT ?", (), done)
            return
        if self._keeps_due:
            for kind, limit in ((_EVENT, clocks.watermark), (_REAL, clocks.now)):
                yield from self._due_cursor(kind, limit)
        watermark = max(clocks.late, clocks.watermark)
        for data, known in sorted(self._windows.items()):
            due = self._window_due(data, known, runner)
            if due is None or due > watermark:
                continue
            yield from self._cursor(_IN_WINDOW, (data,), done)
            if data in self._windows:
                self._windows[data] = self._windows[data]._replace(fired=True)

    def _expired_chunks(self, clocks: BundleClocks, budget: int) -> Iterator[list[bytes]]:
        """The keys of which some cell has expired: as many as a bundle may remove, in parts that are swept whole."""
        if not self._layout.stamps:
            return
        limits = {_TTL_REAL: clocks.now}
        if clocks.watermark != NEVER_TOUCHED:
            limits[_TTL_EVENT] = clocks.watermark
        for kind, limit in limits.items():
            for names in self._due_cursor(kind, limit):
                yield names[:budget]
                budget -= len(names)
                if budget <= 0:
                    return

    def _due_cursor(self, kind: int, limit: int) -> Iterator[list[bytes]]:
        """The keys that have something due, by time. None comes twice, even if what is due stays as it is."""
        last = _BEFORE_ALL
        while True:
            found = self._sql(_DUE, kind, limit, *last, self._part_keys).fetchall()
            if not found:
                return
            last = found[-1]
            yield [name for _, name in found]

    def _cursor(self, select: str, values: tuple[Any, ...], done: Any) -> Iterator[list[bytes]]:
        last = b""
        while True:
            names = [name for (name,) in self._sql(select, *values, last, self._part_keys)]
            if not names:
                return
            last = names[-1]
            chunk = [name for name in names if name not in done]
            if chunk:
                yield chunk

    def _snapshot(self) -> Iterator[list[Section]]:
        """The whole state in segments, some keys at a time."""
        for names in self._cursor("SELECT DISTINCT slot FROM cells WHERE slot > ? ORDER BY slot LIMIT ?", (), ()):
            state, _ = self._load(names)
            yield from segments(state, self._options.segment_bytes_max)


def _is_global(layout: Layout) -> bool:
    return type(layout.step.windowing.window_fn) is GlobalWindows


def _fingerprint(layout: Layout) -> bytes:
    """Tells apart what a file's rows may be of: they name cells by their places."""
    described = json.dumps([spec.describe() for spec in layout.specs], sort_keys=True, default=repr)
    return hashlib.blake2b(described.encode(), digest_size=16).digest()


def _packed(window: WindowState, slot: Slot) -> dict[int, Any]:
    return {place: table.pack(table.values[slot]) for place, table in enumerate(window.tables) if slot in table.values}


def _due_times(state: KeyGroupState) -> dict[tuple[Slot, int], int]:
    """When each key next has something due, by kind of time."""
    times: dict[tuple[Slot, int], int] = {}
    layout = state.layout
    if layout.age is not None:
        times = {(slot, _AGE): state.age_of(slot) for window in state.windows.values() for slot in window.slots()}
    lateness = layout.step.windowing.allowed_lateness.micros
    for window in state.windows.values():
        for entry, when in window.pending():
            kind = _EVENT if layout.domains[entry.timer] is TimeDomain.WATERMARK else _REAL
            name = (entry.slot, kind)
            times[name] = min(when, times.get(name, when))
        if layout.held is not None:
            for slot, series in window.held.values.items():
                when = series.times[0] + lateness
                times[slot, _EVENT] = min(when, times.get((slot, _EVENT), when))
        for cell, stamps in layout.stamps.items():
            ttl = layout.cells[cell].ttl
            assert ttl is not None
            kind = _TTL_EVENT if ttl.in_event_time else _TTL_REAL
            stamped = window.tables[stamps].values
            for slot in window.tables[cell].values:
                stamp = stamped.get(slot, NEVER_TOUCHED)
                when = NEVER_TOUCHED if stamp == NEVER_TOUCHED else stamp + ttl.micros
                times[slot, kind] = min(when, times.get((slot, kind), when))
    return times
