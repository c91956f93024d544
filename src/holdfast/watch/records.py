"""The records of a job's history: one for each micro-batch, and one for each event in the life of its queries.

All times are milliseconds since 1970 and all durations milliseconds, unless the name says otherwise. Records are plain
values, so that a reader needs neither Spark nor the job's code. Texts that come from users (keys, errors) are made visible
and cut when a record is made.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

__all__ = [
    "BatchRecord",
    "EventRecord",
    "GroupsRecord",
    "KeyCount",
    "OperatorRecord",
    "Record",
    "SourceRecord",
    "StepRecord",
    "WorkerRecord",
]

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Label = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class KeyCount(msgspec.Struct, frozen=True, array_like=True):
    """A key, as text, with its elements or bytes."""

    key: str
    count: Number


class GroupsRecord(msgspec.Struct, frozen=True):
    """The key groups of a step that have ever been seen, as columns of equal length, by ascending label."""

    labels: list[Label] = []
    elements: list[Number] = []
    """Elements that came in this micro-batch."""
    keys: list[Number] = []
    """Keys that have state after it."""
    bytes: list[Number] = []
    """Size of the stored log after it."""
    timers: list[Number] = []
    windows: list[Number] = []


class StepRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a step did in one micro-batch, and what it holds after it."""

    key_groups: Number = 0
    """How many there are; those that no element has come to are not in `groups`."""
    partial: bool = False
    """Whether what it holds is more than is said here: the job went on from a checkpoint without a history, and has not seen
    all of its key groups since; or its backend does not say."""
    counters: dict[str, Number] = {}
    """By the names of `StepMetrics` (engine/metrics/step.py): elements, late, timers_fired, commit_micros, and so on. Those
    that are 0 are left out."""
    user: dict[str, int | float] = {}
    """What the function itself counted in this micro-batch, by the names of its counters."""
    gauges: dict[str, int | float] = {}
    distributions: dict[str, tuple[int, int | float, int | float, int | float]] = {}
    """Count, sum, least and greatest value of each of its distributions, in this micro-batch."""
    keys: Number = 0
    state_bytes: Number = 0
    timers: Number = 0
    """Timers that are set."""
    windows: Number = 0
    """Open windows of the key group that has most."""
    groups: GroupsRecord = GroupsRecord()
    hot: list[KeyCount] = []
    """The keys with the most elements in this micro-batch, at most 20."""
    heavy: list[KeyCount] = []
    """The keys with the most bytes of those that were measured, at most 20."""


class OperatorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Spark reports of one of its stateful operators."""

    rows: Number = 0
    memory_bytes: Number = 0
    disk_bytes: Number = 0
    """Size of RocksDB's files."""
    update_ms: Number = 0
    """Summed over all partitions, as are the other times."""
    remove_ms: Number = 0
    commit_ms: Number = 0
    partitions: Number = 1


class SourceRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One source of the query, by Spark's description."""

    name: str
    rows: Number = 0
    lag: Number | None = None
    """Records that were there and not read yet; None if the source does not say."""


class WorkerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Python process that ran bundles in this micro-batch."""

    host: str
    pid: Number
    memory_bytes: Number = 0
    """Its resident memory."""
    kept_bytes: Number = 0
    """State that it keeps between micro-batches, of all steps."""


class BatchRecord(msgspec.Struct, frozen=True, omit_defaults=True, tag="batch", tag_field="kind"):
    """A micro-batch that was committed."""

    batch: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    at_ms: Number
    """When it began."""
    run: str = ""
    """Which run of the query did it: another after each start."""
    duration_ms: Number = 0
    phases_ms: dict[str, Number] = {}
    """By Spark's names: latestOffset, getBatch, queryPlanning, walCommit, addBatch, commitOffsets, commitBatch; and `pause`,
    for which the job let it wait, which is no part of its duration."""
    interval_ms: Number | None = None
    """The interval of the job's trigger; None if it has none."""
    rows: Number = 0
    watermark_ms: Number | None = None
    event_ms_max: Number | None = None
    """The latest event time among its rows."""
    sources: list[SourceRecord] = []
    operators: list[OperatorRecord] = []
    workers: list[WorkerRecord] = []
    steps: dict[str, StepRecord] = {}


class EventRecord(msgspec.Struct, frozen=True, omit_defaults=True, tag="event", tag_field="kind"):
    """Something that happened to the job itself."""

    event: Literal["started", "failed", "stopped"]
    at_ms: Number
    run: str = ""
    batch: Number | None = None
    """The last committed micro-batch, if there is one; for `started`, the one that it goes on from."""
    job: str = ""
    text: str = ""
    """Of a failure: what failed, in a line or two."""


Record = BatchRecord | EventRecord
