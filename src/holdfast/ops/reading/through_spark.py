"""State through Spark's own reader: of checkpoints elsewhere, with a session, and of formats that only Spark knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.stored.reading import Blobs
from holdfast.ops.reading.blobs import (
    StepRef,
    blobs_frame,
    collected_groups,
    find_steps,
    group_blobs,
    map_groups,
    record_batches,
    rows_of,
    step_blobs,
    step_changes,
)
from holdfast.ops.reading.keys import FoundKey, find_key
from holdfast.ops.reading.sources import Comparison
from holdfast.spark.errors.transport import carried
from holdfast.spark.steps.seeding import groups_in
from holdfast.spark.types.arrow import arrow_schema
from holdfast.spark.types.schemas import read_schema

__all__ = ["SparkSource"]

Row = tuple[Any, ...]
_AT_ONCE_BYTES = 8 * 1024 * 1024


class SparkSource:
    """A `StateSource` that reads through Spark. Functions run in its workers."""

    def __init__(self, spark: SparkSession, place: Checkpoint) -> None:
        self._spark = spark
        self.place = place

    def steps(self, batch: int) -> list[StepRef]:
        return find_steps(self._spark, self.place, batch)

    def find_key(self, step: StepRef, text: str) -> FoundKey:
        return find_key(self._spark, step, text)

    def groups(self, step: StepRef, batch: int, label: int | None = None) -> Iterator[tuple[int, Blobs]]:
        if label is not None:
            blobs = group_blobs(self._spark, self.place, step, batch, label)
            if blobs is not None:
                yield label, blobs
            return
        frame = step_blobs(self._spark, self.place, step, batch)
        sizes = frame.groupBy("label").agg(F.sum(F.length("blob")).alias("size")).orderBy("label")
        waiting: list[int] = []
        size = 0
        rows = rows_of(sizes, self.place.path)
        for row in rows:
            waiting.append(row.label)
            size += row.size
            if size >= _AT_ONCE_BYTES or row is rows[-1]:
                some = frame.where(F.col("label").isin(waiting))
                yield from sorted(collected_groups(some, self.place.path).items())
                waiting, size = [], 0

    def mapped(self, operator: int, batch: int, function: Callable[[int, Blobs], Iterable[Row]], schema: str) -> list[Row]:
        frame = map_groups(blobs_frame(self._spark, self.place, operator, batch), function, schema)
        return [tuple(row) for row in rows_of(frame, self.place.path)]

    def compared(self, comparison: Comparison) -> list[Row]:
        schema, function = comparison.schema, comparison.function
        frame = self._both(comparison.step, comparison.batches, comparison.label)
        columns = arrow_schema(read_schema(schema, comparison.step.name))

        def run(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with carried():
                for before, after in _pairs(groups_in(found)):
                    yield from record_batches(function(before, after), columns)

        return [tuple(row) for row in rows_of(frame.mapInArrow(run, schema), self.place.path)]

    def _both(self, step: StepRef, batches: tuple[int, int], label: int | None) -> DataFrame:
        """The blobs of a step after two micro-batches, so that the two sides of a key group come one after the other: label
        and side are one number."""
        sides = [
            step_blobs(self._spark, self.place, step, batch).withColumn("side", F.lit(side))
            for side, batch in enumerate(batches)
        ]
        frame = sides[0].unionByName(sides[1])
        if label is not None:
            frame = frame.where(F.col("label") == label)
        frame = frame.repartition("label").sortWithinPartitions("label", "side")
        return frame.select((F.col("label").cast("long") * 2 + F.col("side")).alias("label"), "name", "blob")

    def versions(self, step: StepRef, label: int | None) -> Iterator[tuple[int, dict[int, Blobs]]]:
        """The first version is read whole, then each micro-batch's changes. A version without changelogs, as after
        rescaling, is read whole again."""
        operator = next(found for found in self.place.operators() if found.number == step.operator)
        retained = self.place.check_history()
        logged = {b for b in retained if all(b + 1 in p.changelogs for p in operator.partitions) and b - 1 in retained}
        for run in _runs(retained, logged):
            groups = self._whole(step, label, run[0])
            yield run[0], _copied(groups)
            changed = self._changes(step, label, run[1:])
            for batch in run[1:]:
                for row in changed.get(batch, ()):
                    blobs = groups.setdefault(row.label, Blobs())
                    if row.change == "delete":
                        blobs.remove(row.name)
                    else:
                        blobs.put(row.name, bytes(row.blob))
                yield batch, _copied(groups)

    def _changes(self, step: StepRef, label: int | None, batches: list[int]) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        if batches:
            feed = step_changes(self._spark, self.place, step, batches[0], batches[-1])
            for row in rows_of(feed if label is None else feed.where(F.col("label") == label), self.place.path):
                found.setdefault(row.batch, []).append(row)
        return found

    def _whole(self, step: StepRef, label: int | None, batch: int) -> dict[int, Blobs]:
        frame = step_blobs(self._spark, self.place, step, batch)
        return collected_groups(frame if label is None else frame.where(F.col("label") == label), self.place.path)


def _pairs(groups: Iterator[tuple[int, Blobs]]) -> Iterator[tuple[Blobs | None, Blobs | None]]:
    """The two sides of each key group; one may be missing."""
    waiting: tuple[int, Blobs] | None = None
    for number, blobs in groups:
        label, is_after = divmod(number, 2)
        if is_after and waiting is not None and waiting[0] == label:
            yield waiting[1], blobs
            waiting = None
            continue
        if waiting is not None:
            yield waiting[1], None
            waiting = None
        if is_after:
            yield None, blobs
        else:
            waiting = (label, blobs)
    if waiting is not None:
        yield waiting[1], None


def _copied(groups: dict[int, Blobs]) -> dict[int, Blobs]:
    return {label: Blobs(dict(blobs.items())) for label, blobs in groups.items()}


def _runs(retained: list[int], logged: set[int]) -> Iterator[list[int]]:
    """Runs of micro-batches in which each follows from the one before by its changes."""
    run: list[int] = []
    for batch in retained:
        if run and batch not in logged:
            yield run
            run = []
        run.append(batch)
    if run:
        yield run
