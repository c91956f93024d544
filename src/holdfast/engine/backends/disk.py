"""The disk backend: for state that is larger than memory.

The store holds the same log as with the heap backend. But a worker's copy is a SQLite file on the local disk, not a dict
in memory: a bundle reads the keys that it touches, in parts of bounded size, and writes them back. The file is a cache.
It has the token of the state that it holds, set in the same transaction as the state itself, and `open` trusts it only
if that token is in the store's chain. All workers of a machine share the files: a key group last processed by another
worker needs no catching up.

Invariants: those of the heap backend, with "in memory" read as "in the file", and
- Nothing in the file is indispensable. A damaged file is removed and its content is read from the log again: at once if
  `open` notices, otherwise when the bundle that noticed runs again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.engine.backends.disk_due import DueTimes
from holdfast.engine.backends.disk_file import MEMORY_BYTES, WorkingFile
from holdfast.engine.backends.disk_rows import KeyRows
from holdfast.engine.backends.protocol import Commit, Due, Limiting, Part, Schedule
from holdfast.engine.log.blob import DROP_WINDOW, NOTE, Blob, Section
from holdfast.engine.log.chain import SnapshotOptions, append, delta_name, missed, read_head, whole
from holdfast.engine.log.head import NO_TOKEN, Head
from holdfast.engine.log.sections import apply_sections, delta_sections, dropped_keys, segments
from holdfast.engine.log.store import BlobStore
from holdfast.engine.metrics.holding import Holding, Recount
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.keys import decode_slots, slot_to_bytes
from holdfast.engine.state.ledger import Ledger
from holdfast.engine.state.sweeping import sweep_budget
from holdfast.engine.tables import Slot
from holdfast.errors import CorruptState
from holdfast.model.present import BundleClocks
from holdfast.model.windows.ready import GlobalWindows

__all__ = ["DiskBackend"]

_HEAVIEST = 20


class DiskBackend:
    """Keeps one key group in a file and its log in the store."""

    def __init__(
        self, layout: Layout, path: str | Path, options: SnapshotOptions | None = None, *, part_keys: int = 20_000
    ) -> None:
        is_windowed = type(layout.step.windowing.window_fn) is not GlobalWindows
        self._layout = layout
        self._part_keys = part_keys
        self._options = options or SnapshotOptions()
        self._head = Head()
        self._file = WorkingFile(path, by_window=is_windowed)
        self._rows = KeyRows(self._file, layout, part_keys, is_windowed=is_windowed)
        self._due = DueTimes(self._file, layout, part_keys)
        self._sections: list[Section] = []
        self._costs = (0, 0)
        self._ledger: Ledger | None = None
        self._tables = _fingerprint(layout)
        self._recount = Recount()

    # The order of calls.

    def open(self, store: BlobStore) -> None:
        head = read_head(store)
        self._sections = []
        self._costs = (0, 0)
        # The last bundle was neither committed nor abandoned.
        self._file.rollback()
        try:
            self._file.begin()
            self._agree(store, head)
        except sqlite3.DatabaseError:
            # The file is damaged, which costs reading the log again and nothing else.
            self._file.discard()
            self._file.begin()
            self._agree(store, head)
        self._head = head

    def parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]:
        with self._or_discarded():
            yield from self._parts(slots, clocks, runner)

    def _parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]:
        positions: dict[bytes, list[int]] = {}
        for position, data in enumerate(map(slot_to_bytes, slots)):
            positions.setdefault(data, []).append(position)
        names = list(positions)
        for first in range(0, len(names), self._part_keys):
            chunk = names[first : first + self._part_keys]
            yield from self._part(chunk, sorted(position for name in chunk for position in positions[name]))
        for chunk in self._due_chunks(clocks, runner, positions):
            yield from self._part(chunk, [])
        for chunk in self._due.expired(clocks, sweep_budget(len(slots))):
            yield from self._part(chunk, [], sweeps=True)

    def limit(self, limiter: Limiting) -> None:
        suspects = list(map(slot_to_bytes, limiter.suspects))
        for first in range(0, len(suspects), self._part_keys):
            for part in self._part(suspects[first : first + self._part_keys], []):
                limiter.trim(part.state)
        assert self._ledger is not None
        while limiter.is_over(self._ledger):
            chunk = self._rows.heaviest(_HEAVIEST) if limiter.fails else self._due.oldest()
            if not chunk and not limiter.fails:
                break
            for part in self._part(chunk, []):
                limiter.evict(part.state)

    def commit(self, store: BlobStore) -> Commit:
        with self._or_discarded():
            return self._commit(store)

    def _commit(self, store: BlobStore) -> Commit:
        if not self._sections:
            self._file.commit()
            self._rows.windows.committed(self._head.token)
            return Commit(0, 0, *self._costs)
        began = time.perf_counter_ns()
        appended = append(store, self._head, self._sections, self._options, self._snapshot())
        self._head = appended.head
        self._note_head(appended.head)
        self._file.commit()
        self._rows.windows.committed(self._head.token)
        self._sections = []
        took = (time.perf_counter_ns() - began) // 1000 if appended.snapshot_bytes else 0
        return Commit(appended.delta_bytes, appended.snapshot_bytes, *self._costs, took)

    def abandon(self) -> None:
        self._sections = []
        self._file.rollback()

    @contextlib.contextmanager
    def _or_discarded(self) -> Iterator[None]:
        """Removes a file that turns out to be damaged, or the same bundle would hit it again and again."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            path = self._file.at
            self._file.discard()
            raise CorruptState(
                f"The working copy of a key group on the local disk is damaged, or cannot be written: {error}",
                detail=f"The file {str(path)!r} was removed. The stored log is intact.",
                todo="run the micro-batch again; if it happens again, check the disk and its free space",
            ) from error

    def next_due(self, runner: Schedule) -> Due:
        event = [self._due.next_event, self._rows.windows.next_due(runner)]
        return Due(min((when for when in event if when is not None), default=None), self._due.next_real)

    def everything(self, store: BlobStore) -> Iterator[KeyGroupState]:
        """Read from the log, not from the file, as a fresh worker would."""
        state = KeyGroupState(self._layout)
        for name, blob in whole(store, read_head(store)):
            apply_sections(state, blob.sections, name)
        state.reindex()
        yield state

    def release(self) -> None:
        self._file.close()

    @property
    def memory_bytes(self) -> int:
        return MEMORY_BYTES if self._file.is_open else 0

    @property
    def holding(self) -> Holding:
        keys, timers, windows = self._recount(self._counted)
        return Holding(keys, self._head.snapshot_bytes + self._head.delta_bytes, timers, windows)

    def _counted(self) -> tuple[int, int, int]:
        with self._or_discarded():
            return self._rows.count(), self._due.count(), len(self._rows.windows)

    # Agreeing with the store.

    def _agree(self, store: BlobStore, head: Head) -> None:
        """Brings the file to the state of the head."""
        meta = dict(self._file.sql("SELECT name, value FROM meta"))
        token, last = meta.get("token", NO_TOKEN), meta.get("last", 0)
        if meta and meta.get("tables") != self._tables:
            # Written by other code, whose cells had other indexes.
            token = None
        if self._layout.step.limits is not None:
            self._ledger = Ledger(int(meta.get("keys", 0)), int(meta.get("bytes", 0)))
            if "keys" not in meta:
                token, last = (NO_TOKEN, 0) if not meta else (None, 0)
        self._rows.windows.begin(meta.get("token"))
        if (token, last) == (head.token, head.last):
            return
        behind = missed(store, head, token, last)
        if behind is None:
            self._file.empty()
            self._rows.windows.empty()
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

    def _note_head(self, head: Head) -> None:
        rows: list[tuple[str, Any]] = [("token", head.token), ("last", head.last), ("tables", self._tables)]
        if self._ledger is not None:
            rows += [("keys", self._ledger.keys), ("bytes", self._ledger.total)]
        self._file.many("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        self._rows.windows.write()

    def _replay(self, name: str, blob: Blob) -> None:
        """Applies a blob to the file."""
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
        self._rows.save(state, touched.union(before))
        self._due.save(state, names)

    def _drop_window(self, window: bytes) -> None:
        for names in self._rows.keys_of(window):
            if self._ledger is not None:
                state, _ = self._load(names)
                state.windows.pop(window, None)
                self._ledger.recount(state)
            self._rows.forget(window, names)
            if self._due.is_kept:
                self._due.save(self._load(names)[0], names)
        self._rows.windows.drop(window)

    # Parts.

    def _part(self, names: list[bytes], positions: list[int], *, sweeps: bool = False) -> Iterator[Part]:
        state, before = self._load(names)
        state.reindex()
        state.ledger = self._ledger
        cells = (window.tables[cell].values for window in state.windows.values() for cell in self._layout.stamps)
        yield Part(state, positions, sum(map(len, cells)) if sweeps else 0)
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
            self._rows.save(state, touched)
            self._due.save(state, names)

    def _load(self, names: list[bytes]) -> tuple[KeyGroupState, dict[tuple[bytes, Slot], None]]:
        state, before = self._rows.load(names)
        state.bundle = self._head.last + 1
        if self._ledger is not None:
            self._ledger.look_at(state)
        return state, before

    def _due_chunks(self, clocks: BundleClocks, runner: Schedule, done: Container[bytes]) -> Iterator[list[bytes]]:
        """The keys with something due, except those in `done`."""
        if clocks.final:
            yield from self._rows.all_keys(done)
            return
        yield from self._due.timers(clocks)
        watermark = max(clocks.late, clocks.watermark)
        for data in self._rows.windows.due(watermark, runner):
            yield from self._rows.keys_of(data, done)
            self._rows.windows.fire(data)

    def _snapshot(self) -> Iterator[list[Section]]:
        """The whole state as segments, some keys at a time."""
        for names in self._rows.all_keys():
            state, _ = self._load(names)
            yield from segments(state, self._options.segment_bytes_max)


def _fingerprint(layout: Layout) -> bytes:
    """Identifies the layout that a file's rows belong to: they refer to cells by index."""
    described = json.dumps([spec.describe() for spec in layout.specs], sort_keys=True, default=repr)
    return hashlib.blake2b(described.encode(), digest_size=16).digest()
