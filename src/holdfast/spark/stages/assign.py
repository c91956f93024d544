"""Assign: the key group of a key, and the time of a row. Part of the stored format, since state is found by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, TimestampNTZType

from holdfast.checkpoint.labels import labels

__all__ = ["event_micros", "key_column", "key_group", "key_label", "quoted"]


def key_column(name: str, data_type: DataType) -> Any:
    """A key column, normalised so that equal keys have one form."""
    column = F.col(quoted(name))
    if isinstance(data_type, (FloatType, DoubleType)):
        # 0.0 and -0.0 are one key.
        return column + F.lit(0.0).cast(data_type)
    return column


def event_micros(name: str, data_type: DataType) -> Any:
    """The event time in a column, in microseconds. One without a time zone is read as UTC.

    Spark would read it in the session's zone, and an output of it would come back as a different time.
    """
    column = F.col(quoted(name))
    if not isinstance(data_type, TimestampNTZType):
        return F.unix_micros(column)
    since = column - F.expr("timestamp_ntz'1970-01-01 00:00:00'")
    return (since.cast("interval second").cast("decimal(20,6)") * 1_000_000).cast("long")


def key_group(columns: Sequence[Any], key_groups: int) -> Any:
    """The key group number of a key with these columns."""
    return F.pmod(F.xxhash64(*columns), F.lit(key_groups)).cast("int")


def key_label(columns: Sequence[Any], key_groups: int, slot: int = 0) -> Any:
    """The key group label of a key with these columns, for a step with this slot."""
    numbers = F.array(*(F.lit(label) for label in labels(key_groups, slot)))
    return F.element_at(numbers, key_group(columns, key_groups) + 1)


def quoted(name: str) -> str:
    """The name quoted for Spark, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
