"""Whether the partitions of a step's state are in their places, told from the names and the first bytes of their files.

Spark looks for a key group in the partition that the hash of its label gives, and where it finds nothing, the key group is
a new one. So with a partition in another's place, all its keys would begin from nothing. One key group of each tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from holdfast.spark.changelogs import first_label
from holdfast.spark.files import FileInfo, Files, join
from holdfast.spark.labels import spark_hash
from holdfast.spark.snapshots import table_labels

__all__ = ["Described", "described", "is_a_step", "misplaced"]

_STATE_FILE = re.compile(r"(\d+)\.(zip|changelog)")
_OPERATOR_NAMES = ("transformWithStateInPySparkExec", "transformWithStateInPandasExec")
_THREADS = 16


@dataclass(frozen=True)
class Described:
    """What an operator says of itself."""

    is_a_step: bool
    partitions: int
    since: int
    """The micro-batch from which on there are so many."""


def is_a_step(name: Any, properties: Any) -> bool:
    """Whether an operator is one of Holdfast's, by what it keeps."""
    return name in _OPERATOR_NAMES and "blobs" in [v.get("stateName") for v in properties.get("stateVariables", ())]


def described(files: Files, operator: str) -> Described | None:
    """What the metadata of an operator says; None if there is none, or if it is not known how to read it."""
    versions = {}
    for entry in files.entries(join(operator, "_metadata", "v2")) or ():
        if entry.name.isdigit():
            versions[int(entry.name)] = _content(files.read(entry.path) or b"")
    try:
        counts = {batch: int(content["stateStoreInfo"][0]["numPartitions"]) for batch, content in versions.items()}
        last = versions[max(versions)]
        step = is_a_step(last["operatorInfo"]["operatorName"], json.loads(last.get("operatorPropertiesJson") or "{}"))
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    count = counts[max(counts)]
    others = [batch for batch, number in counts.items() if number != count]
    return Described(step, count, min(batch for batch in counts if batch > max(others, default=-1)))


def _content(data: bytes) -> Any:
    try:
        return json.loads(data.split(b"\n", 1)[1])
    except (ValueError, IndexError):
        return None


def misplaced(files: Files, operator: str) -> list[tuple[str, str]]:
    """The partitions of a step in which there are key groups of another partition: where, and what is wrong.

    Nothing of an operator that is not a step, and of partitions whose files have an unknown form.
    """
    known = described(files, operator)
    if known is None or not known.is_a_step:
        return []
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda number: _labels(files, join(operator, str(number)), known.since), range(known.partitions))
        return [problem for number, labels in enumerate(found) for problem in _problems(operator, number, labels, known)]


def _problems(operator: str, number: int, labels: Iterable[int], known: Described) -> Iterable[tuple[str, str]]:
    for label in labels:
        right = spark_hash(label) % known.partitions
        if right != number:
            yield (
                join(operator, str(number)),
                f"it has the state of partition {right} (key group {label}) in place of its own",
            )
            return


def _labels(files: Files, partition: str, since: int) -> set[int]:
    """Labels of some key groups of a partition; none if it has none, or if they cannot be told."""
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
