"""Keys as typed by people, read and hashed by Spark: for the types and texts that `key_casts` leaves to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from holdfast.ops.reading.steps import StepRef
from holdfast.spark.stages.assign import key_column, key_group
from holdfast.spark.types.arrow import to_python
from holdfast.spark.types.schemas import read_schema

__all__ = ["cast_by_spark"]


def cast_by_spark(spark: SparkSession, step: StepRef, parts: Sequence[str]) -> tuple[list[Any], int]:
    """The values of a key's columns, None for one that cannot be cast, and the number of its key group."""
    columns = step.manifest["key"]
    schema = ", ".join(f"k{i} {column['type']}" for i, column in enumerate(columns))
    types = [field.dataType for field in read_schema(schema, step.name).fields]
    parts = [_shown(part, kind) for part, kind in zip(parts, types, strict=True)]
    names = [f"k{i}" for i in range(len(parts))]
    frame = spark.range(1).select(*(F.lit(part).alias(name) for name, part in zip(names, parts, strict=True)))
    frame = frame.select(*(_read(name, kind).alias(name) for name, kind in zip(names, types, strict=True)))
    hashed = [key_column(name, kind) for name, kind in zip(names, types, strict=True)]
    groups = int(step.manifest["key_groups"])
    table = frame.select(*hashed, key_group(hashed, groups).alias("group")).toArrow()
    *values, group = (to_python(column.combine_chunks(), plain=True)[0] for column in table.columns)
    return values, group


def _shown(part: str, kind: DataType) -> str:
    """A struct that is written as keys are shown, as a list: then an object with the names of its fields."""
    try:
        given = json.loads(part)
    except (ValueError, RecursionError):
        return part
    if isinstance(kind, StructType) and isinstance(given, list) and len(given) == len(kind):
        return json.dumps(dict(zip(kind.names, given, strict=True)))
    return part


def _read(name: str, kind: DataType) -> Any:
    if isinstance(kind, (ArrayType, MapType, StructType)):
        return F.from_json(F.col(name), kind)
    if isinstance(kind, BinaryType):
        return F.try_to_binary(F.col(name), F.lit("base64"))
    return F.col(name).try_cast(kind)
