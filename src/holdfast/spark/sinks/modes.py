"""How an output is written to a sink: appended, or upserted by a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from pyspark.sql import Column
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sinks.base import Sink
from holdfast.spark.sinks.upsert import Upsert

__all__ = ["Mode", "in_mode"]

Mode = Literal["append", "upsert"]

_COMPARABLE = (
    spark_types.NumericType,
    spark_types.StringType,
    spark_types.CharType,
    spark_types.VarcharType,
    spark_types.BooleanType,
    spark_types.BinaryType,
    spark_types.DateType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
    spark_types.DayTimeIntervalType,
)


def in_mode(sink: Sink, schema: StructType | None, mode: Mode, key: str | Sequence[str] | None) -> tuple[Sink, list[str]]:
    """The sink that writes in this mode, and everything that speaks against it. `schema` is that of the rows, if known."""
    if mode not in get_args(Mode):
        return sink, [f"mode is {mode!r}; it is 'append' or 'upsert'."]
    if mode == "append":
        return sink, [] if key is None else ["A key is for mode='upsert': give both, or neither."]
    names = [key] if isinstance(key, str) else list(key) if isinstance(key, (list, tuple)) else key
    problems = [*_key_problems(names, schema)]
    if isinstance(sink, Sink):
        try:
            # Called even if the key is wrong: what the sink says belongs to the same list.
            sink = sink.upserting(Upsert(tuple(names) if isinstance(names, list) else ()))
        except InvalidStep as refused:
            problems += refused.problems
    return sink, problems


def _key_problems(names: Any, schema: StructType | None) -> Iterator[str]:
    if names is None or names == []:
        yield "mode='upsert' keeps one row for each key; give the columns of the key: key=['...']."
    elif not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        column = isinstance(names, Column) or (isinstance(names, list) and any(isinstance(name, Column) for name in names))
        what = "a Column" if column else repr(names)
        yield f"key is {what}; give the name of a column, or a list of names."
    else:
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                yield f"The key names the column {name!r} twice; once is enough."
            if schema is not None:
                yield from _column_problems(name, schema)


def _column_problems(name: str, schema: StructType) -> Iterator[str]:
    kinds = [field.dataType for field in schema.fields if field.name == name]
    if not kinds:
        yield f"There is no column {name!r} for the key; the columns are {', '.join(schema.names)}."
    elif len(kinds) > 1:
        yield f"Two columns have the name {name!r}, which is in the key; rename one."
    elif not _is_comparable(kinds[0]):
        yield f"The key column {name!r} has the type {kinds[0].simpleString()}, which cannot be compared; leave it out."


def _is_comparable(kind: DataType) -> bool:
    """Whether any two values of a type are either equal or not, in every sink."""
    if isinstance(kind, StructType):
        return all(_is_comparable(field.dataType) for field in kind.fields)
    if isinstance(kind, spark_types.ArrayType):
        return _is_comparable(kind.elementType)
    return isinstance(kind, _COMPARABLE)
