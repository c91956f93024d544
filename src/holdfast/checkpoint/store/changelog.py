"""Changelogs: what one micro-batch changed in one partition of a state store.

Without compression (`streams.py`), with big-endian numbers:

    "v2"      as Java writes a string: its bytes (2 bytes), and the string
    entries   kind (1 byte: 1 put, 0x10 delete, 0 end), bytes of the key (4), the key, bytes of the value (4), the value

A deletion has no value, and -1 for its size. After the end there is nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.checkpoint.store.rows import key_label
from holdfast.checkpoint.store.streams import DAMAGED, plain_blocks, plain_bytes
from holdfast.errors import CorruptState, NeedsSpark

__all__ = ["Entry", "first_label", "read_changelog"]

_HEADER = b"\x00\x02v2"
_SIZE = struct.Struct(">i")
_END, _PUT, _DELETE = 0x00, 0x01, 0x10
_NONE = -1


class Entry(NamedTuple):
    """A key of the store that got a value, or lost it."""

    key: bytes
    value: bytes | None


def read_changelog(content: bytes, path: str) -> Iterator[Entry]:
    """The entries of a changelog, in order. Raises CorruptState if it is damaged, NeedsSpark if its format is unknown."""
    plain = plain_bytes(content, path)
    if not plain.startswith(_HEADER):
        raise NeedsSpark(f"{path!r} has another format than {_HEADER[2:].decode()}.")
    at = len(_HEADER)
    while True:
        kind = plain[at] if at < len(plain) else None
        if kind == _END:
            break
        if kind is None:
            raise _cut_short(path)
        if kind not in (_PUT, _DELETE):
            raise NeedsSpark(f"{path!r} has an entry of the unknown kind {kind}.")
        key, at = _field(plain, at + 1, path)
        value, at = _field(plain, at, path)
        if key is None or (value is None) != (kind == _DELETE):
            raise _cut_short(path)
        yield Entry(key, value)
    if at + 1 != len(plain):
        raise CorruptState(f"The changelog {path!r} is damaged: it goes on after its end.", todo=DAMAGED)


def _field(plain: bytes, at: int, path: str) -> tuple[bytes | None, int]:
    """A field and the place after it; None for a size of -1."""
    start = at + _SIZE.size
    size = _SIZE.unpack_from(plain, at)[0] if start <= len(plain) else _NONE - 1
    if size == _NONE:
        return None, start
    if size < 0 or start + size > len(plain):
        raise _cut_short(path)
    return plain[start : start + size], start + size


def _cut_short(path: str) -> CorruptState:
    return CorruptState(f"The changelog {path!r} is damaged: it is cut short.", todo=DAMAGED)


def first_label(content: bytes) -> int | None:
    """The label of the first key group in a changelog, of which no more is read than necessary; None if there is none, or
    it cannot be read."""
    try:
        reader = _Reader(plain_blocks(content, ""))
        if reader.take(len(_HEADER)) != _HEADER:
            return None
        while (kind := reader.take(1)) is not None and kind[0] in (_PUT, _DELETE):
            key = reader.sized()
            label = None if key is None else key_label(key)
            if key is None or label is not None:
                return label
            if reader.sized() is None and kind[0] == _PUT:
                return None
    except (CorruptState, NeedsSpark):
        return None
    return None


class _Reader:
    """Reads from blocks as if they were one."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._here = b""

    def take(self, size: int) -> bytes | None:
        while len(self._here) < size:
            more = next(self._blocks, None)
            if more is None:
                return None
            self._here += more
        taken, self._here = self._here[:size], self._here[size:]
        return taken

    def sized(self) -> bytes | None:
        """A length-prefixed field; None at the end."""
        stored = self.take(_SIZE.size)
        size = _NONE if stored is None else _SIZE.unpack(stored)[0]
        return None if size < 0 else self.take(size)
