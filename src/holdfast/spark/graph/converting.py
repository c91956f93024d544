"""Converting: the stored state of a step whose cells were renamed, upgraded or dropped is rewritten before the job goes on.

All key groups at once, in a copy that then takes the place of the old state (`checkpoint/replacing.py`). If each were
converted when it next gets input, one that gets none would still be as it was when the code changes again, and only the
code of the meantime would know what has become of its cells. State after earlier micro-batches is gone then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.labels import labels_of_slot, slot_of_manifest
from holdfast.checkpoint.layout import Checkpoint, Operator, open_checkpoint
from holdfast.checkpoint.replacement import MANIFEST_FILE
from holdfast.checkpoint.replacing import replacing_state
from holdfast.engine.state.key_group import Layout
from holdfast.engine.stored.evolution import MANIFEST, adapted, came_along
from holdfast.engine.stored.manifest import read_manifest
from holdfast.engine.stored.reading import Blobs
from holdfast.engine.stored.session_forms import was_a_function
from holdfast.errors import HoldfastError, JobFailed, StateConflict
from holdfast.spark.errors.failures import first_cause
from holdfast.spark.errors.transport import carried, rebuilding, uncarried
from holdfast.spark.stages.plan import StepPlan
from holdfast.spark.steps.seeding import BLOBS_SCHEMA, blob_table, groups_in, seed_operator, stored_blobs

__all__ = ["Conversion", "convert", "in_new_form", "our_errors"]

_WAY_OUT = "export the state, transform it and import it into a new checkpoint"


@dataclass(frozen=True)
class Conversion:
    """A step whose stored cells are not those of its code."""

    plan: StepPlan
    recorded: Mapping[str, Any]
    """The manifest of the code that ran last."""

    def convert(self, blobs: Blobs, layout: Layout) -> None:
        """Rewrites a key group. Raises StateConflict if it has missed an earlier change."""
        stored = blobs.get(MANIFEST)
        if stored is None:
            return
        known, wanted = read_manifest(stored), self.plan.manifest
        if not (came_along(known, self.recorded) or came_along(known, wanted) or was_a_function(known, wanted)):
            raise self._missed_a_change(known)
        adapted(blobs, wanted, layout, self.plan.evolution)

    def _missed_a_change(self, stored: Mapping[str, Any]) -> StateConflict:
        there, last = (", ".join(repr(cell["name"]) for cell in each["cells"]) for each in (stored, self.recorded))
        return StateConflict(
            f"A key group of the step {self.plan.name!r} is still as older code has left it: the cells have changed twice, "
            "and it had no input in between.",
            detail=f"It has the cells {there}; the code that ran last had {last}. What that made of them is not known.",
            todo=_WAY_OUT,
        )


def convert(spark: SparkSession, checkpoint: str, conversions: Mapping[str, Conversion], job_manifest: bytes) -> None:
    """Rewrites the state of these steps, by name. The job's manifest changes with it. The caller must hold the lock."""
    with replacing_state(open_checkpoint(spark, checkpoint)) as (made, batch), our_errors(spark, checkpoint):
        for operator in made.operators():
            if operator.is_a_step:
                _convert_operator(spark, made, operator, batch, conversions)
        made.files.write(join(made.path, MANIFEST_FILE), job_manifest)


def _convert_operator(
    spark: SparkSession, made: Checkpoint, operator: Operator, batch: int, conversions: Mapping[str, Conversion]
) -> None:
    blobs = stored_blobs(spark, made.path, operator.number, batch)
    manifests = blobs.where(F.col("name") == MANIFEST).select("blob").distinct().collect()
    stored = [read_manifest(bytes(row.blob)) for row in manifests]
    slots = {str(known["name"]): slot_of_manifest(known) for known in stored}
    here = {name: conversions[name] for name in sorted(slots.keys() & conversions.keys())}
    for name, conversion in here.items():
        own = F.col("label").between(labels_of_slot(slots[name])[0], labels_of_slot(slots[name])[-1])
        blobs = in_new_form(blobs.where(own), conversion).unionByName(blobs.where(~own))
    if here:
        seed_operator(
            spark,
            made.files,
            operator.path,
            blobs,
            version=batch + 1,
            partitions=len(made.partitions_at(operator, batch)),
            time_mode=operator.properties.time_mode,
            settings=made.offsets(batch).settings,
        )


@contextlib.contextmanager
def our_errors(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """Turns what goes wrong while Spark reads or rewrites state into a sentence."""
    try:
        with rebuilding(spark):
            yield
    except HoldfastError:
        raise
    except Exception as error:
        ours = uncarried(str(error))
        if ours is not None:
            raise ours.within(checkpoint=checkpoint) from error
        raise JobFailed(
            f"The stored state could not be read or rewritten: {first_cause(str(error))}",
            detail="Nothing was changed.",
            todo="fix the cause and start the job again",
            context={"checkpoint": checkpoint},
        ) from error


def in_new_form(blobs: DataFrame, conversion: Conversion | None) -> DataFrame:
    """The blobs of a step (label, name, blob) as its code keeps them."""
    if conversion is None:
        return blobs
    sorted_blobs = blobs.repartition("label").sortWithinPartitions("label", "name")
    return sorted_blobs.mapInArrow(_converter(conversion), BLOBS_SCHEMA)


def _converter(conversion: Conversion) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            layout = conversion.plan.layout()
            for label, blobs in groups_in(batches):
                conversion.convert(blobs, layout)
                yield from blob_table(label, blobs.items()).to_batches()

    return run
