"""Checks that every key is in the right key group: Spark's hash of the key must give the group's label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.state.keys import key_of
from holdfast.engine.stored.manifest import LOG_BACKENDS
from holdfast.engine.stored.reading import Blobs, read_group
from holdfast.errors import NeedsSpark
from holdfast.ops.reading.direct import DirectSource
from holdfast.ops.reading.key_hash import group_of_key
from holdfast.ops.reading.keys import key_text
from holdfast.ops.reading.steps import StepRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["misplaced_keys"]


def misplaced_keys(spark: SparkSession | None, checkpoint: Checkpoint, batch: int) -> list[tuple[str, str]]:
    """Key groups that hold keys of others after a micro-batch: where, and what is wrong. Skips users' own backends. Without
    a session, raises NeedsSpark if only Spark can read the state, or hash the keys."""
    try:
        source = DirectSource(checkpoint)
        steps = [step for step in source.all_steps(batch) if step.manifest["backend"] in LOG_BACKENDS]
        return [problem for step in steps for problem in _problems(source, step, batch)]
    except NeedsSpark:
        if spark is None:
            raise
    from holdfast.ops.upkeep.spark_key_check import misplaced_by_spark

    return misplaced_by_spark(spark, checkpoint, batch)


def _problems(source: DirectSource, step: StepRef, batch: int) -> Iterator[tuple[str, str]]:
    for label, blobs in source.groups(step, batch):
        wrong = _misplaced(step, label, blobs)
        if wrong:
            where = join(source.place.path, "state", str(step.operator))
            what = f"{len(wrong)} of its keys belong to other key groups, {min(wrong)} for example"
            yield where, f"key group {label}, after micro-batch {batch}: {what}"


def _misplaced(step: StepRef, label: int, blobs: Blobs) -> set[str]:
    """The keys, as text, that another key group should have."""
    kinds = [str(column["type"]) for column in step.manifest["key"]]
    single = len(kinds) == 1
    spread = step.manifest.get("parallel_over", "key") != "key"
    hashed = [*kinds, "bigint"] if spread else kinds
    labels, count = step.labels, int(step.manifest["key_groups"])
    wrong: set[str] = set()
    for window in read_group(blobs).state.windows.values():
        start = window.window.start.micros if hasattr(window.window, "start") else 0
        for slot in window.slots():
            key: Any = key_of(slot)
            values = [key] if single else list(key)
            values += [start] if spread else []
            if labels[group_of_key(values, hashed, count)] != label:
                wrong.add(key_text(slot))
    return wrong
