"""Assign: which key group a key belongs to. It is part of the stored format, since state is found by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType

from holdfast.spark.labels import labels

__all__ = ["key_column", "key_group", "key_label", "quoted"]


def key_column(name: str, data_type: DataType) -> Any:
    """The column of a key, with one form for what is one key."""
    column = F.col(quoted(name))
    if isinstance(data_type, (FloatType, DoubleType)):
        # 0.0 and -0.0 are one key.
        return column + F.lit(0.0).cast(data_type)
    return column


def key_group(columns: Sequence[Any], key_groups: int) -> Any:
    """The number of the key group of a key that has these columns."""
    return F.pmod(F.xxhash64(*columns), F.lit(key_groups)).cast("int")


def key_label(columns: Sequence[Any], key_groups: int) -> Any:
    """The label of the key group of a key that has these columns."""
    numbers = F.array(*(F.lit(label) for label in labels(key_groups)))
    return F.element_at(numbers, key_group(columns, key_groups) + 1)


def quoted(name: str) -> str:
    """The name as Spark takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
