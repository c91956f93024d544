"""The types of JSON records: for each column, the type that msgspec checks, and what is left to be done with the value.

Every value either fits its column exactly or is refused. Two things are inherent in the types: a double has 53 bits, and a
timestamp has microseconds.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from holdfast.spark.sources.malformed import Malformed

__all__ = ["Convert", "Times", "converter", "fitted_decimal", "record_class", "type_problems", "zone_of"]

Convert = Callable[[Any], Any]
"""Makes of a value, which is not None, what Arrow takes. Raises Malformed."""

Times = Literal["iso", "seconds", "milliseconds", "microseconds"]
"""How timestamps are written: as texts of ISO 8601, or as numbers since 1970."""

_FLOAT_MAX = 3.4028234663852886e38
_MICROS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999."""
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?")
_DIGITS_MAX = 1000
_EXACT = decimal.Context(prec=_DIGITS_MAX, traps=[decimal.Inexact, decimal.InvalidOperation])


def _whole(bits: int) -> Any:
    half = 1 << (bits - 1)
    return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]


_PLAIN: dict[type[DataType], Any] = {
    spark_types.StringType: str,
    spark_types.ByteType: _whole(8),
    spark_types.ShortType: _whole(16),
    spark_types.IntegerType: _whole(32),
    spark_types.LongType: _whole(64),
    spark_types.FloatType: Annotated[float, msgspec.Meta(ge=-_FLOAT_MAX, le=_FLOAT_MAX)],
    spark_types.DoubleType: float,
    spark_types.BooleanType: bool,
    spark_types.BinaryType: bytes,
    spark_types.DateType: datetime.date,
    spark_types.TimestampNTZType: Annotated[datetime.datetime, msgspec.Meta(tz=False)],
    spark_types.DecimalType: decimal.Decimal,
}


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone by any of the names that Spark has for it. Raises ValueError if it is not known here."""
    if name in ("UTC", "Etc/UTC", "GMT", "Z"):
        return datetime.timezone.utc
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        try:
            return ZoneInfo(name)
        except (OSError, LookupError, ValueError):
            raise ValueError(f"no time zone {name!r}") from None
    ahead = datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
    return datetime.timezone(-ahead if offset[1] == "-" else ahead)


def type_problems(kind: DataType, where: str) -> Iterator[str]:
    """Why a column cannot be read from JSON, in sentences."""
    if isinstance(kind, StructType):
        if not kind.fields:
            yield f"The column {where!r} is a struct without fields."
        for field in kind.fields:
            yield from type_problems(field.dataType, f"{where}.{field.name}")
    elif isinstance(kind, spark_types.ArrayType):
        yield from type_problems(kind.elementType, where)
    elif isinstance(kind, spark_types.MapType):
        if type(kind.keyType) is not spark_types.StringType:
            yield f"The column {where!r} is a map whose keys are {kind.keyType.simpleString()}; keys in JSON are strings."
        yield from type_problems(kind.valueType, where)
    elif type(kind) not in _PLAIN and type(kind) is not spark_types.TimestampType:
        yield f"The column {where!r} is {kind.simpleString()}, which cannot be read from records; use another, then cast it."


def record_class(schema: StructType, times: Times) -> type[Any]:
    """The class of records with these fields, in their order; a field that may be null may be missing."""
    fields: list[Any] = []
    names: dict[str, str] = {}
    for number, field in enumerate(schema.fields):
        # Any text can be a name in JSON, but not in Python.
        name = f"f{number}"
        names[name] = field.name
        kind = _checked_type(field.dataType, field.nullable, times)
        fields.append((name, kind, None) if field.nullable else (name, kind))
    return msgspec.defstruct("Record", fields, rename=names, kw_only=True, gc=False)


def _checked_type(kind: DataType, nullable: bool, times: Times) -> Any:
    checked: Any
    if isinstance(kind, StructType):
        checked = record_class(kind, times)
    elif isinstance(kind, spark_types.ArrayType):
        checked = list[_checked_type(kind.elementType, kind.containsNull, times)]  # type: ignore[misc]
    elif isinstance(kind, spark_types.MapType):
        checked = dict[str, _checked_type(kind.valueType, kind.valueContainsNull, times)]  # type: ignore[misc]
    elif isinstance(kind, spark_types.TimestampType):
        checked = datetime.datetime if times == "iso" else _number_of(times)
    else:
        checked = _PLAIN[type(kind)]
    return checked | None if nullable else checked


def _number_of(times: Times) -> Any:
    unit = _MICROS[times]
    return Annotated[int, msgspec.Meta(ge=-(-_FIRST_MICROS // unit), le=_LAST_MICROS // unit)]


def converter(kind: DataType, zone: str, times: Times) -> Convert | None:
    """What is left to be done with the values of a column; None if nothing is."""
    if isinstance(kind, StructType):
        return _struct_converter([converter(field.dataType, zone, times) for field in kind.fields])
    if isinstance(kind, spark_types.ArrayType):
        of_item = converter(kind.elementType, zone, times)
        return None if of_item is None else lambda items: [_applied(of_item, item) for item in items]
    if isinstance(kind, spark_types.MapType):
        of_value = converter(kind.valueType, zone, times)
        # Arrow makes maps of pairs.
        return lambda entries: [(name, _applied(of_value, value)) for name, value in entries.items()]
    if isinstance(kind, spark_types.DecimalType):
        precision, scale = kind.precision, kind.scale
        return lambda number: fitted_decimal(number, precision, scale)
    if isinstance(kind, spark_types.TimestampType):
        return _time_converter(zone, times)
    return None


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _struct_converter(converters: list[Convert | None]) -> Convert:
    def convert(record: Any) -> tuple[Any, ...]:
        values = msgspec.structs.astuple(record)
        return tuple(_applied(each, value) for each, value in zip(converters, values, strict=True))

    return convert


def fitted_decimal(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal:
    """The number with as many digits after the point as its column has. Raises Malformed unless it is the same number.

    A number may have an exponent of billions: Arrow's process does not survive some of them, so that none may get there.
    """
    if not value.is_finite():
        raise Malformed(f"Expected a number, got {value}")
    if not value:
        return decimal.Decimal((0, (0,), -scale))
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    extra = -scale - exponent
    too_fine = extra > 0 and (extra >= len(digits) or len(digits) > _DIGITS_MAX or any(digits[-extra:]))
    if value.adjusted() >= precision - scale or too_fine:
        raise Malformed(f"Number does not fit decimal({precision},{scale})")
    return _EXACT.quantize(value, decimal.Decimal((0, (1,), -scale)))


def _time_converter(zone: str, times: Times) -> Convert | None:
    if times != "iso":
        unit = _MICROS[times]
        return None if unit == 1 else lambda number: number * unit
    place = zone_of(zone)
    if place is datetime.timezone.utc:
        # Arrow reads a time without a zone as one in UTC.
        return None
    return lambda time: time.replace(tzinfo=place) if time.tzinfo is None else time
