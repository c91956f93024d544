"""Reads state through Spark's state store reader: the blobs of key groups after a micro-batch.

All blobs of a key group are in one partition of the state store, next to each other. So a task reads its partition from end
to end and holds one key group at a time, and nothing is shuffled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.checkpoint.files.links import for_state_reader
from holdfast.checkpoint.labels import labels_of_slot
from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.manifest import read_manifest
from holdfast.engine.stored.reading import Blobs
from holdfast.errors import CheckpointError, CorruptState, HoldfastError
from holdfast.ops.reading.steps import StepRef, by_step, choose_step, fullest, only_step
from holdfast.spark.errors.failures import first_cause
from holdfast.spark.errors.transport import carried, rebuilding, uncarried
from holdfast.spark.steps.seeding import blobs_reader, flat_blobs, groups_in, stored_blobs
from holdfast.spark.types.arrow import arrow_schema
from holdfast.spark.types.schemas import read_schema

__all__ = [
    "StepRef",
    "blobs_frame",
    "by_step",
    "choose_step",
    "collected_groups",
    "find_steps",
    "fullest",
    "group_blobs",
    "map_groups",
    "our_errors",
    "record_batches",
    "rows_of",
    "step_blobs",
    "step_changes",
    "steps_of",
]

GroupFunction = Callable[[int, Blobs], Iterable[tuple[Any, ...]]]
"""From a label and the blobs of its key group to rows."""


_NOT_WRITTEN = {
    "No space left on device": "free some space there, or choose another path; nothing is left of the attempt",
    "Permission denied": "choose a path that you may write to",
    "Read-only file system": "choose a path that you may write to",
}


def blobs_frame(spark: SparkSession, checkpoint: Checkpoint, operator: int, batch: int) -> DataFrame:
    """All blobs of an operator, which several steps may share, after a micro-batch: label, name, blob."""
    with our_errors(checkpoint.path):
        return stored_blobs(spark, checkpoint.path, operator, batch)


def step_blobs(spark: SparkSession, checkpoint: Checkpoint, step: StepRef, batch: int) -> DataFrame:
    """The blobs of a step after a micro-batch: label, name, blob."""
    return _of_step(blobs_frame(spark, checkpoint, step.operator, batch), step)


def step_changes(spark: SparkSession, checkpoint: Checkpoint, step: StepRef, first: int, last: int) -> DataFrame:
    """The changes of a step in the micro-batches from first to last: batch, change ("update" or "delete"), label, name,
    blob."""
    reader = blobs_reader(spark, step.operator).option("readChangeFeed", "true")
    reader = reader.option("changeStartBatchId", first).option("changeEndBatchId", last)
    with our_errors(checkpoint.path):
        changes = reader.load(for_state_reader(checkpoint.path))
    flat = flat_blobs(changes, F.col("batch_id").alias("batch"), F.col("change_type").alias("change"))
    return _of_step(flat, step)


def _of_step(frame: DataFrame, step: StepRef) -> DataFrame:
    own = labels_of_slot(step.slot)
    return frame.where(F.col("label").between(own.start, own.stop - 1))


def steps_of(spark: SparkSession, checkpoint: Checkpoint, batch: int) -> list[StepRef]:
    """The steps that have state after a micro-batch, by name. The state itself says which steps are in which operator."""
    found: list[StepRef] = []
    for operator in checkpoint.operators():
        if not operator.is_a_step:
            continue
        frame = blobs_frame(spark, checkpoint, operator.number, batch)
        stored = rows_of(frame.where(F.col("name") == MANIFEST).select("blob").distinct(), checkpoint.path)
        named = by_step(read_manifest(bytes(row.blob)) for row in stored)
        found += [StepRef(name, operator.number, fullest(manifests)) for name, manifests in named.items()]
    return sorted(found, key=lambda step: step.name)


def find_steps(spark: SparkSession, checkpoint: Checkpoint, batch: int) -> list[StepRef]:
    """Like `steps_of`, for callers that read each key group's manifest anyway: nothing is read for a job with one step."""
    only = only_step(checkpoint)
    return steps_of(spark, checkpoint, batch) if only is None else [only]


def group_blobs(spark: SparkSession, checkpoint: Checkpoint, step: StepRef, batch: int, label: int) -> Blobs | None:
    """The blobs of one key group of a step, read by the driver; None if it has none."""
    frame = step_blobs(spark, checkpoint, step, batch).where(F.col("label") == label)
    return collected_groups(frame, checkpoint.path).get(label)


def map_groups(frame: DataFrame, function: GroupFunction, schema: str | StructType) -> DataFrame:
    """A function's rows for each key group, with this schema.

    `frame` has the columns label, name and blob; the rows of a group must be adjacent.
    """
    columns = arrow_schema(read_schema(schema, "state"))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for label, blobs in groups_in(batches):
                yield from record_batches(function(label, blobs), columns)

    return frame.mapInArrow(run, schema)


def record_batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as one record batch; nothing if there are none."""
    rows = list(rows)
    if rows:
        values = zip(*rows, strict=True)
        arrays = [pa.array(list(column), field.type) for column, field in zip(values, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def collected_groups(frame: DataFrame, path: str) -> dict[int, Blobs]:
    """The key groups of a frame (label, name, blob), read by the driver, by label."""
    found: dict[int, Blobs] = {}
    for row in rows_of(frame, path):
        found.setdefault(row.label, Blobs()).put(row.name, bytes(row.blob))
    return found


def rows_of(frame: DataFrame, path: str) -> list[Any]:
    """The rows of a frame. Spark's failures are raised as our errors, not as JVM traces."""
    with our_errors(path):
        return frame.collect()


@contextlib.contextmanager
def our_errors(path: str, todo: str = "find the damaged file: holdfast checkpoint verify {}") -> Iterator[None]:
    """Turns Spark's read errors into a sentence."""
    session = SparkSession.getActiveSession()
    try:
        with contextlib.nullcontext() if session is None else rebuilding(session):
            yield
    except HoldfastError:
        raise
    except Exception as error:
        ours = uncarried(str(error))
        if ours is not None:
            raise ours.within(path=path) from error
        for reason, what in _NOT_WRITTEN.items():
            if reason in str(error):
                raise CheckpointError(f"The output could not be written: {reason}.", todo=what) from error
        raise CorruptState(f"Spark could not read {path!r}: {first_cause(str(error))}", todo=todo.format(path)) from error
