"""Checks that partitions of a step's state have not been swapped, from the names and first bytes of their files.

Spark looks for a key group in the partition given by the hash of its label; if it finds nothing, the key group is new. So if
partitions were swapped, all their keys would start from nothing. One key group of each partition is enough to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.checkpoint.files.choice import FileInfo, Files, join
from holdfast.checkpoint.labels import spark_hash
from holdfast.checkpoint.query_files import METADATA_VERSION, OperatorMetadata, OperatorProperties, log_lines, number_of
from holdfast.checkpoint.store.changelog import first_label
from holdfast.checkpoint.store.table_ends import table_labels
from holdfast.engine.stored.documents import Malformed, read_document
from holdfast.errors import CheckpointError, CorruptState

__all__ = ["Described", "described", "is_a_step", "misplaced"]

_STATE_FILE = re.compile(r"([0-9]{1,18})\.(zip|changelog)")
_OPERATOR_NAMES = ("transformWithStateInPySparkExec", "transformWithStateInPandasExec")
_THREADS = 16


@dataclass(frozen=True)
class Described:
    """An operator's description of its partitions."""

    is_a_step: bool
    partitions: int
    since: int
    """The micro-batch from which this number applies."""


def is_a_step(name: str, properties: OperatorProperties) -> bool:
    """Whether an operator is one of Holdfast's steps, judging by its state."""
    return name in _OPERATOR_NAMES and "blobs" in [variable.name for variable in properties.variables]


def described(files: Files, operator: str) -> Described | None:
    """An operator's metadata; None if there is none, or its format is unknown."""
    try:
        versions = dict(_versions(files, join(operator, "_metadata", METADATA_VERSION)))
        if not versions:
            return None
        last = versions[max(versions)]
        step = is_a_step(last.info.name, last.read_properties())
    except (Malformed, CorruptState, CheckpointError):
        return None
    counts = {batch: metadata.stores[0].partitions for batch, metadata in versions.items()}
    count = counts[max(counts)]
    others = [batch for batch, number in counts.items() if number != count]
    return Described(step, count, min(batch for batch in counts if batch > max(others, default=-1)))


def _versions(files: Files, folder: str) -> Iterator[tuple[int, OperatorMetadata]]:
    for entry in files.entries(folder) or ():
        batch = number_of(entry.name)
        if batch is not None:
            line = log_lines(files.read(entry.path) or b"", entry.path, (METADATA_VERSION,))[0]
            yield batch, read_document(line, OperatorMetadata)


def misplaced(files: Files, operator: str) -> list[tuple[str, str]]:
    """The partitions of a step that hold key groups of another partition: where, and what is wrong.

    Says nothing about operators that are not steps, or partitions whose files have an unknown format.
    """
    known = described(files, operator)
    if known is None or not known.is_a_step:
        return []
    # With its logging it takes longer to import than most of what reads a checkpoint.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda number: _labels(files, join(operator, str(number)), known.since), range(known.partitions))
        return [problem for number, labels in enumerate(found) for problem in _problems(operator, number, labels, known)]


def _problems(operator: str, number: int, labels: Iterable[int], known: Described) -> Iterable[tuple[str, str]]:
    for label in labels:
        right = spark_hash(label) % known.partitions
        if right != number:
            yield (
                join(operator, str(number)),
                f"it has the state of partition {right} (key group {label}) instead of its own",
            )
            return


def _labels(files: Files, partition: str, since: int) -> set[int]:
    """The labels of some of a partition's key groups; none if it has none, or they cannot be read."""
    snapshots: dict[int, FileInfo] = {}
    changelogs: dict[int, FileInfo] = {}
    for entry in files.entries(partition) or ():
        matched = _STATE_FILE.fullmatch(entry.name)
        if matched and int(matched[1]) > since:
            (snapshots if matched[2] == "zip" else changelogs)[int(matched[1])] = entry
    found = table_labels(files.read(snapshots[max(snapshots)].path) or b"") if snapshots else set()
    for version in sorted(changelogs, reverse=True):
        label = first_label(files.read(changelogs[version].path) or b"")
        if label is not None:
            return found | {label}
    return found
