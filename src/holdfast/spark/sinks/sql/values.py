"""Values that no database would hold as they are, and nested ones as JSON."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import SinkError
from holdfast.spark.sinks.json_values import Number, json_number, json_texts

__all__ = ["check_years", "nested_texts"]

_DAYS = (-719_162, 2_932_896)
_MICROS_A_DAY = 86_400_000_000


def check_years(rows: pa.Table) -> None:
    """Raises SinkError if a date or timestamp is outside the years 1 to 9999: beyond, not even Arrow writes it as it is."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        first, last = _DAYS
        if pa.types.is_timestamp(column.type):
            column, first, last = column.cast(pa.int64()), first * _MICROS_A_DAY, (last + 1) * _MICROS_A_DAY - 1
        elif pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        else:
            continue
        found = pc.min_max(column).as_py()
        if found["min"] is not None and not (first <= found["min"] and found["max"] <= last):
            raise SinkError(
                f"A time in the column {name!r} is not within the years 1 to 9999, so it cannot be written.",
                todo="leave such rows out with where, or give them another value; the micro-batch comes again when the job "
                "is started",
            )


def nested_texts(name: str, column: pa.ChunkedArray, number: Number = json_number) -> list[str | None]:
    """The values of a column as JSON; raises SinkError if one has no such form."""
    try:
        return json_texts(column, number)
    except (OverflowError, ValueError) as error:
        # Times that Python does not have, or a struct with two fields of one name.
        raise SinkError(
            f"A value in the column {name!r} cannot be written as JSON: {error}.",
            todo="select the parts of it as columns, or leave such rows out with where",
        ) from error
