"""Reads the blobs of a checkpoint straight from its state store files, without Spark.

Which formats are known is checked first: the settings that each micro-batch records, the operator's own description, then
each file. Anything else raises NeedsSpark, and the caller can let Spark read it.

A running job removes files of old versions while we read, and writes new snapshots. That may change what a version is read
from, but never what it contains; so if a file has gone, the partition is looked at anew. If the version itself has gone, or
all state was replaced meanwhile, an error says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from holdfast.checkpoint.files.choice import FileInfo, join
from holdfast.checkpoint.labels import spark_hash
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.parts import Operator, Partition
from holdfast.checkpoint.store.archive import BLOBS
from holdfast.checkpoint.store.partition import PartitionFiles, Wanted, changed_blobs, read_partition
from holdfast.checkpoint.store.vanishing import Vanished
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.manifest import read_manifest
from holdfast.engine.stored.reading import Blobs
from holdfast.errors import CheckpointError, CorruptState, NeedsSpark

__all__ = ["BlobChange", "BlobReader", "PartitionRead"]

_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    ),
    "spark.sql.streaming.stateStore.encodingFormat": ("unsaferow",),
    "spark.sql.streaming.stateStore.rowChecksum.enabled": ("false",),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": ("1",),
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": ("5",),
}
"""Settings that decide about the format of state, with their known values. A micro-batch that does not record one has the
first."""
_TRIES = 5


class BlobChange(NamedTuple):
    """What a micro-batch did with a blob."""

    batch: int
    change: str
    """ "update" or "delete"."""
    label: int
    name: str
    blob: bytes | None


class PartitionRead(NamedTuple):
    """The key groups of a partition, by label."""

    number: int
    groups: dict[int, Blobs]


class BlobReader:
    """Reads the blobs of a checkpoint. Each call looks at its present files.

    All methods raise CorruptState for damage, naming the file; NeedsSpark for formats that only Spark can read; and
    CheckpointError if the state was removed or replaced while it was read.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def groups(self, operator: int, batch: int, labels: Collection[int] | None = None) -> Iterator[tuple[int, Blobs]]:
        """The key groups of an operator after a micro-batch, by label within each partition; or only those with certain
        labels, for which only their partitions are read."""
        for read in self.partitions(operator, batch, labels):
            yield from sorted(read.groups.items())

    def partitions(
        self, operator: int, batch: int, labels: Collection[int] | None = None, *, numbers: Collection[int] | None = None
    ) -> Iterator[PartitionRead]:
        """Like `groups`, partition by partition; or only the partitions with these numbers."""
        yield from self._read(operator, batch, Wanted.of(labels), numbers)

    def manifests(self, operator: int, batch: int) -> dict[int, dict[str, object]]:
        """The manifest of each key group of an operator after a micro-batch, by label; its other blobs are not looked at."""
        found = {}
        for read in self._read(operator, batch, Wanted.of(names=[MANIFEST]), None):
            for label, blobs in read.groups.items():
                found[label] = read_manifest(blobs.get(MANIFEST) or b"")
        return found

    def changes(self, operator: int, first: int, last: int, labels: Collection[int] | None = None) -> Iterator[BlobChange]:
        """What the micro-batches from first to last changed, by micro-batch and partition, and in order within a key group.

        Raises CheckpointError if one of them has no changelog, as after rescaling.
        """
        wanted = Wanted.of(labels)
        here = self._operator(operator)
        for batch in range(first, last + 1):
            self.check_format(here, batch)
            for number, stores in self._chosen(here, batch, labels, None).items():
                changelog = _only(stores, here, number).changelogs.get(batch + 1)
                if changelog is None:
                    raise self._without_changes(here, number, batch)
                try:
                    edits = changed_blobs(self._checkpoint.files, changelog, wanted)
                except Vanished:
                    raise self._gone(batch) from None
                for label, name, blob in edits:
                    yield BlobChange(batch, "delete" if blob is None else "update", label, name, blob)

    def runs(self, operator: int, batches: Sequence[int]) -> list[list[int]]:
        """Micro-batches, in order, divided where the changes of one, applied to the state before it, do not give the state
        after it: a partition has no changelog of it, or their number is another."""
        here = self._operator(operator)
        found: list[list[int]] = []
        for batch in batches:
            if found and found[-1][-1] == batch - 1 and self._has_changes(here, batch):
                found[-1].append(batch)
            else:
                found.append([batch])
        return found

    def _has_changes(self, operator: Operator, batch: int) -> bool:
        stores = self._checkpoint.partitions_at(operator, batch)
        if batch > 0 and len(self._checkpoint.partitions_at(operator, batch - 1)) != len(stores):
            return False
        return all(store.changelogs.get(batch + 1) for found in stores.values() for store in found)

    def check_format(self, operator: Operator, batch: int) -> None:
        """Raises NeedsSpark unless the format of an operator's state after a micro-batch is known."""
        variables = {variable.name: variable for variable in operator.properties.variables}
        blobs = variables.get(BLOBS)
        if blobs is None or not operator.is_a_step or blobs.expires or blobs.kind != "MapState":
            raise NeedsSpark(f"The operator {operator.path!r} keeps its state in an unknown format.")
        settings = self._checkpoint.offsets(batch).settings
        for name, known in _SETTINGS.items():
            value = settings.get(name, known[0])
            if value not in known:
                raise NeedsSpark(f"The state after micro-batch {batch} has the format {name}={value!r:.100}.")

    def sources(self, operator: int, batch: int) -> dict[int, PartitionFiles]:
        """What each partition of an operator is read from after a micro-batch."""
        here = self._operator(operator)
        self.check_format(here, batch)
        stores = self._checkpoint.partitions_at(here, batch)
        return {number: self._source(here, number, found, batch) for number, found in stores.items()}

    def partition_of(self, operator: int, batch: int, label: int) -> int:
        """The partition that has a key group after a micro-batch."""
        return int(spark_hash(label) % len(self._checkpoint.partitions_at(self._operator(operator), batch)))

    def _read(self, operator: int, batch: int, wanted: Wanted, numbers: Collection[int] | None) -> Iterator[PartitionRead]:
        before = self._state_folder()
        here = self._operator(operator)
        self.check_format(here, batch)
        for number in self._chosen(here, batch, wanted.labels, numbers):
            found = self._partition(here, number, batch, wanted)
            if self._state_folder() != before:
                raise CheckpointError(
                    f"The state of {self._checkpoint.path!r} was replaced while it was read.", todo="try again"
                )
            yield PartitionRead(number, {label: Blobs(blobs) for label, blobs in found.items()})

    def _chosen(
        self, operator: Operator, batch: int, labels: Collection[int] | None, numbers: Collection[int] | None
    ) -> dict[int, list[Partition]]:
        """The partitions to read: those that have the labels."""
        stores = self._checkpoint.partitions_at(operator, batch)
        if labels is not None:
            numbers = {spark_hash(label) % len(stores) for label in labels}
        return {number: found for number, found in stores.items() if numbers is None or number in numbers}

    def _partition(self, operator: Operator, number: int, batch: int, wanted: Wanted) -> dict[int, dict[str, bytes]]:
        for attempt in range(_TRIES):
            here = operator if attempt == 0 else self._operator(operator.number)
            stores = self._checkpoint.partitions_at(here, batch)
            source = self._source(here, number, stores.get(number, []), batch)
            try:
                return read_partition(self._checkpoint.files, source, wanted)
            except Vanished as vanished:
                last = vanished
        if batch not in self._checkpoint.retained():
            raise self._gone(batch)
        raise last

    def _source(self, operator: Operator, number: int, stores: list[Partition], batch: int) -> PartitionFiles:
        store = _only(stores, operator, number)
        chain = store.chain(batch + 1)
        if chain is None:
            if batch not in self._checkpoint.retained():
                raise self._gone(batch)
            raise CorruptState(
                f"The state after micro-batch {batch} cannot be read: {store.missing(batch + 1)[0]!r} is missing."
            )
        base = store.base(batch + 1)
        snapshot: FileInfo | None = chain[0] if base else None
        return PartitionFiles(store.path, snapshot, tuple(chain[1:] if base else chain))

    def _operator(self, number: int) -> Operator:
        found = self._checkpoint.operator(number)
        if found is None:
            path = join(self._checkpoint.path, "state", str(number))
            raise CheckpointError(f"There is no operator at {path!r}.", todo="give the number of one that exists")
        return found

    def _state_folder(self) -> tuple[object, ...]:
        """Another one after the state was replaced: then this folder is a new one. An object store has no times of folders,
        but of the operators' descriptions, which are new files then."""
        files, path = self._checkpoint.files, join(self._checkpoint.path, "state")
        info = files.info(path)
        if info is None or info.modified_seconds:
            return () if info is None else (info.modified_seconds,)
        operators = [entry.path for entry in files.entries(path) or () if entry.is_directory]
        described = [below for operator in operators for below in files.walk(join(operator, "_metadata"))]
        return tuple((below.path, below.size, below.modified_seconds) for below in described)

    def _gone(self, batch: int) -> CheckpointError:
        return CheckpointError(
            f"The state after micro-batch {batch} was removed while it was read: the job is running.",
            todo="read that of a later micro-batch; hf.Job(retained_batches=...) says how many are kept",
        )

    def _without_changes(self, operator: Operator, number: int, batch: int) -> CheckpointError:
        path = join(operator.path, str(number), f"{batch + 1}.changelog")
        return CheckpointError(f"What micro-batch {batch} changed is not known: there is no {path!r}.")


def _only(stores: list[Partition], operator: Operator, number: int) -> Partition:
    """The store of a partition; a step has one."""
    if not stores:
        raise CorruptState(f"{join(operator.path, str(number))!r} is missing.")
    if len(stores) > 1:
        raise NeedsSpark(f"{join(operator.path, str(number))!r} has several state stores.")
    return stores[0]
