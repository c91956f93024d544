"""The blobs of an operator, read through Spark and checked in its workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.files.links import for_state_reader
from holdfast.checkpoint.layout import Checkpoint, Operator
from holdfast.ops.upkeep.blob_check import GroupCheck, check_group

__all__ = ["checked_by_spark"]

_RESULT = "partition int, label int, blobs long, bytes long, step string, problem string"
_COLUMNS = pa.schema(
    [
        ("partition", pa.int32()),
        ("label", pa.int32()),
        ("blobs", pa.int64()),
        ("bytes", pa.int64()),
        ("step", pa.string()),
        ("problem", pa.string()),
    ]
)


def checked_by_spark(
    spark: SparkSession, checkpoint: Checkpoint, operator: Operator, batch: int
) -> tuple[list[GroupCheck], list[tuple[str, str]]]:
    """The key groups of an operator after a micro-batch, or else which partitions cannot be read: where, and why."""
    reader = spark.read.format("statestore").option("operatorId", operator.number).option("batchId", batch)
    flat = None
    try:
        state = reader.option("stateVarName", "blobs").load(for_state_reader(checkpoint.path))
        flat = state.selectExpr("partition_id", "key.label", "user_map_key.name", "user_map_value.blob")
        return [GroupCheck(*row) for row in flat.mapInArrow(_checked, _RESULT).collect()], []
    except Exception as error:
        what = f"Spark cannot read its state after micro-batch {batch} ({_reason(error)})"
        unreadable = [] if flat is None else _unreadable(flat)
        places = [join(operator.path, str(number)) for number in unreadable] or [operator.path]
        return [], [(place, what) for place in places]


def _unreadable(state: DataFrame) -> Iterator[int]:
    """The partitions that cannot be read; tries each by itself."""
    rows = state.rdd
    for number in range(rows.getNumPartitions()):
        try:
            rows.context.runJob(rows, lambda found: [sum(1 for _ in found)], [number])
        except Exception:
            yield number


def _checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each key group. All blobs of a key group are in one partition."""
    groups: dict[tuple[int, int], dict[str, bytes]] = {}
    for batch in batches:
        for partition, label, name, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            groups.setdefault((partition, label), {})[name] = blob
    rows = [check_group(*place, blobs) for place, blobs in groups.items()]
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(_COLUMNS.types)]
    yield pa.RecordBatch.from_arrays(columns, schema=_COLUMNS)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["no reason was given"])[-1 if causes else 0][:300]
