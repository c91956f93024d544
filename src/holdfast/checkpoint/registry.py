"""A user's running jobs on this machine, by name: a small file for each, so that tools find their checkpoints.

It is only a hint: an entry counts only while the lock on its checkpoint is the one that it names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.files.paths import local_path
from holdfast.checkpoint.notices import read_job

__all__ = ["RegisteredJob", "copied_from", "forget", "register", "registered"]


@dataclass(frozen=True)
class RegisteredJob:
    """A job that was running when its entry was written."""

    name: str
    checkpoint: str
    token: str
    """The token of its lock."""


def register(job: RegisteredJob) -> None:
    """Adds a running job. A home directory that cannot be written to does not stop a job."""
    with contextlib.suppress(OSError, RuntimeError):
        entry = _entry(job)
        content = {"name": job.name, "checkpoint": job.checkpoint, "token": job.token}
        LocalFiles().write(str(entry), json.dumps(content).encode())


def forget(job: RegisteredJob) -> None:
    """Removes a job's entry, unless it is another's by now."""
    with contextlib.suppress(OSError, RuntimeError):
        entry = _entry(job)
        if _read(entry) == job:
            entry.unlink(missing_ok=True)


def registered(name: str | None = None) -> list[RegisteredJob]:
    """The jobs with this name, or all, running or not."""
    try:
        found = [_read(entry) for entry in sorted(_folder().glob("*.json"))]
    except RuntimeError:
        # A user without a home.
        return []
    return [job for job in found if job is not None and name in (None, job.name)]


def copied_from(checkpoint: str, token: str) -> str | None:
    """The checkpoint that is in use under this lock, if this one is only a copy of it; None as far as is known."""
    here = local_path(checkpoint)
    for job in registered():
        there = local_path(job.checkpoint)
        if job.token == token and here is not None and there is not None and _are_apart(here, there):
            return job.checkpoint
    return None


def _are_apart(here: Path, there: Path) -> bool:
    try:
        return not here.samefile(there)
    except OSError:
        return False


def _folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "holdfast" / "jobs"


def _entry(job: RegisteredJob) -> Path:
    """Two jobs of the same name have different checkpoints."""
    place = hashlib.sha256(job.checkpoint.encode()).hexdigest()[:8]
    return _folder() / f"{quote(job.name, safe=' ')[:100]}-{place}.json"


def _read(entry: Path) -> RegisteredJob | None:
    try:
        found = read_job(entry.read_bytes())
    except OSError:
        return None
    return None if found is None else RegisteredJob(found.name, found.checkpoint, found.token)
