"""Blocks: many values of one coder in one byte string, laid out by column rather than by value.

The first byte of a block names its layout; a reader goes by that byte alone, whatever today's writer would
choose. All numbers are little-endian; counts and lengths are unsigned.

    tag   layout        body
    ----  ------------  --------------------------------------------------------------------------------------
    0x01  slices        width (1 byte: 4 or 8) | count (8) | lengths (width each) | the parts, end to end
    0x02  integers      width (1 byte: 1, 2, 4 or 8) | signed integers (width each)
    0x03  floats        IEEE 754 doubles (8 each)
    0x04  booleans      0 or 1 (1 each)
    0x05  values        one MessagePack array; what MessagePack lacks, as the extension types of `extensions`
    0x06  columns       count (8) | number of columns (4) | block lengths (8 each) | one block per column
    0x07  nullable      count (8) | bit mask, 1 = present (⌈count / 8⌉) | a block of the values present
    0x08  big integers  a slices body; every part is a big-endian two's complement
    0x09  texts         a slices body; every part is UTF-8, lone surrogates allowed
    0x0A  steps         width (1 byte: 1, 2 or 4) | count (8) | first (8, signed) | unit (8) | count - 1 differences to
                        the number before, in units, signed: the lowest byte of each, then the next, `width` times

Steps are integers too: large numbers that are close to each other, such as times. The layout puts all zero bytes together,
which compresses well.

Invariants:

- A reader checks every count and length against the actual bytes before using it.
- No bytes are ever left over: a body that ends early or late is damaged.
- There is no checksum here: whatever stores blocks has one for the whole file. A flipped bit in a number just
  makes it another number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ormsgpack

__all__ = [
    "BIG_INTEGERS",
    "BOOLEANS",
    "COLUMNS",
    "FLOATS",
    "INTEGERS",
    "INTEGER_LAYOUTS",
    "NULLABLE",
    "SLICES",
    "STEPS",
    "TEXTS",
    "VALUES",
    "Damaged",
    "read_booleans",
    "read_columns",
    "read_floats",
    "read_integers",
    "read_nullable",
    "read_slices",
    "unpack",
    "write_booleans",
    "write_columns",
    "write_floats",
    "write_integers",
    "write_nullable",
    "write_slices",
]

SLICES = 0x01
INTEGERS = 0x02
FLOATS = 0x03
BOOLEANS = 0x04
VALUES = 0x05
COLUMNS = 0x06
NULLABLE = 0x07
BIG_INTEGERS = 0x08
TEXTS = 0x09
STEPS = 0x0A
INTEGER_LAYOUTS = frozenset({INTEGERS, STEPS})
"""The layouts that `write_integers` writes and `read_integers` reads."""

_WIDTHS = (1, 2, 4, 8)
_STEPS_AT = 26
_STEPS_COUNT_MIN = 8
_SMALL_LENGTH_MAX = 2**32 - 1
_PAIR = b"\x92"
_SENTINEL = 0xA55A
_SENTINEL_PACKED = b"\xcd\xa5\x5a"


class Damaged(ValueError):
    """Bytes that are not what their layout says. Coders turn it into a CoderError with their name."""


def unpack(data: bytes, extension: Callable[[int, bytes], Any] | None = None) -> Any:
    """The one MessagePack value in `data`.

    The library stops after the first value and ignores what follows. To notice left-over bytes, the value is
    read as the first of a pair whose second is a sentinel.
    """
    pair = ormsgpack.unpackb(_PAIR + data + _SENTINEL_PACKED, ext_hook=extension)
    if pair[1] != _SENTINEL:
        raise Damaged("there are bytes after the value")
    return pair[0]


def write_slices(parts: Sequence[bytes], tag: int = SLICES) -> bytes:
    count = len(parts)
    lengths = np.fromiter(map(len, parts), dtype="<u8", count=count)
    width = 4 if count == 0 or int(lengths.max()) <= _SMALL_LENGTH_MAX else 8
    header = struct.pack("<BBQ", tag, width, count)
    return b"".join((header, lengths.astype(f"<u{width}").tobytes(), *parts))


def read_slices(block: bytes, kind: Callable[[bytes], Any]) -> list[Any]:
    """The parts, each as `kind(bytes)`."""
    width, count = _unpack_header("<BQ", block)
    if width not in (4, 8):
        raise Damaged(f"a length of {width} bytes")
    start = 10 + width * count
    if start > len(block):
        raise Damaged("it ends within the lengths")
    lengths = np.frombuffer(block, dtype=f"<u{width}", count=count, offset=10)
    # Checked before summing: a sum of damaged lengths could wrap around to the right one.
    if count and int(lengths.max()) > len(block):
        raise Damaged("a length reaches beyond the end")
    ends_array = np.cumsum(lengths, dtype="<i8") + start
    if (int(ends_array[-1]) if count else start) != len(block):
        raise Damaged("the lengths do not add up to the bytes")
    ends = ends_array.tolist()
    starts = [start, *ends[:-1]] if count else []
    return [kind(block[first:last]) for first, last in zip(starts, ends, strict=True)]


def write_integers(values: Sequence[int]) -> bytes | None:
    """None if one of them does not fit in 64 bits."""
    try:
        array = np.fromiter(values, dtype="<i8", count=len(values))
    except OverflowError:
        return None
    width = _width_of(array)
    steps = _write_steps(array) if width == 8 and len(array) >= _STEPS_COUNT_MIN else None
    return steps or bytes((INTEGERS, width)) + array.astype(f"<i{width}").tobytes()


def _width_of(array: Any) -> int:
    if not len(array):
        return 1
    low, high = int(array.min()), int(array.max())
    return next(w for w in _WIDTHS if -(1 << 8 * w - 1) <= low and high < 1 << 8 * w - 1)


def _write_steps(array: Any) -> bytes | None:
    """None if that would not make them narrower."""
    if int(array.max()) - int(array.min()) >= 1 << 63:
        return None
    differences = np.diff(array)
    unit = int(np.gcd.reduce(differences)) or 1
    differences //= unit
    width = _width_of(differences)
    if width == 8:
        return None
    planes: bytes = differences.astype(f"<i{width}").view("u1").reshape(-1, width).T.tobytes()
    return struct.pack("<BBQqQ", STEPS, width, len(array), int(array[0]), unit) + planes


def _read_steps(block: bytes) -> list[int]:
    width, count, first, unit = _unpack_header("<BQqQ", block)
    if width not in _WIDTHS[:-1] or not 0 < unit < 1 << 63:
        raise Damaged(f"steps of {width} bytes, in units of {unit}")
    if count < 1 or len(block) != _STEPS_AT + width * (count - 1):
        raise Damaged("the count does not fit the bytes")
    planes = np.frombuffer(block, dtype="u1", offset=_STEPS_AT).reshape(width, count - 1)
    array = np.empty(count, dtype="<i8")
    array[0] = first
    array[1:] = np.ascontiguousarray(planes.T).view(f"<i{width}").reshape(count - 1)
    array[1:] *= unit
    values: list[int] = np.cumsum(array).tolist()
    return values


def read_integers(block: bytes) -> list[int]:
    if block[0] == STEPS:
        return _read_steps(block)
    (width,) = _unpack_header("<B", block)
    if width not in _WIDTHS:
        raise Damaged(f"integers of {width} bytes")
    return _read_array(block, f"<i{width}", 2)


def write_floats(values: Sequence[float]) -> bytes:
    return bytes((FLOATS,)) + np.fromiter(values, dtype="<f8", count=len(values)).tobytes()


def read_floats(block: bytes) -> list[float]:
    return _read_array(block, "<f8", 1)


def write_booleans(values: Sequence[bool]) -> bytes:
    return bytes((BOOLEANS,)) + bytes(values)


def read_booleans(block: bytes) -> list[bool]:
    array = np.frombuffer(block, dtype="u1", offset=1)
    if len(array) and int(array.max()) > 1:
        raise Damaged("a truth value that is neither 0 nor 1")
    values: list[bool] = array.astype(bool).tolist()
    return values


def write_columns(count: int, columns: Sequence[bytes]) -> bytes:
    lengths = struct.pack(f"<{len(columns)}Q", *map(len, columns))
    return b"".join((struct.pack("<BQI", COLUMNS, count, len(columns)), lengths, *columns))


def read_columns(block: bytes) -> tuple[int, list[bytes]]:
    """The number of values, and a block for every column."""
    count, arity = _unpack_header("<QI", block)
    start = 13 + 8 * arity
    if start > len(block):
        raise Damaged("it ends within the lengths")
    columns = []
    for length in struct.unpack_from(f"<{arity}Q", block, 13):
        columns.append(block[start : start + length])
        start += length
    if start != len(block):
        raise Damaged("the lengths do not add up to the bytes")
    return count, columns


def write_nullable(present: Sequence[bool], inner: bytes) -> bytes:
    mask = np.packbits(np.fromiter(present, dtype=bool, count=len(present)))
    return struct.pack("<BQ", NULLABLE, len(present)) + mask.tobytes() + inner


def read_nullable(block: bytes) -> tuple[list[bool], bytes]:
    """Which values are present, and the block of those."""
    (count,) = _unpack_header("<Q", block)
    start = 9 + (count + 7) // 8
    if start > len(block):
        raise Damaged("it ends within the mask")
    bits = np.unpackbits(np.frombuffer(block[9:start], dtype="u1"))
    if bits[count:].any():
        raise Damaged("the mask has more values than there are")
    present: list[bool] = bits[:count].astype(bool).tolist()
    return present, block[start:]


def _read_array(block: bytes, dtype: str, offset: int) -> list[Any]:
    if (len(block) - offset) % np.dtype(dtype).itemsize:
        raise Damaged("it ends within a number")
    values: list[Any] = np.frombuffer(block, dtype=dtype, offset=offset).tolist()
    return values


def _unpack_header(layout: str, block: bytes) -> tuple[int, ...]:
    if len(block) < 1 + struct.calcsize(layout):
        raise Damaged("it ends within the header")
    return struct.unpack_from(layout, block, 1)
