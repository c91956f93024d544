"""What a checkpoint says about the job that wrote it: how often it ran and how long that took, how much state it keeps, how
that grows, and what recovery costs. Read-only.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import FileInfo, join
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.parts import Offsets, Operator, Partition

if TYPE_CHECKING:
    from holdfast.ops.inspect.summary import StepSummary

__all__ = ["Measured", "StepMeasured", "measure"]

_SAMPLE_BYTES = 32 << 20


@dataclass(frozen=True)
class StepMeasured:
    """The state of a step."""

    step: str
    operator: int
    backend: str
    key_groups: int
    keys: int
    entries: int
    """Cells that hold something, over all keys and windows, and timers."""
    live_bytes: int
    """Keys and values of the newest version, before compression."""
    stored_bytes: int
    """The same, compressed, as stored once."""
    file_bytes: int
    """All files of its operator, with every version kept; its part of them, by what it stores, if it shares the operator."""
    keys_per_batch: float | None
    """How many keys each micro-batch added; None if there is only one to look at."""
    changelog_bytes: float
    """Of one micro-batch; its part if it shares the operator."""
    largest_share: float
    """The largest partition of its operator, relative to an even share."""
    is_windowed: bool
    """Whether windows end, and their state with them."""
    lasting_cells: tuple[str, ...]
    """Cells without a time to live."""
    shares_with: tuple[str, ...] = ()
    """The other steps in its operator. Files are of an operator: how much of them is of one step is an estimate then."""


@dataclass(frozen=True)
class Measured:
    """A checkpoint in numbers."""

    checkpoint: str
    batch: int
    """The newest micro-batch."""
    batches: int
    """How many micro-batches could be measured."""
    interval_seconds: float | None
    """From the beginning of a micro-batch to that of the next; the median."""
    duration_seconds: float | None
    """From its beginning to its commit; the median."""
    cost_seconds: float | None
    """How long the shortest took: the fixed cost of a micro-batch with its checkpoint."""
    partitions: int
    restore_bytes: int
    """What is read when the job starts: snapshots and the changelogs after them."""
    restore_seconds: float
    """How long reading that takes on this machine."""
    steps: list[StepMeasured]


def measure(spark: SparkSession, checkpoint: str) -> Measured:
    """Measures a checkpoint. Raises CheckpointError if there is none, or nothing to measure."""
    from holdfast.ops.inspect.summary import state_ls

    place = open_checkpoint(spark, checkpoint)
    newest, retained = place.check_batch(None), place.retained()
    oldest = retained[0]
    present = state_ls(spark, checkpoint, newest)
    earlier = {step.step: step for step in state_ls(spark, checkpoint, oldest)} if oldest < newest else {}
    operators = {operator.number: operator for operator in place.operators()}
    offsets = [place.offsets(number) for number in retained]
    durations = list(_durations(place, offsets))
    restore_bytes, restore_seconds = _restore(place, operators.values(), newest + 1)
    return Measured(
        checkpoint=place.path,
        batch=newest,
        batches=len(retained),
        interval_seconds=_median(_intervals(offsets)),
        duration_seconds=_median(durations),
        cost_seconds=min(durations, default=None),
        partitions=offsets[-1].partitions or _most_partitions(operators.values()),
        restore_bytes=restore_bytes,
        restore_seconds=restore_seconds,
        steps=[
            _step(
                step,
                earlier.get(step.step),
                newest - oldest,
                operators[step.operator],
                [other for other in present if other.operator == step.operator],
            )
            for step in present
        ],
    )


def _step(
    step: StepSummary, earlier: StepSummary | None, batches: int, operator: Operator, sharing: list[StepSummary]
) -> StepMeasured:
    """`sharing` are all steps of the operator."""
    sizes = [partition.size for partition in operator.partitions]
    even = sum(sizes) / len(sizes) if sizes else 0
    stored = sum(each.blob_bytes for each in sharing)
    part = step.blob_bytes / stored if stored else 1 / len(sharing)
    return StepMeasured(
        step=step.step,
        operator=step.operator,
        backend=step.backend,
        key_groups=step.key_groups,
        keys=step.keys,
        entries=sum(cell.keys for cell in step.cells) + step.timers,
        live_bytes=sum(cell.bytes for cell in step.cells),
        stored_bytes=step.blob_bytes,
        file_bytes=round(sum(sizes) * part),
        keys_per_batch=None if earlier is None else (step.keys - earlier.keys) / batches,
        changelog_bytes=_changelog_bytes(operator) * part,
        largest_share=max(sizes) / even if even else 1.0,
        is_windowed=not step.window_fn.startswith("GlobalWindows"),
        lasting_cells=tuple(cell.name for cell in step.cells if cell.ttl is None),
        shares_with=tuple(each.step for each in sharing if each.step != step.step),
    )


def _intervals(offsets: list[Offsets]) -> list[float]:
    # A clock that was set back in between says nothing.
    following = [(a, b) for a, b in pairwise(offsets) if b.batch == a.batch + 1 and b.timestamp_millis > a.timestamp_millis]
    return [(b.timestamp_millis - a.timestamp_millis) / 1000 for a, b in following]


def _durations(place: Checkpoint, offsets: list[Offsets]) -> Iterator[float]:
    """From the times of the commit files; those of a copy say nothing and are skipped."""
    written = {entry.name: entry.modified_seconds for entry in place.files.entries(join(place.path, "commits")) or ()}
    begun = {each.batch: each.timestamp_millis / 1000 for each in offsets}
    for batch, start in begun.items():
        end = written.get(str(batch))
        if end is not None and start < end <= begun.get(batch + 1, float("inf")) + 1:
            yield end - start


def _restore(place: Checkpoint, operators: Iterable[Operator], version: int) -> tuple[int, float]:
    """How many bytes are read to restore a version, and how long that takes, judging from a sample."""
    partitions = [partition for operator in operators for partition in operator.partitions]
    files = [file for partition in partitions for file in _chain(place, partition, version)]
    total = sum(file.size for file in files)
    read, begun = 0, time.perf_counter()
    for file in files:
        if read >= _SAMPLE_BYTES:
            break
        read += len(place.files.read(file.path) or b"")
    seconds = time.perf_counter() - begun
    return total, seconds * total / read if read else 0.0


def _chain(place: Checkpoint, partition: Partition, version: int) -> list[FileInfo]:
    chain = partition.chain(version) or []
    if chain and chain[0].name.endswith(".zip"):
        names = place.table_names(chain[0])
        return [*chain, *(file for name, file in partition.tables.items() if name in names)]
    return chain


def _changelog_bytes(operator: Operator) -> float:
    sizes: dict[int, int] = {}
    for partition in operator.partitions:
        for version, file in partition.changelogs.items():
            sizes[version] = sizes.get(version, 0) + file.size
    return _median(list(sizes.values())) or 0.0


def _most_partitions(operators: Iterable[Operator]) -> int:
    return max((len(operator.partitions) for operator in operators), default=1)


def _median(values: list[float] | list[int]) -> float | None:
    return float(median(values)) if values else None
