"""Running the demo's job in a process of its own: to its end, until it is killed, or until it is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from holdfast.demo.folder import FILES, Folder
from holdfast.errors import JobFailed

__all__ = ["ended_by_itself", "run_job", "start_job"]

_LOOK_SECONDS = 0.05
_INTO_A_BATCH_SECONDS = 0.15


def run_job(folder: Folder, name: str, until: int | None = None) -> None:
    """Runs the job to its end; or until so many files are in the tables, and kills it in the middle of the next."""
    process = start_job(folder)
    try:
        _follow(process, folder, name, until)
    finally:
        if process.poll() is None:
            _kill(process)


def start_job(folder: Folder, *words: str) -> subprocess.Popen[bytes]:
    """The job as a process group of its own, so that a kill takes its JVM and its workers along."""
    paths = [str(path) for path in (folder.input, folder.checkpoint, folder.database)]
    with folder.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast.demo.job", *paths, *words], start_new_session=True, stdout=log, stderr=log
        )


def ended_by_itself(folder: Folder, code: int) -> JobFailed:
    """What to say of a job that should not have ended, with the end of its log."""
    return JobFailed(
        f"The demo's job ended by itself, with exit code {code}.",
        detail=folder.log_end(),
        todo=f"see {folder.log}; holdfast doctor says whether this machine has what Spark needs",
    )


def _follow(process: subprocess.Popen[bytes], folder: Folder, name: str, until: int | None) -> None:
    _show(name, folder.files_done(), "starting Spark")
    while process.poll() is None:
        done = folder.files_done()
        if until is not None and done >= until:
            # The kill is to come in the middle of a micro-batch; nothing depends on it.
            time.sleep(_INTO_A_BATCH_SECONDS)
            _kill(process)
            _show(name, folder.files_done(), "kill -9: driver, JVM and workers are gone", final=True)
            return
        if done:
            _show(name, done)
        time.sleep(_LOOK_SECONDS)
    if process.returncode != 0 or until is not None:
        raise ended_by_itself(folder, process.returncode)
    _show(name, folder.files_done(), "to the end, from the same checkpoint", final=True)


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _show(name: str, done: int, what: str = "", *, final: bool = False) -> None:
    """A line of progress, which is updated in place on a terminal; elsewhere there is only the last one."""
    line = f"{name:<10}  [{'#' * done:<{FILES}}]  {done:>2} of {FILES} files  {what}"
    if sys.stdout.isatty():
        print(f"\r{line:<100}", end="\n" if final else "", flush=True)
    elif final:
        print(line, flush=True)
