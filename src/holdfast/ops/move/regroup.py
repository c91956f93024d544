"""Changing key groups: the state of every step is read, redistributed by key, and written back in its place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.parts import Operator
from holdfast.errors import CheckpointError
from holdfast.ops.reading.blobs import StepRef, choose_step, our_errors, step_blobs, steps_of
from holdfast.ops.reading.key_rows import labelled, log_facts, new_groups, packed_frame, unpacked
from holdfast.spark.steps.seeding import seed_operator

__all__ = ["regroup", "seed_state", "write_manifest"]

_KEY_GROUPS_MAX = 32_768


def regroup(spark: SparkSession, checkpoint: str, key_groups: int) -> list[str]:
    """Gives every step of a checkpoint another number of key groups; returns the steps' names.

    Works in place, so use it on a copy that nothing else uses. Afterwards only the last committed micro-batch can be read.
    The job's code must set the same number.
    """
    if not 1 <= key_groups <= _KEY_GROUPS_MAX:
        raise CheckpointError(f"There cannot be {key_groups} key groups; give a number from 1 to {_KEY_GROUPS_MAX}.")
    place = open_checkpoint(spark, checkpoint)
    batch = place.check_batch(None)
    steps = choose_step(steps_of(spark, place, batch), None, place.path)
    with our_errors(place.path):
        for operator in place.operators():
            made = [_regrouped(spark, place, step, batch, key_groups) for step in steps if step.operator == operator.number]
            if made:
                seed_state(spark, place, operator, batch, made)
    write_manifest(place, {step.name: {"key_groups": key_groups} for step in steps})
    return [step.name for step in steps]


def _regrouped(spark: SparkSession, place: Checkpoint, step: StepRef, batch: int, key_groups: int) -> DataFrame:
    """The blobs of a step with so many key groups."""
    manifest = {**step.manifest, "key_groups": key_groups}
    blobs = step_blobs(spark, place, step, batch)
    rows = labelled(packed_frame(blobs, step), manifest)
    return new_groups(rows, manifest, log_facts(blobs, place.path), lambda table: unpacked(table, manifest))


def seed_state(spark: SparkSession, place: Checkpoint, operator: Operator, batch: int, blobs: Sequence[DataFrame]) -> None:
    """Makes blobs (label, name, blob) the state of an operator after a micro-batch, in a checkpoint that is not in use.

    It has nothing else then: where several steps share the operator, the blobs of all of them must be given.
    """
    seed_operator(
        spark,
        place.files,
        operator.path,
        reduce(DataFrame.unionByName, blobs),
        version=batch + 1,
        partitions=len(place.partitions_at(operator, batch)),
        time_mode=operator.properties.time_mode,
        settings=place.offsets(batch).settings,
    )


def write_manifest(place: Checkpoint, changes: dict[str, dict[str, object]]) -> None:
    """Changes the entries of some steps in the job's manifest, if the checkpoint has one."""
    manifest = place.manifest
    if not manifest:
        return
    steps = {name: {**step, **changes.get(name, {})} for name, step in manifest["steps"].items()}
    content = {**manifest, "steps": steps}
    path = join(place.path, "holdfast", "manifest.json")
    place.files.write(path, json.dumps(content, indent=2, sort_keys=True).encode())
