"""The blobs of an operator, read through Spark and checked key group by key group in the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.checkpoint.files.choice import join, normalised
from holdfast.checkpoint.labels import labels_of_manifest, slot_of_label, slot_of_manifest, spark_hash
from holdfast.checkpoint.layout import Checkpoint, Operator
from holdfast.engine.log.chain import read_head, whole
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.manifest import LOG_BACKENDS, read_manifest
from holdfast.errors import HoldfastError

__all__ = ["BlobCheck", "FoundStep", "check_blobs", "step_problems"]

FoundStep = tuple[str, int]
"""The name of a step and the slot whose labels its key groups have."""

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


@dataclass
class BlobCheck:
    """The result of reading one operator's blobs."""

    key_groups: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    steps: set[FoundStep] = field(default_factory=set)
    """The steps that have state here."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Where, and what."""


def check_blobs(spark: SparkSession, checkpoint: Checkpoint, operator: Operator, batch: int) -> BlobCheck:
    """Checks the log of every key group of an operator after a micro-batch."""
    reader = spark.read.format("statestore").option("operatorId", operator.number).option("batchId", batch)
    check, flat = BlobCheck(), None
    try:
        state = reader.option("stateVarName", "blobs").load(normalised(checkpoint.path))
        flat = state.selectExpr("partition_id", "key.label", "user_map_key.name", "user_map_value.blob")
        rows = flat.mapInArrow(_checked, _RESULT).collect()
    except Exception as error:
        what = f"Spark cannot read its state after micro-batch {batch} ({_reason(error)})"
        unreadable = [] if flat is None else _unreadable(flat)
        places = [join(operator.path, str(number)) for number in unreadable] or [operator.path]
        check.problems += [(place, what) for place in places]
        return check
    where_first: dict[int, int] = {}
    count = len(checkpoint.partitions_at(operator, batch))
    for row in rows:
        check.key_groups += 1
        check.blobs += row.blobs
        check.blob_bytes += row.bytes
        check.steps |= set() if row.step is None else {(row.step, slot_of_label(row.label))}
        problem = row.problem or _misplaced(row.label, row.partition, count, where_first)
        if problem is not None:
            where = join(operator.path, str(row.partition))
            check.problems.append((where, f"key group {row.label}, after micro-batch {batch}: {problem}"))
    return check


def _misplaced(label: int, partition: int, count: int, places: dict[int, int]) -> str | None:
    """What is wrong if a key group is not in the partition of its label's hash, or is there twice."""
    right = spark_hash(label) % count
    before = places.setdefault(label, partition)
    if partition != right:
        return f"it belongs to partition {right}"
    return f"it is also in partition {before}" if before != partition else None


def step_problems(checkpoint: Checkpoint, steps: dict[str, set[FoundStep]]) -> list[tuple[str, str]]:
    """Checks that each step is in one operator, in a slot there that no other step has; by the operators' paths."""
    problems = [(path, problem) for path, found in steps.items() for problem in _slot_problems(found)]
    known = checkpoint.manifest.get("steps", {}) if not problems else {}
    for path, found in steps.items():
        names = {name for name, _ in found}
        if known and names - known.keys():
            what = f"it has state of {_listed(names - known.keys())}, but the job has the steps {_listed(known)}"
            problems.append((path, what))
        for other, there in steps.items():
            both = names & {name for name, _ in there}
            if other < path and both:
                problems.append((path, f"it has state of {_listed(both)}, and so has {other}"))
    return problems or list(_place_problems(steps, known))


def _slot_problems(found: set[FoundStep]) -> Iterator[str]:
    """What is wrong with the steps of an operator: which labels belong to which of them must be clear."""
    for slot in sorted({slot for _, slot in found}):
        names = {name for name, here in found if here == slot}
        if len(names) > 1:
            yield f"it has state of several steps in slot {slot}: {_listed(names)}"
    for name in sorted({name for name, _ in found}):
        slots = sorted(slot for step, slot in found if step == name)
        if len(slots) > 1:
            yield f"it has state of {name!r} in several slots: {', '.join(map(str, slots))}"


def _place_problems(steps: dict[str, set[FoundStep]], known: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """State that the job would not find, because its manifest has the step in another place."""
    for path, found in steps.items():
        for name, slot in sorted(found):
            recorded = known.get(name, {})
            # Without the operator, the manifest is too old to say anything about slots.
            operator, wanted = recorded.get("operator"), slot_of_manifest(recorded)
            if operator is not None and (str(operator), wanted) != (path.rpartition("/")[2], slot):
                there = f"in slot {wanted} of state/{operator}"
                yield path, f"it has state of {name!r} in slot {slot}, but the job has it {there}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


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
    rows = [(*place, len(blobs), sum(map(len, blobs.values())), *_read(place[1], blobs)) for place, blobs in groups.items()]
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(_COLUMNS.types)]
    yield pa.RecordBatch.from_arrays(columns, schema=_COLUMNS)


def _read(label: int, blobs: Any) -> tuple[str | None, str | None]:
    """The step that a key group belongs to, and what is wrong with its log, given its blobs by name.

    For a backend with its own format, only the manifest is checked.
    """
    step = None
    try:
        stored = blobs.get(MANIFEST)
        if stored is None:
            return None, f"the blob {MANIFEST!r} is missing"
        manifest = read_manifest(stored)
        step = str(manifest["name"])
        slot = slot_of_manifest(manifest)
        if slot != slot_of_label(label):
            return step, f"it has the manifest of the step {step!r}, whose key groups have other labels: its slot is {slot}"
        if label not in labels_of_manifest(manifest):
            return step, f"there is no such key group among {manifest['key_groups']}"
        if manifest["backend"] in LOG_BACKENDS:
            for _ in whole(blobs, read_head(blobs)):
                pass
    except HoldfastError as error:
        return step, error.what.rstrip(".")
    return step, None


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["no reason was given"])[-1 if causes else 0][:300]
