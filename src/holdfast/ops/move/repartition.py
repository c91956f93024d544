"""Spark's offline change of the number of state partitions: the only module that calls it.

It is not public in Spark 4.3 (`spark._streamingCheckpointManager`), so nothing else should depend on how it is called.
What it does with a checkpoint whose last committed micro-batch is N:

* writes the offsets of N again as micro-batch N + 1, with the new number of partitions;
* writes the state after N, timers included, into that many partitions, as a snapshot of version N + 2: every row goes where
  Spark's hash of its grouping key says, which for Holdfast is the label of the key group;
* writes the operators' metadata with the new number, and finally the commit of N + 1.

Until the commit exists, Spark refuses to start a query on the checkpoint. Running it again completes it.
"""

from __future__ import annotations

import time
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import normalised
from holdfast.checkpoint.files.links import for_state_reader
from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.schema_paths import place_schemas
from holdfast.errors import CheckpointError, HoldfastError
from holdfast.spark.session.versions import is_known_version

__all__ = ["no_task_runs", "repartition"]

_POLL_SECONDS = 0.1


def repartition(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Writes the state of a checkpoint that is not in use into another number of partitions, as a micro-batch of its own.

    Raises CheckpointError with Spark's reason if it fails.
    """
    manager = _manager(spark)
    try:
        manager.repartition(for_state_reader(checkpoint), partitions, True)
    except Exception as error:
        raise CheckpointError(
            f"The state of {checkpoint!r} could not be written into {partitions} partitions: {_reason(error)}",
            todo="fix the cause and try again",
        ) from error
    if for_state_reader(checkpoint) != normalised(checkpoint):
        # What it has written names the schemas by the link.
        place_schemas(open_checkpoint(spark, checkpoint), checkpoint)


def no_task_runs(spark: SparkSession, seconds: float) -> bool:
    """Waits at most this long until the session runs no tasks; returns whether that is so.

    A failed job may leave tasks that have not been cancelled yet and still write files.
    """
    context: Any = spark.sparkContext
    deadline = time.monotonic() + seconds
    while True:
        executors = context._jsc.sc().statusTracker().getExecutorInfos()
        if not any(executor.numRunningTasks() for executor in executors):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _manager(spark: SparkSession) -> Any:
    if not is_known_version() or not hasattr(type(spark), "_streamingCheckpointManager"):
        raise HoldfastError(
            f"The number of partitions cannot be changed with PySpark {pyspark.__version__} in this session.",
            detail="This uses a part of Spark that is not public, which Holdfast knows only from Spark 4.3.",
            todo="use PySpark 4.3, and not Spark Connect",
        )
    return spark._streamingCheckpointManager


def _reason(error: Exception) -> str:
    """The innermost cause, which is the most specific."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1:] or lines[:1] or ["no reason was given"])[0][:400]
