"""The jobs that a dashboard shows: each has an id, by which alone it can be asked for, and is known from the start or from
the registry of running jobs. No request can name a path."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.lock import LockInfo, current_lock
from holdfast.checkpoint.registry import registered
from holdfast.engine.stored.readable import visible
from holdfast.errors import CheckpointError, HoldfastError
from holdfast.ui.reading.state import StateSource
from holdfast.ui.reading.tail import SharedTail, folder_of

__all__ = ["Jobs", "WatchedJob", "checkpoints_of"]

_LOOK_SECONDS = 2.0
_JOBS_MAX = 200

OpenState = Callable[[str], StateSource]


class WatchedJob:
    """One job, by its checkpoint."""

    def __init__(self, checkpoint: str, open_state: OpenState) -> None:
        self.folder = folder_of(checkpoint).absolute()
        self.checkpoint = str(self.folder)
        self.id = hashlib.sha256(self.checkpoint.encode("utf-8", "surrogateescape")).hexdigest()[:10]
        self.tail = SharedTail(self.checkpoint)
        self._open_state = open_state
        self._holder: LockInfo | None = None
        self._looked = float("-inf")
        self._looking = threading.Lock()

    @property
    def name(self) -> str:
        """The job's own name, or that of its folder."""
        for event in reversed(self.tail.history.events):
            if event.job:
                return visible(event.job)[:200]
        return self._name_in_manifest or visible(self.folder.name)

    @cached_property
    def state(self) -> StateSource:
        """Its stored state; opened when it is first asked for."""
        return self._open_state(self.checkpoint)

    def holder(self) -> LockInfo | None:
        """Who uses the checkpoint, as of a moment ago."""
        # Whoever comes while another looks waits for what that one finds.
        with self._looking:
            now = time.monotonic()
            if now - self._looked > _LOOK_SECONDS:
                try:
                    self._holder = current_lock(None, self.checkpoint)
                except (HoldfastError, OSError):
                    self._holder = None
                self._looked = now
            return self._holder

    @property
    def is_running(self) -> bool:
        holder = self.holder()
        return holder is not None and holder.owner.startswith("job ")

    @property
    def _name_in_manifest(self) -> str | None:
        try:
            found = Checkpoint(LocalFiles(), self.checkpoint).manifest.get("job")
        except (HoldfastError, OSError):
            return None
        return visible(found)[:200] if isinstance(found, str) and found else None


class Jobs:
    """The jobs of a dashboard, by id. Without checkpoints, those that this user has running, as they come; one that has
    ended stays."""

    def __init__(self, checkpoints: Sequence[str], open_state: OpenState) -> None:
        self._open_state = open_state
        self._found: dict[str, WatchedJob] = {}
        self._turn = threading.Lock()
        self._looked = float("-inf")
        self._follows_registry = not checkpoints
        for checkpoint in checkpoints:
            self._add(checkpoint)

    def all(self) -> list[WatchedJob]:
        if self._follows_registry:
            self._look()
        return list(self._found.values())

    def get(self, job: str) -> WatchedJob | None:
        found = self._found.get(job)
        if found is None and self._follows_registry:
            self._look()
            found = self._found.get(job)
        return found

    def _look(self) -> None:
        with self._turn:
            now = time.monotonic()
            if now - self._looked < _LOOK_SECONDS:
                return
            self._looked = now
            for entry in registered():
                if len(self._found) < _JOBS_MAX and _runs(entry.checkpoint, entry.token):
                    self._add(entry.checkpoint)

    def _add(self, checkpoint: str) -> None:
        job = WatchedJob(checkpoint, self._open_state)
        self._found.setdefault(job.id, job)


def checkpoints_of(arguments: Sequence[str], *, must_exist: bool = True) -> list[str]:
    """The checkpoints that are meant: each by its path, or by the name of a job that runs on this machine."""
    return [found for argument in arguments for found in _checkpoints_of(argument, must_exist)]


def _checkpoints_of(argument: str, must_exist: bool) -> list[str]:
    running = [entry.checkpoint for entry in registered(argument) if _runs(entry.checkpoint, entry.token)]
    if running:
        return running
    folder: Path = folder_of(argument)
    if must_exist and not folder.is_dir():
        raise CheckpointError(
            f"There is no job and no checkpoint {argument!r}: no running job has this name, and there is no folder.",
            todo="give the path of a checkpoint, or leave it out to see all running jobs",
        )
    return [argument]


def _runs(checkpoint: str, token: str) -> bool:
    try:
        folder_of(checkpoint)
        lock = current_lock(None, checkpoint)
    except (HoldfastError, OSError):
        return False
    return lock is not None and lock.token == token
