"""Integers of any size as bytes, in linear time: damaged input cannot make a reader slow."""

from __future__ import annotations

from holdfast.model.coders.blocks import Damaged

__all__ = ["read_big_integer", "read_varint", "write_big_integer", "write_varint"]

_SHORT_BITS = 70


def write_varint(number: int) -> bytes:
    """A non-negative number, 7 bits per byte, lowest first; the last byte has no top bit."""
    if number < 0x80:
        return bytes((number,))
    if number.bit_length() <= _SHORT_BITS:
        groups = bytearray()
        while number >= 0x80:
            groups.append(number & 0x7F | 0x80)
            number >>= 7
        groups.append(number)
        return bytes(groups)
    # Shifting a long number byte by byte would be quadratic.
    bits = f"{number:b}"
    bits = bits.zfill((len(bits) + 6) // 7 * 7)
    long_groups = bytearray(int(bits[at : at + 7], 2) | 0x80 for at in range(len(bits) - 7, -1, -7))
    long_groups[-1] &= 0x7F
    return bytes(long_groups)


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """The number that starts there, and where it ends."""
    end = start
    while end < len(data) and data[end] & 0x80:
        end += 1
    if end >= len(data):
        raise Damaged("it ends within a number")
    end += 1
    if data[end - 1] == 0 and end - start > 1:
        raise Damaged("a number is longer than it needs to be")
    if end - start <= 10:
        number = 0
        for byte in reversed(data[start:end]):
            number = number << 7 | byte & 0x7F
        return number, end
    return int("".join(f"{byte & 0x7F:07b}" for byte in reversed(data[start:end])), 2), end


def write_big_integer(value: int) -> bytes:
    """Two's complement, big-endian, in the fewest possible bytes."""
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def read_big_integer(data: bytes) -> int:
    if not data:
        raise Damaged("an integer without bytes")
    return int.from_bytes(data, "big", signed=True)
