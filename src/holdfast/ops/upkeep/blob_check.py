"""The blobs of an operator, checked key group by key group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.checkpoint.blob_reader import BlobReader
from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.labels import labels_of_manifest, slot_of_label, slot_of_manifest, spark_hash
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.parts import Operator
from holdfast.engine.log.chain import read_head, whole
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.manifest import LOG_BACKENDS, read_manifest
from holdfast.engine.stored.reading import Blobs
from holdfast.errors import HoldfastError, NeedsSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BlobCheck", "FoundStep", "GroupCheck", "check_blobs", "check_group", "step_problems"]

FoundStep = tuple[str, int]
"""The name of a step and the slot whose labels its key groups have."""


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


class GroupCheck(NamedTuple):
    """The result of reading one key group's blobs."""

    partition: int
    label: int
    blobs: int
    bytes: int
    step: str | None
    problem: str | None


def check_blobs(spark: SparkSession | None, checkpoint: Checkpoint, operator: Operator, batch: int) -> BlobCheck:
    """Checks the log of every key group of an operator after a micro-batch. Without a session, raises NeedsSpark if only
    Spark can read it."""
    try:
        return _checked_directly(checkpoint, operator, batch)
    except NeedsSpark:
        if spark is None:
            raise
    from holdfast.ops.upkeep.spark_blob_check import checked_by_spark

    groups, unreadable = checked_by_spark(spark, checkpoint, operator, batch)
    return _summed(checkpoint, operator, batch, groups, unreadable)


def _checked_directly(checkpoint: Checkpoint, operator: Operator, batch: int) -> BlobCheck:
    if checkpoint.files.needs_spark:
        raise NeedsSpark(f"{checkpoint.path!r} is not a local path.")
    reader = BlobReader(checkpoint)
    reader.check_format(operator, batch)
    groups: list[GroupCheck] = []
    problems: list[tuple[str, str]] = []
    for number in checkpoint.partitions_at(operator, batch):
        try:
            for read in reader.partitions(operator.number, batch, numbers=[number]):
                groups += [check_group(number, label, dict(blobs.items())) for label, blobs in sorted(read.groups.items())]
        except NeedsSpark:
            raise
        except HoldfastError as error:
            what = f"its state after micro-batch {batch} cannot be read ({error.what.rstrip('.')})"
            problems.append((join(operator.path, str(number)), what))
    return _summed(checkpoint, operator, batch, groups, problems)


def _summed(
    checkpoint: Checkpoint, operator: Operator, batch: int, groups: list[GroupCheck], problems: list[tuple[str, str]]
) -> BlobCheck:
    check = BlobCheck(problems=list(problems))
    where_first: dict[int, int] = {}
    count = len(checkpoint.partitions_at(operator, batch))
    for group in groups:
        check.key_groups += 1
        check.blobs += group.blobs
        check.blob_bytes += group.bytes
        check.steps |= set() if group.step is None else {(group.step, slot_of_label(group.label))}
        problem = group.problem or _misplaced(group.label, group.partition, count, where_first)
        if problem is not None:
            where = join(operator.path, str(group.partition))
            check.problems.append((where, f"key group {group.label}, after micro-batch {batch}: {problem}"))
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


def check_group(partition: int, label: int, blobs: Mapping[str, bytes]) -> GroupCheck:
    """Checks the blobs of a key group, by name."""
    return GroupCheck(partition, label, len(blobs), sum(map(len, blobs.values())), *_read(label, blobs))


def _read(label: int, blobs: Mapping[str, bytes]) -> tuple[str | None, str | None]:
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
            store = Blobs(blobs)
            for _ in whole(store, read_head(store)):
                pass
    except HoldfastError as error:
        return step, error.what.rstrip(".")
    return step, None
