"""Coders for single values of one type. All are immutable, and the same value has the same bytes.

They take the type they are named for, and convert other types that hold the same value (numpy scalars, an int
where a float is wanted). Everything else is refused, including a bool for an integer.

    id          encoded form
    ----------  ---------------------------------------------------------------------
    varint      zigzag, then 7 bits per byte, lowest first (LEB128); any size
    bigint      two's complement, big-endian, as short as possible
    float       IEEE 754 double, big-endian
    bool        00 or 01
    str         UTF-8, lone surrogates allowed
    bytes       the bytes
    timestamp   microseconds since the epoch, signed, 8 bytes, big-endian
    decimal     the digits as ASCII text
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import ormsgpack

from holdfast.model.coders import blocks
from holdfast.model.coders.base import BuiltinCoder
from holdfast.model.coders.integers import (
    read_big_integer,
    read_varint,
    write_big_integer,
    write_varint,
)

if TYPE_CHECKING:
    from holdfast.model.time.timestamps import Timestamp

__all__ = [
    "BigIntegerCoder",
    "BooleanCoder",
    "BytesCoder",
    "DecimalCoder",
    "FloatCoder",
    "StrUtf8Coder",
    "TimestampCoder",
    "VarIntCoder",
]


T = TypeVar("T")


def _is_numpy_integer(value: Any) -> bool:
    # numpy counts timedelta64 among its integers.
    return isinstance(value, np.integer) and not isinstance(value, np.timedelta64)


class _PrimitiveCoder(BuiltinCoder[T]):
    """Subclasses define `_convert` for values that are not of a direct type, `_pack` and `_unpack` for those that are."""

    wanted: str

    def is_deterministic(self) -> bool:
        return True

    def is_immutable(self) -> bool:
        return True

    def encode(self, value: T) -> bytes:
        return self._pack(self.freeze(value))

    def decode(self, data: bytes) -> T:
        try:
            return self._unpack(bytes(data))
        except Exception as error:
            raise self.damaged(data, error) from error

    def freeze(self, value: T) -> Any:
        if type(value) in self.direct_types:
            return value
        try:
            converted = self._convert(value)
        except Exception as error:
            raise self.misfit(value, f"{type(error).__name__}: {error}") from error
        if type(converted) not in self.direct_types:
            raise self.misfit(value, f"It takes {self.wanted}.", "Convert the value, or declare another coder.")
        return converted

    def _direct(self, stored: list[Any]) -> list[Any]:
        """The same values, all of a direct type: Encoded ones are decoded."""
        if self.direct_types.issuperset(set(map(type, stored))):
            return stored
        return [self.freeze(self.thaw(item)) for item in stored]

    def _convert(self, value: Any) -> Any:
        """The same value as a direct type, or anything else if that is impossible."""
        return None

    def _pack(self, value: T) -> bytes:
        raise NotImplementedError

    def _unpack(self, data: bytes) -> T:
        raise NotImplementedError


class _IntegerCoder(_PrimitiveCoder[int]):
    wanted = "integers (int, numpy integers; not bool)"
    direct_types = frozenset({int})

    def _convert(self, value: Any) -> Any:
        return int(value) if _is_numpy_integer(value) else None

    def _write_block(self, stored: list[Any]) -> bytes:
        values = self._direct(stored)
        block = blocks.write_integers(values)
        return block or blocks.write_slices(list(map(write_big_integer, values)), blocks.BIG_INTEGERS)

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] in blocks.INTEGER_LAYOUTS:
            return blocks.read_integers(block)
        if block[0] == blocks.BIG_INTEGERS:
            return blocks.read_slices(block, read_big_integer)
        return super()._read_block(block)


class VarIntCoder(_IntegerCoder):
    """Integers of any size; those near zero take few bytes."""

    short_name = "varint"

    def _pack(self, value: int) -> bytes:
        return write_varint(value * 2 if value >= 0 else -2 * value - 1)

    def _unpack(self, data: bytes) -> int:
        number, end = read_varint(data, 0)
        if end != len(data):
            raise blocks.Damaged("there are bytes after the number")
        return number >> 1 if number & 1 == 0 else -(number >> 1) - 1


class BigIntegerCoder(_IntegerCoder):
    """Integers of any size, with an encoding that suits large ones."""

    short_name = "bigint"

    def _pack(self, value: int) -> bytes:
        return write_big_integer(value)

    def _unpack(self, data: bytes) -> int:
        return read_big_integer(data)


class FloatCoder(_PrimitiveCoder[float]):
    """Floats, bit for bit: nan, infinities and -0.0 come back unchanged."""

    short_name = "float"
    wanted = "numbers that a float can hold (float, int, numpy numbers; not bool)"
    direct_types = frozenset({float})

    def _convert(self, value: Any) -> Any:
        if type(value) is int or isinstance(value, np.floating) or _is_numpy_integer(value):
            return float(value)
        return None

    def _pack(self, value: float) -> bytes:
        return struct.pack(">d", value)

    def _unpack(self, data: bytes) -> Any:
        return struct.unpack(">d", data)[0]

    def _write_block(self, stored: list[Any]) -> bytes:
        return blocks.write_floats(self._direct(stored))

    def _read_block(self, block: bytes) -> list[Any]:
        return blocks.read_floats(block) if block[0] == blocks.FLOATS else super()._read_block(block)


class BooleanCoder(_PrimitiveCoder[bool]):
    """True and False."""

    short_name = "bool"
    wanted = "truth values (bool, numpy bool)"
    direct_types = frozenset({bool})

    def _convert(self, value: Any) -> Any:
        return bool(value) if isinstance(value, np.bool_) else None

    def _pack(self, value: bool) -> bytes:
        return b"\x01" if value else b"\x00"

    def _unpack(self, data: bytes) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise blocks.Damaged("neither 00 nor 01")
        return data == b"\x01"

    def _write_block(self, stored: list[Any]) -> bytes:
        return blocks.write_booleans(self._direct(stored))

    def _read_block(self, block: bytes) -> list[Any]:
        return blocks.read_booleans(block) if block[0] == blocks.BOOLEANS else super()._read_block(block)


class _MessagePackedCoder(_PrimitiveCoder[T]):
    """Blocks as one MessagePack array of the direct type."""

    def _write_block(self, stored: list[Any]) -> bytes:
        return bytes((blocks.VALUES,)) + ormsgpack.packb(self._direct(stored))

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] != blocks.VALUES:
            return super()._read_block(block)
        values = blocks.unpack(block[1:])
        if type(values) is not list or not self.direct_types.issuperset(set(map(type, values))):
            raise blocks.Damaged("values of another type")
        return values


class StrUtf8Coder(_MessagePackedCoder[str]):
    """Text as UTF-8."""

    short_name = "str"
    wanted = "text (str)"
    direct_types = frozenset({str})

    def _convert(self, value: Any) -> Any:
        return str(value) if isinstance(value, np.str_) else None

    def _pack(self, value: str) -> bytes:
        return value.encode("utf-8", "surrogatepass")

    def _unpack(self, data: bytes) -> str:
        return data.decode("utf-8", "surrogatepass")

    def _write_block(self, stored: list[Any]) -> bytes:
        try:
            return super()._write_block(stored)
        except TypeError:  # MessagePack takes no lone surrogates.
            return blocks.write_slices(list(map(self._pack, self._direct(stored))), blocks.TEXTS)

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] == blocks.TEXTS:
            return blocks.read_slices(block, self._unpack)
        return super()._read_block(block)


class BytesCoder(_MessagePackedCoder[bytes]):
    """Bytes as they are."""

    short_name = "bytes"
    wanted = "bytes (bytes, bytearray, memoryview)"
    direct_types = frozenset({bytes})

    def _convert(self, value: Any) -> Any:
        if type(value) in (bytearray, memoryview) or isinstance(value, np.bytes_):
            return bytes(value)
        return None

    def _pack(self, value: bytes) -> bytes:
        return value

    def _unpack(self, data: bytes) -> bytes:
        return data


class DecimalCoder(_PrimitiveCoder[Decimal]):
    """Decimals with all their digits and their exponent: Decimal("1.10") stays as it is. An int is converted."""

    short_name = "decimal"
    wanted = "decimals (Decimal, int)"
    direct_types = frozenset({Decimal})

    def _convert(self, value: Any) -> Any:
        return Decimal(value) if type(value) is int else None

    def _pack(self, value: Decimal) -> bytes:
        return str(value).encode("ascii")

    def _unpack(self, data: bytes) -> Decimal:
        return Decimal(data.decode("ascii"))

    def _write_block(self, stored: list[Any]) -> bytes:
        return bytes((blocks.VALUES,)) + ormsgpack.packb(list(map(str, self._direct(stored))))

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] != blocks.VALUES:
            return super()._read_block(block)
        texts = blocks.unpack(block[1:])
        if type(texts) is not list or not {str}.issuperset(map(type, texts)):
            raise blocks.Damaged("values of another type")
        return list(map(Decimal, texts))


class TimestampCoder(_PrimitiveCoder["Timestamp"]):
    """Timestamps to the microsecond. A number means seconds since the epoch."""

    short_name = "timestamp"
    wanted = "points in time (Timestamp, or a number of seconds)"

    def __init__(self) -> None:
        # Imported late, so that importing coders never imports timestamps.
        from holdfast.model.time.timestamps import Timestamp

        self._timestamp = Timestamp
        self.direct_types = frozenset({Timestamp})

    def _convert(self, value: Any) -> Any:
        if isinstance(value, np.floating) or _is_numpy_integer(value):
            value = value.item()
        return self._timestamp(value) if type(value) in (int, float) else None

    def _pack(self, value: Timestamp) -> bytes:
        return struct.pack(">q", value.micros)

    def _unpack(self, data: bytes) -> Timestamp:
        return self._timestamp(micros=struct.unpack(">q", data)[0])

    def _write_block(self, stored: list[Any]) -> bytes:
        block = blocks.write_integers([value.micros for value in self._direct(stored)])
        if block is None:
            raise OverflowError("a time beyond 64 bits")
        return block

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] not in blocks.INTEGER_LAYOUTS:
            return super()._read_block(block)
        return [self._timestamp(micros=micros) for micros in blocks.read_integers(block)]
