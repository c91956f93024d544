"""Where the disk backend has its working files: in Spark's own directory, or in the one that a job names.

Spark's own is removed with the application. In that of a job (`hf.Job(state_dir=...)`) there is

    holdfast-<user>/<run>-<machine>/        and in it, for each step, a file for each key group

Invariants
- Nobody but the user may enter `holdfast-<user>`; a directory of this name for which that does not hold is refused.
- A folder is for one run of a job on one start of the machine. Files of an earlier start are never opened: SQLite does not
  wait for the disk here, so a crash of the machine may have torn them.
- A worker holds a lock on the folder that it uses, for as long as it lives. The next worker to come removes the folders
  that nobody holds: those of runs that were killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path

from pyspark import SparkFiles

from holdfast.checkpoint.host import this_process
from holdfast.errors import HoldfastError
from holdfast.spark.session.properties import STATE_DIR, task_property

__all__ = ["remove_run", "run_folder", "state_dir_property", "working_folder"]

_held: dict[str, tuple[Path, int]] = {}
"""By what tasks are told: the folder that this process uses, and the lock on it."""


def working_folder() -> Path:
    """The folder for the working files of the running task's job on this machine."""
    told = task_property(STATE_DIR)
    if told is None:
        return Path(SparkFiles.getRootDirectory()) / "holdfast-state"
    if told not in _held:
        _held[told] = _taken(*json.loads(told))
    return _held[told][0]


def state_dir_property(path: str, run: str) -> str:
    """What the tasks of a run are told."""
    return json.dumps([path, run])


def run_folder(path: str, run: str) -> Path:
    """The folder of a run on this machine, in a directory that is there then, and private. Raises HoldfastError if not."""
    try:
        return _private(Path(path)) / f"{run}-{_machine()}"
    except OSError as error:
        raise _refused(path, f"{error.strerror or error}: {error.filename!r}") from error


def remove_run(path: str, run: str) -> None:
    """Removes what a run has left on this machine."""
    with contextlib.suppress(HoldfastError):
        shutil.rmtree(run_folder(path, run), ignore_errors=True)


def _machine() -> str:
    return hashlib.blake2b(this_process().machine.encode(), digest_size=6).hexdigest()


def _private(given: Path) -> Path:
    """The user's own directory in the given one."""
    given.mkdir(parents=True, exist_ok=True)
    around = given.stat()
    if around.st_mode & stat.S_IWOTH and not around.st_mode & stat.S_ISVTX:
        raise _refused(str(given), "everybody may replace what is in it", "chmod +t it, or give another")
    own = given / f"holdfast-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        own.mkdir(mode=0o700)
    found = own.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        why = f"{str(own)!r} is not a directory that is yours alone"
        raise _refused(str(given), why, f"remove {own}, or give another state_dir")
    if not os.access(own, os.W_OK | os.X_OK):
        raise _refused(str(given), f"nothing can be written in {str(own)!r}")
    return own


def _taken(path: str, run: str) -> tuple[Path, int]:
    """The folder of a run, with the lock that keeps others from removing it."""
    folder = run_folder(path, run)
    try:
        while True:
            folder.mkdir(exist_ok=True)
            lock = _locked(folder, exclusive=False)
            if lock is not None:
                _sweep(folder)
                return folder, lock
    except OSError as error:
        raise _refused(path, f"{error.strerror or error}: {error.filename!r}") from error


def _locked(folder: Path, *, exclusive: bool) -> int | None:
    """A lock on a folder; None if others hold one that excludes it, or have just removed the folder."""
    import fcntl

    with contextlib.suppress(FileNotFoundError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(lock), folder.stat()):
                return lock
        except BlockingIOError:
            pass
        except FileNotFoundError:
            os.close(lock)
            return None
        os.close(lock)
    return None


def _sweep(own: Path) -> None:
    """Removes the folders beside one's own that nobody uses."""
    for folder in own.parent.iterdir():
        lock = _locked(folder, exclusive=True) if folder != own and folder.is_dir() else None
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _refused(path: str, why: str, todo: str = "") -> HoldfastError:
    return HoldfastError(
        f"The directory {path!r} cannot be used for the working files of the disk backend: {why}.",
        todo=todo or "give a directory on the workers' own disks that you may write to: hf.Job(state_dir=...)",
        context={"machine": this_process().host},
    )
