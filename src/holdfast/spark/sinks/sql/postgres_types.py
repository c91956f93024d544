"""Spark's types in PostgreSQL, and which other types hold every value of them too.

| column | in PostgreSQL |
|---|---|
| byte, short, int, long | smallint, smallint, integer, bigint |
| float, double, boolean | real, double precision, boolean |
| decimal(p,s) | numeric(p,s) |
| string, binary | text, bytea |
| date | date |
| timestamp | timestamp with time zone; without time zone: timestamp |
| interval day to second | interval, in microseconds alone |
| array, struct, map | jsonb; see `json_values.py`. -0.0, which jsonb would make 0.0, is the text -0.0 |
| void | text |
"""

from __future__ import annotations

import re

import pyarrow as pa

__all__ = ["column_type", "holds"]

_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")
_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MORE = {"real": {"double precision"}, "text": {"character varying"}, "jsonb": {"json"}}


def column_type(kind: pa.DataType) -> str:
    """The type that is nearest to one of Arrow's."""
    if pa.types.is_integer(kind):
        return next(name for name, bits in _BITS.items() if bits >= kind.bit_width)
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"timestamp {'without' if kind.tz is None else 'with'} time zone"
    simple = {
        "boolean": pa.types.is_boolean(kind),
        "real": pa.types.is_float32(kind),
        "double precision": pa.types.is_float64(kind),
        "bytea": pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
        "date": pa.types.is_date(kind),
        "interval": pa.types.is_duration(kind),
        "jsonb": pa.types.is_nested(kind),
    }
    return next((name for name, is_it in simple.items() if is_it), "text")


def holds(found: str, kind: pa.DataType, is_key: bool) -> bool:
    """Whether a column of the type `found` holds every value of an Arrow type, and as a key compares them as they are."""
    if pa.types.is_null(kind):
        return True
    numeric = _NUMERIC.fullmatch(found)
    if numeric is not None:
        return _numeric_holds(numeric, kind)
    if pa.types.is_decimal(kind):
        return False
    if pa.types.is_integer(kind):
        return _BITS.get(found, 0) >= int(kind.bit_width)
    nearest = column_type(kind)
    if found == "json":
        return nearest == "jsonb" and not is_key
    return re.sub(r"^(character varying)\(\d+\)$", r"\1", found) in {nearest, *_MORE.get(nearest, ())}


def _numeric_holds(numeric: re.Match[str], kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        before, after = int(kind.precision - kind.scale), int(kind.scale)
    elif pa.types.is_integer(kind):
        before, after = _DIGITS[kind.bit_width], 0
    else:
        return False
    if numeric[1] is None:
        return True
    precision, scale = int(numeric[1]), int(numeric[2])
    return scale >= after and precision - scale >= before
