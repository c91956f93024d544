"""What upserting is: which rows have the same key, and which of them is the newest.

All sinks that upsert go by this. It needs no Spark, so it can be tested without.

Invariants
- A key has a value in each of its columns. Without one, a row is an error: databases disagree on whether NULL equals NULL.
- Two keys are the same if their columns are equal, as in `keyed`: 0.0 and -0.0 are equal, and so are NaN and NaN. Texts are
  equal if all their characters are. Inside a struct or an array, NULL is a value like any other.
- Of the rows of one key, the last one is the newest: in the order of the micro-batches, and within one in that of its rows.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from holdfast.errors import SinkError

__all__ = ["CAN_UPSERT", "Upsert", "python_values"]

CAN_UPSERT = "hf.sinks.Sqlite, Postgres, DuckDB or Delta"
"""The sinks that can, for messages of those that cannot."""


@dataclass(frozen=True)
class Upsert:
    """Says that a sink holds one row for each key: the newest. Each row replaces, as a whole, the one with its key."""

    key: tuple[str, ...]
    """The names of the columns that make up the key. A job makes sure that they exist and can be compared."""

    def newest(self, rows: pa.Table) -> pa.Table:
        """The last row of each key, in the order of the rows; raises SinkError if a row has no key.

        For statements that must not meet a key twice, such as MERGE.
        """
        columns = [python_values(name, rows.column(name)) for name in self.key]
        last = {self.slot(values): place for place, values in enumerate(zip(*columns, strict=True))}
        return rows if len(last) == rows.num_rows else rows.take(sorted(last.values()))

    def slot(self, values: Iterable[object]) -> Hashable:
        """The key with these values in a form that is equal exactly if the key is; raises SinkError if one is None."""
        held = tuple(values)
        if any(value is None for value in held):
            raise self._no_key(held)
        return tuple(_number(value) if isinstance(value, float) else _hashable(value) for value in held)

    def _no_key(self, values: tuple[object, ...]) -> SinkError:
        lacking = [name for name, value in zip(self.key, values, strict=True) if value is None]
        return SinkError(
            f"A row has no value in the key column {lacking[0]!r}, so it cannot be upserted.",
            detail="Its key: " + ", ".join(f"{name}={value!r}" for name, value in zip(self.key, values, strict=True)),
            todo=f"leave such rows out, df.where(df[{lacking[0]!r}].isNotNull()), or give them a value with coalesce; the "
            "micro-batch comes again when the job is started",
        )

    def __str__(self) -> str:
        return ", ".join(self.key)


def python_values(name: str, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; raises SinkError if it has a time that Python has not."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError) as error:
        raise SinkError(
            f"A time in the column {name!r} is not within the years 1 to 9999, so it cannot be written.",
            todo="leave such rows out with where, or give them another value; the micro-batch comes again when the job is "
            "started",
        ) from error


def _number(value: float) -> Hashable:
    return "NaN" if math.isnan(value) else value


def _hashable(value: Any) -> Hashable:
    """A value of a column, from Arrow or from a Row, that can be compared and hashed."""
    if isinstance(value, datetime.datetime):
        # Python ignores `fold`, which alone tells the two hours apart when clocks are set back.
        return value, value.fold
    if isinstance(value, dict):
        return tuple(map(_hashable, value.values()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if isinstance(value, bytearray):
        return bytes(value)
    return _inner_number(value) if isinstance(value, float) else value


def _inner_number(value: float) -> Hashable:
    """A float inside a struct or an array: 0.0 and -0.0 are two values there, as in `keyed`."""
    return "NaN" if math.isnan(value) else (value, math.copysign(1.0, value))
