"""A running job's presence: the lock on its checkpoint, its entry among the running jobs, and its stop-request watcher.

A request is a file, `<checkpoint>/holdfast/stop.json`, that names the lock of the job to stop. The job looks for it about
every second. A request that names another lock is outdated, and is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from holdfast.checkpoint.files.choice import Files, files_of, join
from holdfast.checkpoint.lock import Lock, LockInfo, new_token
from holdfast.checkpoint.notices import read_stop
from holdfast.checkpoint.registry import RegisteredJob, forget, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Presence", "ask_to_stop", "take_back"]

STOP_FILE = "holdfast/stop.json"


def ask_to_stop(files: Files, checkpoint: str, holder: LockInfo, by: str) -> None:
    """Asks the job that holds the lock to stop at the end of its micro-batch."""
    files.write(join(checkpoint, STOP_FILE), json.dumps({"token": holder.token, "by": by}).encode())


def take_back(files: Files, checkpoint: str, token: str) -> None:
    """Removes a stop request."""
    if _asked(files, checkpoint) == token:
        files.remove(join(checkpoint, STOP_FILE))


class Presence:
    """A job's presence, from each start of its query to its end."""

    def __init__(self, name: str, checkpoint: str) -> None:
        self._name = name
        self._checkpoint = checkpoint
        self._token = new_token()
        self._job = RegisteredJob(name, _absolute(checkpoint), self._token)
        self._turn = threading.RLock()
        self._lock: Lock | None = None
        self._files: Files | None = None
        self._runs: Callable[[], bool] = lambda: False
        self._stop: Callable[[], None] = lambda: None
        self._stopping: threading.Thread | None = None

    def begin(
        self, spark: SparkSession, *, runs: Callable[[], bool], stop: Callable[[], None], abandon: Callable[[LockInfo], None]
    ) -> None:
        """Takes the lock, or keeps it. Raises CheckpointLocked if somebody else has it.

        `runs`: whether the query runs or is about to. `stop` stops it after its micro-batch, `abandon` at once.
        """
        with self._turn:
            if self._lock is not None and self._lock.is_held:
                return
        files = files_of(spark, self._checkpoint)
        lock = Lock(
            spark,
            self._checkpoint,
            f"job {self._name}",
            token=self._token,
            every_second=self._look,
            on_lost=abandon,
            in_use=runs,
        )
        with self._turn:
            lock.acquire()
            self._lock, self._files, self._runs, self._stop = lock, files, runs, stop
            register(self._job)

    def end(self) -> None:
        """Ends the presence, releasing the lock last, since others wait for it; does nothing the second time."""
        with self._turn:
            forget(self._job)
            if self._lock is not None and self._lock.is_held:
                with contextlib.suppress(Exception):
                    assert self._files is not None
                    take_back(self._files, self._checkpoint, self._token)
                self._lock.release()

    def confirm(self) -> None:
        """Raises CheckpointLocked if somebody else has the checkpoint by now. Call this before writing to a sink."""
        if self._lock is not None:
            self._lock.confirm()

    def check(self) -> None:
        """Raises CheckpointLocked if the lock was lost to somebody else."""
        if self._lock is not None:
            self._lock.check()

    def _look(self) -> None:
        with self._turn:
            # Atomic with the decision: a query that is restarted meanwhile keeps the lock.
            if not self._runs():
                self.end()
                return
        assert self._files is not None
        asked = _asked(self._files, self._checkpoint)
        if asked == self._token:
            self._heed()
        elif asked is not None:
            self._files.remove(join(self._checkpoint, STOP_FILE))

    def _heed(self) -> None:
        """Stops the job in a separate thread: signs of life must continue while a micro-batch ends."""
        if self._stopping is None or not self._stopping.is_alive():
            self._stopping = threading.Thread(target=self._stop, name="holdfast-stop", daemon=True)
            self._stopping.start()


def _asked(files: Files, checkpoint: str) -> str | None:
    """The token of the lock that is asked to stop; nobody's if the request makes no sense."""
    data = files.read(join(checkpoint, STOP_FILE))
    if data is None:
        return None
    found = read_stop(data)
    return "" if found is None else found.token


def _absolute(checkpoint: str) -> str:
    return checkpoint if urlparse(checkpoint).scheme else os.path.abspath(checkpoint)
