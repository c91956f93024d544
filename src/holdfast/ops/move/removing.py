"""Removes stored state of a stopped job: the job goes on as if its function had cleared it.

The new state is made in a copy, which then takes the place of the old one as a whole (`checkpoint/replacing.py`): killed at
any point, the checkpoint is as before or as after. No micro-batch is used up. State after earlier micro-batches is gone
then, so what was removed is nowhere in the checkpoint.

A key group that loses something is written anew; all others are copied as they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.layout import Checkpoint, find_checkpoint, open_checkpoint
from holdfast.checkpoint.lock import holding
from holdfast.checkpoint.replacement import finish_replacing
from holdfast.checkpoint.replacing import replacing_state
from holdfast.engine.stored.reading import HIDDEN, Blobs
from holdfast.errors import CorruptState, InputError
from holdfast.ops.inspect.showing import ShownCell
from holdfast.ops.move.choosing import Choice, chosen_rows, chosen_steps
from holdfast.ops.move.clearing import Mark, cleared, packed_marks, unpacked_marks
from holdfast.ops.move.regroup import seed_state
from holdfast.ops.reading.blobs import blobs_frame, map_groups, our_errors, rows_of
from holdfast.spark.errors.transport import carried
from holdfast.spark.steps.seeding import BLOBS_SCHEMA, blob_table

__all__ = ["Removed", "remove_state"]

_MARKS = "~marks"
"""The name under which the marks of a key group travel beside its blobs."""
_ORDER = ("key", "shown_window", "cell")


@dataclass(frozen=True)
class Removed:
    """What was removed, or what would be."""

    checkpoint: str
    batch: int
    """The last micro-batch; the job goes on with the next."""
    planned_batch: int | None
    """The micro-batch that is planned and not committed: the job will process it over what is left."""
    cells: list[ShownCell]
    """The first of them, by step and key. Elements that are held back for a key are of the kind "held back"."""
    total: int
    """How many cells and timers."""
    keys: dict[str, int] = field(default_factory=dict)
    """By step, how many keys and windows had them."""
    done: bool = False


def remove_state(
    spark: SparkSession,
    checkpoint: str,
    *,
    step: str | None = None,
    key: str | None = None,
    cell: str | None = None,
    window: str | None = None,
    where: str | None = None,
    whole_keys: bool = False,
    dry_run: bool = False,
    limit: int = 20,
    trust_pickle: bool = False,
) -> Removed:
    """Removes the state of a key, or what else is chosen, from the checkpoint of a stopped job.

    `step`, `key`, `cell` and `window` choose as for `state_show`; `where` is a condition in SQL over the columns of
    `read_state`. With a cell or a condition only those cells and timers go, or with `whole_keys` everything of the keys
    and windows that have one; otherwise everything that the key has in its windows, with what is held back for it. At most
    `limit` cells are listed in the result. `dry_run` changes nothing, and needs no lock; otherwise raises CheckpointLocked
    while a job runs on the checkpoint. If nothing matches, nothing is written.
    """
    choice = Choice(step, key, cell, window, where, whole_keys)
    choice.check()
    if dry_run:
        with _Found(spark, open_checkpoint(spark, checkpoint), choice, trust_pickle) as found:
            return found.told(limit)
    place = find_checkpoint(spark, checkpoint)
    with holding(spark, checkpoint, "holdfast state rm"):
        finish_replacing(place.files, place.path)
        place = open_checkpoint(spark, checkpoint)
        with _Found(spark, place, choice, trust_pickle) as found:
            told = found.told(limit)
            if not told.keys:
                return told
            _remove(spark, place, found)
    return replace(told, done=True)


class _Found:
    """What was chosen in a checkpoint, read once."""

    def __init__(self, spark: SparkSession, place: Checkpoint, choice: Choice, trust_pickle: bool) -> None:
        self.place, self.batch = place, place.check_batch(None)
        self._spark, self._choice = spark, choice
        with our_errors(place.path):
            self.rows = [
                (ref, chosen_rows(spark, place, ref, self.batch, choice, trust_pickle).persist(StorageLevel.DISK_ONLY))
                for ref in chosen_steps(spark, place, self.batch, choice)
            ]

    def __enter__(self) -> _Found:
        return self

    def __exit__(self, *raised: object) -> None:
        for _, rows in self.rows:
            rows.unpersist()

    def told(self, limit: int) -> Removed:
        """What there is. Raises InputError if the condition cannot be evaluated."""
        try:
            return self._told(limit)
        except CorruptState as error:
            if self._choice.where is None:
                raise
            # If the state can be read without the condition, that is to blame.
            for ref, _ in self.rows:
                rows = chosen_rows(self._spark, self.place, ref, self.batch, self._choice._replace(where=None), False)
                _count(rows, self.place.path)
            raise InputError(
                f"The condition {self._choice.where!r} could not be evaluated: {error.what}",
                todo="write it so that it fits every row that it is about: try_cast instead of cast, for example",
            ) from error

    def _told(self, limit: int) -> Removed:
        cells: list[ShownCell] = []
        total, keys = 0, {}
        for ref, rows in self.rows:
            visible = rows.where(F.col("kind") != HIDDEN)
            total += _count(visible, self.place.path)
            places = _count(rows.select("slot", "place").distinct(), self.place.path)
            if places:
                keys[ref.name] = places
            cells += map(_shown, rows_of(visible.orderBy(*_ORDER).limit(limit - len(cells)), self.place.path))
        planned = self.place.planned()[-1]
        return Removed(self.place.path, self.batch, planned if planned > self.batch else None, cells, total, keys)

    def marks(self, operator: int) -> list[DataFrame]:
        """The marks of each step in an operator that has any: label, name, blob."""
        return [self._marks(rows) for ref, rows in self.rows if ref.operator == operator]

    def _marks(self, rows: DataFrame) -> DataFrame:
        parts = (F.lit(None).cast("string"),) * 2 if self._choice.is_whole else (F.col("stored"), F.col("tag"))
        marks = rows.select("label", "slot", "place", parts[0].alias("stored"), parts[1].alias("tag")).distinct()
        return marks.groupBy("label").applyInArrow(_packed, BLOBS_SCHEMA)


def _count(rows: DataFrame, path: str) -> int:
    with our_errors(path):
        return rows.count()


def _shown(row: Any) -> ShownCell:
    return ShownCell(row.step, row.key, row.shown_window, row.cell, row.kind, row.value, row.shown, row.expires)


def _packed(key: Sequence[Any], rows: pa.Table) -> pa.Table:
    with carried():
        columns = (rows[name].to_pylist() for name in ("slot", "place", "stored", "tag"))
        marks = sorted((Mark(*row) for row in zip(*columns, strict=True)), key=repr)
        return blob_table(key[0].as_py(), [(_MARKS, packed_marks(marks))])


def _remove(spark: SparkSession, place: Checkpoint, found: _Found) -> None:
    with replacing_state(place) as (made, batch):
        for operator in made.operators():
            marks = found.marks(operator.number)
            if marks:
                with our_errors(made.path):
                    left = _left(blobs_frame(spark, made, operator.number, batch), marks)
                    seed_state(spark, made, operator, batch, [left])


def _left(blobs: DataFrame, marks: Sequence[DataFrame]) -> DataFrame:
    """The blobs of an operator without what is marked."""
    origin = uuid.uuid4().bytes

    def rows(label: int, found: Blobs) -> Iterator[tuple[int, str, bytes]]:
        marked = found.get(_MARKS)
        if marked is not None:
            found.remove(_MARKS)
            found = cleared(found, unpacked_marks(marked), origin)
        yield from ((label, name, blob) for name, blob in found.items())

    together = blobs.select("label", "name", "blob")
    for frame in marks:
        together = together.unionByName(frame)
    return map_groups(together.repartition("label").sortWithinPartitions("label", "name"), rows, BLOBS_SCHEMA)
