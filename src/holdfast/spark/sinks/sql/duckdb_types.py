"""Spark's types in DuckDB, and which other types hold every value of them too.

| column | in DuckDB |
|---|---|
| byte, short, int, long | TINYINT, SMALLINT, INTEGER, BIGINT |
| float, double, boolean | FLOAT, DOUBLE, BOOLEAN |
| decimal(p,s) | DECIMAL(p,s) |
| string, binary | VARCHAR, BLOB |
| date | DATE |
| timestamp | TIMESTAMP WITH TIME ZONE; without time zone: TIMESTAMP |
| interval day to second | INTERVAL; as a key: BIGINT, in microseconds |
| array, struct, map | lists, STRUCT, MAP; as a key: VARCHAR with JSON, see `json_values.py` |
| void | VARCHAR |

Keys have other types where DuckDB has no index for the type itself.
"""

from __future__ import annotations

import re

import pyarrow as pa

from holdfast.spark.sinks.json_values import nested_texts
from holdfast.spark.sinks.sql.database import quoted

__all__ = ["as_key", "column_type", "holds"]

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def column_type(kind: pa.DataType) -> str:
    """The type that is nearest to one of Arrow's."""
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return f"STRUCT({', '.join(f'{quoted(field.name)} {column_type(field.type)}' for field in fields)})"
    if pa.types.is_map(kind):
        return f"MAP({column_type(kind.key_type)}, {column_type(kind.item_type)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{column_type(kind.value_type)}[]"
    if pa.types.is_integer(kind):
        return next(name for name, bits in _BITS.items() if bits == kind.bit_width)
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    simple = {
        "BOOLEAN": pa.types.is_boolean(kind),
        "FLOAT": pa.types.is_float32(kind),
        "DOUBLE": pa.types.is_float64(kind),
        "BLOB": pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
        "DATE": pa.types.is_date(kind),
        "INTERVAL": pa.types.is_duration(kind),
    }
    return next((name for name, is_it in simple.items() if is_it), "VARCHAR")


def as_key(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in a type that DuckDB can keep an index of."""
    if pa.types.is_nested(column.type):
        return pa.chunked_array([pa.array(nested_texts(name, column), pa.string())])
    return column.cast(pa.duration("us")).cast(pa.int64()) if pa.types.is_duration(column.type) else column


def holds(found: str, kind: pa.DataType, nearest: str) -> bool:
    """Whether a column of the type `found` holds every value of an Arrow type, whose nearest is `nearest`."""
    if found == nearest or pa.types.is_null(kind):
        return True
    if pa.types.is_integer(kind):
        return _BITS.get(found, 0) >= int(kind.bit_width) or _decimal_holds(found, _DIGITS[kind.bit_width], 0)
    if pa.types.is_float32(kind):
        return found == "DOUBLE"
    return pa.types.is_decimal(kind) and _decimal_holds(found, kind.precision - kind.scale, kind.scale)


def _decimal_holds(found: str, before: int, after: int) -> bool:
    """Whether a type is DECIMAL with so many digits before and after the point."""
    decimal = _DECIMAL.fullmatch(found)
    return decimal is not None and int(decimal[2]) >= after and int(decimal[1]) - int(decimal[2]) >= before
