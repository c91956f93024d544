"""The handler of micro-batches: called by Spark with the rows of each, it writes them to the sinks."""

from __future__ import annotations

import functools
import threading

from pyspark.sql import DataFrame

from holdfast.checkpoint.presence import Presence
from holdfast.errors import HoldfastError, JobFailed
from holdfast.spark.errors.quiet import never_logged, quiet
from holdfast.spark.job.life import HeldBack, Life, Stop
from holdfast.spark.job.pause import Pause
from holdfast.spark.job.root import Part
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.plans import plan_of

__all__ = ["Handler"]


class Given:
    """A value that one thread gives and another waits for."""

    def __init__(self) -> None:
        self._there = threading.Event()
        self._value = ""

    def set(self, value: str) -> None:
        self._value = value
        self._there.set()

    def get(self) -> str:
        self._there.wait()
        return self._value


class Handler:
    """Called by Spark with each micro-batch. It returns only when everything has been written."""

    def __init__(
        self,
        life: Life,
        presence: Presence,
        checkpoint: str,
        sinks: list[tuple[Part | None, Sink]],
        batches_max: int | None,
        pause: Pause,
    ) -> None:
        self._life = life
        self._presence = presence
        self._checkpoint = checkpoint
        self._sinks = sinks
        self._batches_max = batches_max
        self._pause = pause
        self.query_id = Given()
        self.failure: HoldfastError | None = None
        """What a sink raised; only the text of it survives the way through Spark."""
        never_logged(HeldBack)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self._pause.wait(batch_id, self._life)
        try:
            with self._life.micro_batch(batch_id), quiet():
                self._presence.confirm()
                planned = functools.partial(plan_of, batch.sparkSession, self._checkpoint)
                self._write_all(batch, BatchInfo(self.query_id.get(), batch_id, planned(batch_id), planned))
        except HoldfastError as error:
            self.failure = error.within(micro_batch=batch_id)
            raise
        except Exception:
            raise
        except BaseException as error:
            # Spark's JVM would wait forever for an answer from a thread that sys.exit() has ended.
            self.failure = JobFailed(
                f"A sink ended with {type(error).__name__}: {error}".rstrip(": "),
                todo="raise an exception to fail the micro-batch; call job.stop() to end the job after it",
                context={"micro_batch": batch_id},
            )
            raise self.failure from error
        self._pause.ended()
        if self._batches_max is not None and self._life.done_since_begin >= self._batches_max:
            self._life.ask(Stop.AFTER_BATCH)

    def _write_all(self, batch: DataFrame, info: BatchInfo) -> None:
        """Evaluates the whole micro-batch once, whatever the sinks do with the rows.

        A partition that is not evaluated gets no state for this micro-batch, and the next one would find none.
        """
        if self._sinks[0][0] is None and self._sinks[0][1].evaluates_all:
            self._sinks[0][1].write_batch(batch, info)
            return
        batch.persist()
        try:
            batch.count()
            for part, sink in self._sinks:
                self._presence.confirm()
                sink.write_batch(batch if part is None else part(batch), info)
        finally:
            batch.unpersist()
