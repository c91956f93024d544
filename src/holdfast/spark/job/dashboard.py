"""The dashboard of a running job: `holdfast ui` as a process of its own, which ends with the job.

A process, so that looking at state takes nothing from the driver; and so that the job needs none of what the dashboard does.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

from holdfast.model.extras import require_extra

__all__ = ["Dashboard"]

_ENDING_SECONDS = 5.0


class Dashboard:
    """Begins when a job is started, and stays until it has ended, however often its query is started again."""

    def __init__(self) -> None:
        require_extra("ui", "uvicorn", (0, 32), "hf.Job(ui=True)")
        self.url: str | None = None
        """Where it is, once it is there."""
        self._process: subprocess.Popen[bytes] | None = None
        self._stays = False

    @contextlib.contextmanager
    def staying(self) -> Iterator[None]:
        """Within this, it outlives the end of a query, after which another may be started."""
        self._stays = True
        try:
            yield
        finally:
            self._stays = False
            self.end()

    def begin(self, checkpoint: str, tell: Callable[[str], None]) -> None:
        """Starts it, without waiting; `tell` is given a sentence when it can be looked at."""
        if self._process is not None and self._process.poll() is None:
            return
        command = [sys.executable, "-m", "holdfast", "ui", checkpoint, "--port", "0", "--no-open", "--json"]
        try:
            self._process = subprocess.Popen(
                [*command, "--parent-pid", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl-C is for the job, which ends it.
                start_new_session=True,
            )
        except (OSError, TypeError, ValueError):
            # Out of processes or memory, or an interpreter that does not know where it is: no reason for the job not to run.
            tell(_failed(checkpoint))
            return
        arguments = (self._process, checkpoint, tell)
        threading.Thread(target=self._read, args=arguments, name="holdfast-dashboard", daemon=True).start()

    def end(self) -> None:
        """Ends it, unless it stays; does nothing the second time."""
        if self._stays:
            return
        process, self._process, self.url = self._process, None, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read(self, process: subprocess.Popen[bytes], checkpoint: str, tell: Callable[[str], None]) -> None:
        assert process.stdout is not None
        with process.stdout:
            line = process.stdout.readline()
        try:
            url = str(json.loads(line)["url"])
        except (ValueError, KeyError, TypeError):
            if self._process is process:
                tell(_failed(checkpoint))
            return
        if self._process is process:
            self.url = url
            tell(f"dashboard at {url}")


def _failed(checkpoint: str) -> str:
    return f"the dashboard could not be started; see why: holdfast ui {shlex.quote(checkpoint)}"
