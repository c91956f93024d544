"""What the processes under this one use: processor time and memory, of the JVM and of Spark's Python workers."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["MemoryWatch", "Usage", "cpu_seconds_below", "usage"]

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_WATCH_SECONDS = 0.25


@dataclass(frozen=True)
class Usage:
    jvm_cpu_s: float
    python_cpu_s: float
    """Of the workers and of the daemons they are forked from, not of the driver."""
    worker_rss_bytes: int
    """Of all workers together. Pages that they share count for each."""
    largest_worker_rss_bytes: int


def usage() -> Usage:
    """What Spark's processes use now. A worker is a Python process whose parent is a Python process of the JVM's."""
    processes, children = _scan()
    jvm_cpu = python_cpu = 0.0
    sizes = [0]
    below = list(children[os.getpid()])
    while below:
        pid = below.pop()
        below += children[pid]
        name, parent, seconds = processes[pid]
        if name == "java":
            jvm_cpu += seconds
        elif name.startswith("python"):
            python_cpu += seconds
            if parent in processes and processes[parent][0].startswith("python") and parent != os.getpid():
                sizes.append(_rss(pid))
    return Usage(jvm_cpu, python_cpu, sum(sizes), max(sizes))


def cpu_seconds_below(pid: int) -> float:
    """The processor seconds of a process and of all below it that still run."""
    processes, children = _scan()
    found, below = 0.0, [pid]
    while below:
        each = below.pop()
        below += children[each]
        found += processes[each][2] if each in processes else 0.0
    return found


def _scan() -> tuple[dict[int, tuple[str, int, float]], dict[int, list[int]]]:
    """(name, parent, processor seconds) of every process, and who is whose child."""
    processes: dict[int, tuple[str, int, float]] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        # A process may end between the listing and the reading.
        with contextlib.suppress(OSError, ValueError):
            text = Path("/proc", str(int(entry)), "stat").read_text()
            name = text[text.index("(") + 1 : text.rindex(")")]
            fields = text[text.rindex(")") + 2 :].split()
            parent = int(fields[1])
            # With that of children that have ended: workers come and go.
            processes[int(entry)] = (name, parent, sum(map(int, fields[11:15])) / _TICKS)
            children[parent].append(int(entry))
    return processes, children


def _rss(pid: int) -> int:
    try:
        return int(Path("/proc", str(pid), "statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class MemoryWatch:
    """A thread that looks at the workers' memory now and then, and keeps the highest it saw."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.peak_worker_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._ended.wait(_WATCH_SECONDS):
            seen = usage()
            self.peak_bytes = max(self.peak_bytes, seen.worker_rss_bytes)
            self.peak_worker_bytes = max(self.peak_worker_bytes, seen.largest_worker_rss_bytes)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()
