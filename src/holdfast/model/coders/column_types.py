"""Which values fit a column of Spark's, for schemas of state: by the names that types have in a schema's JSON.

A value fits as it would fit an output column of the type, without loss, and becomes what an element has for such a column: a
timestamp an aware datetime in UTC, an array a list. But floats keep their 64 bits.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from holdfast.errors import TimeError
from holdfast.model.coders.base import shortened
from holdfast.model.time.timestamps import Duration, Timestamp

__all__ = ["Convert", "Unfit", "converter", "type_problems", "types_only"]

Convert = Callable[[Any], Any]
"""Makes a value that is not None fit; raises Unfit."""

_WHOLE_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_EXACT_MAX = 2**53
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_NAMES = (*_WHOLE_BITS, "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "void")


class Unfit(ValueError):
    """A value that does not fit: why, and where it is."""

    def __init__(self, why: str, value: Any = None, path: str = "") -> None:
        super().__init__(why)
        self.why = why if value is None else f"{why}, not {shortened(value)} of type {type(value).__qualname__}"
        self.path = path

    def below(self, path: str) -> Unfit:
        """The same, as seen from the enclosing value."""
        made = Unfit(self.why)
        made.path = path + self.path
        return made


def type_problems(kind: Any, where: str) -> Iterator[str]:
    """What is wrong with a type, as a schema's JSON has it, in sentences."""
    if isinstance(kind, str):
        if kind not in _NAMES and not kind.startswith("interval day to second") and _DECIMAL.fullmatch(kind) is None:
            yield f"{where} has the type {kind!r}, which state cannot have."
    elif isinstance(kind, Mapping) and kind.get("type") == "array":
        yield from type_problems(kind.get("elementType"), f"{where}[]")
    elif isinstance(kind, Mapping) and kind.get("type") == "map":
        yield from type_problems(kind.get("keyType"), f"a key of {where}")
        yield from type_problems(kind.get("valueType"), f"a value of {where}")
    elif isinstance(kind, Mapping) and kind.get("type") == "struct":
        for field in kind.get("fields", ()):
            yield from type_problems(field.get("type"), f"{where}.{field.get('name')}")
    else:
        yield f"{where} has the type {shortened(kind)}, which state cannot have."


def types_only(kind: Any) -> Any:
    """A type without what is not stored: which parts may be null, and metadata."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {"type": "struct", "fields": [{"name": f["name"], "type": types_only(f["type"])} for f in kind["fields"]]}
    parts = ("elementType",) if kind["type"] == "array" else ("keyType", "valueType")
    return {"type": kind["type"], **{part: types_only(kind[part]) for part in parts}}


def converter(kind: Any) -> Convert:
    """What makes values fit a type that has no problems."""
    if isinstance(kind, str):
        if kind in _WHOLE_BITS:
            return _whole(_WHOLE_BITS[kind])
        digits = _DECIMAL.fullmatch(kind)
        return _decimal(int(digits[1]), int(digits[2])) if digits else _SIMPLE.get(kind, _interval)
    if kind["type"] == "array":
        return _array(_part(kind["elementType"], kind.get("containsNull", True)))
    if kind["type"] == "map":
        return _map(_part(kind["keyType"], False), _part(kind["valueType"], kind.get("valueContainsNull", True)))
    return struct(kind)


def _part(kind: Any, nullable: bool) -> Convert:
    convert = converter(kind)

    def part(value: Any) -> Any:
        if value is None:
            if not nullable:
                raise Unfit("it must not be None")
            return None
        return convert(value)

    return part


def struct(kind: Mapping[str, Any]) -> Convert:
    """A struct is a dict, or a tuple in the order of the fields, and stays so; whatever else has names becomes a dict."""
    fields = {field["name"]: _part(field["type"], field.get("nullable", True)) for field in kind["fields"]}

    def convert(value: Any) -> Any:
        named = _named(value)
        if named is None:
            if not isinstance(value, (tuple, list)):
                raise Unfit("it takes a dict, or a tuple in the order of the fields", value)
            if len(value) != len(fields):
                raise Unfit(f"it has {len(fields)} fields, and the tuple {len(value)} values")
            return tuple(_below(f".{name}", fields[name], part) for name, part in zip(fields, value, strict=True))
        unknown = [name for name in named if name not in fields]
        if unknown:
            raise Unfit(f"it has no field {unknown[0]!r}; there are {', '.join(fields)}")
        return {name: _below(f".{name}", part, named.get(name)) for name, part in fields.items()}

    return convert


def _named(value: Any) -> dict[Any, Any] | None:
    """The fields of a value that has names."""
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("asDict", "_asdict"):
        if isinstance(value, tuple) and hasattr(value, "__fields__" if method == "asDict" else "_fields"):
            return dict(getattr(value, method)())
    return None


def _below(path: str, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except Unfit as unfit:
        raise unfit.below(path) from None


def _array(element: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple, set, frozenset)) or hasattr(value, "_fields"):
            raise Unfit("it takes a list", value)
        return [_below(f"[{number}]", element, part) for number, part in enumerate(value)]

    return convert


def _map(key: Convert, item: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Unfit("it takes a dict", value)
        made = {_below(".key", key, name): _below(f"[{name!r}]", item, part) for name, part in value.items()}
        if len(made) < len(value):
            raise Unfit("two of its keys become the same", value)
        return made

    return convert


def _whole(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if _is_bool(value) or not hasattr(value, "__index__") or not -limit <= operator.index(value) < limit:
            raise Unfit(f"it takes whole numbers from {-limit} to {limit - 1}", value)
        return operator.index(value)

    return convert


def _real(value: Any) -> float:
    if not _is_bool(value):
        if isinstance(value, float):
            return float(value)
        if hasattr(value, "__index__") and abs(operator.index(value)) <= _EXACT_MAX:
            return float(operator.index(value))
        # NumPy's floats of another size; a Decimal would be rounded.
        if hasattr(value, "dtype") and getattr(value.dtype, "kind", "") == "f" and float(value) == value:
            return float(value)
    raise Unfit("it takes floats, and whole numbers up to 2**53", value)


def _decimal(precision: int, scale: int) -> Convert:
    takes = (
        f"it takes decimals and whole numbers with up to {precision - scale} digits before the point and {scale} after it"
    )

    def convert(value: Any) -> Decimal:
        if not _is_bool(value) and (isinstance(value, Decimal) or hasattr(value, "__index__")):
            number = Decimal(value if isinstance(value, Decimal) else operator.index(value))
            if number.is_finite() and _fits_digits(number, precision, scale):
                return number
        raise Unfit(takes, value)

    return convert


def _fits_digits(number: Decimal, precision: int, scale: int) -> bool:
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    cut = len(text) - len(text.rstrip("0"))
    after = max(0, -(exponent + cut)) if text else 0
    before = max(0, len(text) + exponent)
    return after <= scale and before <= precision - scale


def _boolean(value: Any) -> bool:
    if not _is_bool(value):
        raise Unfit("it takes True and False", value)
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit("it takes strings", value)
    return str.__str__(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise Unfit("it takes bytes", value)
    return bytes(value)


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise Unfit("it takes dates", value)
    return date(value.year, value.month, value.day)


def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Unfit("it takes datetimes with a time zone", value)
        return _plain(value.astimezone(timezone.utc))
    return _moment(value, "it takes datetimes with a time zone, hf.Timestamp, and seconds since 1970")


def _timestamp_ntz(value: Any) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            raise Unfit("it takes datetimes without a time zone", value)
        return _plain(value)
    return _moment(value, "it takes datetimes without a time zone, hf.Timestamp, and seconds since 1970").replace(
        tzinfo=None
    )


def _plain(moment: datetime) -> datetime:
    """The same without what a subclass adds, which must be nothing: pandas has nanoseconds."""
    if getattr(moment, "nanosecond", 0):
        raise Unfit("it has no nanoseconds", moment)
    parts = moment.timetuple()[:6]
    return datetime(*parts, moment.microsecond, moment.tzinfo, fold=moment.fold)


def _moment(value: Any, takes: str) -> datetime:
    if not _is_bool(value) and isinstance(value, (Timestamp, int, float, Decimal)):
        try:
            return Timestamp.of(value).to_utc_datetime(has_tz=True)
        except TimeError:
            raise Unfit(f"{takes}, between the years 1 and 9999", value) from None
    raise Unfit(takes, value)


def _interval(value: Any) -> timedelta:
    if not _is_bool(value) and isinstance(value, (timedelta, Duration, int, float, Decimal)):
        try:
            return timedelta(microseconds=Duration.of(value).micros)
        except (OverflowError, TimeError):
            pass
    raise Unfit("it takes a timedelta, hf.Duration, and seconds", value)


def _nothing(value: Any) -> None:
    raise Unfit("it takes None only", value)


def _is_bool(value: Any) -> bool:
    """Whether it is a boolean, which Python treats as a number and we do not."""
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


_SIMPLE: dict[str, Convert] = {
    "float": _real,
    "double": _real,
    "boolean": _boolean,
    "string": _text,
    "binary": _bytes,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "void": _nothing,
}
