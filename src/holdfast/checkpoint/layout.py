"""The layout of Spark's checkpoint directory, as far as it has to be known, in one place.

    metadata                          {"id": the query's id}
    offsets/<batch>                   where each source was at the end of a micro-batch, written before it is run
    commits/<batch>                   that it was committed
    sources/<n>/...                   what a source remembers by itself
    state/<operator>/_metadata/v2/<batch>, _stateSchema/...
    state/<operator>/<partition>/     RocksDB: <version>.zip is a snapshot, which names files in SSTs/;
                                      <version>.changelog is what one micro-batch changed
    holdfast/manifest.json            ours: the steps

Micro-batch N leaves the state in version N + 1. A version can be read if there is a snapshot of it or before it, or none at
all, and every changelog from there on.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import FileInfo, Files, files_of, join
from holdfast.checkpoint.placement import is_a_step
from holdfast.checkpoint.query_files import (
    COPY,
    FOREIGN,
    METADATA_VERSION,
    SHUFFLE_PARTITIONS,
    Commit,
    OffsetsHead,
    OperatorMetadata,
    OperatorProperties,
    QueryMetadata,
    in_form,
    log_lines,
    number_of,
    schema_name,
    snapshot_tables,
)
from holdfast.checkpoint.replacement import interrupted
from holdfast.engine.stored.documents import Malformed, check_form, parse_json, read_document
from holdfast.engine.stored.manifest import checked_manifest
from holdfast.engine.stored.manifest_form import JobForm
from holdfast.errors import CheckpointError, CorruptState

__all__ = [
    "SHUFFLE_PARTITIONS",
    "Checkpoint",
    "Offsets",
    "Operator",
    "Partition",
    "find_checkpoint",
    "open_checkpoint",
    "spans",
]

_MANIFEST_VERSION = 1
_STATE_FILE = re.compile(r"([0-9]{1,18})\.(zip|changelog)")
_UNKNOWN = "?"
_TRIES = 5


@dataclass(frozen=True)
class Offsets:
    """Where a micro-batch ended, and by which clocks it ran."""

    batch: int
    watermark_millis: int
    timestamp_millis: int
    settings: dict[str, str]
    sources: tuple[str | None, ...]
    """For each source what it says of itself, or nothing."""
    partitions: int | None = None
    """Of a shuffle, and so of the state, if the micro-batch says so."""


@dataclass
class Partition:
    """The state files of one partition of an operator; of an operator with several stores, those of one store."""

    number: int
    path: str
    snapshots: dict[int, FileInfo] = field(default_factory=dict)
    """By version."""
    changelogs: dict[int, FileInfo] = field(default_factory=dict)
    tables: dict[str, FileInfo] = field(default_factory=dict)
    """The files that snapshots name, by name."""

    def chain(self, version: int) -> list[FileInfo] | None:
        """The snapshot and changelogs by which a version is read; None if it cannot be read any more."""
        base = self.base(version)
        if version - base > len(self.changelogs):
            return None
        steps = [self.changelogs.get(v) for v in range(base + 1, version + 1)]
        if None in steps:
            return None
        start = [self.snapshots[base]] if base else []
        return start + [step for step in steps if step is not None]

    def base(self, version: int) -> int:
        """The snapshot from which a version is read; 0 if from the beginning."""
        return max((v for v in self.snapshots if v <= version), default=0)

    def missing(self, version: int) -> list[str]:
        """The paths of what is not there, and by which a version would be read."""
        base = self.base(version)
        # Not more than there can be: of a version that is far off, the first that is missing says enough.
        last = min(version, base + 1 + len(self.changelogs))
        gone = [v for v in range(base + 1, last + 1) if v not in self.changelogs]
        # Changelogs that begin late go on from a snapshot: of all that could be before them, that must have been there.
        late = 0 if base else min((v for v in self.changelogs if v <= version), default=version + 1) - 1
        begun = [f"{late}.zip"] if late > 1 else [f"{v}.changelog" for v in gone if v <= late]
        return [join(self.path, name) for name in (*begun, *(f"{v}.changelog" for v in gone if v > late))]

    @property
    def newest(self) -> int:
        """The highest version that there is a file of; 0 if there is none."""
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
    """All that there are files of, also those that are no longer, or were not yet, in use."""
    counts: dict[int, int] = field(default_factory=dict)
    """How many partitions there are, by the micro-batch from which on; empty if the operator does not record it."""

    def count_at(self, batch: int) -> int | None:
        """How many partitions have the state after a micro-batch, as far as the operator records it."""
        known = [number for number in self.counts if number <= batch]
        return self.counts[max(known)] if known else None

    @property
    def is_described(self) -> bool:
        """Whether it says anything of itself: `_metadata` is there."""
        return self.name != _UNKNOWN

    @property
    def is_a_step(self) -> bool:
        """Whether this is one of Holdfast's, by what it keeps."""
        return is_a_step(self.name, self.properties)


class Checkpoint:
    """A checkpoint directory, as it is at the moment of each call."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path

    @cached_property
    def query_id(self) -> str:
        data = self._read("metadata")
        with in_form(join(self.path, "metadata"), COPY):
            return read_document(data, QueryMetadata).id

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the job wrote beside Spark's files: its name, and its steps by name; empty without a job."""
        data = self.files.read(join(self.path, "holdfast", "manifest.json"))
        if data is None:
            return {}
        path = join(self.path, "holdfast", "manifest.json")
        with in_form(path, COPY):
            manifest = _manifest(data)
        if manifest.get("manifest_version") != _MANIFEST_VERSION:
            raise CheckpointError(
                f"The manifest of {self.path!r} has version {manifest.get('manifest_version')!r:.40}; this Holdfast knows "
                f"version {_MANIFEST_VERSION}.",
                todo=FOREIGN,
            )
        return manifest

    def planned(self) -> list[int]:
        """The micro-batches whose offsets are written."""
        return self.numbers("offsets")

    def committed(self) -> list[int]:
        """The micro-batches that are committed, the last one last."""
        return sorted(set(self.numbers("commits")) & set(self.planned()))

    def offsets(self, batch: int) -> Offsets:
        path = join(self.path, "offsets", str(batch))
        first, *rest = log_lines(self._read("offsets", str(batch)), path)
        sources = tuple(None if line == "-" else line for line in rest)
        with in_form(path):
            head = read_document(first, OffsetsHead)
            return Offsets(batch, head.watermark, head.timestamp, head.conf, sources, head.partitions)

    def changes_partitions(self, batch: int) -> bool:
        """Whether a planned micro-batch has no input, and only changes the number of partitions."""
        counts = {self.offsets(number).settings.get(SHUFFLE_PARTITIONS) for number in (batch - 1, batch)}
        return len(counts) > 1

    def next_watermark_millis(self, batch: int) -> int:
        """The watermark that holds after a micro-batch."""
        path = join(self.path, "commits", str(batch))
        lines = log_lines(self._read("commits", str(batch)), path)
        with in_form(path):
            return read_document(lines[0], Commit).watermark

    def operators(self) -> list[Operator]:
        """All stateful operators, with the files that they have now."""
        entries = self.files.entries(join(self.path, "state")) or []
        numbers = [number_of(entry.name) for entry in entries if entry.is_directory]
        return [self._operator(number) for number in numbers if number is not None]

    def partitions_at(self, operator: Operator, batch: int) -> dict[int, list[Partition]]:
        """By number, the partitions that have the state after a micro-batch; with nothing for one that is missing.

        The number of partitions can be changed, and the files of older micro-batches stay as they were.
        """
        count = operator.count_at(batch)
        if count is None:
            everything = 1 + max((partition.number for partition in operator.partitions), default=-1)
            count = self.offsets(batch).partitions or everything
        found: dict[int, list[Partition]] = {number: [] for number in range(count)}
        for partition in operator.partitions:
            if partition.number < count:
                found[partition.number].append(partition)
        return found

    def retained(self) -> list[int]:
        """The committed micro-batches whose state can be read."""
        return [batch for batch, missing in self.missing_state().items() if not missing]

    def missing_state(self) -> dict[int, list[str]]:
        """By committed micro-batch, the paths of what its state would be read from and that is not there.

        A job that runs writes state before it commits; so commits are looked at first.
        """
        committed = self.committed()
        operators = self.operators()
        gone = self.missing_operators(operators) if committed else []
        return {batch: [*gone, *self._missing_at(operators, batch)] for batch in committed}

    def missing_operators(self, operators: list[Operator]) -> list[str]:
        """The paths of operators that must be there after a commit and are not: by the manifest's steps, and by numbers."""
        folder = join(self.path, "state")
        numbers = {operator.number for operator in operators}
        gone = [join(folder, str(number)) for number in range(max(numbers, default=0)) if number not in numbers]
        gone += [join(operator.path, "_metadata") for operator in operators if not operator.is_described]
        wanted = self._step_count() - sum(operator.is_a_step for operator in operators) - len(gone)
        if wanted > 0 and not numbers:
            return [folder]
        return gone + [join(folder, str(max(numbers) + more)) for more in range(1, wanted + 1)]

    def _step_count(self) -> int:
        with contextlib.suppress(CorruptState):
            return len(self.manifest.get("steps", {}))
        # Whoever opens the checkpoint is told that the manifest is damaged.
        return 0

    def check_batch(self, batch: int | None) -> int:
        """A micro-batch whose state can be read: the one that is asked for, or the last that is committed.

        Raises CorruptState, with what is missing, if its state should be there and is not: no older one is given instead.
        """
        missing = self._settled_state()
        retained = [number for number, files in missing.items() if not files]
        if not missing:
            raise CheckpointError(
                f"{self.path!r} has no micro-batch whose state can be read: nothing has been committed.",
                todo="let the job commit a micro-batch",
            )
        wanted = max(missing) if batch is None else batch
        if wanted in missing and missing[wanted] and (not retained or wanted > retained[0]):
            raise self._lost(wanted, missing[wanted], retained)
        if wanted not in retained:
            raise CheckpointError(
                f"The state after micro-batch {wanted} is not in {self.path!r}: {spans(retained)} are.",
                todo="choose one of those; hf.Job(retained_batches=...) says how many are kept",
            )
        return wanted

    def check_history(self) -> list[int]:
        """All retained micro-batches. Raises CorruptState if one that was committed among them cannot be read."""
        missing = self._settled_state()
        retained = [number for number, files in missing.items() if not files]
        for batch, files in missing.items():
            if files and (not retained or batch > retained[0]):
                raise self._lost(batch, files, retained)
        return retained

    def _settled_state(self) -> dict[int, list[str]]:
        """What is missing; looked at again if a job that runs may have removed it meanwhile, because it has gone on."""
        for _ in range(_TRIES):
            missing = self.missing_state()
            if not any(missing.values()) or self.committed() == list(missing):
                break
        return missing

    def _lost(self, batch: int, missing: list[str], retained: list[int]) -> CorruptState:
        others = f"; or take an earlier one, {spans(retained)} can be read: --batch {retained[-1]}" if retained else ""
        return CorruptState(
            f"The state after micro-batch {batch} of {self.path!r} cannot be read: {missing[0]!r} is missing.",
            detail="\n".join(f"- {path}" for path in missing[1:]),
            todo=f"see what is whole: holdfast checkpoint verify {self.path}{others}",
        )

    def _missing_at(self, operators: list[Operator], batch: int) -> list[str]:
        return [path for operator in operators for path in self._missing_of(operator, batch)]

    def _missing_of(self, operator: Operator, batch: int) -> list[str]:
        missing: list[str] = []
        for number, stores in self.partitions_at(operator, batch).items():
            missing += [path for store in stores for path in store.missing(batch + 1)]
            if not stores:
                missing.append(join(operator.path, str(number)))
        return missing

    def can_read(self, operator: Operator, batch: int) -> bool:
        """Whether all that the state of an operator after a micro-batch is read from is there."""
        return not self._missing_of(operator, batch)

    def table_names(self, snapshot: FileInfo) -> dict[str, int]:
        """The files that a snapshot names, with their sizes."""
        return snapshot_tables(self.files.read(snapshot.path) or b"", snapshot.path)

    def _operator(self, number: int) -> Operator:
        path = join(self.path, "state", str(number))
        versions = self.operator_metadata(number)
        name, properties = _UNKNOWN, OperatorProperties()
        with in_form(join(path, "_metadata")):
            forms = {batch: check_form(content, OperatorMetadata) for batch, content in versions.items()}
            metadata = forms[max(forms)] if forms else self._older_metadata(path)
            if metadata is not None:
                name, properties = metadata.info.name, metadata.read_properties()
        counts = {batch: form.stores[0].partitions for batch, form in forms.items()}
        return Operator(number, name, path, properties, tuple(self._all_partitions(path)), counts)

    def _all_partitions(self, path: str) -> list[Partition]:
        partitions = []
        for entry in self.files.entries(path) or ():
            number = number_of(entry.name)
            if entry.is_directory and number is not None:
                partitions += self._partitions(number, entry.path)
        return sorted(partitions, key=lambda partition: partition.number)

    def operator_metadata(self, number: int) -> dict[int, dict[str, Any]]:
        """What an operator says of itself, by the micro-batch from which on; empty if it is in the older format."""
        folder = join(self.path, "state", str(number), "_metadata", METADATA_VERSION)
        found: dict[int, dict[str, Any]] = {}
        for entry in self.files.entries(folder) or ():
            batch = number_of(entry.name)
            if batch is not None:
                line = log_lines(self.files.read(entry.path) or b"", entry.path, (METADATA_VERSION,))[0]
                with in_form(entry.path):
                    found[batch] = _described(line)
        return found

    def schema_paths(self, number: int, batch: int) -> list[str]:
        """Where the schemas are without which the state of an operator after a micro-batch cannot be read.

        The metadata names them by whole paths, of where the checkpoint was when they were written.
        """
        folder = join(self.path, "state", str(number), "_stateSchema")
        versions = {n: content for n, content in self.operator_metadata(number).items() if n <= batch}
        if not versions:
            return []
        path = join(self.path, "state", str(number), "_metadata")
        with in_form(path):
            stores = check_form(versions[max(versions)], OperatorMetadata).stores
        return [join(folder, schema_name(path, written)) for store in stores for written in store.schemas]

    def write_operator_metadata(self, number: int, batch: int, content: Mapping[str, object]) -> None:
        path = join(self.path, "state", str(number), "_metadata", METADATA_VERSION, str(batch))
        self.files.write(path, f"{METADATA_VERSION}\n{json.dumps(content, separators=(',', ':'))}".encode())

    def write_partition_count(self, batch: int, partitions: int) -> None:
        """Changes by how many partitions a micro-batch says it ran."""
        path = join(self.path, "offsets", str(batch))
        self.offsets(batch)
        version, head, *sources = self._read("offsets", str(batch)).decode("utf-8", "replace").split("\n")
        with in_form(path):
            content = parse_json(head)
        content.setdefault("conf", {})[SHUFFLE_PARTITIONS] = str(partitions)
        changed = json.dumps(content, separators=(",", ":"))
        self.files.write(path, "\n".join([version, changed, *sources]).encode())

    def _older_metadata(self, path: str) -> OperatorMetadata | None:
        """Of an operator of Spark's own."""
        file = join(path, "_metadata", "metadata")
        data = self.files.read(file)
        if data is None:
            return None
        line = log_lines(data, file, ("v1", "v2"))[0]
        with in_form(file):
            return read_document(line, OperatorMetadata)

    def _partitions(self, number: int, path: str) -> list[Partition]:
        """The stores of a partition: one, or several in directories below, as Spark's own joins have."""
        below = [e for e in self.files.entries(path) or () if e.is_directory and e.name not in ("SSTs", "_metadata")]
        return [self._partition(number, entry.path) for entry in below] or [self._partition(number, path)]

    def _partition(self, number: int, path: str) -> Partition:
        partition = Partition(number, path)
        for entry in self.files.entries(path) or ():
            matched = _STATE_FILE.fullmatch(entry.name)
            if matched:
                kind = partition.snapshots if matched[2] == "zip" else partition.changelogs
                kind[int(matched[1])] = entry
        for entry in self.files.entries(join(path, "SSTs")) or ():
            partition.tables[entry.name] = entry
        return partition

    def numbers(self, folder: str) -> list[int]:
        """Of which micro-batches a log, "offsets" or "commits", has an entry."""
        entries = self.files.entries(join(self.path, folder)) or []
        return sorted(number for entry in entries if (number := number_of(entry.name)) is not None)

    def _read(self, *names: str) -> bytes:
        path = join(self.path, *names)
        data = self.files.read(path)
        if data is None:
            raise CorruptState(f"{path!r} is missing.", todo="go back to an earlier micro-batch, or restore a savepoint")
        return data


def open_checkpoint(spark: SparkSession | None, path: str) -> Checkpoint:
    """The checkpoint at a path. Raises CheckpointError if there is none, none of a known version, or one whose state an
    operation has moved that was not finished."""
    checkpoint = find_checkpoint(spark, path)
    unfinished = interrupted(checkpoint.files, checkpoint.path)
    if unfinished is not None:
        raise CheckpointError(
            f"{unfinished[0].upper()}{unfinished[1:]}.",
            detail=f"The checkpoint is {checkpoint.path!r}.",
            todo=f"finish it or take it back: holdfast checkpoint repair {checkpoint.path}; a start of the job does so, too",
        )
    return checkpoint


def find_checkpoint(spark: SparkSession | None, path: str) -> Checkpoint:
    """The checkpoint at a path, for who finishes what was interrupted. Raises CheckpointError if there is none, or none of a
    known version."""
    files = files_of(spark, path)
    path = path.rstrip("/")
    if files.info(path) is None:
        raise CheckpointError(f"There is nothing at {path!r}.", todo="give the directory that the job has as its checkpoint")
    if files.info(join(path, "metadata")) is None or files.entries(join(path, "offsets")) is None:
        raise CheckpointError(
            f"{path!r} is not a checkpoint of a streaming query: it has no 'metadata' and 'offsets'.",
            todo="give the directory that the job has as its checkpoint",
        )
    checkpoint = Checkpoint(files, path)
    _ = checkpoint.query_id, checkpoint.manifest
    return checkpoint


def spans(numbers: list[int]) -> str:
    """Numbers in few words: 3 to 7, 9."""
    return ", ".join(f"{a} to {b}" if a != b else str(a) for a, b in _runs(numbers)) or "none"


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    start = None
    for place, here in enumerate(numbers):
        after = numbers[place + 1] if place + 1 < len(numbers) else None
        start = here if start is None else start
        if after != here + 1:
            yield start, here
            start = None


def _described(line: str) -> dict[str, Any]:
    """The metadata of an operator, to be changed and written again."""
    content: dict[str, Any] = parse_json(line)
    check_form(content, OperatorMetadata)
    return content


def _manifest(data: bytes) -> dict[str, Any]:
    """What a job has written, of whatever version."""
    content: dict[str, Any] = parse_json(data, infinite=True)
    if isinstance(content, dict) and content.get("manifest_version") == _MANIFEST_VERSION:
        check_form(content, JobForm)
        for step in content.get("steps", {}).values():
            checked_manifest(step)
    elif not isinstance(content, dict):
        raise Malformed("it is not a manifest at all")
    return content
