"""The layout of Spark's checkpoint directory, as far as we need it.

    metadata                          {"id": the query's id}
    offsets/<batch>                   where each source is at the end of a micro-batch, written before it runs
    commits/<batch>                   says that it was committed
    sources/<n>/...                   what a source remembers by itself
    state/<operator>/_metadata/v2/<batch>, _stateSchema/...
    state/<operator>/<partition>/     RocksDB: <version>.zip is a snapshot, which names files in SSTs/;
                                      <version>.changelog is what one micro-batch changed
    holdfast/manifest.json            ours: the steps

Micro-batch N leaves the state in version N + 1. A version can be read if there is a snapshot of it or an earlier one, or no
snapshot at all, and every changelog from there on.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.checkpoint.files.choice import FileInfo, Files, files_of, join
from holdfast.checkpoint.parts import UNKNOWN, Offsets, Operator, Partition
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
)
from holdfast.checkpoint.replacement import interrupted
from holdfast.checkpoint.step_operators import step_operators
from holdfast.checkpoint.store.archive import snapshot_tables
from holdfast.engine.stored.documents import Malformed, check_form, parse_json, read_document
from holdfast.engine.stored.manifest import checked_manifest
from holdfast.engine.stored.manifest_form import JobForm
from holdfast.errors import CheckpointError, CorruptState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "SHUFFLE_PARTITIONS",
    "Checkpoint",
    "find_checkpoint",
    "last_committed",
    "metadata_bytes",
    "open_checkpoint",
    "spans",
]

_MANIFEST_VERSION = 1
_STATE_FILE = re.compile(r"([0-9]{1,18})\.(zip|changelog)")
_OTHER_FORMAT = re.compile(r"[0-9]{1,18}_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.(?:zip|changelog)")
"""The names of state files in the format 2, in which a version has a file for each attempt. No setting is recorded."""
_TRIES = 5


class Checkpoint:
    """A checkpoint directory; each call sees its present content."""

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
        """The committed micro-batches, in order."""
        return sorted(set(self.numbers("commits")) & set(self.planned()))

    def offsets(self, batch: int) -> Offsets:
        path = join(self.path, "offsets", str(batch))
        first, *rest = log_lines(self._read("offsets", str(batch)), path)
        sources = tuple(None if line == "-" else line for line in rest)
        with in_form(path):
            head = read_document(first, OffsetsHead)
            return Offsets(batch, head.watermark, head.timestamp, head.conf, sources, head.partitions)

    def changes_partitions(self, batch: int) -> bool:
        """Whether a planned micro-batch has no input and only changes the number of partitions."""
        counts = {self.offsets(number).settings.get(SHUFFLE_PARTITIONS) for number in (batch - 1, batch)}
        return len(counts) > 1

    def next_watermark_millis(self, batch: int) -> int:
        """The watermark after a micro-batch."""
        path = join(self.path, "commits", str(batch))
        lines = log_lines(self._read("commits", str(batch)), path)
        with in_form(path):
            return read_document(lines[0], Commit).watermark

    def operators(self) -> list[Operator]:
        """All stateful operators, with their present files."""
        entries = self.files.entries(join(self.path, "state")) or []
        numbers = [number_of(entry.name) for entry in entries if entry.is_directory]
        return [self._operator(number) for number in numbers if number is not None]

    def operator(self, number: int) -> Operator | None:
        """One stateful operator, with its present files; None if there is none with this number."""
        return None if self.files.info(join(self.path, "state", str(number))) is None else self._operator(number)

    def partitions_at(self, operator: Operator, batch: int) -> dict[int, list[Partition]]:
        """By number, the partitions that hold the state after a micro-batch; an empty list for a missing one.

        The number of partitions can change, and files of older micro-batches stay as they were.
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
        """By committed micro-batch, the paths of missing files that its state would be read from.

        A running job writes state before it commits, so commits are listed first.
        """
        committed = self.committed()
        operators = self.operators()
        gone = self.missing_operators(operators) if committed else []
        return {batch: [*gone, *self._missing_at(operators, batch)] for batch in committed}

    def missing_operators(self, operators: list[Operator]) -> list[str]:
        """The paths of operators that are missing after a commit, judging by the manifest's steps and by their numbers."""
        folder = join(self.path, "state")
        numbers = {operator.number for operator in operators}
        of_steps = self._step_operators()
        if of_steps and not numbers:
            return [folder]
        last = max(numbers | of_steps, default=-1)
        gone = [join(folder, str(number)) for number in range(last + 1) if number not in numbers]
        gone += [join(operator.path, "_metadata") for operator in operators if not operator.is_described]
        wanted = len(of_steps) - sum(operator.is_a_step for operator in operators) - len(gone)
        return gone + [join(folder, str(last + more)) for more in range(1, wanted + 1)]

    def _step_operators(self) -> set[int]:
        with contextlib.suppress(CorruptState):
            return step_operators(self.manifest.get("steps", {}))
        # Opening the checkpoint reports the damaged manifest.
        return set()

    def check_batch(self, batch: int | None) -> int:
        """A micro-batch whose state can be read: the one asked for, or the last committed one.

        If its state should exist but does not, raises CorruptState that names what is missing; never falls back to an
        older one.
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
                f"The state after micro-batch {wanted} is not in {self.path!r}; it has {spans(retained)}.",
                todo="choose one of those; hf.Job(retained_batches=...) says how many are kept",
            )
        return wanted

    def check_history(self) -> list[int]:
        """All retained micro-batches. Raises CorruptState if a committed one among them cannot be read."""
        missing = self._settled_state()
        retained = [number for number, files in missing.items() if not files]
        for batch, files in missing.items():
            if files and (not retained or batch > retained[0]):
                raise self._lost(batch, files, retained)
        return retained

    def _settled_state(self) -> dict[int, list[str]]:
        """What is missing; checked again if a running job may have removed it meanwhile."""
        for _ in range(_TRIES):
            missing = self.missing_state()
            if not any(missing.values()) or self.committed() == list(missing):
                break
        return missing

    def _lost(self, batch: int, missing: list[str], retained: list[int]) -> CorruptState:
        others = f"; or choose an earlier one ({spans(retained)} can be read): --batch {retained[-1]}" if retained else ""
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
        """Whether all files exist from which an operator's state after a micro-batch is read."""
        return not self._missing_of(operator, batch)

    def table_names(self, snapshot: FileInfo) -> dict[str, int]:
        """The files that a snapshot names, with their sizes."""
        return snapshot_tables(self.files.read(snapshot.path) or b"", snapshot.path)

    def _operator(self, number: int) -> Operator:
        path = join(self.path, "state", str(number))
        versions = self.operator_metadata(number)
        name, properties = UNKNOWN, OperatorProperties()
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
        """An operator's descriptions, by the micro-batch from which each applies; empty if it is in the older format."""
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
        """The paths of the schemas needed to read an operator's state after a micro-batch.

        The metadata names them by absolute paths, as of where the checkpoint was when they were written.
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
        self.files.write(path, metadata_bytes(content))

    def write_partition_count(self, batch: int, partitions: int) -> None:
        """Changes the number of partitions that a micro-batch records."""
        path = join(self.path, "offsets", str(batch))
        self.offsets(batch)
        version, head, *sources = self._read("offsets", str(batch)).decode("utf-8", "replace").split("\n")
        with in_form(path):
            content = parse_json(head)
        content.setdefault("conf", {})[SHUFFLE_PARTITIONS] = str(partitions)
        changed = json.dumps(content, separators=(",", ":"))
        self.files.write(path, "\n".join([version, changed, *sources]).encode())

    def _older_metadata(self, path: str) -> OperatorMetadata | None:
        """The metadata of one of Spark's own operators."""
        file = join(path, "_metadata", "metadata")
        data = self.files.read(file)
        if data is None:
            return None
        line = log_lines(data, file, ("v1", "v2"))[0]
        with in_form(file):
            return read_document(line, OperatorMetadata)

    def _partitions(self, number: int, path: str) -> list[Partition]:
        """The stores of a partition: one, or several in subdirectories, as for Spark's own joins."""
        below = [e for e in self.files.entries(path) or () if e.is_directory and e.name not in ("SSTs", "_metadata")]
        return [self._partition(number, entry.path) for entry in below] or [self._partition(number, path)]

    def _partition(self, number: int, path: str) -> Partition:
        partition = Partition(number, path)
        for entry in self.files.entries(path) or ():
            if _OTHER_FORMAT.fullmatch(entry.name):
                raise _in_other_format(entry.path)
            matched = _STATE_FILE.fullmatch(entry.name)
            if matched:
                kind = partition.snapshots if matched[2] == "zip" else partition.changelogs
                kind[int(matched[1])] = entry
        for entry in self.files.entries(join(path, "SSTs")) or ():
            partition.tables[entry.name] = entry
        return partition

    def numbers(self, folder: str) -> list[int]:
        """The micro-batches that have an entry in a log, "offsets" or "commits"."""
        entries = self.files.entries(join(self.path, folder)) or []
        return sorted(number for entry in entries if (number := number_of(entry.name)) is not None)

    def _read(self, *names: str) -> bytes:
        path = join(self.path, *names)
        data = self.files.read(path)
        if data is None:
            raise CorruptState(f"{path!r} is missing.", todo="go back to an earlier micro-batch, or restore a savepoint")
        return data


def _in_other_format(path: str) -> CheckpointError:
    setting = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    return CheckpointError(
        f"The state is in Spark's checkpoint format 2, which this Holdfast does not know: {path!r}.",
        todo=f"leave it to Spark alone; or begin with a new checkpoint, without the setting {setting}",
    )


def last_committed(files: Files, path: str) -> int | None:
    """The last committed micro-batch of a checkpoint, which need not exist yet."""
    committed = Checkpoint(files, path.rstrip("/")).committed()
    return committed[-1] if committed else None


def metadata_bytes(content: Mapping[str, object]) -> bytes:
    """An operator's description as Spark writes it."""
    return f"{METADATA_VERSION}\n{json.dumps(content, separators=(',', ':'))}".encode()


def open_checkpoint(spark: SparkSession | None, path: str) -> Checkpoint:
    """The checkpoint at a path. Raises CheckpointError if there is none, if its version is unknown, or if an unfinished
    operation has moved its state."""
    checkpoint = find_checkpoint(spark, path)
    unfinished = interrupted(checkpoint.files, checkpoint.path)
    if unfinished is not None:
        raise CheckpointError(
            f"{unfinished[0].upper()}{unfinished[1:]}.",
            detail=f"The checkpoint is {checkpoint.path!r}.",
            todo=f"finish or undo it: holdfast checkpoint repair {checkpoint.path}; starting the job does so too",
        )
    return checkpoint


def find_checkpoint(spark: SparkSession | None, path: str) -> Checkpoint:
    """The checkpoint at a path, even if an operation on it was interrupted. Raises CheckpointError if there is none, or its
    version is unknown."""
    files = files_of(spark, path)
    path = path.rstrip("/")
    if files.info(path) is None:
        raise CheckpointError(f"There is nothing at {path!r}.", todo="give the job's checkpoint directory")
    if files.info(join(path, "metadata")) is None or files.entries(join(path, "offsets")) is None:
        raise CheckpointError(
            f"{path!r} is not a checkpoint of a streaming query: it has no 'metadata' and 'offsets'.",
            todo="give the job's checkpoint directory",
        )
    checkpoint = Checkpoint(files, path)
    _ = checkpoint.query_id, checkpoint.manifest
    return checkpoint


def spans(numbers: list[int]) -> str:
    """Numbers as ranges: 3 to 7, 9."""
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
    """An operator's metadata, to be changed and written back."""
    content: dict[str, Any] = parse_json(line)
    check_form(content, OperatorMetadata)
    return content


def _manifest(data: bytes) -> dict[str, Any]:
    """A job's manifest, of any version."""
    content: dict[str, Any] = parse_json(data, infinite=True)
    if isinstance(content, dict) and content.get("manifest_version") == _MANIFEST_VERSION:
        check_form(content, JobForm)
        for step in content.get("steps", {}).values():
            checked_manifest(step)
    elif not isinstance(content, dict):
        raise Malformed("it is not a manifest at all")
    return content
