"""Text as a value of a key's column, as SQL would cast it, without Spark.

For the plain types, and for text about which there is no doubt. Everything else is left to Spark itself, with NeedsSpark: so
an answer from here is always Spark's answer.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
import struct
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from holdfast.errors import NeedsSpark

__all__ = ["cast_text"]

_TRIMMED = "".join(map(chr, (*range(0x21), 0x7F)))
"""What SQL removes at both ends of a text before it casts it: blanks and control characters."""
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_INT_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")
_DECIMAL_TYPE = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,60})(?:\.([0-9]{1,60}))?")
_FLOAT = re.compile(r"[+-]?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(_DATE.pattern + r"[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?(Z|[+-][0-9]{2}:[0-9]{2})?")
_OFFSET_HOURS_MAX = 18
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def cast_text(text: str, kind: str) -> Any:
    """The value that a text stands for in a column of a type, which is named as Spark does; None if it is none.

    Raises NeedsSpark if only Spark can tell.
    """
    if kind in _INT_BITS:
        return _integer(text, _INT_BITS[kind])
    decimal = _DECIMAL_TYPE.fullmatch(kind)
    if decimal is not None:
        return _decimal(text, int(decimal[1]), int(decimal[2]))
    cast = _CASTS.get(kind)
    if cast is None:
        raise NeedsSpark(f"Only Spark can read a key of the type {kind!r:.100}.")
    return cast(text)


def _unsure(text: str, kind: str) -> NeedsSpark:
    return NeedsSpark(f"Only Spark can tell whether {text!r:.100} is a {kind}.")


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _unsure(text, "string") from None
    return text


def _integer(text: str, bits: int) -> int | None:
    trimmed = text.strip(_TRIMMED)
    if not _INTEGER.fullmatch(trimmed):
        return None
    value = int(trimmed)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _boolean(text: str) -> bool | None:
    word = text.strip(_TRIMMED)
    if not word.isascii():
        return None
    return True if word.lower() in _TRUE else False if word.lower() in _FALSE else None


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    """Only what needs no rounding and has room."""
    found = _DECIMAL.fullmatch(text)
    if found is None or len(found[2] or "") > scale or len(found[1].lstrip("0")) > precision - scale:
        raise _unsure(text, f"decimal({precision},{scale})")
    digits = int(found[1] + (found[2] or "").ljust(scale, "0"))
    # From its parts: arithmetic would round to 28 digits. There is one zero.
    return Decimal((int(text.startswith("-") and digits != 0), tuple(map(int, str(digits))), -scale))


def _double(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise _unsure(text, "double")
    # There is one key 0.0.
    return float(text) + 0.0


def _float(text: str) -> float:
    """Only what a float can hold exactly: rounding twice could give another one."""
    value = _double(text)
    try:
        if struct.unpack("<f", struct.pack("<f", value))[0] == value:
            return value
    except OverflowError:
        pass
    raise _unsure(text, "float")


def _date(text: str) -> datetime.date:
    found = _DATE.fullmatch(text)
    try:
        if found is not None:
            return datetime.date(*map(int, found.groups()))
    except ValueError:
        pass
    raise _unsure(text, "date")


def _timestamp(text: str) -> datetime.datetime:
    """Only with an offset: without, it depends on the session's time zone."""
    found = _TIME.fullmatch(text)
    if found is None or found[8] is None:
        raise _unsure(text, "timestamp")
    try:
        # As Arrow gives it to steps: the name of the zone is part of a stored key.
        utc = zoneinfo.ZoneInfo("UTC")
    except zoneinfo.ZoneInfoNotFoundError:
        raise _unsure(text, "timestamp") from None
    return (_moment(found, text) - _offset(found[8], text)).replace(tzinfo=utc)


def _timestamp_ntz(text: str) -> datetime.datetime:
    found = _TIME.fullmatch(text)
    if found is None or found[8] is not None:
        raise _unsure(text, "timestamp_ntz")
    return _moment(found, text).replace(tzinfo=None)


def _moment(found: re.Match[str], text: str) -> datetime.datetime:
    micros = int((found[7] or "").ljust(6, "0"))
    try:
        year, month, day, hour, minute, second = map(int, found.groups()[:6])
        return datetime.datetime(year, month, day, hour, minute, second, micros, datetime.timezone.utc)
    except ValueError:
        raise _unsure(text, "time") from None


def _offset(zone: str, text: str) -> datetime.timedelta:
    if zone == "Z":
        return datetime.timedelta()
    hours, minutes = int(zone[1:3]), int(zone[4:])
    if hours >= _OFFSET_HOURS_MAX or minutes >= 60 or text[:4] in ("0001", "9999"):
        raise _unsure(text, "timestamp")
    size = datetime.timedelta(hours=hours, minutes=minutes)
    return size if zone[0] == "+" else -size


def _binary(text: str) -> bytes:
    try:
        if _BASE64.fullmatch(text):
            value = base64.b64decode(text, validate=True)
            if base64.b64encode(value).decode() == text:
                return value
    except (binascii.Error, ValueError):
        pass
    raise _unsure(text, "binary")


_CASTS: dict[str, Callable[[str], Any]] = {
    "string": _string,
    "boolean": _boolean,
    "double": _double,
    "float": _float,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "binary": _binary,
}
