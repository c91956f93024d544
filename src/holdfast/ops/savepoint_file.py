"""`savepoint.json`: what a savepoint is of, and what it consists of. Written last: without it, a savepoint is not whole.

savepoint_version   1
job, query_id       whose state it is
batch               the micro-batch after which it is
planned_batch       batch + 1, if that was planned and not committed, and its plan is in the savepoint; or null
watermark_millis    that holds from there on
partitions          of the state
steps               by name: backend, key_groups
checkpoint          where it was taken from
created_at          in UTC
spark_version, holdfast_version
files               path, bytes and sha256 of each
digest              the SHA-256 of all of the above
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from holdfast.errors import CheckpointError, CorruptState
from holdfast.spark.files import Files, join

__all__ = ["SAVEPOINT_FILE", "Savepoint", "SavepointFile", "holdfast_version", "read_savepoint", "write_savepoint"]

SAVEPOINT_FILE = "savepoint.json"
_SAVEPOINT_VERSION = 1


@dataclass(frozen=True)
class SavepointFile:
    """A file of a savepoint."""

    path: str
    """From the savepoint on."""
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Savepoint:
    """What a savepoint is of."""

    path: str
    """Where it is; not stored, since it can be moved."""
    job: str | None
    query_id: str
    batch: int
    planned_batch: int | None
    watermark_millis: int
    partitions: int | None
    """None if the query has no state."""
    steps: dict[str, dict[str, Any]]
    checkpoint: str
    created_at: str
    spark_version: str
    holdfast_version: str
    files: list[SavepointFile] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(file.bytes for file in self.files)


def holdfast_version() -> str:
    return version("holdfast")


def write_savepoint(files: Files, folder: str, savepoint: Savepoint) -> None:
    content = asdict(savepoint)
    del content["path"]
    content = {"savepoint_version": _SAVEPOINT_VERSION, **content}
    files.write(join(folder, SAVEPOINT_FILE), json.dumps({**content, "digest": _digest(content)}, indent=2).encode())


def read_savepoint(files: Files, path: str) -> Savepoint:
    """What a savepoint says of itself. Raises CheckpointError if there is none, CorruptState if it is damaged."""
    path = path.rstrip("/")
    stored = files.read(join(path, SAVEPOINT_FILE))
    if stored is None:
        raise _no_savepoint(files, path)
    try:
        content = dict(json.loads(stored))
        digest = content.pop("digest", None)
        number = content.pop("savepoint_version")
    except (ValueError, KeyError, TypeError):
        raise _damaged(path, "it is cut short, or is not JSON") from None
    if number != _SAVEPOINT_VERSION:
        raise CheckpointError(
            f"The savepoint {path!r} has version {number}; this Holdfast knows version {_SAVEPOINT_VERSION}.",
            todo="use the version of Holdfast that wrote it, or a newer one",
        )
    if digest != _digest({"savepoint_version": number, **content}):
        raise _damaged(path, "it does not match its digest")
    return Savepoint(path=path, **{**content, "files": [SavepointFile(**file) for file in content["files"]]})


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _no_savepoint(files: Files, path: str) -> CheckpointError:
    if files.info(path) is None:
        return CheckpointError(f"There is nothing at {path!r}.", todo="give the directory of a savepoint")
    if files.info(join(path, "metadata")) is not None and files.info(join(path, "offsets")) is not None:
        return CheckpointError(
            f"{path!r} is no savepoint: it has no {SAVEPOINT_FILE!r}.",
            detail="It is a checkpoint, or a savepoint that was never finished.",
            todo=f"make a savepoint of it: holdfast savepoint create {path} DEST",
        )
    return CheckpointError(
        f"{path!r} is no savepoint: it has no {SAVEPOINT_FILE!r}.", todo="give the directory of a savepoint"
    )


def _damaged(path: str, why: str) -> CorruptState:
    return CorruptState(
        f"{join(path, SAVEPOINT_FILE)!r} is damaged: {why}.", todo="use another savepoint, or a copy of this one"
    )
