"""A snapshot opened with RocksDB: read only, in a private folder, never in the job's own.

The folder has RocksDB's small files out of the archive and links to the tables, which nobody ever changes: links, so that
large state is not copied, and so that what a running job removes meanwhile stays until we are done. The folder is removed
afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.checkpoint.files.access import FileInfo, Files
from holdfast.checkpoint.files.paths import join, local_path
from holdfast.checkpoint.store.archive import Snapshot, read_snapshot
from holdfast.checkpoint.store.vanishing import content_of, missing
from holdfast.errors import CorruptState, NeedsSpark

__all__ = ["Store", "opened_store"]


class Store:
    """An opened snapshot: a sorted map of bytes."""

    def __init__(self, database: Any, path: str, blobs_family: int | None) -> None:
        self._database = database
        self._path = path
        self.blobs_family = blobs_family
        """The number of the variable that has the blobs; None if there are none."""

    def keys_from(self, start: bytes) -> Cursor:
        """The keys that begin with these bytes, in order."""
        return Cursor(self._database.iter(), start, self._path)

    def get(self, key: bytes) -> bytes | None:
        with _as_corrupt(self._path):
            value: bytes | None = self._database.get(key)
            return value


class Cursor:
    """Goes over the keys that begin with some bytes."""

    def __init__(self, iterator: Any, prefix: bytes, path: str) -> None:
        self._iterator = iterator
        self._prefix = prefix
        self._path = path
        self._at = prefix

    def __iter__(self) -> Iterator[bytes]:
        with _as_corrupt(self._path):
            self._iterator.seek(self._at)
            while self._iterator.valid():
                key: bytes = self._iterator.key()
                if not key.startswith(self._prefix):
                    break
                yield key
                if self._at > key:
                    self._iterator.seek(self._at)
                else:
                    self._iterator.next()
            # An iterator that met damage is not valid either.
            self._iterator.status()

    def value(self) -> bytes:
        """The value of the key that was just given."""
        with _as_corrupt(self._path):
            value: bytes = self._iterator.value()
            return value

    def skip(self, prefix: bytes) -> None:
        """Leaves out what else begins with these bytes."""
        number = int.from_bytes(prefix, "big") + 1
        self._at = number.to_bytes(len(prefix), "big")


@contextlib.contextmanager
def opened_store(files: Files, folder: str, snapshot: FileInfo) -> Iterator[Store]:
    """Opens a snapshot of the partition in `folder`.

    Raises CorruptState if it is damaged, NeedsSpark if its format is unknown or RocksDB is not installed, and Vanished if a
    file has been removed.
    """
    try:
        from rocksdict import AccessType, Options, Rdict
    except ImportError:
        raise NeedsSpark(
            f"Reading the snapshot {snapshot.path!r} without Spark needs rocksdict, which is not installed.",
            todo="pip install 'holdfast[tools]', or give a session",
        ) from None
    described = read_snapshot(content_of(files, snapshot.path), snapshot.path)
    private = Path(tempfile.mkdtemp(prefix="holdfast-snapshot-"))
    try:
        _fill(private, files, folder, snapshot, described)
        options = Options(raw_mode=True)
        options.create_if_missing(False)
        with _as_corrupt(snapshot.path):
            database = Rdict(str(private), options, access_type=AccessType.read_only())
        try:
            yield Store(database, snapshot.path, described.blobs_family)
        finally:
            database.close()
    except CorruptState:
        # Where only a symbolic link was possible, a table may go after all. RocksDB calls that damage.
        for name, own_name in described.tables.items():
            if not (private / own_name).exists():
                raise missing(join(folder, "SSTs", name)) from None
        raise
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _fill(private: Path, files: Files, folder: str, snapshot: FileInfo, described: Snapshot) -> None:
    for name, content in described.own_files.items():
        (private / name).write_bytes(content)
    for name, own_name in described.tables.items():
        table = join(folder, "SSTs", name)
        _place(files, table, private / own_name)
        size, wanted = (private / own_name).stat().st_size, described.sizes[name]
        if size != wanted:
            raise CorruptState(f"{table!r} is damaged: it has {size} bytes where its snapshot says {wanted}.")


def _place(files: Files, table: str, to: Path) -> None:
    """Makes a table available under another name."""
    local = local_path(table)
    if local is None:
        if not files.fetch(table, to):
            raise missing(table)
        return
    if not os.path.isfile(local):
        raise missing(table)
    try:
        os.link(local, to)
    except OSError:
        # Another file system, one without hard links, or another user's file.
        os.symlink(os.path.abspath(local), to)


@contextlib.contextmanager
def _as_corrupt(path: str) -> Iterator[None]:
    """RocksDB's errors as ours. They have no class of their own."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in ("Exception", "DbClosedError"):
            raise
        raise CorruptState(f"The snapshot {path!r} is damaged: {str(error).partition(chr(10))[0]}.") from None
