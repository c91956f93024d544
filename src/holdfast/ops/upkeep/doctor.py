"""Whether this machine can run jobs: Java, Spark, libraries, memory, disk and network, each with advice."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast.errors import HoldfastError

__all__ = ["RANGES", "Check", "doctor"]

Status = Literal["ok", "warning", "failed"]

OK: Status = "ok"
WARNING: Status = "warning"
FAILED: Status = "failed"

Version = tuple[int, ...]

RANGES: dict[str, tuple[Version, Version | None]] = {
    "pyspark": ((4, 3), (4, 4)),
    "pyarrow": ((18,), None),
    "pandas": ((2, 2), (3,)),
    "protobuf": ((6,), None),
    "xxhash": ((3, 4), None),
    "lz4": ((4, 3), None),
    "rocksdict": ((0, 3, 26), None),
    "numpy": ((1, 26), None),
    "msgspec": ((0, 19), None),
    "ormsgpack": ((1, 10), None),
    "zstandard": ((0, 23), None),
}
"""The lowest version, and the first that is too new, as in pyproject.toml."""

_PYTHON = (3, 10)
_JAVA = 17
_GB = 1 << 30
_DRIVER_BYTES = 2 * _GB
_WORKER_BYTES = 2 * _GB
_ROCKSDB_BYTES = _GB // 4
_SPARK_SECONDS = 180.0
_TRIAL = """
import pyarrow
from holdfast.spark.session.settings import session

def same(batches):
    yield from batches

spark = session("holdfast-doctor", cores=1, config={"spark.driver.memory": "512m"})
spark.sparkContext.setLogLevel("OFF")
assert spark.range(3).mapInArrow(same, "id long").count() == 3
print("it works")
spark.stop()
"""


@dataclass(frozen=True)
class Check:
    """What was checked, what was found, and what to do about it."""

    name: str
    status: Status
    """`ok`, `warning` or `failed`."""
    found: str
    advice: str = ""


def doctor(*, with_spark: bool = True) -> Iterator[Check]:
    """Runs all checks in turn. `with_spark`: also whether a session starts and runs a Python worker."""
    needed = [_python(), _java(), *(_library(name) for name in RANGES)]
    yield from needed
    yield from (_memory(), _cores(), _disk(), _hostname(), _kafka())
    if not with_spark:
        return
    missing = [check.name for check in needed if check.status == FAILED]
    if missing:
        yield Check("a local session", WARNING, f"not tried: first fix {', '.join(missing)}")
    else:
        yield _session()


def _python() -> Check:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    if sys.version_info[:2] < _PYTHON:
        return Check("Python", FAILED, found, f"use Python {_PYTHON[0]}.{_PYTHON[1]} or newer")
    workers = os.environ.get("PYSPARK_PYTHON")
    if workers and shutil.which(workers) is None:
        return Check("Python", FAILED, f"{found}; PYSPARK_PYTHON={workers} does not exist", "unset PYSPARK_PYTHON")
    if workers and os.path.realpath(shutil.which(workers) or workers) != os.path.realpath(sys.executable):
        return Check("Python", WARNING, f"{found}; workers run {workers}", "both must be the same version and have Holdfast")
    return Check("Python", OK, found)


def _java() -> Check:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    advice = f"install Java {_JAVA} or newer, for example: sudo apt-get install openjdk-17-jre-headless"
    java = shutil.which(command)
    if java is None:
        if home:
            return Check("Java", FAILED, f"JAVA_HOME is {home}, but there is no {command}", f"unset JAVA_HOME, or {advice}")
        return Check("Java", FAILED, "not found", advice)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("Java", FAILED, f"{java} does not run: {error}", advice)
    matched = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said.stderr + said.stdout)
    if said.returncode != 0 or matched is None:
        return Check(
            "Java", FAILED, f"{java} does not say its version: {(said.stderr or said.stdout).strip()[:200]}", advice
        )
    found = f"{matched[0].removeprefix('version ')} at {java}" + ("" if home else "; JAVA_HOME is not set, which is fine")
    return Check("Java", OK, found) if int(matched[1]) >= _JAVA else Check("Java", FAILED, found, advice)


def _library(name: str) -> Check:
    lowest, below = RANGES[name]
    wanted = f"{name}>={_text(lowest)}" + (f",<{_text(below)}" if below else "")
    advice = f"pip install '{wanted}', or everything at once: pip install 'holdfast[spark]'"
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, FAILED, "not installed", advice)
    version = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
    fits = version >= lowest and (below is None or version[: len(below)] < below)
    return Check(name, OK, found) if fits else Check(name, FAILED, f"{found}, but {wanted} is needed", advice)


def _memory() -> Check:
    total = _total_memory()
    if total is None:
        return Check("memory", WARNING, "could not be determined")
    cores = _usable_cores()
    wanted = _DRIVER_BYTES + _ROCKSDB_BYTES + cores * _WORKER_BYTES
    found = f"{total / _GB:.1f} GB, {_available(total) / _GB:.1f} GB free"
    if total >= wanted:
        return Check("memory", OK, found)
    budget = max((total - _GB - _ROCKSDB_BYTES) // cores // 2 // (1 << 20), 64)
    return Check(
        "memory",
        WARNING,
        f"{found}; a driver of 2 GB and {cores} worker(s) that may keep 2 GB of state each want {wanted / _GB:.1f} GB",
        "if memory runs out, give less: hf.session(config={'spark.driver.memory': '1g'}, "
        f"memory_budget_bytes={budget} << 20), or keep the state on disk: par_do(backend='disk')",
    )


def _cores() -> Check:
    cores, machine = _usable_cores(), os.cpu_count() or 1
    found = f"{cores} of {machine}" if cores != machine else str(cores)
    if cores < machine:
        advice = f"a local session takes {machine}; give it what it may use: hf.session(cores={cores})"
        return Check("cores", WARNING, found, advice)
    if cores == 1:
        return Check("cores", WARNING, found, "Java and Python share it: a second one nearly doubles the speed")
    return Check("cores", OK, found)


def _disk() -> Check:
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(
            "disk", FAILED, f"{folder}: {error.strerror}", "set SPARK_LOCAL_DIRS and TMPDIR to a directory that exists"
        )
    found = f"{free / _GB:.1f} GB free at {folder}"
    advice = "state and shuffles are kept there: free some space, or set SPARK_LOCAL_DIRS and TMPDIR to another disk"
    if not os.access(folder, os.W_OK):
        return Check("disk", FAILED, f"{folder} cannot be written to", advice)
    if free < _GB // 4:
        return Check("disk", FAILED, found, advice)
    return Check("disk", OK, found) if free >= 5 * _GB else Check("disk", WARNING, found, advice)


def _hostname() -> Check:
    name = socket.gethostname()
    try:
        return Check("host name", OK, f"{name} is {socket.gethostbyname(name)}")
    except OSError:
        advice = (
            "sessions other than hf.session() may not start: set SPARK_LOCAL_IP=127.0.0.1, or add the name to /etc/hosts"
        )
        return Check("host name", WARNING, f"{name} cannot be resolved", advice)


def _kafka() -> Check:
    """Jobs without Kafka need no connector, so that none is a failure."""
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Check("Kafka connector", OK, "not looked for: there is no Spark")
    try:
        from holdfast.spark.session.connectors import connector_folder, connector_jars, present_jars

        connector_jars("kafka", version)
    except HoldfastError as error:
        return Check("Kafka connector", OK, f"not there: {error.what}")
    if present_jars("kafka") is None:
        return Check("Kafka connector", OK, "not there; if you need it: holdfast jars kafka")
    return Check("Kafka connector", OK, str(connector_folder("kafka", version)))


def _session() -> Check:
    """Runs in a process of its own, so that nothing can harm this one."""
    import holdfast

    paths = [str(Path(holdfast.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
        # From a file, so that errors can show the source.
        program = Path(folder) / "trial.py"
        program.write_text(_TRIAL)
        try:
            done = subprocess.run(
                [sys.executable, str(program)],
                capture_output=True,
                text=True,
                timeout=_SPARK_SECONDS,
                cwd=folder,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            advice = "perhaps a firewall on 127.0.0.1, or a very busy machine; look at what java does meanwhile"
            return Check("a local session", FAILED, f"did not start within {_SPARK_SECONDS:.0f} seconds", advice)
    seconds = time.monotonic() - begun
    if done.returncode == 0 and "it works" in done.stdout:
        return Check("a local session", OK, f"starts and runs a Python worker, in {seconds:.0f} s")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return Check("a local session", FAILED, "does not work: " + "\n".join(lines[-8:]), "the last lines say why")


def _usable_cores() -> int:
    """The cores that this process may use; a container may have fewer than the machine."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return cores if quota == "max" else max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores


def _total_memory() -> int | None:
    """Memory of the machine, or of the container if that has less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
    try:
        return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):
        return total


def _available(total: int) -> int:
    try:
        matched = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return total
    return total if matched is None else min(total, int(matched[1]) * 1024)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
