"""Spark's values in SQLite, without loss: by the column's type, independent of this machine's time zone.

| column | in SQLite |
|---|---|
| whole numbers, booleans | INTEGER |
| float, double | REAL, in which SQLite makes 0.0 of -0.0; NaN, which it would make NULL, is the text NaN |
| binary | BLOB |
| string | TEXT |
| decimal | TEXT with all its digits: 1.50 |
| timestamp | TEXT in UTC: 2024-02-29T05:06:07+00:00; without time zone: 2024-02-29T05:06:07 |
| date | TEXT: 2024-02-29 |
| interval | TEXT, in seconds: 90.5 |
| array, struct, map | TEXT, as JSON: structs and maps of texts are objects, other maps lists of pairs, bytes Base64 |
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from holdfast.spark.sinks.json_values import nested_texts, plain_value
from holdfast.spark.sinks.upsert import python_values

__all__ = ["column_kind", "is_converted", "sqlite_columns"]


def column_kind(kind: pa.DataType) -> str:
    """SQLite's column type for a type of Arrow's."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    return "BLOB" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "TEXT"


def is_converted(kind: pa.DataType, affinity: str) -> bool:
    """Whether a column with an affinity of SQLite's makes other values of some that have a type of Arrow's: 7 of '007', or
    '7' of 7."""
    wanted = column_kind(kind)
    if affinity in (wanted, "BLOB") or wanted == "BLOB":
        return False
    if wanted == "INTEGER":
        return affinity != "NUMERIC"
    if wanted == "REAL":
        return affinity == "TEXT"
    # Times and JSON do not look like numbers.
    return not (pa.types.is_nested(kind) or (pa.types.is_temporal(kind) and not pa.types.is_duration(kind)))


def sqlite_columns(table: pa.Table) -> list[list[Any]]:
    """The columns of a table as values for SQLite; raises SinkError if one has no form there."""
    return [_column(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]


def _column(name: str, column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_nested(column.type):
        return list(nested_texts(name, column))
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", tz="UTC"))
    convert = _number if pa.types.is_floating(column.type) else plain_value(column.type)
    return [None if value is None else convert(value) for value in python_values(name, column)]


def _number(value: float) -> float | str:
    return "NaN" if math.isnan(value) else value
