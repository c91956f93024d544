"""Rows of an export as JSON, a line for each:

    {"key": {"card": "card-1"}, "window": null, "window_encoded": null, "cell": "count", "kind": "value", "value": 3,
     "encoded": "kgE="}

`key`, `window` and `value` are written as `engine/stored/readable.py` does, so that nothing that JSON lacks is lost;
`encoded` is in base64. A line may leave out `kind`, `encoded` and the windows; `"value": null` is the value None, and no
`value` is none.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.engine.stored.readable import from_json, to_json
from holdfast.errors import InputError
from holdfast.model.time.timestamps import Timestamp
from holdfast.ops.move.formats.base import ChunkFormat
from holdfast.ops.reading.cell_rows import exported_cells
from holdfast.spark.errors.transport import carried
from holdfast.spark.types.arrow import arrow_schema, to_python

__all__ = ["JsonFormat"]

_MEMBERS = ("key", "window", "window_encoded", "cell", "kind", "value", "encoded")
_TODO = "write the line as an export does"
_SHOWN_MAX = 200

Row = dict[str, Any]


class JsonFormat(ChunkFormat):
    name = "json"

    def encode(self, rows: pa.RecordBatch, schema: StructType) -> bytes:
        names = schema["key"].dataType.names  # type: ignore[attr-defined]
        return "".join(f"{line}\n" for line in _lines(rows, names)).encode()

    def _read(self, spark: SparkSession, folder: str, schema: StructType) -> DataFrame:
        lines = spark.read.text(folder, pathGlobFilter="*.json").select(F.col("value").cast("binary").alias("line"))
        return lines.mapInArrow(_Reader(schema), schema)


def _lines(rows: pa.RecordBatch, names: list[str]) -> Iterator[str]:
    for key, row in exported_cells(rows, len(names)):
        window = row["window"]
        times = None if window is None else {part: Timestamp(micros=window[part]) for part in ("start", "end")}
        shown_key = "null" if None in key else to_json(dict(zip(names, key, strict=True)))
        parts = {
            "key": shown_key,
            "window": to_json(times),
            "window_encoded": _base64(row["window_encoded"]),
            "cell": _compact(row["cell"]),
            "kind": _compact(row["kind"]),
            "value": row["value"],
            "encoded": _base64(row["encoded"]),
        }
        yield "{" + ", ".join(f'"{name}": {part}' for name, part in parts.items() if part is not None) + "}"


def _compact(value: Any) -> str:
    """JSON as `to_json` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _base64(data: bytes | None) -> str:
    return "null" if data is None else f'"{base64.b64encode(data).decode()}"'


class _Reader:
    """What reads lines in a worker."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = arrow_schema(self._schema)
        with carried():
            for batch in batches:
                rows = [_row(line, columns.field("key").type) for line in batch.column("line").to_pylist() if line.strip()]
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=columns)


def _row(line: bytes, key: pa.DataType) -> Row:
    """A line as a row. Raises InputError if it is none, or says anything that the row would not."""
    try:
        found = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_once, parse_float=_finite, parse_constant=_refused)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        unknown = sorted(found.keys() - set(_MEMBERS))
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r}")
        return _columns(found, key)
    except (ArithmeticError, ValueError, TypeError, RecursionError, pa.ArrowException, InputError) as error:
        why = error.what if isinstance(error, InputError) else str(error)
        shown = line.decode("utf-8", "replace")[:_SHOWN_MAX]
        raise InputError(f"A line is not a row of an export: {why}", detail=f"It begins: {shown}", todo=_TODO) from error


def _columns(found: Row, key: pa.DataType) -> Row:
    return {
        "key": None if found.get("key") is None else _key(found["key"], key),
        "window": None if found.get("window") is None else _window(found["window"]),
        "window_encoded": _bytes(found.get("window_encoded")),
        "cell": _text(found, "cell"),
        "kind": _text(found, "kind"),
        "value": _compact(found["value"]) if "value" in found else None,
        "encoded": _bytes(found.get("encoded")),
    }


def _key(shown: Any, kind: pa.DataType) -> Row:
    """The columns of a key, as they are stored: nothing is converted to fit."""
    given = from_json(json.dumps(shown))
    names = [kind.field(place).name for place in range(kind.num_fields)]
    if not isinstance(given, dict) or sorted(given) != sorted(names):
        raise ValueError(f"the key must have the columns {', '.join(names)}")
    (made,) = to_python(pa.array([given], kind), plain=True)
    for name, before, after in zip(names, (given[name] for name in names), made, strict=True):
        if to_json(before) != to_json(after):
            raise ValueError(f"the column {name!r} of the key cannot be {to_json(before)}; it would be {to_json(after)}")
    return given


def _window(shown: Any) -> Row:
    given = from_json(json.dumps(shown))
    if (
        not isinstance(given, dict)
        or set(given) != {"start", "end"}
        or {type(each) for each in given.values()} != {Timestamp}
    ):
        raise ValueError('the window must be {"start": {"$timestamp": ...}, "end": {"$timestamp": ...}}')
    return {name: time.micros for name, time in given.items()}


def _text(found: Row, name: str) -> str | None:
    given = found.get(name)
    if given is not None and not isinstance(given, str):
        raise ValueError(f"{name} is {given!r}, which is no text")
    return given


def _bytes(given: Any) -> bytes | None:
    if given is None:
        return None
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError(f"{given!r:.100} is not base64") from None


def _once(pairs: list[tuple[str, Any]]) -> Row:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large for a float")
    return value


def _refused(text: str) -> float:
    raise ValueError(f'{text} is not JSON; write {{"$float": "nan"}}, "inf" or "-inf"')
