"""Rearranging: stored state is moved to where a changed graph has its steps, before the job goes on.

Spark wants the number of stateful operators, and how each keeps time, to stay as they were. When a graph no longer fits into
the operators that it had, the state of all steps is written anew, in a copy that then takes the place of the old state. If
that is interrupted, nothing is lost (`checkpoint/replacing.py`). State after earlier micro-batches is gone then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.labels import labels_of_slot, slot_of_manifest
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.replacement import MANIFEST_FILE
from holdfast.checkpoint.replacing import replacing_state
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.manifest import manifest_bytes, read_manifest
from holdfast.errors import StateConflict
from holdfast.spark.graph.converting import Conversion, in_new_form, our_errors
from holdfast.spark.graph.placing import Place, Placement, Stored
from holdfast.spark.steps.seeding import BLOBS_SCHEMA, seed_new_operator, stored_blobs

__all__ = ["rearrange", "stored_steps", "time_modes"]

_WORK = "state-rearranged"
_SPARKS_NAMES = {"NoTime": "None"}


def stored_steps(spark: SparkSession, checkpoint: str) -> dict[str, dict[str, Any]]:
    """The manifests of the steps that have state, each with its operator and slot, as the state itself says. It is asked if
    no job has recorded that: a query whose steps share no operators, or one of Spark's own `writeStream`."""
    place = open_checkpoint(spark, checkpoint)
    batch = place.committed()[-1]
    found: dict[str, dict[str, Any]] = {}
    for operator in place.operators():
        if operator.is_a_step:
            with our_errors(spark, checkpoint):
                blobs = stored_blobs(spark, place.path, operator.number, batch).where(F.col("name") == MANIFEST)
                manifests = [bytes(row.blob) for row in blobs.select("blob").distinct().collect()]
            for known in map(read_manifest, manifests):
                found[str(known["name"])] = {**known, "operator": operator.number, "slot": slot_of_manifest(known)}
    return found


def time_modes(spark: SparkSession, checkpoint: str) -> list[str]:
    """How the operators of a checkpoint keep time, by their numbers."""
    operators = open_checkpoint(spark, checkpoint).operators()
    foreign = [operator.name for operator in operators if not operator.is_a_step]
    if foreign:
        raise StateConflict(
            f"The checkpoint has state of Spark's own ({foreign[0]}), so the job's steps must stay as they are.",
            todo="give the steps their old names (name='...'), or start with a new checkpoint",
        )
    found = {operator.number: operator.properties.time_mode for operator in operators}
    return [_SPARKS_NAMES.get(found[number], found[number]) for number in sorted(found)]


def rearrange(
    spark: SparkSession,
    checkpoint: str,
    before: Stored,
    placement: Placement,
    renamed: Collection[str],
    conversions: Mapping[str, Conversion],
    job_manifest: bytes,
) -> None:
    """Moves the stored state of steps to their places. `renamed` are those whose state still has another name,
    `conversions` those whose cells have changed, by name; the state of steps that have no place is left out. The caller must
    hold the lock."""
    with replacing_state(open_checkpoint(spark, checkpoint)) as (made, batch), our_errors(spark, checkpoint):
        operators = made.operators()
        partitions = len(made.partitions_at(operators[0], batch))
        settings = made.offsets(batch).settings
        work = join(made.path, _WORK)
        places = placement.places
        for level, operator in enumerate(placement.operators):
            number = len(placement.operators) - 1 - level
            here = {
                name: before.places[name]
                for name, place in places.items()
                if place.operator == number and name in before.places
            }
            blobs = [
                in_new_form(_step_blobs(spark, made, batch, name, place, renamed), conversions.get(name))
                for name, place in sorted(here.items())
            ]
            seed_new_operator(
                spark,
                made,
                join(work, str(number)),
                number,
                reduce(DataFrame.union, blobs, spark.createDataFrame([], BLOBS_SCHEMA)),
                batch=batch,
                partitions=partitions,
                time_mode=operator.time_mode,
                settings=settings,
            )
        made.files.remove(join(made.path, "state"))
        made.files.move(work, join(made.path, "state"))
        made.files.write(join(made.path, MANIFEST_FILE), job_manifest)


def _step_blobs(
    spark: SparkSession,
    made: Checkpoint,
    batch: int,
    name: str,
    place: Place,
    renamed: Collection[str],
) -> DataFrame:
    own = labels_of_slot(place.slot)
    blobs = stored_blobs(spark, made.path, place.operator, batch).where(F.col("label").between(own[0], own[-1]))
    return blobs.mapInArrow(_with_name(name), BLOBS_SCHEMA) if name in renamed else blobs


def _with_name(step: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: gives the manifests among blobs another step's name."""

    def renamed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names, blobs = (batch.column(number).to_pylist() for number in (1, 2))
            blobs = [
                manifest_bytes({**read_manifest(blob), "name": step}) if name == MANIFEST else blob
                for name, blob in zip(names, blobs, strict=True)
            ]
            yield pa.RecordBatch.from_arrays([*batch.columns[:2], pa.array(blobs, pa.binary())], schema=batch.schema)

    return renamed
