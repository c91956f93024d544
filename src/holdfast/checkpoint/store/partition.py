"""The blobs in one partition of a state store: those of its last snapshot, and what changelogs have changed since.

Only what is asked for is kept: all key groups or some, all blobs of them or those with certain names. A snapshot is read
only where those key groups are; a changelog from end to end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.checkpoint.files.access import FileInfo, Files
from holdfast.checkpoint.store.changelog import read_changelog
from holdfast.checkpoint.store.rocks import Store, opened_store
from holdfast.checkpoint.store.rows import BlobKey, blob_key, blob_of_value, family_of, group_prefix, key_label, key_of_blob
from holdfast.checkpoint.store.vanishing import content_of
from holdfast.errors import NeedsSpark

__all__ = ["BlobEdit", "PartitionFiles", "Wanted", "changed_blobs", "read_partition"]


@dataclass(frozen=True)
class PartitionFiles:
    """What a version of a partition is read from."""

    folder: str
    snapshot: FileInfo | None
    changelogs: tuple[FileInfo, ...]
    """After the snapshot, in order."""

    @property
    def identity(self) -> tuple[tuple[str, int, float], ...]:
        """The same for the same files, and another after any of them was replaced."""
        first = () if self.snapshot is None else (self.snapshot,)
        return tuple((file.path, file.size, file.modified_seconds) for file in (*first, *self.changelogs))


@dataclass(frozen=True)
class Wanted:
    """Which blobs to read; None is all."""

    labels: frozenset[int] | None = None
    names: frozenset[str] | None = None

    @classmethod
    def of(cls, labels: Collection[int] | None = None, names: Collection[str] | None = None) -> Wanted:
        return cls(None if labels is None else frozenset(labels), None if names is None else frozenset(names))

    def has(self, key: BlobKey) -> bool:
        if self.labels is not None and key.label not in self.labels:
            return False
        return self.names is None or key.name in self.names


class BlobEdit(NamedTuple):
    """A blob that got a content, or was removed."""

    label: int
    name: str
    blob: bytes | None


@dataclass
class _Families:
    """Which state variable has the blobs. Its keys are all blobs' keys, and no other variable's are."""

    blobs: set[int] = field(default_factory=set)
    others: set[int | None] = field(default_factory=set)

    def check(self, path: str) -> None:
        if len(self.blobs) > 1 or self.blobs & self.others:
            raise NeedsSpark(f"{path!r} keeps its keys in an unknown format.")


def read_partition(files: Files, source: PartitionFiles, wanted: Wanted) -> dict[int, dict[str, bytes]]:
    """The blobs of a partition by label and name.

    Raises CorruptState if a file is damaged, NeedsSpark if one has an unknown format, Vanished if one has been removed.
    """
    found: dict[int, dict[str, bytes]] = {}
    families = _Families()
    if source.snapshot is not None:
        with opened_store(files, source.folder, source.snapshot) as store:
            if store.blobs_family is not None:
                families.blobs.add(store.blobs_family)
                for key, blob in _stored(store, store.blobs_family, wanted, source.snapshot.path):
                    found.setdefault(key.label, {})[key.name] = blob
    for changelog in source.changelogs:
        for label, name, edited in _edits(files, changelog, wanted, families):
            blobs = found.setdefault(label, {})
            if edited is None:
                blobs.pop(name, None)
            else:
                blobs[name] = edited
    families.check(source.folder)
    return {label: blobs for label, blobs in found.items() if blobs}


def changed_blobs(files: Files, changelog: FileInfo, wanted: Wanted) -> list[BlobEdit]:
    """What a changelog changed, in order."""
    families = _Families()
    edits = list(_edits(files, changelog, wanted, families))
    families.check(changelog.path)
    return edits


def _edits(files: Files, changelog: FileInfo, wanted: Wanted, families: _Families) -> Iterator[BlobEdit]:
    for entry in read_changelog(content_of(files, changelog.path), changelog.path):
        key = blob_key(entry.key)
        if key is None:
            families.others.add(family_of(entry.key))
            continue
        families.blobs.add(key.family)
        if wanted.has(key):
            yield BlobEdit(key.label, key.name, None if entry.value is None else _blob(entry.value, changelog.path))


def _stored(store: Store, family: int, wanted: Wanted, path: str) -> Iterator[tuple[BlobKey, bytes]]:
    labels = _labels(store, family) if wanted.labels is None and wanted.names is not None else wanted.labels
    if labels is None:
        yield from _scanned(store, group_prefix(family), path)
    elif wanted.names is None:
        for label in labels:
            yield from _scanned(store, group_prefix(family, label), path)
    else:
        for label in labels:
            for name in wanted.names:
                value = store.get(key_of_blob(family, label, name))
                if value is not None:
                    yield BlobKey(family, label, name), _blob(value, path)


def _scanned(store: Store, prefix: bytes, path: str) -> Iterator[tuple[BlobKey, bytes]]:
    cursor = store.keys_from(prefix)
    for key in cursor:
        read = blob_key(key)
        if read is None:
            raise NeedsSpark(f"{path!r} keeps its keys in an unknown format.")
        yield read, _blob(cursor.value(), path)


def _labels(store: Store, family: int) -> Iterator[int]:
    """The labels in a snapshot; goes from one key group to the next without looking at its other blobs."""
    cursor = store.keys_from(group_prefix(family))
    for key in cursor:
        label = key_label(key)
        if label is not None:
            yield label
            cursor.skip(group_prefix(family, label))


def _blob(value: bytes, path: str) -> bytes:
    blob = blob_of_value(value)
    if blob is None:
        raise NeedsSpark(f"{path!r} keeps its values in an unknown format.")
    return blob
