"""The parts of a checkpoint: where micro-batches ended, stateful operators, and the partitions of their state."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.checkpoint.files.choice import FileInfo, join
from holdfast.checkpoint.placement import is_a_step
from holdfast.checkpoint.query_files import OperatorProperties

__all__ = ["UNKNOWN", "Offsets", "Operator", "Partition"]

UNKNOWN = "?"
"""The name of an operator without a description."""


@dataclass(frozen=True)
class Offsets:
    """Where a micro-batch ended, and by which clocks it ran."""

    batch: int
    watermark_millis: int
    timestamp_millis: int
    settings: dict[str, str]
    sources: tuple[str | None, ...]
    """Each source's own offset, or nothing."""
    partitions: int | None = None
    """Partitions of a shuffle, and so of the state, if the micro-batch records them."""


@dataclass
class Partition:
    """The state files of one partition of an operator; for an operator with several stores, those of one store."""

    number: int
    path: str
    snapshots: dict[int, FileInfo] = field(default_factory=dict)
    """By version."""
    changelogs: dict[int, FileInfo] = field(default_factory=dict)
    tables: dict[str, FileInfo] = field(default_factory=dict)
    """The files that snapshots name, by name."""

    def chain(self, version: int) -> list[FileInfo] | None:
        """The snapshot and changelogs from which a version is read; None if it can no longer be read."""
        base = self.base(version)
        if version - base > len(self.changelogs):
            return None
        steps = [self.changelogs.get(v) for v in range(base + 1, version + 1)]
        if None in steps:
            return None
        start = [self.snapshots[base]] if base else []
        return start + [step for step in steps if step is not None]

    def base(self, version: int) -> int:
        """The snapshot that a version is read from; 0 if from the beginning."""
        return max((v for v in self.snapshots if v <= version), default=0)

    def missing(self, version: int) -> list[str]:
        """The paths of missing files from which a version would be read."""
        base = self.base(version)
        # Bounded: for a version far away, the first missing file says enough.
        last = min(version, base + 1 + len(self.changelogs))
        gone = [v for v in range(base + 1, last + 1) if v not in self.changelogs]
        # Changelogs that start late follow a snapshot, so that must have existed.
        late = 0 if base else min((v for v in self.changelogs if v <= version), default=version + 1) - 1
        begun = [f"{late}.zip"] if late > 1 else [f"{v}.changelog" for v in gone if v <= late]
        return [join(self.path, name) for name in (*begun, *(f"{v}.changelog" for v in gone if v > late))]

    @property
    def newest(self) -> int:
        """The highest version with a file; 0 if there is none."""
        return max((*self.snapshots, *self.changelogs), default=0)

    @property
    def size(self) -> int:
        return sum(file.size for kind in (self.snapshots, self.changelogs, self.tables) for file in kind.values())


@dataclass(frozen=True)
class Operator:
    """A stateful operator of the query."""

    number: int
    name: str
    path: str
    properties: OperatorProperties
    partitions: tuple[Partition, ...]
    """All that have files, even if they are not yet or no longer in use."""
    counts: dict[int, int] = field(default_factory=dict)
    """The number of partitions, by the micro-batch from which it applies; empty if the operator does not record it."""

    def count_at(self, batch: int) -> int | None:
        """How many partitions hold the state after a micro-batch, if the operator records it."""
        known = [number for number in self.counts if number <= batch]
        return self.counts[max(known)] if known else None

    @property
    def is_described(self) -> bool:
        """Whether it has a description: `_metadata` exists."""
        return self.name != UNKNOWN

    @property
    def is_a_step(self) -> bool:
        """Whether this is one of Holdfast's steps, judging by its state."""
        return is_a_step(self.name, self.properties)
