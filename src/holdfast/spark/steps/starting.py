"""What a query of steps is given when it starts: the only module that reaches into a running query.

A session of the user's own stays as it is. Spark clones it for each query, and calls `onQueryStarted` in the thread of the
query before that has looked at its settings: there the clone is given those that steps need. `hf.Job` sets them around the
start itself, so that nothing is left to do here.

One more lets a query with `availableNow` end although a step of it waits for processing time. While the stateful operator
goes by processing time, Spark 4.3 runs one empty micro-batch after the other, because a timer might become due, also where a
query is to end when its input is done. Whether it is to end is known only when it starts.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from holdfast.spark.session.settings import lacking_settings
from holdfast.spark.steps.lineage import steps_in

__all__ = ["NO_DATA", "watch_starts"]

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_KNOWN_VERSIONS = ("4.3",)

_watched: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def watch_starts(spark: SparkSession) -> None:
    """Watches the queries that are started in this session from now on."""
    if spark not in _watched:
        _watched.add(spark)
        spark.streams.addListener(_Starts(spark))


class _Starts(StreamingQueryListener):
    """Called at every start of a query."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def _jlistener(self) -> Any:
        return SparkContext._jvm.PythonStreamingQueryListenerWrapper(_OnlyStarts(self))  # type: ignore[union-attr]

    def onQueryStarted(self, event: Any) -> None:
        try:
            _prepare(self._spark, str(event.id))
        except Exception as error:
            warnings.warn(_advice(error), stacklevel=2)

    def onQueryProgress(self, event: Any) -> None:
        """Nothing."""

    def onQueryIdle(self, event: Any) -> None:
        """Nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing."""


class _OnlyStarts(JStreamingQueryListener):
    """What Spark's JVM calls. PySpark's own reads each report of progress, call by call, before it passes it on."""

    def onQueryProgress(self, jevent: Any) -> None:
        """Nothing."""

    def onQueryIdle(self, jevent: Any) -> None:
        """Nothing."""

    def onQueryTerminated(self, jevent: Any) -> None:
        """Nothing."""


def _prepare(spark: SparkSession, query_id: str) -> None:
    query = spark.streams.get(query_id)
    if query is None:
        return
    execution = query._jsq.streamingQuery()
    steps = steps_in(execution.analyzedPlan().toString())
    if not steps:
        return
    own = execution.sparkSessionForStream().conf()
    wanted = lacking_settings(lambda option: own.get(option, None))
    to_end = execution.trigger().toString() == "AvailableNowTrigger"
    if to_end and any(step.uses_processing_time for step in steps):
        wanted[NO_DATA] = "false"
    for option, value in wanted.items():
        own.set(option, value)


def _advice(error: Exception) -> str:
    known = pyspark.__version__.startswith(_KNOWN_VERSIONS)
    why = str(error).strip().partition("\n")[0] if known else f"PySpark {pyspark.__version__} is not known"
    return (
        f"A query of steps that Spark's own writeStream started could not be given its settings ({why:.200}). Run it with "
        "hf.Job(...), or start it in a session that hf.session() made."
    )
