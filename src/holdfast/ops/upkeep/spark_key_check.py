"""Checks through Spark that every key is in the right key group: Spark's hash of the key must give the group's label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.state.keys import key_of
from holdfast.engine.stored.manifest import LOG_BACKENDS
from holdfast.engine.stored.reading import Blobs, read_group
from holdfast.ops.reading.blobs import StepRef, map_groups, rows_of, step_blobs, steps_of
from holdfast.ops.reading.key_rows import key_columns, labelled
from holdfast.ops.reading.keys import key_text

__all__ = ["misplaced_by_spark"]

_REST = [
    StructField("start", LongType(), False),
    StructField("found", IntegerType(), False),
    StructField("shown", StringType(), False),
]


def misplaced_by_spark(spark: SparkSession, checkpoint: Checkpoint, batch: int) -> list[tuple[str, str]]:
    """Key groups that hold keys of others after a micro-batch: where, and what is wrong. Skips users' own backends."""
    steps = [step for step in steps_of(spark, checkpoint, batch) if step.manifest["backend"] in LOG_BACKENDS]
    return [problem for step in steps for problem in _problems(spark, checkpoint, step, batch)]


def _problems(spark: SparkSession, checkpoint: Checkpoint, step: StepRef, batch: int) -> Iterator[tuple[str, str]]:
    schema = StructType([*key_columns(step.manifest).fields, *_REST])
    single = len(step.manifest["key"]) == 1
    blobs = step_blobs(spark, checkpoint, step, batch)
    keys = map_groups(blobs, lambda label, found: _keys(label, found, single), schema)
    wrong = labelled(keys, step.manifest).where(F.col("label") != F.col("found"))
    counted = wrong.groupBy("found").agg(F.count_distinct("shown").alias("keys"), F.min("shown").alias("one"))
    for row in rows_of(counted.orderBy("found"), checkpoint.path):
        where = join(checkpoint.path, "state", str(step.operator))
        what = f"{row['keys']} of its keys belong to other key groups, {row.one} for example"
        yield where, f"key group {row.found}, after micro-batch {batch}: {what}"


def _keys(label: int, blobs: Blobs, single: bool) -> Iterator[tuple[Any, ...]]:
    for window in read_group(blobs).state.windows.values():
        start = window.window.start.micros if hasattr(window.window, "start") else 0
        for slot in window.slots():
            key = key_of(slot)
            yield (*((key,) if single else tuple(key)), start, label, key_text(slot))
