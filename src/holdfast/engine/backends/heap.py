"""The heap backend: the whole key group in memory, its log in the store.

Invariants
- The copy in memory is trusted only while `token` names the state it holds, and only if that token is in the store's
  chain: the head's own, or the parent of the next delta. Everything else (an attempt that failed or ran twice, another
  query's work, a rolled-back micro-batch) has a token that is not in the chain, and is discarded.
- `open` clears the copy's token before the bundle can change the copy; `commit` sets the new one only after all writes
  succeeded. A bundle abandoned in between leaves a copy without a token.
- The store is never behind the memory: nothing committed exists only in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from holdfast.engine.backends.protocol import Commit, Due, Limiting, Part, Schedule
from holdfast.engine.log.blob import Blob
from holdfast.engine.log.chain import HEAD, SnapshotOptions, append, delta_name, missed, read_head, segment_name, whole
from holdfast.engine.log.head import Head
from holdfast.engine.log.sections import KeyBlocks, apply_sections, delta_sections, section_bytes, segments
from holdfast.engine.log.store import BlobStore
from holdfast.engine.metrics.holding import Holding, Recount
from holdfast.engine.state.following import Follower
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.memory import MemoryMeter
from holdfast.engine.state.sweeping import sweep_budget
from holdfast.engine.tables import Slot
from holdfast.model.present import BundleClocks
from holdfast.model.time.timers import TimeDomain

__all__ = ["HEAD", "HeapBackend", "HeapOptions", "delta_name", "memory_estimate", "segment_name"]

_ENTRY_BYTES = 200

HeapOptions = SnapshotOptions


def memory_estimate(stored_bytes: int, entries: int) -> int:
    """Roughly what a copy in memory would take, where there is none to measure."""
    return 3 * stored_bytes + _ENTRY_BYTES * entries


class HeapBackend:
    """Keeps one key group in memory and its log in the store."""

    def __init__(self, layout: Layout, options: SnapshotOptions | None = None) -> None:
        self._layout = layout
        self._options = options or SnapshotOptions()
        self._state = KeyGroupState(layout)
        self._head = Head()
        self._token: bytes | None = self._head.token
        self.loads = 0
        """How often the state had to be read from the beginning."""
        self.catch_ups = 0
        """How often only missed deltas had to be read."""
        self._opened = (0, 0)
        self._meter = MemoryMeter()
        self._recount = Recount()

    def open(self, store: BlobStore) -> KeyGroupState:
        self._opened = (self.loads, self.catch_ups)
        head = read_head(store)
        if self._token is None or self._token != head.token or self._head.last != head.last:
            behind = missed(store, head, self._token, self._head.last)
            self._token = None
            if behind is None:
                self._load(store, head)
            else:
                self._catch_up(behind)
        self._head = head
        self._token = None
        self._state.bundle = head.last + 1
        return self._state

    def parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]:
        """One part: everything is in memory."""
        yield Part(self._state, None, sweep_budget(len(slots)))

    def limit(self, limiter: Limiting) -> None:
        limiter.trim(self._state)
        limiter.evict(self._state)

    def commit(self, store: BlobStore) -> Commit:
        sections = delta_sections(self._state)
        loads, catch_ups = self.loads - self._opened[0], self.catch_ups - self._opened[1]
        if not sections:
            self._state.settle()
            self._token = self._head.token
            return Commit(0, 0, loads, catch_ups)
        began = time.perf_counter_ns()
        snapshot = segments(self._state, self._options.segment_bytes_max)
        appended = append(store, self._head, sections, self._options, snapshot)
        self._state.settle()
        self._meter.wrote(section_bytes(sections))
        self._head, self._token = appended.head, appended.head.token
        took = (time.perf_counter_ns() - began) // 1000 if appended.snapshot_bytes else 0
        return Commit(appended.delta_bytes, appended.snapshot_bytes, loads, catch_ups, took)

    def abandon(self) -> None:
        self._token = None

    def next_due(self, runner: Schedule) -> Due:
        return Due(runner.next_event(self._state), self._state.indexes[TimeDomain.REAL_TIME].next_time)

    def everything(self, store: BlobStore) -> Iterator[KeyGroupState]:
        yield self.open(store)

    def release(self) -> None:
        """Frees the memory at once, without waiting for the garbage collector to find its cycles."""
        self._token = None
        for index in self._state.indexes.values():
            index.forget()
        self._state = KeyGroupState(self._layout)
        self._meter = MemoryMeter()

    @property
    def memory_bytes(self) -> int:
        return self._meter.estimate(self._state, self._head.snapshot_bytes + self._head.delta_bytes)

    @property
    def holding(self) -> Holding:
        keys, timers, windows = self._recount(self._counted)
        return Holding(keys, self._head.snapshot_bytes + self._head.delta_bytes, timers, windows)

    def _counted(self) -> tuple[int, int, int]:
        windows = self._state.windows.values()
        keys = sum(max((len(table.values) for table in window.tables), default=0) for window in windows)
        return keys, sum(map(len, self._state.indexes.values())), len(windows)

    def _catch_up(self, behind: Sequence[Blob]) -> None:
        """Applies the deltas that the copy has missed."""
        is_empty = not self._head.last
        follower = None if is_empty else Follower(self._state)
        for blob in behind:
            self._meter.wrote(section_bytes(blob.sections))
            apply_sections(self._state, blob.sections, delta_name(blob.sequence), follower)
        if follower is None:
            self._state.reindex()
            self.loads += 1
        else:
            follower.finish()
            self.catch_ups += 1

    def _load(self, store: BlobStore, head: Head) -> None:
        """Reads everything: the snapshot, then the deltas after it."""
        self._state = KeyGroupState(self._layout)
        self._meter = MemoryMeter()
        blocks = KeyBlocks()
        for name, blob in whole(store, head):
            apply_sections(self._state, blob.sections, name, blocks=blocks)
        self._state.reindex()
        self.loads += 1
