"""What a query of steps is given when it starts: the only module that reaches into a running query.

The user's own session stays unchanged. Spark clones it for each query, and calls `onQueryStarted` in the query's thread
before that has read its settings: there the clone is given those that steps need. `hf.Job` sets them around the start
itself, so that nothing is left to do here.

One more setting lets a query with `availableNow` end although one of its steps waits for processing time. While the stateful
operator uses processing time, Spark 4.3 runs one empty micro-batch after another, because a timer might become due, even if
the query should end with its input. Whether it should end is known only when it starts.
"""

from __future__ import annotations

import warnings
import weakref

import pyspark
from pyspark.sql import SparkSession

from holdfast.spark.session.listening import Listener, listen
from holdfast.spark.session.settings import lacking_settings
from holdfast.spark.session.versions import is_known_version
from holdfast.spark.steps.lineage import steps_in

__all__ = ["NO_DATA", "watch_starts"]

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"

_watched: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def watch_starts(spark: SparkSession) -> None:
    """Watches for queries started in this session from now on."""
    if spark not in _watched:
        _watched.add(spark)
        listen(spark, _Starts(spark))


class _Starts(Listener):
    """Prepares every query that starts."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def started(self, query_id: str) -> None:
        try:
            _prepare(self._spark, query_id)
        except Exception as error:
            warnings.warn(_advice(error), stacklevel=2)


def _prepare(spark: SparkSession, query_id: str) -> None:
    query = spark.streams.get(query_id)
    if query is None:
        return
    execution = query._jsq.streamingQuery()
    steps = steps_in(execution.analyzedPlan())
    if not steps:
        return
    own = execution.sparkSessionForStream().conf()
    wanted = lacking_settings(lambda option: own.get(option, None))
    to_end = execution.trigger().toString() == "AvailableNowTrigger"
    if to_end and any(step.plan.uses_processing_time for step in steps):
        wanted[NO_DATA] = "false"
    for option, value in wanted.items():
        own.set(option, value)


def _advice(error: Exception) -> str:
    known = is_known_version()
    why = str(error).strip().partition("\n")[0] if known else f"PySpark {pyspark.__version__} is unknown"
    return (
        f"A query of steps started with Spark's own writeStream could not be given its settings ({why:.200}). Run it with "
        "hf.Job(...), or start it in a session that hf.session() made."
    )
