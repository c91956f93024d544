"""Points in event time and spans between them, to the microsecond.

A plain number always means seconds. A float is rounded to the nearest microsecond. Both classes are
immutable, equal to the plain number of seconds they stand for, and hash like it: as a dict key, `Timestamp(5)`
is the same as 5.

Invariant: a `Timestamp` lies between `MIN_TIMESTAMP` and `MAX_TIMESTAMP`. A `Duration` has no bounds, because
the span between those two does not fit in 64 bits.
"""

from __future__ import annotations

import numbers
import time
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

from holdfast.errors import TimeError
from holdfast.model.present import current_time_micros
from holdfast.model.time.units import (
    MAX_MICROS,
    MIN_MICROS,
    ONE_MICRO,
    SECOND,
    datetime_micros,
    decimal_micros,
    in_range,
    number_micros,
    rfc3339_micros,
    text_micros,
)

__all__ = ["MAX_TIMESTAMP", "MIN_TIMESTAMP", "Duration", "Timestamp"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Self = TypeVar("Self", bound="_Seconds")


class _Seconds:
    """A whole number of microseconds that behaves like a number of seconds.

    Compares only with its own kind and plain numbers: a `Timestamp` and a `Duration` are never equal.
    """

    __slots__ = ("micros",)
    micros: int

    @classmethod
    def _of_micros(cls: type[Self], micros: int) -> Self:
        """Makes one from an int known to be in range, without checks."""
        made = _new(cls)
        _set_micros(made, micros)
        return made

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"A {type(self).__name__} cannot be changed: {name!r} is read-only.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A {type(self).__name__} cannot be changed: {name!r} is read-only.")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (0, self.micros))

    def __copy__(self: Self) -> Self:
        return self

    def __deepcopy__(self: Self, memo: Any) -> Self:
        return self

    def __float__(self) -> float:
        return self.micros / SECOND

    def __int__(self) -> int:
        """Whole seconds, rounded down."""
        return self.micros // SECOND

    def __hash__(self) -> int:
        seconds, rest = divmod(self.micros, SECOND)
        return hash(self.micros / SECOND) if rest else hash(seconds)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is self.__class__:
            return self.micros == other.micros
        pair = _comparable(self.micros, other)
        return NotImplemented if pair is None else pair[0] == pair[1]

    def __lt__(self, other: Any) -> bool:
        if other.__class__ is self.__class__:
            return self.micros < other.micros
        pair = _comparable(self.micros, other)
        return NotImplemented if pair is None else pair[0] < pair[1]

    def __le__(self, other: Any) -> bool:
        if other.__class__ is self.__class__:
            return self.micros <= other.micros
        pair = _comparable(self.micros, other)
        return NotImplemented if pair is None else pair[0] <= pair[1]

    def __gt__(self, other: Any) -> bool:
        if other.__class__ is self.__class__:
            return self.micros > other.micros
        pair = _comparable(self.micros, other)
        return NotImplemented if pair is None else pair[0] > pair[1]

    def __ge__(self, other: Any) -> bool:
        if other.__class__ is self.__class__:
            return self.micros >= other.micros
        pair = _comparable(self.micros, other)
        return NotImplemented if pair is None else pair[0] >= pair[1]

    def __mod__(self, other: Any) -> Duration:
        span = _span_micros(other)
        return NotImplemented if span is None else Duration._of_micros(self.micros % span)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        """The seconds in plain decimals, exact: `5`, `-0.5`, `5.000001`."""
        seconds, rest = divmod(abs(self.micros), SECOND)
        sign = "-" if self.micros < 0 else ""
        return f"{sign}{seconds}.{rest:06d}".rstrip("0") if rest else f"{sign}{seconds}"


# Writing through the slot bypasses `__setattr__`, which always refuses.
_set_micros = _Seconds.__dict__["micros"].__set__
_new = object.__new__


class Timestamp(_Seconds):
    """A point in event time: `Timestamp(seconds=0, micros=0)`, counted from 1970-01-01T00:00:00Z.

    Adding or subtracting takes a `Duration`, a `timedelta` or a number of seconds; the difference of two
    timestamps is a `Duration`. A result beyond `MIN_TIMESTAMP` or `MAX_TIMESTAMP` is a `TimeError`.
    """

    __slots__ = ()

    def __init__(self, seconds: float = 0, micros: float = 0) -> None:
        if type(seconds) is int and type(micros) is int:
            total = seconds * SECOND + micros
        else:
            total = number_micros(seconds, SECOND, "Timestamp") + number_micros(micros, 1, "Timestamp")
        _set_micros(self, in_range(total))

    @classmethod
    def of(cls, when: Timestamp | float | Decimal | datetime) -> Timestamp:
        """Takes a Timestamp, a number of seconds, or a datetime with a time zone."""
        if isinstance(when, Timestamp):
            return when
        if isinstance(when, datetime):
            return cls.from_utc_datetime(when)
        if isinstance(when, Decimal):
            return cls._of_micros(in_range(decimal_micros(when)))
        if isinstance(when, str):
            raise TimeError(
                f"A timestamp cannot be made of the string {when!r}.",
                todo="Use Timestamp.from_rfc3339(text).",
            )
        return cls(when)

    @classmethod
    def now(cls) -> Timestamp:
        """The time of the running bundle, so that a replay sees the same; outside a bundle, this machine's clock."""
        running = current_time_micros()
        return cls._of_micros(time.time_ns() // 1000 if running is None else running)

    @classmethod
    def from_utc_datetime(cls, when: datetime) -> Timestamp:
        """The timestamp of a datetime with a time zone, whichever it is."""
        return cls._of_micros(datetime_micros(when))

    def to_utc_datetime(self, has_tz: bool = False) -> datetime:
        """The datetime in UTC, naive unless `has_tz`."""
        try:
            when = _EPOCH + timedelta(microseconds=self.micros)
        except OverflowError:
            raise TimeError(f"{self!r} cannot be a datetime: those end with the years 1 and 9999.") from None
        return when if has_tz else when.replace(tzinfo=None)

    @classmethod
    def from_rfc3339(cls, text: str) -> Timestamp:
        """Reads `2024-02-29T12:30:00.25Z` or `…+01:00`. Digits beyond the microsecond are cut off."""
        return cls._of_micros(rfc3339_micros(text))

    def to_rfc3339(self) -> str:
        return self.to_utc_datetime().isoformat() + "Z"

    def seconds(self) -> int:
        """Whole seconds, rounded down."""
        return self.micros // SECOND

    def predecessor(self) -> Timestamp:
        """The timestamp one microsecond before."""
        return Timestamp._of_micros(in_range(self.micros - 1))

    def successor(self) -> Timestamp:
        """The timestamp one microsecond after."""
        return Timestamp._of_micros(in_range(self.micros + 1))

    def __add__(self, other: Any) -> Timestamp:
        span = other * SECOND if type(other) is int else _span_micros(other)
        return NotImplemented if span is None else Timestamp._of_micros(in_range(self.micros + span))

    __radd__ = __add__

    # Any: the type depends on `other`. A Timestamp gives a Duration, a span gives a Timestamp.
    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Timestamp):
            return Duration._of_micros(self.micros - other.micros)
        span = other * SECOND if type(other) is int else _span_micros(other)
        return NotImplemented if span is None else Timestamp._of_micros(in_range(self.micros - span))


class Duration(_Seconds):
    """A span of time: `Duration(seconds=0, micros=0)`; it may be negative.

    Adds and subtracts with numbers of seconds and `timedelta`; `*` takes a number. As with `timedelta`,
    `duration // duration` is an int and `duration // number` a `Duration`. `%` takes a span or seconds.
    """

    __slots__ = ()

    def __init__(self, seconds: float = 0, micros: float = 0) -> None:
        if type(seconds) is int and type(micros) is int:
            total = seconds * SECOND + micros
        else:
            total = number_micros(seconds, SECOND, "Duration") + number_micros(micros, 1, "Duration")
        _set_micros(self, total)

    @classmethod
    def of(cls, span: Duration | float | Decimal | timedelta | str) -> Duration:
        """Takes a Duration, a number of seconds, a timedelta, or a text: `"1 day 2 hours"`, `"90s"`."""
        if isinstance(span, Duration):
            return span
        if isinstance(span, timedelta):
            return cls._of_micros(span // ONE_MICRO)
        if isinstance(span, Decimal):
            return cls._of_micros(decimal_micros(span))
        if isinstance(span, str):
            return cls._of_micros(text_micros(span))
        return cls(span)

    @classmethod
    def of_days(cls, days: float) -> Duration:
        return cls(days * 86_400)

    @classmethod
    def of_hours(cls, hours: float) -> Duration:
        return cls(hours * 3_600)

    @classmethod
    def of_minutes(cls, minutes: float) -> Duration:
        return cls(minutes * 60)

    @classmethod
    def of_seconds(cls, seconds: float) -> Duration:
        return cls(seconds)

    @classmethod
    def of_millis(cls, millis: float) -> Duration:
        return cls(micros=millis * 1_000)

    def __add__(self, other: Any) -> Duration:
        span = _span_micros(other)
        return NotImplemented if span is None else Duration._of_micros(self.micros + span)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Duration:
        span = _span_micros(other)
        return NotImplemented if span is None else Duration._of_micros(self.micros - span)

    def __rsub__(self, other: Any) -> Duration:
        span = _span_micros(other)
        return NotImplemented if span is None else Duration._of_micros(span - self.micros)

    def __mul__(self, factor: Any) -> Duration:
        if not isinstance(factor, numbers.Real):
            return NotImplemented
        if isinstance(factor, numbers.Integral):
            return Duration._of_micros(self.micros * int(factor))
        return Duration._of_micros(number_micros(self.micros * float(factor), 1, "Duration"))

    __rmul__ = __mul__

    # Any: the type depends on `other`. A span gives an int, a number gives a Duration.
    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, numbers.Real):
            exact = int(other) if isinstance(other, numbers.Integral) else float(other)
            return Duration._of_micros(int(self.micros // exact))
        span = _span_micros(other)
        return NotImplemented if span is None else self.micros // span

    def __neg__(self) -> Duration:
        return Duration._of_micros(-self.micros)

    def __abs__(self) -> Duration:
        return Duration._of_micros(abs(self.micros))


def _comparable(micros: int, other: object) -> tuple[float, float] | None:
    """Both sides in one unit. A float is compared with the float nearest to our own value."""
    if isinstance(other, (int, numbers.Integral)):
        return micros, int(other) * SECOND
    if isinstance(other, (float, numbers.Real)):
        return micros / SECOND, float(other)
    return None


def _span_micros(span: Any) -> int | None:
    if isinstance(span, Duration):
        return span.micros
    if isinstance(span, (int, float, numbers.Real)):
        return number_micros(span, SECOND, "Duration")
    if isinstance(span, timedelta):
        return span // ONE_MICRO
    return None


MIN_TIMESTAMP = Timestamp._of_micros(MIN_MICROS)
MAX_TIMESTAMP = Timestamp._of_micros(MAX_MICROS)
