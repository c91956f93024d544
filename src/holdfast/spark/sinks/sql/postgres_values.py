"""Rows as CSV for PostgreSQL's COPY, in pieces."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from holdfast.errors import SinkError
from holdfast.spark.sinks.json_values import json_number, nested_texts

__all__ = ["copied"]

_PIECE_BYTES = 4 << 20
_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="all_valid")
"""Whatever is no null is quoted: so '' is not taken for one."""


def copied(rows: pa.Table) -> Iterator[bytes]:
    """The rows as CSV, a few megabytes at a time."""
    if not rows.num_rows:
        return
    step = max(1, _PIECE_BYTES * rows.num_rows // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        piece = rows.slice(start, step)
        columns = [_column(name, column) for name, column in zip(piece.column_names, piece.columns, strict=True)]
        written = io.BytesIO()
        # Names would have to differ and are not written.
        csv.write_csv(pa.table(columns, names=[str(place) for place in range(len(columns))]), written, _OPTIONS)
        yield written.getvalue()


def _column(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A column as texts that PostgreSQL reads, or as one that Arrow writes in such a way."""
    kind = column.type
    if pa.types.is_nested(kind):
        return pa.array(nested_texts(name, column, _number), pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        hexed = [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()]
        return pa.array(hexed, pa.large_string())
    if pa.types.is_duration(kind):
        micros = column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(micros, "microseconds", " ")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp("us", tz="UTC"))
    if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and pc.any(pc.match_substring(column, "\0")).as_py():
        raise SinkError(
            f"A text in the column {name!r} has the character NUL, which PostgreSQL cannot hold.",
            todo=f"remove it, translate({name}, char(0), ''), or write binary; the micro-batch comes again when the job is "
            "started",
        )
    return column


def _number(value: float) -> float | str:
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else json_number(value)
