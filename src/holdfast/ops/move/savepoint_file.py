"""`savepoint.json`: the description of a savepoint. Written last: without it, a savepoint is incomplete.

savepoint_version   1
job, query_id       whose state it is
batch               the micro-batch after which it was taken
planned_batch       batch + 1, if that was planned and not committed, and its plan is in the savepoint; or null
watermark_millis    in force from there on
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
import re
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Annotated, Any, TypedDict

import msgspec

from holdfast.checkpoint.files.choice import Files, join
from holdfast.engine.stored.documents import Batch, Count, Malformed, check_form, parse_json
from holdfast.errors import CheckpointError, CorruptState

__all__ = [
    "SAVEPOINT_FILE",
    "SavedStep",
    "Savepoint",
    "SavepointFile",
    "holdfast_version",
    "is_checkpoint_file",
    "read_savepoint",
    "savepoint_identity",
    "write_savepoint",
]

SAVEPOINT_FILE = "savepoint.json"
_SAVEPOINT_VERSION = 1


_WHERE = re.compile(r"metadata|holdfast/manifest\.json|(?:offsets|commits)/[0-9]{1,18}|(?:sources|state)/.+", re.DOTALL)
_OUTSIDE = re.compile(r"(?:^|/)(?:\.{0,2})(?:/|$)|[\\\x00-\x1f\x7f]")
"""What a file's path must not contain: a part that is empty or only dots, and characters no file name may have."""


@dataclass(frozen=True)
class SavepointFile:
    """A file of a savepoint."""

    path: str
    """Relative to the savepoint."""
    bytes: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class SavedStep(TypedDict):
    """A step, as a savepoint describes it."""

    backend: str | None
    key_groups: int | None


@dataclass(frozen=True)
class Savepoint:
    """The description of a savepoint. The file is checked against these types."""

    path: str
    """Where it is; not stored, since a savepoint can be moved."""
    job: str | None
    query_id: str
    batch: Batch
    planned_batch: Batch | None
    watermark_millis: int
    partitions: Count | None
    """None if the query has no state."""
    steps: dict[str, SavedStep]
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
    """The description of a savepoint. Raises CheckpointError if there is none, CorruptState if it is damaged."""
    path = path.rstrip("/")
    stored = files.read(join(path, SAVEPOINT_FILE))
    if stored is None:
        raise _no_savepoint(files, path)
    try:
        content = check_form(parse_json(stored), dict[str, Any])
        digest, number = content.pop("digest", None), content.pop("savepoint_version", None)
        if number is None:
            raise Malformed("it does not describe a savepoint")
        if number != _SAVEPOINT_VERSION:
            raise _foreign(path, number)
        if digest != _digest({"savepoint_version": number, **content}):
            raise Malformed("it does not match its digest")
        savepoint = check_form({**content, "path": path}, Savepoint)
        _check(savepoint)
    except Malformed as error:
        raise _damaged(path, str(error)) from None
    return savepoint


def savepoint_identity(files: Files, path: str) -> str:
    """Tells one savepoint from all others, wherever it is moved."""
    return hashlib.sha256(files.read(join(path, SAVEPOINT_FILE)) or b"").hexdigest()


def is_checkpoint_file(name: str) -> bool:
    """Whether a file of this name, relative to the checkpoint, belongs in a copy of it and stays inside it."""
    return _WHERE.fullmatch(name) is not None and _OUTSIDE.search(name) is None


def _check(savepoint: Savepoint) -> None:
    """Anyone can compute a digest, so the fields must also make sense."""
    for file in savepoint.files:
        if not is_checkpoint_file(file.path):
            raise Malformed(f"it names a file {file.path!r:.200}, which cannot be in a savepoint")
    paths = [file.path for file in savepoint.files]
    if len(set(paths)) < len(paths):
        raise Malformed("it names a file twice")
    if savepoint.planned_batch is not None:
        if savepoint.planned_batch != savepoint.batch + 1:
            raise Malformed(f"the micro-batch after {savepoint.batch} cannot be {savepoint.planned_batch}")
        if f"offsets/{savepoint.planned_batch}" not in paths:
            raise Malformed(f"the plan of micro-batch {savepoint.planned_batch} is not among its files")


def _foreign(path: str, number: Any) -> CheckpointError:
    return CheckpointError(
        f"The savepoint {path!r} has version {number!r:.40}; this Holdfast knows version {_SAVEPOINT_VERSION}.",
        todo="use the version of Holdfast that wrote it, or a newer one",
    )


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _no_savepoint(files: Files, path: str) -> CheckpointError:
    if files.info(path) is None:
        return CheckpointError(f"There is nothing at {path!r}.", todo="give the directory of a savepoint")
    if files.info(join(path, "metadata")) is not None and files.info(join(path, "offsets")) is not None:
        return CheckpointError(
            f"{path!r} is not a savepoint: it has no {SAVEPOINT_FILE!r}.",
            detail="It is a checkpoint, or a savepoint that was never finished.",
            todo=f"make a savepoint from it: holdfast savepoint create {path} DEST",
        )
    return CheckpointError(
        f"{path!r} is not a savepoint: it has no {SAVEPOINT_FILE!r}.", todo="give the directory of a savepoint"
    )


def _damaged(path: str, why: str) -> CorruptState:
    return CorruptState(
        f"{join(path, SAVEPOINT_FILE)!r} is damaged: {why}.", todo="use another savepoint, or a copy of this one"
    )
