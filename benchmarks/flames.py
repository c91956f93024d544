"""Flame graphs of Spark's Python workers while they do the works of matrix.py.

    pip install py-spy
    python benchmarks/flames.py [--only count join ...] [--folder benchmarks/flames]

Each work runs once to warm up and once more under py-spy, which looks a hundred times a second at what the workers are
computing; a worker that waits is not counted. There is one picture for each work: open it in a browser, and click to zoom.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _works import WORKS
from matrix import frame_of, started, write

import holdfast as hf

_NAMES = ("count", "first", "tumbling", "sessions", "join", "velocity", "small")
_PER_SECOND = 100
_WAIT_SECONDS = 60


def daemon_of(pid: int) -> int:
    """The process from which Spark forks the workers of its stateful operator: a Python process below the JVM below this
    one. Those of other stages have a daemon of their own, and less to do."""
    below = [each for child in _children(pid) for each in _children(child)]
    daemons = [each for each in below if b"daemon" in Path("/proc", str(each), "cmdline").read_bytes()]
    if not daemons:
        raise SystemExit("Spark has started no Python workers.")
    return max(daemons, key=lambda daemon: sum(map(_cpu_ticks, _children(daemon))))


def _cpu_ticks(pid: int) -> int:
    """The processor time that a process has taken."""
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _children(pid: int) -> list[int]:
    found = Path("/proc", str(pid), "task").glob("*/children")
    return [int(child) for tasks in found for child in tasks.read_text().split()]


@contextlib.contextmanager
def recorded(pid: int, picture: Path, title: str) -> Iterator[None]:
    """Records a process and those below it, until the block ends."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if spy is None:
        raise SystemExit("py-spy is missing: pip install py-spy")
    command = [spy, "record", "--pid", str(pid), "--subprocesses", "--output", str(picture), "--rate", str(_PER_SECOND)]
    recorder = subprocess.Popen([*command, "--duration", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(_WAIT_SECONDS)
    if picture.exists():
        # The title is the command, which says where this machine has its Python; so do the names of the processes.
        told = re.sub(r">[^<>]*--subprocesses[^<>]*<", f">{title}<", picture.read_text(), count=1)
        picture.write_text(told.replace(sys.executable, "python"))
        print(f"{title}: {picture}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=_NAMES, default=_NAMES)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/flames"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    spark = hf.session("flames", cores=2, config={"spark.sql.files.openCostInBytes": "0"})
    with tempfile.TemporaryDirectory(prefix="holdfast-flames-") as place:
        for work in [work for work in WORKS if work.name in options.only]:
            data = Path(place) / work.name
            write(data, work, work.batches, 1, 1)
            for is_warm in (False, True):
                frame = frame_of(spark, work, "holdfast", data)
                query = started(spark, work, "holdfast", frame, f"{place}/{work.name}-{is_warm}", format="noop")
                if not is_warm:
                    query.awaitTermination()
                    continue
                while not query.lastProgress and query.isActive:
                    time.sleep(0.1)
                with recorded(daemon_of(os.getpid()), options.folder / f"{work.name}.svg", work.title):
                    query.awaitTermination()


if __name__ == "__main__":
    main()
