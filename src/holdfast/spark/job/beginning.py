"""What is done once before a job takes its checkpoint: a tool that runs its script may have something to do there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

__all__ = ["Beginning", "begin", "beginning_with"]

Beginning = Callable[[SparkSession, str, str], str | None]
"""Called with the session, the job's name and its checkpoint, at each start of a query; returns what it did, in words, if
anything. What it raises keeps the job from starting."""

_beginnings: list[Beginning] = []


@contextlib.contextmanager
def beginning_with(beginning: Beginning) -> Iterator[None]:
    """Every job that is started in this process in this block begins with it."""
    _beginnings.append(beginning)
    try:
        yield
    finally:
        _beginnings.remove(beginning)


def begin(spark: SparkSession, job: str, checkpoint: str) -> list[str]:
    """Does what is to be done; returns what was done."""
    return [done for beginning in _beginnings if (done := beginning(spark, job, checkpoint)) is not None]
