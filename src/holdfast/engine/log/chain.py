"""The log of a key group in its store: a head, the segments of a snapshot, and the deltas after it, in one chain.

The store holds `head`, one blob `d<sequence>` for each delta after the base, and the segments `s<base>.<part>` of the
snapshot at the base. A bundle that changed nothing writes nothing. Any other appends a delta; or, when the deltas have
outgrown the snapshot, replaces them by a new snapshot, so that its cost is spread over the deltas before it.

All of Holdfast's own backends keep this log, so each can read what another has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from holdfast.engine.log.blob import DELTA, SEGMENT, Blob, Section, plain_size, read_blob, write_blob
from holdfast.engine.log.head import Head
from holdfast.engine.log.store import BlobStore
from holdfast.errors import CorruptState

__all__ = ["HEAD", "Appended", "SnapshotOptions", "append", "delta_name", "missed", "read_head", "segment_name", "whole"]

HEAD = "head"
_RESTORE = "restore the checkpoint from a copy, or go back to an earlier micro-batch"


_DELTAS_MAX = 200
_BYTES_PER_DELTA = 4096
"""Reading a delta takes a call of the store, and that about as long as decoding so much of a snapshot, or twice that."""
_READ_TOGETHER = 16
"""How many deltas are fetched at a time: they are in memory together."""


class SnapshotOptions:
    """When to write a snapshot: once the deltas, before compression, are larger than both `snapshot_ratio` times the last
    snapshot and `delta_bytes_min`, or there are more than `deltas_max`. If that is not given, it is 200, or one for each
    4 KiB of the last snapshot: the larger that is, the more small deltas pay for the next. `spread` (0 to 1) shifts these
    limits, so that key groups with equal load do not all write one in the same micro-batch."""

    def __init__(
        self,
        *,
        snapshot_ratio: float = 1.0,
        delta_bytes_min: int = 256 * 1024,
        deltas_max: int | None = None,
        segment_bytes_max: int = 4 * 1024 * 1024,
        spread: float = 0.0,
    ) -> None:
        self.snapshot_ratio = snapshot_ratio * (1 + spread)
        self.delta_bytes_min = int(delta_bytes_min * (1 + spread))
        self.deltas_max = None if deltas_max is None else int(deltas_max * (1 + spread))
        self._spread = spread
        self.segment_bytes_max = segment_bytes_max

    def is_due(self, head: Head) -> bool:
        if head.last - head.base > self._most_deltas(head):
            return True
        return head.delta_bytes > max(self.delta_bytes_min, self.snapshot_ratio * head.snapshot_bytes)

    def _most_deltas(self, head: Head) -> int:
        if self.deltas_max is not None:
            return self.deltas_max
        return int(max(_DELTAS_MAX, head.snapshot_bytes // _BYTES_PER_DELTA) * (1 + self._spread))


class Appended(NamedTuple):
    """The result of appending to a log."""

    head: Head
    delta_bytes: int
    snapshot_bytes: int


def read_head(store: BlobStore) -> Head:
    data = store.get(HEAD)
    if data is None and any(name.startswith(("d", "s")) for name, _ in store.items()):
        raise CorruptState(
            f"The stored log is incomplete: {HEAD!r} is missing, but there are other blobs.",
            todo=_RESTORE,
        )
    return Head.decode(data)


def append(
    store: BlobStore, head: Head, sections: list[Section], options: SnapshotOptions, snapshot: Iterable[list[Section]]
) -> Appended:
    """Appends a delta with these sections; or, if a snapshot is due, writes that instead: it already contains them.

    `snapshot` is only iterated over if needed.
    """
    sequence = head.last + 1
    delta, token = write_blob(DELTA, sequence, head.token, sections)
    delta_bytes = head.delta_bytes + plain_size(delta, delta_name(sequence))
    head = replace(head, last=sequence, token=token, delta_bytes=delta_bytes)
    if options.is_due(head):
        head, written = _write_snapshot(store, head, snapshot)
        appended = Appended(head, 0, written)
    else:
        store.put(delta_name(sequence), delta)
        appended = Appended(head, len(delta), 0)
    store.put(HEAD, head.encode())
    return appended


def _write_snapshot(store: BlobStore, head: Head, snapshot: Iterable[list[Section]]) -> tuple[Head, int]:
    """The head after a snapshot, and how many bytes it wrote."""
    for part in range(head.parts):
        store.remove(segment_name(head.base, part))
    for sequence in range(head.base + 1, head.last):
        store.remove(delta_name(sequence))
    size = written = parts = 0
    for sections in snapshot:
        blob, _ = write_blob(SEGMENT, head.last, head.token, sections, part=parts)
        store.put(segment_name(head.last, parts), blob)
        size += plain_size(blob, segment_name(head.last, parts))
        written += len(blob)
        parts += 1
    head = replace(head, base=head.last, base_token=head.token, parts=parts, snapshot_bytes=size, delta_bytes=0)
    return head, written


def missed(store: BlobStore, head: Head, token: bytes | None, last: int) -> list[Blob] | None:
    """The deltas that lead from a copy, with its token and last delta, to the head; None if it is not in the chain."""
    if token is None or not head.base <= last < head.last:
        return None
    found: list[Blob] = []
    for sequence, data in _deltas(store, last, head):
        if data is None:
            raise _gap(sequence, head)
        blob = read_blob(data, delta_name(sequence))
        if blob.parent != token and not found:
            return None
        if (blob.parent, blob.sequence, blob.kind) != (token, sequence, DELTA):
            raise _broken(sequence)
        found.append(blob)
        token = blob.token
    if token != head.token:
        raise _broken(head.last)
    return found


def whole(store: BlobStore, head: Head) -> Iterator[tuple[str, Blob]]:
    """Everything: the segments of the snapshot, then the deltas after it, with their names. Each is checked before it is
    yielded; that they lead to the head is checked after the last."""
    for part in range(head.parts):
        name = segment_name(head.base, part)
        data = store.get(name)
        if data is None:
            raise CorruptState(f"The stored snapshot is incomplete: {name!r}, one of {head.parts}, is missing.")
        segment = read_blob(data, name)
        # The first delta after a snapshot has the same parent as its segments: the kind tells them apart.
        if (segment.kind, segment.sequence, segment.part, segment.parent) != (SEGMENT, head.base, part, head.base_token):
            raise CorruptState(f"The stored blob {name!r} is not that segment of this snapshot.", todo=_RESTORE)
        yield name, segment
    token = head.base_token
    for sequence, data in _deltas(store, head.base, head):
        name = delta_name(sequence)
        if data is None:
            raise _gap(sequence, head)
        delta = read_blob(data, name)
        if (delta.parent, delta.sequence, delta.kind) != (token, sequence, DELTA):
            raise _broken(sequence)
        yield name, delta
        token = delta.token
    if token != head.token:
        raise _broken(head.last)


def _deltas(store: BlobStore, after: int, head: Head) -> Iterator[tuple[int, bytes | None]]:
    """The stored deltas after this one up to the head, with their numbers. Some are fetched together."""
    for first in range(after + 1, head.last + 1, _READ_TOGETHER):
        some = range(first, min(first + _READ_TOGETHER, head.last + 1))
        store.expect(map(delta_name, some))
        for sequence in some:
            yield sequence, store.get(delta_name(sequence))


def delta_name(sequence: int) -> str:
    return f"d{sequence:016x}"


def segment_name(base: int, part: int) -> str:
    return f"s{base:016x}.{part:04x}"


def _gap(sequence: int, head: Head) -> CorruptState:
    return CorruptState(
        f"The stored log is incomplete: {delta_name(sequence)!r} is missing between {head.base} and {head.last}.",
        todo=_RESTORE,
    )


def _broken(sequence: int) -> CorruptState:
    return CorruptState(
        f"The stored log is not one chain: {delta_name(sequence)!r} does not follow from the delta before it.",
        todo=_RESTORE,
    )
