"""Nested values as JSON, without loss, for databases that have no such types or cannot compare them.

Structs and maps of texts are objects, other maps lists of pairs. Numbers are numbers, but NaN and infinity, which JSON
lacks, are the texts NaN, Infinity and -Infinity. Bytes are Base64. Decimals and times are texts, as `plain_value` has them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any

import pyarrow as pa

from holdfast.errors import SinkError
from holdfast.model.time.timestamps import Duration

__all__ = ["Number", "json_number", "nested_texts", "plain_value"]

_UTC = timezone.utc

Number = Callable[[float], float | str]
"""How a float is written."""


def json_number(value: float) -> float | str:
    """A float as JSON can have it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def nested_texts(name: str, column: pa.ChunkedArray, number: Number = json_number) -> list[str | None]:
    """The values of a column as JSON; `number` says how floats are written. Raises SinkError if one has no such form."""
    convert = _json_value(column.type, number)
    try:
        return [None if value is None else json.dumps(convert(value), ensure_ascii=False) for value in column.to_pylist()]
    except (OverflowError, ValueError) as error:
        # Times that Python does not have, or a struct with two fields of one name.
        raise SinkError(
            f"A value in the column {name!r} cannot be written as JSON: {error}.",
            todo="select the parts of it as columns, or leave such rows out with where",
        ) from error


def plain_value(kind: pa.DataType) -> Callable[[Any], Any]:
    """Turns times and decimals into texts: 2024-02-29T05:06:07, 90.5 seconds as 90.5, 1.50. Others stay as they are."""
    if pa.types.is_temporal(kind):
        return _time
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    return _same


def _same(value: Any) -> Any:
    return value


def _time(value: Any) -> str:
    return str(Duration.of(value)) if isinstance(value, timedelta) else value.isoformat()


def _json_value(kind: pa.DataType, number: Number) -> Callable[[Any], Any]:
    """Turns values of a type into what `json` knows."""
    if pa.types.is_struct(kind):
        fields = [(kind.field(place).name, _nullable(kind.field(place).type, number)) for place in range(kind.num_fields)]
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if pa.types.is_map(kind):
        key, item = _json_value(kind.key_type, number), _nullable(kind.item_type, number)
        if pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type):
            return lambda value: {k: item(v) for k, v in value}
        return lambda value: [[key(k), item(v)] for k, v in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = _nullable(kind.value_type, number)
        return lambda value: [each(item) for item in value]
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return lambda value: value.astimezone(_UTC).isoformat()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    return number if pa.types.is_floating(kind) else plain_value(kind)


def _nullable(kind: pa.DataType, number: Number) -> Callable[[Any], Any]:
    convert = _json_value(kind, number)
    return lambda value: None if value is None else convert(value)
