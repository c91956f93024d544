"""Blobs: the stored form of what a bundle changed (a delta) and of a whole key group (the segments of a snapshot).

    offset  size  field
    0       4     magic            b"HFB1"
    4       1     kind             1 delta, 2 segment of a snapshot
    5       1     format version   1
    6       2     flags            1: the body is compressed with Zstandard
    8       8     sequence number  of the delta; of a segment: of the last delta that the snapshot contains
    16      4     part             of a segment: its index in the snapshot, from 0; of a delta: 0
    20      4     one              (the head says how many segments there are)
    24      8     length of the body, as it is stored
    32      16    parent           the token of the state that this is based on
    48      16    token            blake2b-128 of bytes 0 to 47 and the body, as it is stored
    64            body             a MessagePack array of sections

    section = [window: bin, cell: str, operation: int, keys: bin, columns: [bin, ...]]

`keys` is a block of slots (`engine.state.keys`), `columns` are the operation's data (`engine.tables`), as blocks of the
cell's coder (`model.coders.blocks`). With an empty cell, operation 9 drops the window, 8 drops the keys from all of its
cells, and 7 does nothing. Integers are big-endian.

Invariants
- A delta's token is a hash over its parent's token and its own bytes. A chain of tokens therefore proves that each
  delta is complete, unaltered and in its place. The same changes to the same state give the same token.
- The parent of a segment is the token of the state that the snapshot contains, and its own token proves its bytes.
- Nothing is decoded before the token has been checked. But a token proves no good intent: whoever can write a blob can make
  one. So a compressed body states its plain size (in the header of its Zstandard frame), which is believed only up to
  64 MiB or a hundred times the stored size; and what is decoded from it is checked field by field.
- A body that would exceed this is not compressed.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import ormsgpack
import zstandard

from holdfast.errors import CorruptState
from holdfast.model.coders.blocks import unpack

__all__ = [
    "DELTA",
    "DROP_KEYS",
    "DROP_WINDOW",
    "NOTE",
    "SEGMENT",
    "TOKEN_BYTES",
    "Blob",
    "Section",
    "plain_size",
    "read_blob",
    "write_blob",
]

DELTA = 1
SEGMENT = 2
NOTE = 7
DROP_KEYS = 8
DROP_WINDOW = 9
TOKEN_BYTES = 16

_COMPRESSED = 1
_COMPRESS_BYTES_MIN = 1024
_COMPRESS_LEVEL = 1
_PLAIN_BYTES_MAX = 64 * 1024 * 1024
_PLAIN_RATIO_MAX = 100

_MAGIC = b"HFB1"
_VERSION = 1
_HEADER = struct.Struct(">4sBBHQIIQ16s")
_BODY_AT = _HEADER.size + TOKEN_BYTES


class Section(NamedTuple):
    """One operation on one cell of one window."""

    window: bytes
    cell: str
    operation: int
    keys: bytes
    columns: list[bytes]


class Blob(NamedTuple):
    """A blob that has been checked."""

    kind: int
    sequence: int
    part: int
    parent: bytes
    token: bytes
    sections: list[Section]


def write_blob(
    kind: int, sequence: int, parent: bytes, sections: Iterable[Section], *, part: int = 0
) -> tuple[bytes, bytes]:
    """The bytes of a blob, and its token."""
    body = ormsgpack.packb([list(section) for section in sections])
    flags = 0
    if len(body) >= _COMPRESS_BYTES_MIN:
        compressed = zstandard.compress(body, _COMPRESS_LEVEL)
        if len(body) <= _most_plain(len(compressed)):
            body, flags = compressed, _COMPRESSED
    header = _HEADER.pack(_MAGIC, kind, _VERSION, flags, sequence, part, 1, len(body), parent)
    token = _token(header, body)
    return b"".join((header, token, body)), token


def plain_size(blob: bytes, name: str = "without a name") -> int:
    """The size of a blob without compression: a measure of its content, and of the work to read it."""
    flags = _header(blob, name)[3]
    return _BODY_AT + _promised(blob[_BODY_AT:], name) if flags & _COMPRESSED else len(blob)


def read_blob(data: bytes, name: str) -> Blob:
    """Checks and decodes a blob; `name` identifies it in errors."""
    _, kind, version, flags, sequence, part, _, length, parent = _header(data, name)
    if version != _VERSION:
        raise CorruptState(
            f"The blob {name!r} has format version {version}; this Holdfast reads version {_VERSION}.",
            todo="use the version of Holdfast that wrote it, or a newer one",
        )
    body = data[_BODY_AT:]
    if len(body) != length:
        raise _corrupt(name, f"its body has {len(body)} bytes where its header says {length}")
    token = data[_HEADER.size : _BODY_AT]
    if not hmac.compare_digest(token, _token(data[: _HEADER.size], body)):
        raise _corrupt(name, "its bytes do not match its checksum")
    if kind not in (DELTA, SEGMENT):
        raise _corrupt(name, f"its kind, {kind}, is unknown")
    return Blob(kind, sequence, part, parent, token, _sections(body, flags, name))


def _header(data: bytes, name: str) -> tuple[Any, ...]:
    if len(data) < _BODY_AT:
        raise _corrupt(name, f"it has {len(data)} bytes, fewer than the {_BODY_AT} of a header")
    fields = _HEADER.unpack_from(data)
    if fields[0] != _MAGIC:
        raise _corrupt(name, f"it begins with {fields[0]!r}, not with {_MAGIC!r}")
    return fields


def _sections(body: bytes, flags: int, name: str) -> list[Section]:
    try:
        if flags & _COMPRESSED:
            body = _decompressed(body, name)
        sections = [Section(*section) for section in unpack(body)]
    except (zstandard.ZstdError, TypeError, ValueError) as error:
        raise _corrupt(name, f"its body is not a list of sections ({error})") from None
    for position, section in enumerate(sections):
        if not _is_typed(section):
            raise _corrupt(name, f"section {position} of its body has a field of the wrong type")
    return sections


def _is_typed(section: Section) -> bool:
    kinds = tuple(map(type, section))
    return kinds == (bytes, str, int, bytes, list) and set(map(type, section.columns)) <= {bytes}


def _decompressed(body: bytes, name: str) -> bytes:
    size = _promised(body, name)
    if size > _most_plain(len(body)):
        raise _corrupt(name, f"its {len(body):,} bytes claim to expand to {size:,}, more than any blob that was written")
    plain = zstandard.ZstdDecompressor().decompress(body, max_output_size=size, allow_extra_data=False)
    if len(plain) != size:
        raise _corrupt(name, f"its body came to {len(plain)} bytes where it says {size}")
    return bytes(plain)


def _promised(body: bytes, name: str) -> int:
    """The plain size that a compressed body states. Every body that was written states one."""
    try:
        size = int(zstandard.frame_content_size(body))
    except zstandard.ZstdError as error:
        raise _corrupt(name, f"its body is not compressed as its header says ({error})") from None
    if size < 0:
        raise _corrupt(name, "its body does not state its size without compression")
    return size


def _most_plain(stored: int) -> int:
    """The largest plain size allowed for a compressed body of `stored` bytes."""
    return max(_PLAIN_BYTES_MAX, _PLAIN_RATIO_MAX * stored)


def _token(header: bytes, body: bytes) -> bytes:
    digest: Any = hashlib.blake2b(header, digest_size=TOKEN_BYTES)
    digest.update(body)
    return bytes(digest.digest())


def _corrupt(name: str, why: str) -> CorruptState:
    return CorruptState(
        f"The stored blob {name!r} is damaged: {why}.",
        detail="Nothing was decoded from it.",
        todo="restore the checkpoint from a copy, or go back to an earlier micro-batch",
    )
