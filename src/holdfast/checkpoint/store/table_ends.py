"""Which key groups a state store snapshot belongs to, by the first and last keys of its tables.

A snapshot is an archive. Its `metadata` names the tables, its `MANIFEST-…` is RocksDB's log of them: blocks of 32 KB with
records (checksum 4 bytes, size 2, kind 1: 1 whole, 2 first part, 3 middle, 4 last), each with edits: a number and its data.
Edit 103 adds a table: level, number, size, first key, last key. Anything unknown gives no answer.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator

from holdfast.checkpoint.store.rows import key_label

__all__ = ["table_labels"]

_BLOCK_BYTES = 1 << 15
_HEADER_BYTES = 7
_FILE_BYTES_MAX = 64 << 20
_WHOLE, _FIRST, _LAST = 1, 2, 4
_ADDED = 103
_TEXTS = {1, 201}
"""Edits with one string; so are all from 8192 on, which readers may skip."""
_NUMBERS = {2: 1, 3: 1, 4: 1, 6: 2, 9: 1, 10: 1, 200: 1, 203: 1, 300: 1, 202: 0}
"""How many numbers the others have."""
_SKIPPED = 8192
_UNKNOWN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    NotImplementedError,
    RuntimeError,
)
"""What reading a foreign or damaged file raises; RuntimeError if it claims to be encrypted."""


def table_labels(snapshot: bytes) -> set[int]:
    """The labels at both ends of a snapshot's tables, as far as they can be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(snapshot)) as archive:
            content = json.loads(_read(archive, "metadata").split(b"\n", 1)[1])
            tables = {int(file["localFileName"].partition(".")[0]) for file in content.get("sstFiles", ())}
            (log,) = (_read(archive, name) for name in archive.namelist() if name.startswith("MANIFEST-"))
        found = [key_label(key) for number, ends in _added(log) if number in tables for key in ends]
    except _UNKNOWN:
        return set()
    return {label for label in found if label is not None}


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _FILE_BYTES_MAX:
        raise ValueError(name)
    return archive.read(name)


def _added(log: bytes) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """The added tables, with their first and last keys. Raises ValueError or IndexError at anything unknown."""
    for record in _records(log):
        edits = _Numbers(record)
        while edits.has_more:
            edit = edits.number()
            if edit == _ADDED:
                yield edits.table()
            elif edit in _TEXTS or edit >= _SKIPPED:
                edits.text()
            else:
                for _ in range(_NUMBERS[edit]):
                    edits.number()


def _records(log: bytes) -> Iterator[bytes]:
    at, parts = 0, b""
    while at + _HEADER_BYTES <= len(log):
        left = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            at += left
            continue
        size, kind = int.from_bytes(log[at + 4 : at + 6], "little"), log[at + 6]
        if not _WHOLE <= kind <= _LAST:
            raise ValueError(kind)
        body = log[at + _HEADER_BYTES : at + _HEADER_BYTES + size]
        parts = body if kind in (_WHOLE, _FIRST) else parts + body
        if kind in (_WHOLE, _LAST):
            yield parts
        at += _HEADER_BYTES + size


class _Numbers:
    """Reads RocksDB's encoding: numbers with seven bits per byte, lowest first, and length-prefixed strings."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._data)

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> bytes:
        size = self.number()
        self._at += size
        return self._data[self._at - size : self._at]

    def table(self) -> tuple[int, tuple[bytes, bytes]]:
        """The number of a table, and its first and last key."""
        _level, number, _size = self.number(), self.number(), self.number()
        ends = self.text(), self.text()
        self.number(), self.number()
        # The rest: pairs of a number and a string, until the number 1.
        while self.number() != 1:
            self.text()
        return number, ends
