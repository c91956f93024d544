"""Failures of a query, in our words: what a user meets first is the cause, not two hundred lines of Spark."""

from __future__ import annotations

import re
from typing import Any

from holdfast.errors import HoldfastError, JobFailed
from holdfast.spark.transport import uncarried

__all__ = ["first_cause", "query_failure"]

_PYTHON_CAUSE = re.compile(r"^(\w[\w.]*(?:Error|Exception|Warning|Interrupt)): (.*)$", re.MULTILINE)


def query_failure(error: Any, checkpoint: str, job: str | None = None) -> HoldfastError:
    """The error to raise for the exception with which a streaming query, perhaps that of a job, ended."""
    text = str(error)
    cause = getattr(error, "__cause__", None)
    if cause is not None:
        text += f"\n{cause}"
    ours = uncarried(text)
    if ours is not None:
        return ours if job is None else ours.within(job=job)
    return JobFailed(
        f"The {'query' if job is None else f'job {job!r}'} failed: {first_cause(text)}",
        detail="Spark's own report is the __cause__ of this error.",
        todo="mend the cause and start the job again: it goes on from the last committed micro-batch",
        context={"checkpoint": checkpoint},
    )


def first_cause(text: str) -> str:
    """The line that says most: the last Python error if there is one, else the first line of Spark's."""
    found = _PYTHON_CAUSE.findall(text)
    if found:
        kind, message = found[-1]
        return f"{kind.rsplit('.', 1)[-1]}: {message}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason was given"
