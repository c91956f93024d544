"""Starts the job's program in a session of its own, watches its checkpoint, and kills what belongs to it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
from deltalake import DeltaTable

from .oracle import Row

__all__ = ["Place", "Process", "Program", "read_sink"]

T = TypeVar("T")

_POLL_SECONDS = 0.002
_STILL_SECONDS_MAX = 90
_COLUMNS = ["k", "event", "life", "n", "value", "at", "total", "digest"]
_QUOTED = ", ".join(f'"{column}"' for column in _COLUMNS)


@dataclass(frozen=True)
class Place:
    """Where a run keeps its files, and what they show of how far it has come."""

    root: Path
    sink: str = "sqlite"
    """The ledger's: "sqlite", "parquet", "delta", "duckdb" or "postgres". "several", "several-delta": the job is the
    pipeline, with sinks of its own in a folder. "edges": it is the one between Kafka and PostgreSQL."""

    @property
    def program(self) -> list[str]:
        """The script of the job, with its arguments."""
        given = {"--checkpoint": self.checkpoint}
        if self.sink != "edges":
            given |= {"--input": self.input, "--sink": Path(self.sink), "--output": self.output}
        script = Path(__file__).with_name("edges_driver.py" if self.sink == "edges" else "driver.py")
        return [str(script), *(str(word) for pair in given.items() for word in pair)]

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def output(self) -> Path:
        """The sink's own; a file that says where the server is, if it is one."""
        return self.root / (f"rows.{self.sink}" if self.sink in ("sqlite", "duckdb", "postgres") else "rows")

    def begun(self) -> int:
        """The last micro-batch that has begun, or -1."""
        return _newest(self.checkpoint / "offsets")

    def committed(self) -> int:
        """The last micro-batch that has been committed, or -1."""
        return _newest(self.checkpoint / "commits")

    def state(self) -> tuple[int, ...]:
        """The newest version of the state in each partition of each operator."""
        operators = [
            self.checkpoint / "state" / name for name in sorted(filter(str.isdigit, _names(self.checkpoint / "state")))
        ]
        return tuple(
            _newest(operator / partition)
            for operator in operators
            for partition in sorted(filter(str.isdigit, _names(operator)))
        )

    def micro_batches(self, files: list[list[T]]) -> list[list[T]]:
        """What each micro-batch had as its input, by Spark's own logs.

        It is a file each, but for this: Spark notes which files it has seen before it notes that a micro-batch begins.
        Killed between the two, it gives that file to the next one, together with its own. Of several files it reads the
        largest first.
        """
        seen: dict[int, set[str]] = {}
        for path in (self.checkpoint / "sources" / "0").glob("[0-9]*"):
            entries = [json.loads(line) for line in path.read_text().splitlines()[1:]]
            for entry in entries:
                seen.setdefault(entry["batchId"], set()).add(entry["path"].rpartition("/")[2])
        made: list[list[T]] = []
        last = -1
        for batch in range(self.begun() + 1):
            offset = json.loads((self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])["logOffset"]
            names = sorted(name for number in range(last + 1, offset + 1) for name in seen[number])
            names.sort(key=lambda name: -(self.input / name).stat().st_size)
            made.append([element for name in names for element in files[int(name.partition(".")[0])]])
            last = offset
        return made

    def written(self) -> Any:
        """Changes whenever the sink is written to."""
        if self.sink == "parquet":
            return frozenset(_names(self.output))
        if self.sink == "delta":
            return frozenset(_names(self.output)), frozenset(_names(self.output / "_delta_log"))
        journal = self.output.with_name(self.output.name + (".wal" if self.sink == "duckdb" else "-journal"))
        try:
            return journal.exists(), self.output.stat().st_mtime_ns
        except FileNotFoundError:
            return journal.exists(), 0


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _newest(directory: Path) -> int:
    """The largest number with which the name of a file in there begins."""
    return max((int(found[0]) for name in _names(directory) if (found := re.match(r"\d+", name))), default=-1)


def read_sink(place: Place) -> Iterator[Row]:
    """All rows of a sink, without Holdfast and without Spark."""
    if place.sink == "sqlite":
        with closing(sqlite3.connect(place.output)) as database:
            yield from database.execute(f"SELECT {', '.join(_COLUMNS)} FROM ledger")
        return
    if place.sink == "delta":
        held = DeltaTable(place.output).to_pyarrow_table().to_pydict()
        yield from zip(*(held[column] for column in _COLUMNS), strict=True)
        return
    if place.sink == "duckdb":
        import duckdb

        with duckdb.connect(str(place.output), read_only=True) as connection:
            yield from connection.execute(f"SELECT {_QUOTED} FROM ledger").fetchall()
        return
    if place.sink == "postgres":
        import psycopg

        with closing(psycopg.connect(place.output.read_text())) as session:
            yield from session.execute(f"SELECT {_QUOTED} FROM ledger.ledger").fetchall()
        return
    for file in sorted(place.output.glob("batch_id=*/part-*.parquet")):
        rows = pq.ParquetFile(file).read(columns=_COLUMNS).to_pydict()
        yield from zip(*(rows[column] for column in _COLUMNS), strict=True)


@dataclass(frozen=True)
class Process:
    """A process of a program's session."""

    pid: int
    parent: int
    command: str


class Program:
    """One life of the job's program. It leads a session, by which all its processes are found, whoever started them."""

    def __init__(self, place: Place, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._log = place.root / "stderr.txt"
        self.place = place
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *place.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                cwd=place.root,
                env={**os.environ, **(env or {})},
            )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.said.append(line.strip())

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def until(self, is_so: Callable[[], bool], what: str) -> bool:
        """Waits for something; whether it came before the program ended. A program that hangs is killed: one whose
        checkpoint does not change for a long time, however slow the machine."""
        changed, seen = time.monotonic(), self._traces()
        while not is_so():
            if self.ended:
                return is_so()
            if time.monotonic() > changed + _STILL_SECONDS_MAX:
                if self._traces() == seen:
                    self.kill()
                    raise AssertionError(f"The program hangs while the test waits for {what}.{self.log()}")
                changed, seen = time.monotonic(), self._traces()
            time.sleep(_POLL_SECONDS)
        return True

    def until_phase(self, phase: str, times: int) -> bool:
        """Waits until the active program has come to a phase so many times from now on; whether it has before it ended."""
        if phase == "active":
            return not self.ended
        look = getattr(self.place, phase)
        seen = look()
        for _ in range(times):
            if not self.until(lambda seen=seen: look() != seen, f"a change of what is {phase}"):  # type: ignore[misc]
                return False
            seen = look()
        return True

    def until_there(self, find: Callable[[Program], list[Process]], count: int = 1) -> list[Process]:
        """Waits for so many processes and gives them, as they were then; none if the program ended before."""
        found: list[Process] = []

        def enough() -> bool:
            found[:] = find(self)
            return len(found) >= count

        return found if self.until(enough, f"{count} processes") else []

    def _traces(self) -> Any:
        return len(self.said), self.place.begun(), self.place.committed(), self.place.state()

    def until_active(self) -> None:
        if not self.until(lambda: "active" in self.said, "an active query"):
            raise AssertionError(f"The program ended before its query was active.{self.log()}")

    def finish(self) -> None:
        """Waits until all input is in the sink."""
        self.until(lambda: self.ended, "the end of the input")
        self._reader.join(10)
        self.kill()
        if self._process.returncode != 0 or "done" not in self.said:
            raise AssertionError(f"The program failed with the exit code {self._process.returncode}.{self.log()}")

    def log(self) -> str:
        """The end of what the program had to say, for a message."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return f"\nIt said {self.said}, and on standard error:\n" + text[-3000:]

    def processes(self) -> list[Process]:
        """Those of its session."""
        found = [_process(int(name)) for name in os.listdir("/proc") if name.isdigit()]
        return sorted((p for p, session in found if p and session == self._process.pid), key=lambda p: p.pid)

    def kill(self) -> None:
        """`kill -9` for the driver with its JVM, then for whatever else is left of its session."""
        if not self.ended:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)
        deadline = time.monotonic() + 30
        while left := self.processes():
            for process in left:
                self.kill_one(process)
            if time.monotonic() > deadline:
                raise AssertionError(f"These processes cannot be killed: {left}")
            time.sleep(0.02)
        self._reader.join(10)

    def signal(self, number: int, *, everybody: bool) -> None:
        """A signal for the driver, or as at a terminal for all processes of its group."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everybody else os.kill)(self._process.pid, number)

    def kill_one(self, process: Process) -> bool:
        """`kill -9` for one process of the session; whether it was still there."""
        now, session = _process(process.pid)
        if now is None or session != self._process.pid:
            return False
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


def _process(pid: int) -> tuple[Process | None, int]:
    """A process and its session; None if there is none, or only what its parent has not yet taken note of."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None, -1
    state, parent, _, session = stat.rpartition(")")[2].split()[:4]
    return (None if state == "Z" else Process(pid, int(parent), command)), int(session)
