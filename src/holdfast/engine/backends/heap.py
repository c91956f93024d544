"""The heap backend: the whole key group in memory, a log of deltas and snapshots in the store.

The store holds `head`, one blob `d<sequence>` for each delta after the base, and the segments `s<base>.<part>` of the
snapshot at the base. A bundle that changed nothing writes nothing. One that did appends a delta; when the deltas have
outgrown the snapshot, it writes a new snapshot in their place instead, which is paid for by the deltas that led to it.

Invariants
- The copy in memory is trusted only while `token` names the state it holds, and only if that token is in the chain that
  the store has: the head's own, or the parent of the next delta. Everything else (an attempt that failed or ran
  twice, another query's work, a rolled-back micro-batch) has a token that is not there, and is thrown away.
- `open` takes the copy's token away before the bundle can change it; `commit` gives it the new one only after all
  writes went through. A bundle that is abandoned in between leaves a copy without a token.
- The store is never behind the memory: nothing in memory is the only copy of a committed fact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.engine.backends.protocol import BlobStore, Commit
from holdfast.engine.log.blob import DELTA, SEGMENT, Blob, Section, plain_size, read_blob, write_blob
from holdfast.engine.log.head import Head
from holdfast.engine.log.sections import apply_sections, delta_sections, segments
from holdfast.engine.state import KeyGroupState, Layout
from holdfast.engine.tables import Slot
from holdfast.errors import CorruptState

__all__ = ["HEAD", "HeapBackend", "HeapOptions", "delta_name", "segment_name"]

HEAD = "head"

_ENTRY_BYTES = 200


class HeapOptions:
    """When to write a snapshot: once the deltas, before compression, are larger than `snapshot_ratio` times the last
    one and than `delta_bytes_min`, or more than `deltas_max` in number. `spread` (0 to 1) shifts these limits, so that
    key groups with equal load do not all pay in the same micro-batch."""

    def __init__(
        self,
        *,
        snapshot_ratio: float = 1.0,
        delta_bytes_min: int = 256 * 1024,
        deltas_max: int = 200,
        segment_bytes_max: int = 4 * 1024 * 1024,
        spread: float = 0.0,
    ) -> None:
        self.snapshot_ratio = snapshot_ratio * (1 + spread)
        self.delta_bytes_min = int(delta_bytes_min * (1 + spread))
        self.deltas_max = int(deltas_max * (1 + spread))
        self.segment_bytes_max = segment_bytes_max


class HeapBackend:
    """Keeps one key group in memory and its log in the store."""

    def __init__(self, layout: Layout, options: HeapOptions | None = None) -> None:
        self._layout = layout
        self._options = options or HeapOptions()
        self._state = KeyGroupState(layout)
        self._head = Head()
        self._token: bytes | None = self._head.token
        self.loads = 0
        """How often the state had to be read from its beginning."""
        self.catch_ups = 0
        """How often only the deltas that were missed had to be read."""
        self._opened = (0, 0)

    def open(self, store: BlobStore) -> KeyGroupState:
        self._opened = (self.loads, self.catch_ups)
        head = _read_head(store)
        if self._token is None or self._token != head.token or self._head.last != head.last:
            missed = self._missed(store, head)
            self._token = None
            if missed is None:
                self._load(store, head)
            else:
                for blob in missed:
                    apply_sections(self._state, blob.sections, delta_name(blob.sequence))
                self._state.reindex()
                if self._head.last:
                    self.catch_ups += 1
                else:
                    self.loads += 1
        self._head = head
        self._token = None
        return self._state

    def prepare(self, slots: Iterable[Slot]) -> None:
        """Nothing to do: everything is at hand."""

    def commit(self, store: BlobStore) -> Commit:
        sections = delta_sections(self._state)
        if not sections:
            self._state.settle()
            self._token = self._head.token
            return self._commit()
        sequence = self._head.last + 1
        delta, token = write_blob(DELTA, sequence, self._head.token, sections)
        delta_bytes = self._head.delta_bytes + plain_size(delta)
        head = replace(self._head, last=sequence, token=token, delta_bytes=delta_bytes)
        if self._is_snapshot_due(head):
            head, written = self._write_snapshot(store, head)
            commit = self._commit(snapshot_bytes=written)
        else:
            store.put(delta_name(sequence), delta)
            commit = self._commit(delta_bytes=len(delta))
        store.put(HEAD, head.encode())
        self._state.settle()
        self._head, self._token = head, token
        return commit

    def _commit(self, delta_bytes: int = 0, snapshot_bytes: int = 0) -> Commit:
        loads, catch_ups = self._opened
        return Commit(delta_bytes, snapshot_bytes, self.loads - loads, self.catch_ups - catch_ups)

    def abandon(self) -> None:
        self._token = None

    def release(self) -> None:
        """Gives the memory back at once, without waiting for the collector to find the cycles in it."""
        self._token = None
        for index in self._state.indexes.values():
            index.forget()
        self._state = KeyGroupState(self._layout)

    @property
    def is_new(self) -> bool:
        """Whether nothing has ever been committed to the log."""
        return self._head.last == 0

    @property
    def memory_bytes(self) -> int:
        """An estimate of what the copy in memory takes: each entry costs a place in a dict besides its own size."""
        entries = sum(len(table.values) for window in self._state.windows.values() for table in window.tables)
        return 3 * (self._head.snapshot_bytes + self._head.delta_bytes) + _ENTRY_BYTES * entries

    def _is_snapshot_due(self, head: Head) -> bool:
        options = self._options
        if head.last - head.base > options.deltas_max:
            return True
        return head.delta_bytes > max(options.delta_bytes_min, options.snapshot_ratio * head.snapshot_bytes)

    def _write_snapshot(self, store: BlobStore, head: Head) -> tuple[Head, int]:
        """The head after a snapshot, and how many bytes that wrote."""
        parts: list[list[Section]] = list(segments(self._state, self._options.segment_bytes_max))
        for part in range(head.parts):
            store.remove(segment_name(head.base, part))
        for sequence in range(head.base + 1, head.last):
            store.remove(delta_name(sequence))
        size = written = 0
        for part, sections in enumerate(parts):
            blob, _ = write_blob(SEGMENT, head.last, head.token, sections, part=part, parts=len(parts))
            store.put(segment_name(head.last, part), blob)
            size += plain_size(blob)
            written += len(blob)
        head = replace(head, base=head.last, base_token=head.token, parts=len(parts), snapshot_bytes=size, delta_bytes=0)
        return head, written

    def _missed(self, store: BlobStore, head: Head) -> list[Blob] | None:
        """The deltas that lead from the copy in memory to the head, or None if the copy is not on the way there."""
        if self._token is None or not head.base <= self._head.last < head.last:
            return None
        missed: list[Blob] = []
        token = self._token
        for sequence in range(self._head.last + 1, head.last + 1):
            data = store.get(delta_name(sequence))
            if data is None:
                raise _gap(sequence, head)
            blob = read_blob(data, delta_name(sequence))
            if blob.parent != token and not missed:
                return None
            if (blob.parent, blob.sequence, blob.kind) != (token, sequence, DELTA):
                raise _broken(sequence)
            missed.append(blob)
            token = blob.token
        if token != head.token:
            raise _broken(head.last)
        return missed

    def _load(self, store: BlobStore, head: Head) -> None:
        """Reads everything: the snapshot, then the deltas after it."""
        blobs = dict(store.items())
        self._state = KeyGroupState(self._layout)
        for part in range(head.parts):
            name = segment_name(head.base, part)
            if name not in blobs:
                raise CorruptState(f"The stored snapshot is not whole: {name!r}, one of {head.parts}, is missing.")
            segment = read_blob(blobs[name], name)
            # The first delta after a snapshot has the same parent as its segments: the kind tells them apart.
            if segment[:5] != (SEGMENT, head.base, part, head.parts, head.base_token):
                raise CorruptState(
                    f"The stored blob {name!r} is not that segment of this snapshot.",
                    todo="restore the checkpoint from a copy, or go back to an earlier micro-batch",
                )
            apply_sections(self._state, segment.sections, name)
        token = head.base_token
        for sequence in range(head.base + 1, head.last + 1):
            name = delta_name(sequence)
            if name not in blobs:
                raise _gap(sequence, head)
            delta = read_blob(blobs[name], name)
            if (delta.parent, delta.sequence, delta.kind) != (token, sequence, DELTA):
                raise _broken(sequence)
            apply_sections(self._state, delta.sections, name)
            token = delta.token
        if token != head.token:
            raise _broken(head.last)
        self._state.reindex()
        self.loads += 1


def delta_name(sequence: int) -> str:
    return f"d{sequence:016x}"


def segment_name(base: int, part: int) -> str:
    return f"s{base:016x}.{part:04x}"


def _read_head(store: BlobStore) -> Head:
    data = store.get(HEAD)
    if data is None and any(name.startswith(("d", "s")) for name, _ in store.items()):
        raise CorruptState(
            f"The stored log is not whole: {HEAD!r} is missing, but there are other blobs.",
            todo="restore the checkpoint from a copy, or go back to an earlier micro-batch",
        )
    return Head.decode(data)


def _gap(sequence: int, head: Head) -> CorruptState:
    return CorruptState(
        f"The stored log is not whole: {delta_name(sequence)!r} is missing between {head.base} and {head.last}.",
        todo="restore the checkpoint from a copy, or go back to an earlier micro-batch",
    )


def _broken(sequence: int) -> CorruptState:
    return CorruptState(
        f"The stored log is not one chain: {delta_name(sequence)!r} does not follow from what is before it.",
        todo="restore the checkpoint from a copy, or go back to an earlier micro-batch",
    )
