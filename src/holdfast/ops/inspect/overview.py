"""A checkpoint as a whole: how far its query is, what it stores, and who is using it. Local ones are read without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import FileInfo, join
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint, spans
from holdfast.checkpoint.lock import LockInfo, current_lock
from holdfast.checkpoint.parts import Operator
from holdfast.engine.stored.documents import Malformed, parse_json
from holdfast.errors import CheckpointError

__all__ = ["OperatorOverview", "Overview", "StepOverview", "checkpoint_show"]


@dataclass(frozen=True)
class StepOverview:
    """A step, as recorded by the job."""

    name: str
    backend: str
    key_groups: int
    cells: list[str]
    timers: list[str]


@dataclass(frozen=True)
class OperatorOverview:
    """The state files of one stateful operator of the query."""

    number: int
    name: str
    is_a_step: bool
    steps: list[str]
    """The steps that share it, if the job has recorded that."""
    partitions: int
    snapshots: list[int]
    """The versions for which every partition has a snapshot."""
    changelogs: list[int]
    """The versions for which every partition has a changelog."""
    last_version: int | None
    """The newest version in any partition. Micro-batch N leaves version N + 1."""
    snapshot_bytes: int
    changelog_bytes: int


@dataclass(frozen=True)
class SourceOverview:
    """A source's offsets before and after a micro-batch, in the source's own format."""

    number: int
    before: Any
    after: Any


@dataclass(frozen=True)
class Overview:
    """All that `holdfast checkpoint show` shows."""

    checkpoint: str
    job: str | None
    query_id: str
    used_by: dict[str, object] | None
    """Who has the lock: owner, host, process, since, last sign of life."""
    batch: int | None
    """The micro-batch that offsets and watermark belong to: the one asked for, or the last committed one."""
    is_committed: bool
    batch_time: str | None
    watermark: str | None
    """The watermark that the micro-batch ran with; None if there was none yet."""
    next_watermark: str | None
    """The watermark after it."""
    sources: list[SourceOverview]
    partitions: int | None
    """Partitions of a shuffle, and so of the state."""
    committed: list[int]
    planned: list[int]
    """Planned and not committed: the next start processes them."""
    retained: list[int]
    """Committed micro-batches whose state can be read."""
    steps: list[StepOverview]
    operators: list[OperatorOverview]
    sizes: dict[str, int]
    """Bytes, by kind."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def checkpoint_show(spark: SparkSession | None, checkpoint: str, *, batch: int | None = None) -> Overview:
    """What a checkpoint holds; read-only. `spark` may be None for a local path.

    Raises CheckpointError if the path is not a checkpoint, or has no such micro-batch.
    """
    opened = open_checkpoint(spark, checkpoint)
    planned, committed = opened.planned(), opened.committed()
    shown = _choose(opened, batch, planned, committed)
    offsets = None if shown is None else opened.offsets(shown)
    before = None if shown is None or shown - 1 not in planned else opened.offsets(shown - 1)
    is_committed = shown in committed
    return Overview(
        checkpoint=opened.path,
        job=opened.manifest.get("job"),
        query_id=opened.query_id,
        used_by=_holder(current_lock(spark, opened.path)),
        batch=shown,
        is_committed=is_committed,
        batch_time=None if offsets is None else _time(offsets.timestamp_millis),
        watermark=None if offsets is None else _watermark(offsets.watermark_millis),
        next_watermark=_watermark(opened.next_watermark_millis(shown)) if shown is not None and is_committed else None,
        sources=_sources(() if before is None else before.sources, () if offsets is None else offsets.sources),
        partitions=None if offsets is None else offsets.partitions,
        committed=committed,
        planned=[number for number in planned if not committed or number > committed[-1]],
        retained=opened.retained(),
        steps=_steps(opened),
        operators=[_operator(operator, opened) for operator in opened.operators()],
        sizes=_sizes(opened),
    )


def _choose(opened: Checkpoint, batch: int | None, planned: list[int], committed: list[int]) -> int | None:
    if batch is None:
        return committed[-1] if committed else (planned[-1] if planned else None)
    if batch not in planned:
        raise CheckpointError(
            f"{opened.path!r} has no offsets of micro-batch {batch}; it has {spans(planned)}.",
            todo="choose one of those; older ones are removed over time",
        )
    return batch


def _holder(info: LockInfo | None) -> dict[str, object] | None:
    if info is None:
        return None
    return {
        "owner": info.owner,
        "host": info.process.host,
        "process": info.process.number,
        "since": info.taken_at.isoformat(timespec="seconds"),
        "last_sign_of_life": info.alive_at.isoformat(timespec="seconds"),
    }


def _sources(before: tuple[str | None, ...], after: tuple[str | None, ...]) -> list[SourceOverview]:
    earlier = [*before, *([None] * (len(after) - len(before)))]
    pairs = zip(earlier, after, strict=False)
    return [SourceOverview(number, _parsed(old), _parsed(new)) for number, (old, new) in enumerate(pairs)]


def _parsed(offset: str | None) -> Any:
    """Offsets are usually JSON, but sources may use any format."""
    try:
        return None if offset is None else parse_json(offset)
    except Malformed:
        return offset


def _steps(opened: Checkpoint) -> list[StepOverview]:
    steps = opened.manifest.get("steps", {})
    return [
        StepOverview(
            name,
            step["backend"],
            step["key_groups"],
            [cell["name"] for cell in step["cells"]],
            [timer["name"] for timer in step["timers"]],
        )
        for name, step in sorted(steps.items())
    ]


def _operator(operator: Operator, opened: Checkpoint) -> OperatorOverview:
    steps = opened.manifest.get("steps", {})
    snapshots = [partition.snapshots for partition in operator.partitions]
    changelogs = [partition.changelogs for partition in operator.partitions]
    versions = [version for files in (*snapshots, *changelogs) for version in files]
    tables = sum(file.size for partition in operator.partitions for file in partition.tables.values())
    return OperatorOverview(
        number=operator.number,
        name=operator.name,
        is_a_step=operator.is_a_step,
        steps=sorted(name for name, step in steps.items() if step.get("operator") == operator.number),
        partitions=len(operator.partitions),
        snapshots=_in_all(snapshots),
        changelogs=_in_all(changelogs),
        last_version=max(versions, default=None),
        snapshot_bytes=_bytes(snapshots) + tables,
        changelog_bytes=_bytes(changelogs),
    )


def _in_all(partitions: list[dict[int, FileInfo]]) -> list[int]:
    return sorted(set.intersection(*(set(files) for files in partitions))) if partitions else []


def _bytes(partitions: Iterable[dict[int, FileInfo]]) -> int:
    return sum(file.size for files in partitions for file in files.values())


def _sizes(opened: Checkpoint) -> dict[str, int]:
    """Bytes by folder; state by operator."""
    sizes: dict[str, int] = {}
    for entry in opened.files.entries(opened.path) or ():
        if not entry.is_directory:
            sizes["metadata"] = sizes.get("metadata", 0) + entry.size
        elif entry.name == "state":
            for operator in opened.files.entries(entry.path) or ():
                sizes[join("state", operator.name)] = sum(file.size for file in opened.files.walk(operator.path))
        else:
            sizes[entry.name] = sum(file.size for file in opened.files.walk(entry.path))
    return sizes


def _watermark(millis: int) -> str | None:
    return _time(millis) if millis else None


def _time(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
