"""Spark's values in SQLite, without loss: by the column's type, independent of this machine's time zone.

| column | in SQLite |
|---|---|
| whole numbers, booleans | INTEGER |
| float, double | REAL; NaN, which SQLite would make NULL, is the text NaN |
| binary | BLOB |
| string | TEXT |
| decimal | TEXT with all its digits: 1.50 |
| timestamp | TEXT in UTC: 2024-02-29T05:06:07+00:00; without time zone: 2024-02-29T05:06:07 |
| date | TEXT: 2024-02-29 |
| interval | TEXT, in seconds: 90.5 |
| array, struct, map | TEXT, as JSON: structs and maps of texts are objects, other maps lists of pairs, bytes Base64 |
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any

import pyarrow as pa

from holdfast.model.time.timestamps import Duration

__all__ = ["column_kind", "sqlite_columns"]

_UTC = timezone.utc


def column_kind(kind: pa.DataType) -> str:
    """SQLite's column type for a type of Arrow's."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    return "BLOB" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "TEXT"


def sqlite_columns(table: pa.Table) -> list[list[Any]]:
    """The columns of a table as values for SQLite."""
    return [_column(column) for column in table.columns]


def _column(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", tz="UTC"))
    values: list[Any] = column.to_pylist()
    if pa.types.is_nested(column.type):
        convert = _json_value(column.type)
        return [None if value is None else json.dumps(convert(value), ensure_ascii=False) for value in values]
    convert = _simple(column.type)
    return [None if value is None else convert(value) for value in values]


def _simple(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_temporal(kind):
        return _time
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    return _number if pa.types.is_floating(kind) else _same


def _same(value: Any) -> Any:
    return value


def _time(value: Any) -> str:
    return str(Duration.of(value)) if isinstance(value, timedelta) else value.isoformat()


def _number(value: float) -> float | str:
    return "NaN" if math.isnan(value) else value


def _json_value(kind: pa.DataType) -> Callable[[Any], Any]:
    """Turns values of a type into JSON."""
    if pa.types.is_struct(kind):
        fields = [(kind.field(place).name, _nullable(kind.field(place).type)) for place in range(kind.num_fields)]
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if pa.types.is_map(kind):
        key, item = _json_value(kind.key_type), _nullable(kind.item_type)
        if pa.types.is_string(kind.key_type):
            return lambda value: {k: item(v) for k, v in value}
        return lambda value: [[key(k), item(v)] for k, v in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = _nullable(kind.value_type)
        return lambda value: [each(item) for item in value]
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return lambda value: value.astimezone(_UTC).isoformat()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    return _json_number if pa.types.is_floating(kind) else _simple(kind)


def _json_number(value: float) -> float | str:
    """JSON has no infinity either."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return _number(value)


def _nullable(kind: pa.DataType) -> Callable[[Any], Any]:
    convert = _json_value(kind)
    return lambda value: None if value is None else convert(value)
