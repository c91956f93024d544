"""Listening to what Spark says of its queries: starts, reports of micro-batches, ends.

PySpark's own listener reads every event from the JVM member by member, some hundred calls for one report, while the next
micro-batch wants the same processors. Here a report comes as one text, and only what is asked for is read. That
needs a class of PySpark's which is not public: this is the only module that knows it. With a Spark that it was not tried
with, PySpark's listener does the same, slower.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener, StreamingQueryProgress

from holdfast.spark.session.versions import is_known_version

__all__ = ["Listener", "listen"]


class Listener:
    """What is to be called. All but `started` come in a thread of Spark's, one after another; none may raise."""

    def started(self, query_id: str) -> None:
        """A query is about to begin: called in its thread, which waits."""

    def reported(self, report: StreamingQueryProgress) -> None:
        """Spark has reported on a micro-batch, or that there is nothing to do."""

    def ended(self, run_id: str) -> None:
        """A query has ended."""


def listen(spark: SparkSession, listener: Listener) -> Callable[[], None]:
    """Listens to all queries of a session from now on, until the function that is returned is called."""
    registered = (_ByText if is_known_version() else _ByMember)(listener)
    spark.streams.addListener(registered)

    def end() -> None:
        # Spark may be gone.
        with contextlib.suppress(Exception):
            spark.streams.removeListener(registered)

    return end


class _ByMember(StreamingQueryListener):
    """PySpark's way."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def onQueryStarted(self, event: Any) -> None:
        self.listener.started(str(event.id))

    def onQueryProgress(self, event: Any) -> None:
        self.listener.reported(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        self.listener.ended(str(event.runId))


class _ByText(_ByMember):
    """Ours."""

    @property
    def _jlistener(self) -> Any:
        if not hasattr(self, "_jlistenerobj"):
            called = _Called(self.listener)
            self._jlistenerobj = SparkContext._jvm.PythonStreamingQueryListenerWrapper(called)  # type: ignore[union-attr]
        return self._jlistenerobj


class _Called(JStreamingQueryListener):
    """Called by Spark's JVM. What the listener leaves as it is, is not read."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._reads_reports = type(listener).reported is not Listener.reported
        self._reads_ends = type(listener).ended is not Listener.ended

    def onQueryStarted(self, jevent: Any) -> None:
        self._listener.started(jevent.id().toString())

    def onQueryProgress(self, jevent: Any) -> None:
        if self._reads_reports:
            self._listener.reported(StreamingQueryProgress.fromJson(json.loads(jevent.progress().json())))

    def onQueryIdle(self, jevent: Any) -> None:
        """Nothing."""

    def onQueryTerminated(self, jevent: Any) -> None:
        if self._reads_ends:
            self._listener.ended(jevent.runId().toString())
