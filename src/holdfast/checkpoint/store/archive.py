"""Snapshots: a state store as RocksDB's files, of which the small ones are in an archive and the tables beside it.

<version>.zip    CURRENT, MANIFEST-…, OPTIONS-…, ….log: RocksDB's own
                 metadata: "v1", and a line of JSON that names the tables and numbers the state variables
SSTs/            the tables, under names of their own: several snapshots share them
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from typing import Annotated, NamedTuple

import msgspec

from holdfast.engine.stored.documents import Malformed, read_document
from holdfast.errors import CorruptState, NeedsSpark

__all__ = ["BLOBS", "Snapshot", "read_snapshot", "snapshot_tables"]

BLOBS = "blobs"
"""The state variable that has the blobs."""

_VERSION = b"v1"
_FILE_BYTES_MAX = 64 << 20
_PLAIN_NAME = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f]+")
_LOCAL_TABLE = re.compile(r"[0-9]{1,18}\.sst")
_OWN_FILE = re.compile(r"CURRENT|MANIFEST-[0-9]{1,18}|OPTIONS-[0-9]{1,18}|[0-9]{1,18}\.log")
_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, LookupError, ValueError, OSError)
"""What reading a foreign or damaged archive raises; RuntimeError if it claims to be encrypted."""


class _File(
    msgspec.Struct,
    rename={"table": "dfsSstFileName", "log": "dfsLogFileName", "local": "localFileName", "size": "sizeBytes"},
):
    size: _Size
    table: str | None = None
    log: str | None = None
    local: str = ""


class _Description(msgspec.Struct, rename={"tables": "sstFiles", "logs": "logFiles", "families": "columnFamilyMapping"}):
    tables: list[_File] = []
    logs: list[_File] = []
    families: dict[str, int] = {}


class Snapshot(NamedTuple):
    """What it takes to open a snapshot."""

    own_files: dict[str, bytes]
    """RocksDB's small files, by name."""
    tables: dict[str, str]
    """The name of each table in RocksDB, by its name beside the archive."""
    sizes: dict[str, int]
    """The size of each table, by its name beside the archive."""
    blobs_family: int | None
    """The number of the variable that has the blobs; None if it has never been written to."""


def snapshot_tables(data: bytes, path: str) -> dict[str, int]:
    """The files that a snapshot names, with their sizes."""
    with _opened(data, path) as archive:
        form = _described(archive, path)
    found = {str(file.table or file.log): file.size for file in (*form.tables, *form.logs)}
    if not all(map(_PLAIN_NAME.fullmatch, found)):
        raise CorruptState(f"The snapshot {path!r} is damaged: it names files outside its folder.")
    return found


def read_snapshot(data: bytes, path: str) -> Snapshot:
    """The snapshot in an archive. Raises CorruptState if it is damaged, NeedsSpark if its format is unknown."""
    sizes = snapshot_tables(data, path)
    with _opened(data, path) as archive:
        form = _described(archive, path)
        own = {name: _content(archive, name, path) for name in archive.namelist() if name != "metadata"}
        version = _content(archive, "metadata", path).split(b"\n", 1)[0]
    tables = {str(file.table): file.local for file in form.tables}
    if version != _VERSION or form.logs or not all(map(_OWN_FILE.fullmatch, own)):
        raise NeedsSpark(f"The snapshot {path!r} has an unknown format.")
    if len(tables) != len(form.tables) or not all(map(_LOCAL_TABLE.fullmatch, tables.values())):
        raise CorruptState(f"The snapshot {path!r} is damaged: it does not name its tables.")
    return Snapshot(own, tables, sizes, form.families.get(BLOBS))


class _opened:
    """An archive; what reading a damaged one raises becomes CorruptState."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path

    def __enter__(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(io.BytesIO(self._data))
        except _UNREADABLE as error:
            raise _damaged(self._path, error) from None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _UNREADABLE):
            raise _damaged(self._path, error) from None


def _damaged(path: str, error: BaseException) -> CorruptState:
    return CorruptState(f"The snapshot {path!r} is damaged: {error}.")


def _described(archive: zipfile.ZipFile, path: str) -> _Description:
    content = _content(archive, "metadata", path).split(b"\n", 1)[1]
    try:
        return read_document(content, _Description)
    except Malformed as error:
        todo = "go back to an earlier micro-batch, or restore a savepoint"
        raise CorruptState(f"{path!r} is damaged: {error}.", todo=todo) from None


def _content(archive: zipfile.ZipFile, name: str, path: str) -> bytes:
    if archive.getinfo(name).file_size > _FILE_BYTES_MAX:
        what = "its description" if name == "metadata" else repr(name)
        raise CorruptState(f"The snapshot {path!r} is damaged: {what} is too large.")
    return archive.read(name)
