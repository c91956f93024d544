"""The key groups of keys in Arrow columns, bit for bit as Spark assigns them.

So the rows of one step can go on to the next without leaving Arrow. A key must come to the same group here as by `assign`:
its state is there.

Spark's `xxhash64` is XXH64 over the columns of a row, one after the other. The hash so far is the seed of the next column,
the first seed is 42, and null leaves the hash as it is:

    boolean, byte, short, int, date, float (its bits)              4 bytes, signed
    long, timestamp, interval, double (its bits), decimal to 18    8 bytes, signed; a decimal without its point
    decimal from 19 digits                                         its digits as an integer: big-endian, as short as can be
    string, binary                                                 its bytes
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

__all__ = ["can_hash", "key_groups_of"]

_Array = np.ndarray[Any, Any]

_SEED = 42

# The primes of XXH64.
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

_WIDENED = {pa.bool_(), pa.int8(), pa.int16()}
_FOUR_BYTES = {pa.int32(), pa.float32(), pa.date32()}
_EIGHT_BYTES = {pa.int64(), pa.float64(), pa.duration("us")}
_BYTES = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
_PLAIN = _WIDENED | _FOUR_BYTES | _EIGHT_BYTES | _BYTES

# For each kind of float: which bits are not the sign, infinity, and the one NaN that Spark hashes all of them as.
_FLOATS = {
    pa.float32(): (np.int32(0x7FFFFFFF), np.int32(0x7F800000), np.int32(0x7FC00000)),
    pa.float64(): (np.int64(0x7FFFFFFFFFFFFFFF), np.int64(0x7FF0000000000000), np.int64(0x7FF8000000000000)),
}

_LONG_DIGITS = 18
"""Decimals of more digits do not fit into a long, and Spark hashes them differently, even if the number is small."""

_SAMPLE_PART = 32
"""One row in so many is looked at to find out whether values repeat."""

_NEW_MAX = 0.95
"""Values are hashed once each if no more than this part of the sample is different. Then each comes about three times in
the whole column or more. If it came less often, finding the different ones would take as long as hashing all."""


def can_hash(types: Sequence[pa.DataType]) -> bool:
    """Whether keys of these types can be hashed here. Strings must have the default collation, which Arrow does not tell."""
    return all(kind in _PLAIN or _is_wide(kind) or _is_eight_bytes(kind) for kind in types)


def key_groups_of(columns: Sequence[pa.Array], key_groups: int) -> _Array:
    """The key group of each row, as int32, given the columns of its key in order: one or more, of types that `can_hash`."""
    hashes = np.full(len(columns[0]), _SEED, np.uint64)
    for column in columns:
        hashes = _hash_column(column, hashes)
    return _remainders(hashes.view(np.int64), np.int64(key_groups)).astype(np.int32)


def _remainders(numbers: _Array, divisor: np.int64) -> _Array:
    """Never negative, as with pmod. NumPy divides by one number much faster than it finds remainders."""
    remainders: _Array = numbers - numbers // divisor * divisor
    return remainders


def _hash_column(column: pa.Array, seeds: _Array) -> _Array:
    """The hashes of a column, one for each seed. Where it is null, the seed itself."""
    if not column.null_count:
        return _hash_valid(column, seeds)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    hashes: _Array = seeds.copy()
    hashes[valid] = _hash_valid(column.drop_null(), seeds[valid])
    return hashes


def _hash_valid(column: pa.Array, seeds: _Array) -> _Array:
    """The hashes of a column without nulls."""
    if not len(column):
        return seeds
    if column.type in _BYTES:
        return _hash_bytes(column, seeds)
    if _is_wide(column.type):
        return _hash_each(_wide_bytes(column), seeds.tolist(), len(column))
    if _is_eight_bytes(column.type):
        return _hash_longs(_longs(column).astype(np.uint64), seeds)
    # XXH64 takes four bytes as an unsigned number.
    return _hash_ints(_ints(column).view(np.uint32).astype(np.uint64), seeds)


def _is_wide(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(kind) and kind.precision > _LONG_DIGITS)


def _is_eight_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_decimal128(kind):
        return bool(kind.precision <= _LONG_DIGITS)
    return bool(kind in _EIGHT_BYTES or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def _ints(column: pa.Array) -> _Array:
    if column.type in _WIDENED:
        column = column.cast(pa.int32())
    return _normal(_buffer(column, np.int32), column.type)


def _longs(column: pa.Array) -> _Array:
    if pa.types.is_decimal128(column.type):
        # Little-endian: the lower half comes first, and holds all of it.
        return _buffer(column, np.int64, 2)[::2]
    return _normal(_buffer(column, np.int64), column.type)


def _normal(bits: _Array, kind: pa.DataType) -> _Array:
    """The bits, and of floats those that are hashed: one zero, one NaN. Found by the bits: arithmetic may warn of a NaN."""
    if kind not in _FLOATS:
        return bits
    unsigned, infinity, nan = _FLOATS[kind]
    size = bits & unsigned
    return np.where(size > infinity, nan, np.where(size == 0, size, bits))


def _buffer(column: pa.Array, kind: Any, width: int = 1) -> _Array:
    """The values of a column as they lie in memory, each of them `width` numbers of a kind."""
    numbers = np.frombuffer(column.buffers()[1], kind)
    return numbers[column.offset * width : (column.offset + len(column)) * width]


def _hash_ints(values: _Array, seeds: _Array) -> _Array:
    """XXH64 of four bytes each. Changes `values`."""
    hashes = seeds + (_P5 + np.uint64(4))
    values *= _P1
    hashes ^= values
    _rotate(hashes, 23)
    hashes *= _P2
    hashes += _P3
    return _finish(hashes)


def _hash_longs(values: _Array, seeds: _Array) -> _Array:
    """XXH64 of eight bytes each. Changes `values`."""
    hashes = seeds + (_P5 + np.uint64(8))
    values *= _P2
    _rotate(values, 31)
    values *= _P1
    hashes ^= values
    _rotate(hashes, 27)
    hashes *= _P1
    hashes += _P4
    return _finish(hashes)


def _rotate(numbers: _Array, bits: int) -> None:
    high = numbers >> np.uint64(64 - bits)
    numbers <<= np.uint64(bits)
    numbers |= high


def _finish(hashes: _Array) -> _Array:
    hashes ^= hashes >> np.uint64(33)
    hashes *= _P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _P3
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _hash_bytes(column: pa.Array, seeds: _Array) -> _Array:
    if (seeds != seeds[0]).any():
        return _hash_each(_as_bytes(column), seeds.tolist(), len(column))
    seed = repeat(int(seeds[0]))
    if not _has_repeats(column):
        return _hash_each(_as_bytes(column), seed, len(column))
    encoded = column.dictionary_encode()
    hashes = _hash_each(_as_bytes(encoded.dictionary), seed, len(encoded.dictionary))
    rows: _Array = encoded.indices.to_numpy()
    return np.take(hashes, rows)


def _has_repeats(column: pa.Array) -> bool:
    """Whether it pays to look for the different values, judged by the first rows. A short column is not worth it."""
    sample = column.slice(0, len(column) // _SAMPLE_PART)
    return len(sample) >= _SAMPLE_PART and pc.count_distinct(sample).as_py() <= _NEW_MAX * len(sample)


def _as_bytes(column: pa.Array) -> Any:
    if pa.types.is_large_string(column.type):
        column = column.view(pa.large_binary())
    elif pa.types.is_string(column.type):
        column = column.view(pa.binary())
    return column.to_numpy(zero_copy_only=False)


def _wide_bytes(column: pa.Array) -> list[bytes]:
    raw = _buffer(column, np.uint8, 16).tobytes()
    return [_shortest(int.from_bytes(raw[at : at + 16], "little", signed=True)) for at in range(0, len(raw), 16)]


def _shortest(number: int) -> bytes:
    """As Java's BigInteger.toByteArray. The sign needs one bit."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _hash_each(values: Any, seeds: Any, count: int) -> _Array:
    """XXH64 of byte strings of any length."""
    return np.fromiter(map(xxhash.xxh64_intdigest, values, seeds), np.uint64, count)
