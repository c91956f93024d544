"""What MessagePack lacks, as extension types: their numbers, and how single values are written in them.

The numbers are part of the stored format: new ones may be added, existing ones are never changed or reused.

    number  value              content
    ------  -----------------  ---------------------------------------------------------------------------
         1  tuple              MessagePack array
         2  dict               MessagePack array key, value, key, value, …: for keys other than plain str
         3  set                MessagePack array, sorted by the bytes of its elements
         4  frozenset          the same
         5  bytearray          the bytes
         6  int                two's complement, big-endian: for integers beyond 64 bits
         7  str                UTF-8 with surrogates allowed: for text that is not valid Unicode
         8  datetime           [microseconds of wall clock since 0001-01-01, fold, zone]
         9  date               proleptic ordinal
        10  time               [microseconds since midnight, fold, zone]
        11  timedelta          [days, seconds, microseconds]
        12  Decimal            its digits as text
        13  UUID               16 bytes
        14  complex            two big-endian doubles
        15  Timestamp          microseconds, as 6
        16  Duration           microseconds, as 6
        17  (encoded value)    the bytes of another value of the same coder: in blocks only
        18  (record)           [name of the class, {field: value}]: in records only
        19  (enumeration)      [name of the class, name of the member]: in records only

A zone is nil (naive), [offset in microseconds], [offset in microseconds, name] or the key of a ZoneInfo. A
zone of any other class is turned into its offset at that moment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import ormsgpack

from holdfast.model.coders.blocks import Damaged, unpack
from holdfast.model.coders.integers import read_big_integer, write_big_integer

__all__ = ["LEAF_NUMBERS", "LEAF_READERS", "LEAF_WRITERS", "is_time_type", "own_zone", "time_number"]

TUPLE, DICT, SET, FROZENSET, BYTEARRAY, BIG_INTEGER, TEXT = 1, 2, 3, 4, 5, 6, 7
DATETIME, DATE, TIME, TIMEDELTA, DECIMAL, IDENTIFIER, COMPLEX = 8, 9, 10, 11, 12, 13, 14
TIMESTAMP, DURATION, ENCODED, RECORD, ENUMERATION = 15, 16, 17, 18, 19

_MICRO = timedelta(microseconds=1)
_DAY_MICROS = 86_400_000_000
_TIMES_MODULE = "holdfast.model.time.timestamps"


def own_zone(value: datetime | time) -> datetime | time:
    """The same moment; a zone of a class that cannot be stored becomes its offset at that moment."""
    zone = value.tzinfo
    if zone is None or type(zone) is timezone or (type(zone) is ZoneInfo and zone.key is not None):
        return value
    offset = value.utcoffset()
    if offset is None:
        raise ValueError(f"the zone {zone!r} has no offset from UTC for {value!r}")
    return value.replace(tzinfo=timezone(offset))


def is_time_type(kind: type) -> bool:
    """Is it Timestamp or Duration? Needs no import: if such a value exists, its module is loaded."""
    return kind.__module__ == _TIMES_MODULE and kind.__name__ in ("Timestamp", "Duration")


def time_number(kind: type) -> int:
    return TIMESTAMP if kind.__name__ == "Timestamp" else DURATION


def _zone_parts(zone: tzinfo | None) -> Any:
    if zone is None:
        return None
    if type(zone) is ZoneInfo:
        return zone.key
    offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
    return [offset // _MICRO, *name]


def _zone(parts: Any) -> tzinfo | None:
    if parts is None:
        return None
    if type(parts) is str:
        return ZoneInfo(parts)
    offset, *name = parts
    return timezone(timedelta(microseconds=offset), *name)


def _write_datetime(value: datetime) -> bytes:
    value = own_zone(value)  # type: ignore[assignment]
    wall = (value.replace(tzinfo=None) - datetime.min) // _MICRO
    return ormsgpack.packb([wall, value.fold, _zone_parts(value.tzinfo)])


def _read_datetime(data: bytes) -> datetime:
    wall, fold, zone = unpack(data)
    return (datetime.min + timedelta(microseconds=wall)).replace(fold=fold, tzinfo=_zone(zone))


def _write_time(value: time) -> bytes:
    value = own_zone(value)  # type: ignore[assignment]
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return ormsgpack.packb([seconds * 1_000_000 + value.microsecond, value.fold, _zone_parts(value.tzinfo)])


def _read_time(data: bytes) -> time:
    micros, fold, zone = unpack(data)
    if not 0 <= micros < _DAY_MICROS:
        raise Damaged("a time of day beyond the day")
    return (datetime.min + timedelta(microseconds=micros)).time().replace(fold=fold, tzinfo=_zone(zone))


def _read_timedelta(data: bytes) -> timedelta:
    days, seconds, micros = unpack(data)
    return timedelta(days=days, seconds=seconds, microseconds=micros)


def _read_timestamp(data: bytes) -> Any:
    from holdfast.model.time.timestamps import Timestamp

    return Timestamp(micros=read_big_integer(data))


def _read_duration(data: bytes) -> Any:
    from holdfast.model.time.timestamps import Duration

    return Duration(micros=read_big_integer(data))


LEAF_NUMBERS: dict[type, int] = {
    bytearray: BYTEARRAY,
    datetime: DATETIME,
    date: DATE,
    time: TIME,
    timedelta: TIMEDELTA,
    Decimal: DECIMAL,
    UUID: IDENTIFIER,
    complex: COMPLEX,
}

LEAF_WRITERS: dict[int, Callable[[Any], bytes]] = {
    BYTEARRAY: bytes,
    BIG_INTEGER: write_big_integer,
    TEXT: lambda value: value.encode("utf-8", "surrogatepass"),
    DATETIME: _write_datetime,
    DATE: lambda value: ormsgpack.packb(value.toordinal()),
    TIME: _write_time,
    TIMEDELTA: lambda value: ormsgpack.packb([value.days, value.seconds, value.microseconds]),
    DECIMAL: lambda value: str(value).encode("ascii"),
    IDENTIFIER: lambda value: value.bytes,
    COMPLEX: lambda value: struct.pack(">dd", value.real, value.imag),
    TIMESTAMP: lambda value: write_big_integer(value.micros),
    DURATION: lambda value: write_big_integer(value.micros),
}

LEAF_READERS: dict[int, Callable[[bytes], Any]] = {
    BYTEARRAY: bytearray,
    BIG_INTEGER: read_big_integer,
    TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    DATETIME: _read_datetime,
    DATE: lambda data: date.fromordinal(unpack(data)),
    TIME: _read_time,
    TIMEDELTA: _read_timedelta,
    DECIMAL: lambda data: Decimal(data.decode("ascii")),
    IDENTIFIER: lambda data: UUID(bytes=data),
    COMPLEX: lambda data: complex(*struct.unpack(">dd", data)),
    TIMESTAMP: _read_timestamp,
    DURATION: _read_duration,
}
