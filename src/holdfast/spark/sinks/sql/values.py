"""Values that no database would hold as they are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import SinkError

__all__ = ["check_years"]

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
