"""Output schemas: a DDL string, a StructType, or a class whose fields give it."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import types
import typing
from collections.abc import Iterator
from typing import Any

from pyspark.sql import types as spark_types
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.model.time.timestamps import Duration, Timestamp
from holdfast.spark.types.arrow import arrow_type

__all__ = ["Schema", "read_output_schema", "read_schema"]

Schema = str | StructType | type
"""A DDL string such as "card string, count long", a StructType, or a class whose fields give it."""

_OF_CLASS: dict[Any, spark_types.DataType] = {
    str: spark_types.StringType(),
    int: spark_types.LongType(),
    float: spark_types.DoubleType(),
    bool: spark_types.BooleanType(),
    bytes: spark_types.BinaryType(),
    bytearray: spark_types.BinaryType(),
    datetime.date: spark_types.DateType(),
    datetime.datetime: spark_types.TimestampType(),
    datetime.timedelta: spark_types.DayTimeIntervalType(),
    Timestamp: spark_types.TimestampType(),
    Duration: spark_types.DayTimeIntervalType(),
    decimal.Decimal: spark_types.DecimalType(38, 18),
}


def read_output_schema(given: Any, step: str) -> StructType:
    """The schema of an output. Refuses columns that could only be filled by altering values."""
    schema = read_schema(given, step)
    problems = [*_doubled(schema, "The output schema"), *(p for f in schema.fields for p in _problems(f.dataType, f.name))]
    if problems:
        raise InvalidStep(step, problems)
    return schema


def _doubled(schema: StructType, what: str) -> Iterator[str]:
    for name in dict.fromkeys(name for name in schema.names if schema.names.count(name) > 1):
        yield f"{what} has two columns with the name {name!r}."


def _problems(kind: spark_types.DataType, where: str) -> Iterator[str]:
    """Why a column cannot have a type, in sentences."""
    if isinstance(kind, StructType):
        yield from _doubled(kind, f"The struct {where!r}")
        for field in kind.fields:
            yield from _problems(field.dataType, f"{where}.{field.name}")
    elif isinstance(kind, spark_types.ArrayType):
        yield from _problems(kind.elementType, where)
    elif isinstance(kind, spark_types.MapType):
        yield from _problems(kind.keyType, where)
        yield from _problems(kind.valueType, where)
    elif isinstance(kind, (spark_types.CharType, spark_types.VarcharType)):
        yield f"The column {where!r} is {kind.simpleString()}, which only tables can have; make it a string."
    elif isinstance(kind, spark_types.DayTimeIntervalType) and kind.endField != spark_types.DayTimeIntervalType.SECOND:
        yield f"The column {where!r} is {kind.simpleString()}, which would hide seconds; make it interval day to second."
    else:
        yield from _unknown(kind, where)


def _unknown(kind: spark_types.DataType, where: str) -> Iterator[str]:
    try:
        arrow_type(kind)
    except InvalidStep:
        yield f"The column {where!r} is {kind.simpleString()}, which a step cannot write; use another, then cast it."


def read_schema(given: Any, step: str, what: str = "output schema") -> StructType:
    """The schema that a user gave, in any of the accepted forms."""
    if isinstance(given, StructType):
        return given
    if isinstance(given, str):
        try:
            parsed = StructType.fromDDL(given)
        except Exception as error:
            first = str(error).strip().splitlines()[0]
            raise InvalidStep(step, [f"The {what} {given!r} cannot be read: {first}"]) from None
        assert isinstance(parsed, StructType)
        return parsed
    if isinstance(given, type) and (dataclasses.is_dataclass(given) or hasattr(given, "_fields")):
        return _class_schema(given, step)
    raise InvalidStep(
        step,
        [
            f"The {what} is {given!r}; give a DDL string such as 'card string, count int', a StructType, "
            "a dataclass or a NamedTuple."
        ],
    )


def _class_schema(given: type[Any], step: str) -> StructType:
    hints = typing.get_type_hints(given)
    names = [f.name for f in dataclasses.fields(given)] if dataclasses.is_dataclass(given) else given._fields
    missing = [name for name in names if name not in hints]
    if missing:
        raise InvalidStep(
            step, [f"{given.__name__}.{name} has no annotation, so its column type is unknown." for name in missing]
        )
    return StructType([_class_field(name, hints[name], given, step) for name in names])


def _class_field(name: str, hint: Any, owner: type[Any], step: str) -> spark_types.StructField:
    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        nullable = len(options) < len(typing.get_args(hint))
        hint = options[0] if len(options) == 1 else hint
    return spark_types.StructField(name, _class_type(hint, f"{owner.__name__}.{name}", step), nullable)


def _class_type(hint: Any, where: str, step: str) -> spark_types.DataType:
    if hint in _OF_CLASS:
        return _OF_CLASS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple, set, frozenset) and arguments and (len(arguments) == 1 or arguments[1:] == (...,)):
        return spark_types.ArrayType(_class_type(arguments[0], where, step))
    if origin is dict:
        key, value = (_class_type(argument, where, step) for argument in arguments)
        return spark_types.MapType(key, value)
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        return _class_schema(hint, step)
    raise InvalidStep(step, [f"{where} has the type {hint!r}, which has no column type; use a StructType."])
