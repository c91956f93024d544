"""What processes tell each other in small files: the lock, whose turn it is, a stop request, a running job.

Anybody who can write to the checkpoint can write them. So their fields are typed, anything else is read as None, and names
in them are shown literally only if they are printable.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, TypeVar

import msgspec

from holdfast.engine.stored.documents import Malformed, read_document
from holdfast.engine.stored.readable import visible

__all__ = [
    "LOCK_VERSION",
    "JobNotice",
    "LockNotice",
    "StopNotice",
    "TurnNotice",
    "read_job",
    "read_lock",
    "read_stop",
    "read_turn",
]

N = TypeVar("N", bound="msgspec.Struct")

LOCK_VERSION = 1

_Name = Annotated[str, msgspec.Meta(max_length=1000)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class LockNotice(msgspec.Struct, frozen=True):
    """Who holds a checkpoint: `holdfast/lock.json`. Times are in UTC."""

    lock_version: int
    owner: _Name
    host: _Name
    machine: _Name
    process: _Number
    process_started: _Name
    taken_at: datetime
    alive_at: datetime
    token: _Name


class TurnNotice(msgspec.Struct, frozen=True):
    """Who had the lock last: `holdfast/turn.json`."""

    turn_version: int
    turn: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    token: _Name


class StopNotice(msgspec.Struct, frozen=True):
    """A stop request: `holdfast/stop.json`."""

    token: _Name
    by: _Name = ""


class JobNotice(msgspec.Struct, frozen=True):
    """A running job, in the home directory of its user."""

    name: str
    checkpoint: str
    token: _Name


def read_lock(data: bytes) -> LockNotice | None:
    """The content of a lock; None if it is not one, or has another version."""
    found = _read(data, LockNotice)
    if found is None or found.lock_version != LOCK_VERSION or not found.token:
        return None
    try:
        taken, alive = (moment.astimezone(timezone.utc) for moment in (found.taken_at, found.alive_at))
    except (ValueError, OverflowError):
        return None
    owner, host = visible(found.owner), visible(found.host)
    return msgspec.structs.replace(found, owner=owner, host=host, taken_at=taken, alive_at=alive)


def read_turn(data: bytes) -> TurnNotice | None:
    """Whose turn it is; None if that makes no sense."""
    return _read(data, TurnNotice)


def read_stop(data: bytes) -> StopNotice | None:
    """The content of a stop request; None if it makes no sense."""
    return _read(data, StopNotice)


def read_job(data: bytes) -> JobNotice | None:
    """The entry of a running job; None if it makes no sense."""
    return _read(data, JobNotice)


def _read(data: bytes, form: type[N]) -> N | None:
    try:
        return read_document(data, form)
    except Malformed:
        return None
