"""The key group of one key, as Spark assigns it, without Spark. `spark/stages/hashing.py`, for columns, has the rules."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import xxhash

from holdfast.errors import NeedsSpark

__all__ = ["group_of_key"]

_SEED = 42
_INT, _LONG = struct.Struct("<i"), struct.Struct("<q")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_INTS = ("boolean", "tinyint", "smallint", "int")
_LONG_DIGITS = 18
_DAY_ZERO = datetime.date(1970, 1, 1)
_ZERO = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def group_of_key(values: Sequence[Any], kinds: Sequence[str], key_groups: int) -> int:
    """The number of the key group of a key, given the values of its columns and the names of their types."""
    seed = _SEED
    for value, kind in zip(values, kinds, strict=True):
        seed = xxhash.xxh64_intdigest(_hashed(value, kind), seed)
    signed = seed - (1 << 64) if seed >> 63 else seed
    return signed % key_groups


def _hashed(value: Any, kind: str) -> bytes:
    """The bytes that Spark hashes for a value."""
    if kind in _INTS:
        return _INT.pack(value)
    if kind.startswith("decimal("):
        return _decimal(value, int(kind[len("decimal(") : kind.index(",")]))
    if kind == "bigint":
        return _LONG.pack(value)
    if kind == "string":
        return str.encode(value)
    if kind == "binary":
        return bytes(value)
    if kind == "date":
        return _INT.pack((value - _DAY_ZERO).days)
    if kind in ("timestamp", "timestamp_ntz"):
        return _LONG.pack((value.replace(tzinfo=None) - _ZERO) // _MICROSECOND)
    if kind in ("float", "double"):
        return (_FLOAT if kind == "float" else _DOUBLE).pack(value)
    raise NeedsSpark(f"Only Spark can find a key of the type {kind!r:.100}.")


def _decimal(value: Decimal, precision: int) -> bytes:
    sign, digits, _ = value.as_tuple()
    size = int("".join(map(str, digits)) or "0")
    number = -size if sign else size
    if precision <= _LONG_DIGITS:
        return _LONG.pack(number)
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
