"""Spark's types as Arrow types, and Arrow columns as Python values.

Python values are what a PySpark user expects, with three choices where that is ambiguous: a timestamp is an aware
datetime in UTC (a timestamp without time zone is a naive one), a struct is a named tuple, a map is a dict.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from datetime import timezone
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark_types

from holdfast.errors import InvalidStep

__all__ = ["arrow_schema", "arrow_type", "column_type", "row_class", "row_names", "to_python"]

_SIMPLE: dict[type[spark_types.DataType], pa.DataType] = {
    spark_types.StringType: pa.string(),
    spark_types.VarcharType: pa.string(),
    spark_types.CharType: pa.string(),
    spark_types.ByteType: pa.int8(),
    spark_types.ShortType: pa.int16(),
    spark_types.IntegerType: pa.int32(),
    spark_types.LongType: pa.int64(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.BooleanType: pa.bool_(),
    spark_types.BinaryType: pa.binary(),
    spark_types.DateType: pa.date32(),
    spark_types.TimestampType: pa.timestamp("us", tz="UTC"),
    spark_types.TimestampNTZType: pa.timestamp("us"),
    spark_types.DayTimeIntervalType: pa.duration("us"),
    spark_types.NullType: pa.null(),
}


def arrow_schema(schema: spark_types.StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema, including nullability, even inside arrays and maps."""
    return pa.schema([_field(field, strict=True) for field in schema.fields])


def _field(field: spark_types.StructField, strict: bool) -> pa.Field:
    kind = arrow_type(field.dataType, strict=strict)
    return pa.field(field.name, kind, nullable=field.nullable or pa.types.is_null(kind))


def arrow_type(data_type: spark_types.DataType, *, strict: bool = False) -> pa.DataType:
    """The Arrow type of a Spark type. Only with `strict` does it say whether items of arrays and maps may be null: manifests
    store the types of elements without that."""
    if isinstance(data_type, spark_types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, spark_types.ArrayType):
        return pa.list_(
            pa.field("item", arrow_type(data_type.elementType, strict=strict), data_type.containsNull or not strict)
        )
    if isinstance(data_type, spark_types.MapType):
        value = arrow_type(data_type.valueType, strict=strict)
        nullable = data_type.valueContainsNull or not strict
        return pa.map_(arrow_type(data_type.keyType, strict=strict), pa.field("value", value, nullable))
    if isinstance(data_type, spark_types.StructType):
        return pa.struct([_field(field, strict) for field in data_type.fields])
    for spark_type, arrow in _SIMPLE.items():
        if isinstance(data_type, spark_type):
            return arrow
    raise InvalidStep("schema", [f"A column of type {data_type.simpleString()} cannot go through a step; cast it first."])


def column_type(kind: pa.DataType) -> str:
    """Spark's name for an Arrow type."""
    if pa.types.is_struct(kind):
        fields = (kind.field(place) for place in range(kind.num_fields))
        return f"struct<{','.join(f'{field.name}:{column_type(field.type)}' for field in fields)}>"
    if pa.types.is_map(kind):
        return f"map<{column_type(kind.key_type)},{column_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{column_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next((spark_type().simpleString() for spark_type, arrow in _SIMPLE.items() if arrow == kind), str(kind))


@lru_cache(maxsize=256)
def row_class(names: tuple[str, ...]) -> Any:
    """The named tuple for a row with these fields. Names that Python does not allow are numbered, as `_2`."""
    return namedtuple("Row", names, rename=True)


def to_python(column: pa.Array, *, plain: bool = False) -> list[Any]:
    """The values of a column as a list; with `plain`, structs are bare tuples, as keys need."""
    if pa.types.is_timestamp(column.type) and column.type.tz not in (None, "UTC"):
        column = column.cast(pa.timestamp("us", tz="UTC"))
    values: list[Any] = column.to_pylist()
    convert = _converter(column.type, plain)
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _converter(data_type: pa.DataType, plain: bool) -> Callable[[Any], Any] | None:
    """Turns Arrow's value into ours; None if they are the same."""
    if pa.types.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        make = tuple if plain else row_class(tuple(field.name for field in fields))._make
        converts = [(field.name, _nullable(_converter(field.type, plain))) for field in fields]
        return lambda value: make(convert(value[name]) for name, convert in converts)
    if pa.types.is_map(data_type):
        key = _nullable(_converter(data_type.key_type, plain))
        item = _nullable(_converter(data_type.item_type, plain))
        return lambda value: {key(k): item(v) for k, v in value}
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        convert = _converter(data_type.value_type, plain)
        if convert is not None:
            return lambda value: [None if v is None else convert(v) for v in value]
    if pa.types.is_timestamp(data_type) and data_type.tz not in (None, "UTC"):
        return lambda value: value.astimezone(timezone.utc)
    return None


def row_names(data_type: pa.DataType, *, plain: bool) -> Callable[[Any], Any] | None:
    """Removes the names from a value's structs if `plain`, else puts them back; None if it has no structs."""
    if pa.types.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        make = tuple if plain else row_class(tuple(field.name for field in fields))._make
        converts = [_nullable(row_names(field.type, plain=plain)) for field in fields]
        return lambda value: make([convert(item) for convert, item in zip(converts, value, strict=True)])
    if pa.types.is_map(data_type):
        of_key, of_item = (row_names(part, plain=plain) for part in (data_type.key_type, data_type.item_type))
        if of_key is not None or of_item is not None:
            key, item = _nullable(of_key), _nullable(of_item)
            return lambda value: {key(k): item(v) for k, v in value.items()}
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        convert = row_names(data_type.value_type, plain=plain)
        if convert is not None:
            return lambda value: [None if v is None else convert(v) for v in value]
    return None


def _nullable(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)
