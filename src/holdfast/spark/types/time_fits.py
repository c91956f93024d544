"""How values become columns of times. A plain number is seconds, as everywhere: since 1970 in UTC, or of a duration.

A point in time and a wall-clock time are different things: a datetime without a time zone is not a point in time, so it does
not fit a timestamp, and one with a time zone does not fit a timestamp without one.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.errors import TimeError
from holdfast.model.time.timestamps import Duration, Timestamp
from holdfast.model.time.units import ONE_MICRO, datetime_micros
from holdfast.spark.types.fits import Leaf, Misfit, is_bool

__all__ = ["time_fit"]

_NONE = type(None)
_FIRST, _LAST = (
    datetime_micros(end.replace(tzinfo=timezone.utc)) for end in (datetime.min, datetime.max)
)  # in microseconds, the years 1 and 9999
_MILLISECONDS = "a plain number is seconds: divide milliseconds by 1000, or yield hf.Timestamp(micros=...)"
_DAYS = 100_000_000
"""This many days certainly fit into 64 bits of microseconds."""
_EXACT_UNITS = frozenset({"W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"})
"""NumPy's units that are a fixed number of microseconds."""


class Day(Leaf):
    exact = frozenset({date, _NONE})
    takes = "dates (datetime.date)"
    hints = (
        ((datetime,), "a datetime would lose its time of day: yield value.date()"),
        ((Timestamp,), "yield value.to_utc_datetime().date()"),
        ((numbers.Number, Decimal), "yield a datetime.date; a number could be days, seconds or a year"),
        ((str,), "yield datetime.date.fromisoformat(text)"),
    )

    def convert(self, value: Any) -> Any:
        if isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "D" and not np.isnat(value):
            return value.item()
        if isinstance(value, date) and not isinstance(value, datetime):
            return date(value.year, value.month, value.day)
        raise self.misfit(value)

    def surely(self, value: Any) -> bool:
        return value.__class__ is date


class _Micros(Leaf):
    """A type that Arrow stores as a number of microseconds. Values of several classes are converted to that first."""

    usual: type
    """The class whose values Arrow converts by itself."""
    own: type
    """Our class for the same."""

    def array(self, values: Sequence[Any]) -> pa.Array:
        types = set(map(type, values))
        if types == {self.own}:
            values = list(map(attrgetter("micros"), values))
        elif not types <= {self.usual, _NONE} or not self.arrow_can(values):
            values = [None if value is None else self.convert(value) for value in values]
        return pa.array(values, type=self.kind)

    def arrow_can(self, values: Sequence[Any]) -> bool:
        """Whether Arrow converts all of these values of the usual class correctly."""
        return True

    def convert(self, value: Any) -> int:
        try:
            micros = None if is_bool(value) else self.micros(value)
        except TimeError as error:
            raise Misfit(error.what.rstrip("."), error.todo.rstrip(".") or self.misfit(value).todo) from None
        if micros is None:
            raise self.misfit(value)
        return micros

    def micros(self, value: Any) -> int | None:
        """A value in microseconds; None if it is not a time. May raise TimeError."""
        raise NotImplementedError


class Moment(_Micros):
    """A timestamp: a point in time."""

    usual, own = datetime, Timestamp
    takes = "points in time: datetimes with a time zone, hf.Timestamp, or seconds since 1970 as a number"
    hints = (
        ((datetime,), "give it its time zone: value.replace(tzinfo=datetime.timezone.utc)"),
        ((date,), "say which time of that day, in which time zone: a datetime"),
        ((np.datetime64,), "give it a time zone: value.item().replace(tzinfo=datetime.timezone.utc)"),
        ((str,), "yield hf.Timestamp.from_rfc3339(text)"),
        ((numbers.Number, Decimal), _MILLISECONDS),
    )

    def arrow_can(self, values: Sequence[Any]) -> bool:
        return all(map(_is_plain_zone, {value.tzinfo for value in values if value is not None}))

    def surely(self, value: Any) -> bool:
        return value.__class__ is Timestamp or (value.__class__ is datetime and _is_plain_zone(value.tzinfo))

    def micros(self, value: Any) -> int | None:
        if isinstance(value, Timestamp):
            return value.micros
        if isinstance(value, datetime):
            return None if value.tzinfo is None or not _in_micros(value) else datetime_micros(_plain(value))
        return _number_micros(value)


class WallClock(_Micros):
    """A timestamp without time zone. A point in time becomes its wall-clock time in UTC."""

    usual, own = datetime, Timestamp
    takes = "datetimes without a time zone, or, as the time in UTC, hf.Timestamp and seconds since 1970 as a number"
    hints = (
        (
            (datetime,),
            "say what the clock shows: value.astimezone(zone).replace(tzinfo=None); or make the column a timestamp",
        ),
        ((date,), "say which time of that day: a datetime"),
        ((str,), "yield datetime.datetime.fromisoformat(text)"),
        ((numbers.Number, Decimal), _MILLISECONDS),
    )

    def arrow_can(self, values: Sequence[Any]) -> bool:
        return {value.tzinfo for value in values if value is not None} <= {None}

    def surely(self, value: Any) -> bool:
        return value.__class__ is datetime and value.tzinfo is None

    def micros(self, value: Any) -> int | None:
        if isinstance(value, Timestamp):
            return value.micros
        if isinstance(value, np.datetime64):
            return _numpy_micros(value)
        if isinstance(value, datetime):
            if value.tzinfo is not None or not _in_micros(value):
                return None
            return datetime_micros(_plain(value).replace(tzinfo=timezone.utc))
        return _number_micros(value)


class Span(_Micros):
    """An interval of days to seconds."""

    usual, own = timedelta, Duration
    takes = "timedeltas, hf.Duration, or seconds as a number"
    hints = (((str,), "yield hf.Duration.of(text)"),)

    def surely(self, value: Any) -> bool:
        return value.__class__ is timedelta and abs(value.days) < _DAYS

    def micros(self, value: Any) -> int | None:
        if isinstance(value, np.timedelta64):
            return _numpy_micros(value)
        if isinstance(value, timedelta):
            return value // ONE_MICRO if _in_micros(value) else None
        if isinstance(value, (Duration, Decimal, numbers.Real)):
            return Duration.of(value).micros  # type: ignore[arg-type]
        return None


def _is_plain_zone(zone: tzinfo | None) -> bool:
    """Whether Arrow certainly reads datetimes in this zone as Python does."""
    return zone is not None and (zone.__class__ is timezone or zone.__class__.__module__ == "zoneinfo")


def _number_micros(value: Any) -> int | None:
    if not isinstance(value, (Decimal, numbers.Real)) or isinstance(value, np.timedelta64):
        # NumPy treats its timedeltas as integers.
        return None
    micros = Timestamp.of(value).micros  # type: ignore[arg-type]
    if _FIRST <= micros <= _LAST:
        return micros
    raise TimeError(f"{value} seconds since 1970 is not between the years 1 and 9999", todo=_MILLISECONDS)


def _in_micros(value: Any) -> bool:
    """Whether a pandas time has no nanoseconds, which would be lost; False for NaT."""
    return not (getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0))


def _plain(value: datetime) -> datetime:
    """A plain datetime: pandas' subclass does arithmetic differently."""
    convert = getattr(value, "to_pydatetime", None)
    return value if convert is None else convert()


def _numpy_micros(value: Any) -> int | None:
    if np.isnat(value) or np.datetime_data(value)[0] not in _EXACT_UNITS:
        return None
    converted = value.astype(f"{value.dtype.kind}8[us]")
    return int(converted.astype(np.int64)) if converted == value else None


def time_fit(kind: pa.DataType) -> Leaf | None:
    """The fit of a time type; None for any other type."""
    if pa.types.is_timestamp(kind):
        return WallClock(kind) if kind.tz is None else Moment(kind)
    if pa.types.is_duration(kind):
        return Span(kind)
    return Day(kind) if pa.types.is_date(kind) else None
