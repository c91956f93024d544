"""Which key groups a state store file belongs to, judging from the first entries of a changelog.

This is Spark's own format as of Spark 4.3; anything unknown gives no answer. A changelog is a stream of blocks, usually
compressed, each with a head of 21 bytes. They contain:

    "v2", as Java writes a string
    entries   kind (1 byte: 1 put, 0x10 delete), bytes of the key (4, big-endian), the key, bytes of the value (4), the value

The key of a blob begins with the number of its variable (2 bytes), 33 (4 bytes, little-endian), a zero, and a row of 32
bytes: 8 zeros, 16 and 16 (4 bytes each), 8 zeros, and the label (8 bytes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

__all__ = ["first_label", "key_label"]

_BLOCK = struct.Struct("<8sBiiI")
_MAGIC = b"LZ4Block"
_METHOD, _PLAIN, _LZ4 = 0xF0, 0x10, 0x20
_BLOCK_BYTES_MAX = 1 << 26
_HEADER = b"\x00\x02v2"
_LENGTH = struct.Struct(">i")
_PUT, _DELETE = 0x01, 0x10
_KEY_HEAD = struct.pack("<iB8xii8x", 33, 0, 16, 16)
_LABEL = struct.Struct("<q")
_VARIABLE_BYTES = 2


def first_label(changelog: bytes) -> int | None:
    """The label of the first key group in a changelog; None if there is none, or the format is unknown."""
    reader = _Reader(_blocks(changelog))
    if reader.take(len(_HEADER)) != _HEADER:
        return None
    while (kind := reader.take(1)) is not None and kind[0] in (_PUT, _DELETE):
        key = reader.sized()
        if key is None:
            return None
        label = key_label(key)
        if label is not None:
            return label
        if reader.sized() is None and kind[0] == _PUT:
            return None
    return None


def key_label(key: bytes) -> int | None:
    """The label in a blob's key in the state store; None if it is the key of something else."""
    head = key[_VARIABLE_BYTES : _VARIABLE_BYTES + len(_KEY_HEAD)]
    end = _VARIABLE_BYTES + len(_KEY_HEAD) + _LABEL.size
    if head != _KEY_HEAD or len(key) < end:
        return None
    label: int = _LABEL.unpack_from(key, end - _LABEL.size)[0]
    return label


def _blocks(content: bytes) -> Iterator[bytes]:
    """The blocks of a changelog, decompressed one by one, as far as they have the usual format."""
    at = 0
    while at + _BLOCK.size <= len(content):
        magic, token, stored, size, _ = _BLOCK.unpack_from(content, at)
        body = content[at + _BLOCK.size : at + _BLOCK.size + max(stored, 0)]
        if magic != _MAGIC or not 0 < size <= _BLOCK_BYTES_MAX or len(body) != stored:
            return
        plain = _decompressed(body, token & _METHOD, size)
        if plain is None:
            return
        yield plain
        at += _BLOCK.size + stored


def _decompressed(body: bytes, method: int, size: int) -> bytes | None:
    if method == _PLAIN:
        return body
    if method != _LZ4:
        return None
    try:
        return bytes(pa.Codec("lz4_raw").decompress(body, size, asbytes=True))
    except (pa.ArrowInvalid, OSError):
        return None


class _Reader:
    """Reads from blocks as if they were one, no further than necessary."""

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
        stored = self.take(_LENGTH.size)
        size = -1 if stored is None else _LENGTH.unpack(stored)[0]
        return None if size < 0 else self.take(size)
