"""Failures of a query, in our words: users first see the cause, not two hundred lines of Spark.

Spark's text holds Python tracebacks, py4j's wrapping of them, and chains of Java exceptions. The most useful part, in this
order: our own error; what we can explain (`_KNOWN`); the last Python error that is not py4j's; the deepest Java exception
with one of Spark's error names, such as [CANNOT_LOAD_STATE_STORE]; the last cause of all.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError, JobFailed
from holdfast.spark.errors.transport import uncarried

__all__ = ["failure_line", "first_cause", "is_worker_trouble", "query_failure"]

_PYTHON_CAUSE = re.compile(r"^(\w[\w.]*(?:Error|Exception|Warning|Interrupt|Exit)): (.*)$", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^(?:Caused by: |: )?((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable)): ?(.*)$", re.MULTILINE)
_NAMED = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")
_OF_PY4J = ("py4j.", "Py4J")

_GO_ON = "fix the cause and start the job again: it resumes after the last committed micro-batch"


@dataclass(frozen=True)
class _Known:
    """A cause that we can explain better than Spark does."""

    pattern: re.Pattern[str]
    what: str
    todo: str
    worker: bool = False
    """Whether a worker process is at fault, rather than its work."""


def _known(pattern: str, what: str, todo: str, *, worker: bool = False) -> _Known:
    return _Known(re.compile(pattern), what, todo, worker)


_KNOWN = [
    _known(
        r"No module named '(?:holdfast|pyarrow|pandas|numpy|msgspec|ormsgpack|zstandard|xxhash|pyspark|py4j)\b"
        r"|PACKAGE_NOT_INSTALLED",
        "a Python worker cannot import Holdfast or what it needs: it runs a different Python than the driver",
        "set PYSPARK_PYTHON to a Python that has holdfast installed before Spark starts (on one machine: "
        "PYSPARK_PYTHON=$(which python), or start Spark with hf.session()); on a cluster install 'holdfast[spark]' on every "
        "node",
    ),
    _known(
        r"PYTHON_VERSION_MISMATCH",
        "the workers run a different version of Python than the driver",
        "set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to the same version before Spark starts",
    ),
    _known(
        r"No space left on device",
        "a disk is full (No space left on device)",
        "free some space for the checkpoint, the sinks and Spark's spark.local.dir, and start the job again: it resumes "
        "after the last committed micro-batch",
    ),
    _known(
        r"Python worker failed to connect back|waiting for the Python worker to connect back"
        r"|Python daemon failed to launch worker|Python failed to launch worker",
        "a Python worker could not be started in time",
        "start the job again when the machine is less busy: it resumes after the last committed micro-batch",
        worker=True,
    ),
    _known(
        r"(?:Python|driver) worker exited unexpectedly \(crashed\)",
        "a Python worker was killed or crashed in the middle of its work",
        "check if the machine ran out of memory (a lower memory_budget_bytes, or backend='disk', needs less), and start "
        "the job again: it resumes after the last committed micro-batch",
        worker=True,
    ),
    _known(
        r"OffsetOutOfRangeException|KAFKA_DATA_LOSS",
        "Kafka no longer has records that the job has not read: it has deleted them, by their age or the topic's size",
        "let the topic keep records for longer than a job may stand still; if those that are gone can be spared, start "
        "once with hf.sources.Kafka(..., options={'failOnDataLoss': 'false'})",
    ),
    _known(
        r"UnknownTopicOrPartitionException|Topic \S+ not present in metadata",
        "a Kafka topic does not exist, or its brokers do not answer",
        "create the topic, and check the addresses of the brokers; then start the job again",
    ),
    _known(
        r"CANNOT_LOAD_STATE_STORE|CHECKPOINT_RMDIR|does not exist.*\.(?:changelog|delta|zip|snapshot)",
        "",
        "find out what is missing: holdfast checkpoint verify CHECKPOINT",
    ),
]


def query_failure(error: Any, checkpoint: str, job: str | None = None) -> HoldfastError:
    """The error to raise when a streaming query, perhaps a job's, ended with an exception."""
    text = _text(error)
    ours = uncarried(text)
    if ours is not None:
        return ours if job is None else ours.within(job=job)
    known = _find(text)
    todo = _GO_ON if known is None else known.todo.replace("CHECKPOINT", checkpoint)
    if known is not None and known.worker:
        todo += _other_python()
    return JobFailed(
        f"The {'query' if job is None else f'job {job!r}'} failed: {first_cause(text)}",
        detail="Spark's own report is the __cause__ of this error.",
        todo=todo,
        context={"checkpoint": checkpoint},
    )


def _other_python() -> str:
    """A hint, if the workers run a different Python than the driver: it may lack what they need."""
    wanted = os.environ.get("PYSPARK_PYTHON", "python3")
    python = shutil.which(wanted) or wanted
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        return ""
    return (
        f". The workers run {python}, the driver {sys.executable}: if the first does not have 'holdfast[spark]' installed, "
        "install it there, or set PYSPARK_PYTHON to the second before Spark starts"
    )


def is_worker_trouble(error: Any) -> bool:
    """Whether a query failed because a worker could not start or died, rather than because of its work."""
    text = _text(error)
    known = None if uncarried(text) is not None else _find(text)
    return known is not None and known.worker


def failure_line(error: Any) -> str:
    """What failed, in a line: with where it happened, if it is one of our errors."""
    ours = error if isinstance(error, HoldfastError) else uncarried(_text(error))
    if ours is None:
        return first_cause(_text(error))
    where = next((line.strip() for line in str(ours).splitlines() if line.startswith("  where: ")), "")
    return f"{ours.what} ({where})" if where else ours.what


def first_cause(text: str) -> str:
    """The most useful sentence or line in Spark's text."""
    known = _find(text)
    if known is not None and known.what:
        return known.what
    python = [(kind, message) for kind, message in _PYTHON_CAUSE.findall(text) if not kind.startswith(_OF_PY4J)]
    # A name such as java.io.IOException also looks like a Python error.
    python = [(kind, message) for kind, message in python if not _is_java(kind)]
    if python:
        kind, message = python[-1]
        return f"{kind.rsplit('.', 1)[-1]}: {message}"
    return _java_cause(text)


def _java_cause(text: str) -> str:
    causes = [(kind, message.strip()) for kind, message in _JAVA_CAUSE.findall(text) if not kind.startswith("py4j.")]
    named = [_NAMED.search(message) for _, message in causes] or [_NAMED.search(text)]
    found = [match.group() for match in named if match is not None]
    last = f"{causes[-1][0].rsplit('.', 1)[-1]}: {causes[-1][1]}".rstrip(": ") if causes else ""
    if found:
        return found[-1] if not causes or found[-1] in last else f"{found[-1]} ({last})"
    if last:
        return last
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason was given"


def _is_java(kind: str) -> bool:
    return kind.split(".", 1)[0] in ("java", "javax", "org", "com", "scala", "sun", "jdk")


def _find(text: str) -> _Known | None:
    return next((known for known in _KNOWN if known.pattern.search(text)), None)


def _text(error: Any) -> str:
    text = str(error)
    cause = getattr(error, "__cause__", None)
    return text if cause is None else f"{text}\n{cause}"
