"""Avro's schemas as Spark's, and what is to be checked of values that were read."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructField, StructType

from holdfast.spark.sources.malformed import Malformed
from holdfast.spark.sources.record_types import Convert, fitted_decimal

__all__ = ["Unreadable", "avro_converter", "avro_fields"]

_PLAIN: dict[str, DataType] = {
    "boolean": spark_types.BooleanType(),
    "int": spark_types.IntegerType(),
    "long": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "bytes": spark_types.BinaryType(),
    "string": spark_types.StringType(),
    "enum": spark_types.StringType(),
    "fixed": spark_types.BinaryType(),
}
_LOGICAL: dict[tuple[str, str], DataType] = {
    ("int", "date"): spark_types.DateType(),
    ("long", "timestamp-millis"): spark_types.TimestampType(),
    ("long", "timestamp-micros"): spark_types.TimestampType(),
    ("long", "local-timestamp-millis"): spark_types.TimestampNTZType(),
    ("long", "local-timestamp-micros"): spark_types.TimestampNTZType(),
    ("string", "uuid"): spark_types.StringType(),
}
_BITS: dict[type[DataType], int] = {spark_types.IntegerType: 32, spark_types.LongType: 64}


class Unreadable(Exception):
    """Why a schema, or a part of it, cannot be that of a DataFrame."""


def avro_fields(schema: Any) -> StructType:
    """The columns of a record's schema, as fastavro has parsed it. Raises Unreadable."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise Unreadable("The schema is not that of a record.")
    return _record(schema, {}, ())


def _record(schema: Any, known: dict[str, Any], above: tuple[str, ...]) -> StructType:
    name = schema["name"]
    if name in above:
        raise Unreadable(f"The record {name!r} contains itself, which columns cannot.")
    if not schema["fields"]:
        raise Unreadable(f"The record {name!r} has no fields.")
    known[name] = schema
    fields = []
    for field in schema["fields"]:
        kind, nullable = _type(field["type"], known, (*above, name), field["name"])
        fields.append(StructField(field["name"], kind, nullable))
    return StructType(fields)


def _type(schema: Any, known: dict[str, Any], above: tuple[str, ...], where: str) -> tuple[DataType, bool]:
    """Spark's type, and whether it may be null."""
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null" and each != {"type": "null"}]
        if len(kinds) != 1:
            raise Unreadable(f"The field {where!r} is a union of several types; only that of null and one type is a column.")
        return _type(kinds[0], known, above, where)[0], len(kinds) < len(schema)
    described = known.get(schema, {"type": schema}) if isinstance(schema, str) else schema
    name = described["type"]
    if name == "record":
        return _record(described, known, above), False
    if name in ("enum", "fixed"):
        known[described["name"]] = described
    if name == "array":
        return spark_types.ArrayType(*_type(described["items"], known, above, where)), False
    if name == "map":
        return spark_types.MapType(spark_types.StringType(), *_type(described["values"], known, above, where)), False
    return _simple(name, described, where), False


def _simple(name: str, described: dict[str, Any], where: str) -> DataType:
    logical = described.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        if described["precision"] > 38:
            raise Unreadable(f"The field {where!r} has a precision of {described['precision']}; Spark's decimals end at 38.")
        return spark_types.DecimalType(described["precision"], described.get("scale", 0))
    if (name, logical) in _LOGICAL:
        return _LOGICAL[name, str(logical)]
    if logical is not None and name in ("int", "long", "fixed"):
        raise Unreadable(f"The field {where!r} has the logical type {logical!r}, for which there is no column.")
    if name not in _PLAIN:
        raise Unreadable(f"The field {where!r} has the type {name!r}, for which there is no column.")
    return _PLAIN[name]


def avro_converter(kind: DataType) -> Convert:
    """Makes of what fastavro has read, or None, what Arrow takes. Raises Malformed if it does not fit."""
    convert = _converter(kind)
    return lambda value: None if value is None else convert(value)


def _converter(kind: DataType) -> Convert:
    if isinstance(kind, StructType):
        fields = [(field.name, avro_converter(field.dataType)) for field in kind.fields]
        return lambda record: tuple(convert(record[name]) for name, convert in fields)
    if isinstance(kind, spark_types.ArrayType):
        of_item = avro_converter(kind.elementType)
        return lambda items: [of_item(item) for item in items]
    if isinstance(kind, spark_types.MapType):
        of_value = avro_converter(kind.valueType)
        return lambda entries: [(name, of_value(value)) for name, value in entries.items()]
    if isinstance(kind, spark_types.DecimalType):
        precision, scale = kind.precision, kind.scale
        return lambda number: fitted_decimal(number, precision, scale)
    if type(kind) in _BITS:
        # Avro's numbers have as many bits as were written.
        return _whole(_BITS[type(kind)])
    # A UUID has a class of its own.
    return str if isinstance(kind, spark_types.StringType) else lambda value: value


def _whole(bits: int) -> Convert:
    half = 1 << (bits - 1)

    def convert(value: int) -> int:
        if not -half <= value < half:
            raise Malformed(f"Number does not fit {bits} bits")
        return value

    return convert
