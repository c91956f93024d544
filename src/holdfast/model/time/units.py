"""Converts what users write for a time (numbers, decimals, datetimes, texts) to whole microseconds.

Invariant: every function returns an exact int, rounded at most once, or raises a `TimeError`.
"""

from __future__ import annotations

import math
import numbers
import re
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

from holdfast.errors import TimeError

__all__ = [
    "MAX_MICROS",
    "MIN_MICROS",
    "ONE_MICRO",
    "SECOND",
    "datetime_micros",
    "decimal_micros",
    "in_range",
    "number_micros",
    "rfc3339_micros",
    "text_micros",
]

SECOND = 1_000_000
MIN_MICROS = -9223372036854775000
MAX_MICROS = 9223372036854775000
ONE_MICRO = timedelta(microseconds=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def in_range(micros: int) -> int:
    """Returns the microseconds unchanged, if they are in the range of timestamps."""
    if MIN_MICROS <= micros <= MAX_MICROS:
        return micros
    raise TimeError(
        f"A timestamp of {micros} microseconds is out of range.",
        detail=f"Timestamps go from {MIN_MICROS} to {MAX_MICROS} microseconds.",
        todo="Plain numbers are seconds: divide milliseconds by 1000, or use Timestamp(micros=...).",
    )


def number_micros(number: Any, scale: int, kind: str) -> int:
    """The microseconds of a number whose unit is `scale` microseconds; `kind` is named in errors."""
    if isinstance(number, (int, numbers.Integral)):
        return int(number) * scale
    if isinstance(number, (float, numbers.Real)):
        exact = float(number)
        if not math.isfinite(exact):
            raise TimeError(f"A {kind} cannot be made of {exact}.")
        product = exact * scale
        # Near the largest float the product overflows, which int arithmetic does not.
        return round(product) if math.isfinite(product) else round(exact) * scale
    raise TimeError(
        f"A {kind} cannot be made of {number!r}, a {type(number).__name__}.",
        todo=f"Give a number of seconds, or use {kind}.of(...), which takes more kinds of values.",
    )


def decimal_micros(seconds: Decimal) -> int:
    # The largest timestamp has 13 digits of seconds; anything a million times larger is a mistake.
    if not seconds.is_finite() or abs(seconds) > Decimal("1e19"):
        raise TimeError(f"A time cannot be made of {seconds} seconds.")
    with localcontext() as context:
        context.prec = 60
        return int(seconds.scaleb(6).to_integral_value(ROUND_HALF_EVEN))


def datetime_micros(when: datetime) -> int:
    if when.utcoffset() is None:
        raise TimeError(
            f"A timestamp cannot be made of {when!r}: without a time zone it is not a point in time.",
            todo="Make it aware, for example with when.replace(tzinfo=datetime.timezone.utc).",
        )
    return int((when - _EPOCH) // ONE_MICRO)


_RFC3339 = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[Tt ](?P<time>\d{2}:\d{2}:\d{2})(\.(?P<fraction>\d+))?"
    r"([Zz]|(?P<sign>[+-])(?P<hours>\d{2}):(?P<minutes>\d{2}))",
    re.ASCII,
)


def rfc3339_micros(text: str) -> int:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimeError(
            f"{text!r} is not an RFC 3339 time.",
            todo="Write date, time and offset: 2024-02-29T12:30:00Z or 2024-02-29T12:30:00.25+01:00.",
        )
    hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
    try:
        when = datetime.fromisoformat(f"{match['date']}T{match['time']}+00:00")
        if hours > 23 or minutes > 59:
            raise ValueError("the offset is out of range")
    except ValueError as error:
        raise TimeError(f"{text!r} is not a time: {error}.") from None
    offset = (hours * 3600 + minutes * 60) * (-1 if match["sign"] == "-" else 1)
    fraction = int((match["fraction"] or "").ljust(6, "0")[:6])
    return datetime_micros(when) - offset * SECOND + fraction


_TERM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.ASCII)
_UNITS = {
    1: ("us", "micro", "micros", "microsecond", "microseconds"),
    1000: ("ms", "milli", "millis", "millisecond", "milliseconds"),
    SECOND: ("s", "sec", "secs", "second", "seconds"),
    60 * SECOND: ("m", "min", "mins", "minute", "minutes"),
    3600 * SECOND: ("h", "hr", "hrs", "hour", "hours"),
    86400 * SECOND: ("d", "day", "days"),
    7 * 86400 * SECOND: ("w", "week", "weeks"),
}
_UNIT_MICROS = {name: micros for micros, names in _UNITS.items() for name in names}


def text_micros(text: str) -> int:
    """The sum of the terms in a text such as `1 day 2 hours`, `1h30m` or `0.5 s`."""
    total, position, lowered = Decimal(0), 0, text.lower()
    while position < len(lowered):
        term = _TERM.match(lowered, position)
        if term is None or term[2] not in _UNIT_MICROS:
            break
        total += Decimal(term[1]) * _UNIT_MICROS[term[2]]
        position = term.end()
    if position < len(lowered) or not lowered.strip():
        raise TimeError(
            f"{text!r} is not a duration.",
            todo="Write numbers with units, such as '10 seconds', '1h' or '1 day 2 hours'. The units go from "
            "microseconds to weeks; months and years have no fixed length.",
        )
    return decimal_micros(total.scaleb(-6))
