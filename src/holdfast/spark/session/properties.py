"""Spark's local properties: what a thread passes to the tasks of everything it starts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark import TaskContext
from pyspark.sql import SparkSession

__all__ = ["BACKEND", "MEMORY_BUDGET", "STATE_DIR", "TELLS_NOTHING", "local_property", "task_property"]

MEMORY_BUDGET = "spark.holdfast.memoryBudgetBytes"
"""How much state a Python worker keeps between micro-batches: a setting of the session, and a property of a job's tasks."""

TELLS_NOTHING = "spark.holdfast.tellsNothing"
"""Set if the bundles of a job do not report what they did."""


BACKEND = "spark.holdfast.backend"
"""The backend of a job's steps that have not named one."""

STATE_DIR = "spark.holdfast.stateDir"
"""Where a job's disk backend has its working files, as `working_folder.py` writes it."""


@contextlib.contextmanager
def local_property(spark: SparkSession, name: str, value: str | None) -> Iterator[None]:
    """Sets a property for what this thread starts in this block; None leaves it unchanged."""
    context = spark.sparkContext
    before = context.getLocalProperty(name)
    if value is not None:
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        if value is not None:
            context.setLocalProperty(name, before)  # type: ignore[arg-type]


def task_property(name: str) -> str | None:
    """The property in a task; None if it was not set, or outside tasks."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)
