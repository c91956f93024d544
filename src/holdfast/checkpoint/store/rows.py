"""Blobs in Spark's rows: the key of a blob has the label of its key group and its name, its value is the blob.

Spark's state store is a sorted map of bytes, in which each state variable has a number of its own, its family. A key of the
map variable `blobs` is, with little-endian numbers:

    family   2 bytes
    33       4         the size of what follows, up to the name
    0        1         version of the encoding
    row      32        8 zeros; 16 and 16, the size and place of the struct in it; the struct: 8 zeros, the label (8 bytes)
    0        1         version of the encoding
    row                8 zeros; its size and 16; the struct: 8 zeros, the bytes of the name and 16, the name, zeros up to 8

and its value:

    0        1         version of the encoding
    row                8 zeros; the bytes of the blob and 16, the blob, zeros up to a multiple of 8

The keys of timers have other families, and other sizes.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["BlobKey", "blob_key", "blob_of_value", "family_of", "group_prefix", "key_label", "key_of_blob"]

_FAMILY = struct.Struct("<H")
_GROUP_HEAD = struct.pack("<iB8xii8x", 33, 0, 16, 16)
_LABEL = struct.Struct("<q")
_LABEL_AT = _FAMILY.size + len(_GROUP_HEAD)
_NAME_AT = _LABEL_AT + _LABEL.size
_NAME = struct.Struct("<B8sii8sii")
_BLOB = struct.Struct("<B8sii")
_ZEROS = bytes(8)
_PLACE = 16


class BlobKey(NamedTuple):
    family: int
    label: int
    name: str


def family_of(key: bytes) -> int | None:
    """The number of the state variable that a key belongs to; None if it has none."""
    family: int | None = _FAMILY.unpack_from(key)[0] if len(key) >= _FAMILY.size else None
    return family


def key_label(key: bytes) -> int | None:
    """The label in the key of a blob, or of a timer of the same key group; None if it is the key of something else."""
    if key[_FAMILY.size : _LABEL_AT] != _GROUP_HEAD or len(key) < _NAME_AT:
        return None
    label: int = _LABEL.unpack_from(key, _LABEL_AT)[0]
    return label


def blob_key(key: bytes) -> BlobKey | None:
    """What the key of a blob says; None if it is the key of something else."""
    label = key_label(key)
    start = _NAME_AT + _NAME.size
    if label is None or len(key) < start:
        return None
    version, nulls, size, place, inner_nulls, name_size, name_place = _NAME.unpack_from(key, _NAME_AT)
    padded = _padded(name_size)
    if (version, nulls, place, inner_nulls, name_place) != (0, _ZEROS, _PLACE, _ZEROS, _PLACE):
        return None
    if name_size < 0 or size != _PLACE + padded or len(key) != start + padded or any(key[start + name_size :]):
        return None
    try:
        return BlobKey(_FAMILY.unpack_from(key)[0], label, key[start : start + name_size].decode())
    except UnicodeDecodeError:
        return None


def key_of_blob(family: int, label: int, name: str) -> bytes:
    """The key of a blob: the inverse of `blob_key`."""
    data = name.encode()
    padded = _padded(len(data))
    head = _NAME.pack(0, _ZEROS, _PLACE + padded, _PLACE, _ZEROS, len(data), _PLACE)
    return group_prefix(family, label) + head + data.ljust(padded, b"\0")


def group_prefix(family: int, label: int | None = None) -> bytes:
    """What all keys of a state variable begin with, or those of one key group."""
    start = _FAMILY.pack(family)
    return start if label is None else start + _GROUP_HEAD + _LABEL.pack(label)


def blob_of_value(value: bytes) -> bytes | None:
    """The blob in a value; None if it has another format."""
    if len(value) < _BLOB.size:
        return None
    version, nulls, size, place = _BLOB.unpack_from(value)
    end = _BLOB.size + size
    if (version, nulls, place) != (0, _ZEROS, _PLACE) or size < 0 or len(value) != _BLOB.size + _padded(size):
        return None
    return None if any(value[end:]) else value[_BLOB.size : end]


def _padded(size: int) -> int:
    return -(-size // 8) * 8
