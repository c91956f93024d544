"""Which machine and process this is, and whether another process of the same machine is still there."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessId", "has_ended", "process_by_number", "this_process"]


@dataclass(frozen=True)
class ProcessId:
    """Identifies a process uniquely: process numbers alone are reused."""

    host: str
    """The host's name, for messages."""
    machine: str
    """Equal for two processes if and only if they see each other by their numbers."""
    number: int
    started: str
    """When it started, in whatever form the machine gives; empty if unknown."""


def this_process() -> ProcessId:
    return process_by_number(os.getpid())


def process_by_number(number: int) -> ProcessId:
    """A process of this machine; `started` is empty if there is none."""
    return ProcessId(socket.gethostname(), _machine(), number, _started(number) or "")


def has_ended(process: ProcessId) -> bool | None:
    """Whether a process of this machine is gone. None if unknown, as for one on another machine."""
    if process.machine != _machine() or not process.started:
        return None
    try:
        started = _started(process.number)
    except OSError:
        return None
    return started != process.started


@functools.cache
def _machine() -> str:
    """A reboot or a container counts as another machine: process numbers start over there."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    except OSError:
        pass
    return "/".join(parts)


def _started(number: int) -> str | None:
    """When a process started; None if it does not exist, or is only a zombie."""
    if not Path("/proc/self/stat").exists():
        return _started_by_ps(number)
    try:
        fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]


def _started_by_ps(number: int) -> str | None:
    """For machines without /proc. Raises OSError if there is no `ps` either."""
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(number)], capture_output=True, text=True, check=False)
    return found.stdout.strip() or None
