"""The processor: called by Spark's stateful operator once for each key group and micro-batch.

It opens the key group's state, runs one bundle, commits what changed to the state store, and asks to be woken when
something is next due. All its outputs leave as (tag, payload) rows.

Time. With event time alone the operator runs in EventTime mode, and the wake-up is the earliest event timer or window
end. If processing time matters it runs in ProcessingTime mode, where Spark wakes by that clock only; then a key group that
waits for the watermark is woken in every micro-batch. Either way there is one Spark timer per key group.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.group import GroupedData

from holdfast.engine.backends.protocol import Due, Place
from holdfast.engine.log.chain import HEAD
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.clocks import Clocks, collection_paused
from holdfast.engine.stored.evolution import MANIFEST, adapted
from holdfast.engine.stored.manifest import check_owner
from holdfast.errors import CorruptState, HoldfastError
from holdfast.model.time.timestamps import MIN_TIMESTAMP
from holdfast.model.windows.ready import GlobalWindow
from holdfast.spark.errors.transport import carried
from holdfast.spark.session.properties import BACKEND, MEMORY_BUDGET, TELLS_NOTHING, task_property
from holdfast.spark.stages.clock import spark_now_micros
from holdfast.spark.stages.collecting import between_bundles, paused_for_task, task_over
from holdfast.spark.stages.metrics import report_of
from holdfast.spark.stages.operator import Operator, by_value
from holdfast.spark.stages.payload import to_payloads
from holdfast.spark.stages.pipeline import store_of
from holdfast.spark.stages.plan import StepPlan
from holdfast.spark.stages.store import BLOB_KEY, BLOB_VALUE, GroupStore
from holdfast.spark.stages.worker import WORKER

__all__ = [
    "CLOCK",
    "OUTPUT_SCHEMA",
    "REPORT_TAG",
    "WAKE_TIME",
    "KeyGroupProcessor",
    "Packed",
    "StepProcessor",
    "batch_time_of",
    "stored_time",
    "transformed",
    "wake_soon",
    "whereabouts",
    "with_batch_time",
]

Packed = tuple[int, int, bytes | None]
"""Source, part and payload of a packed row."""

Tagged = tuple[str, pa.RecordBatch]
"""Outputs of one tag."""

REPORT_TAG = "~report"
"""The tag of the rows that tell what a bundle did; see `metrics.py`."""

OUTPUT_SCHEMA = "tag string, payload binary"

_OutputRow = Row("tag", "payload")
# Beside the backend's log, whose names begin differently.
_BATCH_TIME = "batch_time"
WAKE = "~wake"
CLOCK = "~clock"
WAKE_TIME = struct.Struct(">q")
_NEVER = GlobalWindow().end.micros
"""Nothing waits for the end of the global window: a stream never gets there."""


class KeyGroupProcessor:
    """Runs the key groups of one step. One object per task; what should outlive a task is in the worker."""

    def __init__(self, plan: StepPlan, *, by_clock: bool) -> None:
        self.plan = plan
        self._by_clock = by_clock
        """Whether Spark's operator, which the step may share with others, wakes by processing time."""

    def open(self, handle: Any, state: Any) -> None:
        """Called first, with Spark's handle and the map variable that holds all blobs."""
        self.plan = self.plan.running_on(task_property(BACKEND))
        self._batch_time: int | None = None
        self._blobs = store_of(handle, state)
        self._read_first = tuple(self._first_read())

    def bundle(
        self, label: int, packed: list[Packed], times: Any, batch_time: int | None
    ) -> tuple[list[Tagged], bytes | None]:
        """Runs a bundle of packed rows, or of none if only a timer has fired; returns its outputs, and a report of what it
        did, unless nobody wants to know."""
        self._batch_time = batch_time
        with carried(), collection_paused():
            between_bundles()
            self._blobs.begin(self._read_first)
            done = self._run(label, packed, times)
            self._blobs.end()
        return done

    def take_initial(self, name: str, blob: bytes, times: Any) -> None:
        """Takes a blob of a new job's initial state, and has the key group opened soon."""
        self._blobs.put(name, blob)
        if name == MANIFEST and (self.plan.uses_event_time or self.plan.uses_processing_time):
            wake_soon(self._blobs, times, by_clock=self._by_clock)

    def _first_read(self) -> Iterator[str]:
        """The blobs that every bundle reads."""
        yield MANIFEST
        if self.plan.factory is None:
            yield HEAD
        if self.plan.chained:
            yield CLOCK
        if self.plan.uses_event_time or self.plan.uses_processing_time:
            yield WAKE

    def _run(self, label: int, packed: list[Packed], times: Any) -> tuple[list[Tagged], bytes | None]:
        query, batch = whereabouts()
        place = Place(query, self.plan.name, label)
        query += self.plan.clock.scope()
        loaded = WORKER.step(self.plan, query)
        try:
            began = time.perf_counter_ns()
            # A copy made for another manifest would read a log of other cells: the attempt that adapted it may have been
            # undone, or the checkpoint rolled back to before that.
            stored = self._blobs.get(MANIFEST)
            backend = WORKER.group(query, loaded, label, stored)
            if backend is None:
                check_owner(stored, self.plan.name)
                layout = adapted(self._blobs, self.plan.manifest, loaded.layout, self.plan.evolution)
                backend = WORKER.add_group(query, loaded, place, layout, self._blobs.get(MANIFEST))
            backend.open(self._blobs)
            opened = (time.perf_counter_ns() - began) // 1000
            clocks = self._clocks(times)
            outputs: list[Tagged] = []
            metrics = run_bundle(
                backend,
                self._blobs,
                loaded.runner,
                loaded.intake(packed, clocks.now),
                clocks,
                batch,
                lambda: outputs.extend(loaded.outputs()),
            )
            self._wake_up(backend.next_due(loaded.runner), times)
        except BaseException as error:
            WORKER.forget(query, loaded, label)
            if isinstance(error, HoldfastError):
                error.within(step=self.plan.name, micro_batch=batch)
            raise
        WORKER.used(query, loaded, label, self._budget())
        if task_property(TELLS_NOTHING):
            return outputs, None
        metrics.open_micros = opened
        holding = getattr(backend, "holding", None)
        return outputs, report_of(self.plan.name, label, metrics, holding, WORKER.memory_bytes).encode()

    def _budget(self) -> int:
        """The job's budget, else the session's at the time the step was built."""
        given = task_property(MEMORY_BUDGET)
        return self.plan.memory_budget_bytes if given is None else int(given)

    def _clocks(self, times: Any) -> Clocks:
        """The clocks of this micro-batch. Spark's watermark is 0 until there is one."""
        watermark = times.getCurrentWatermarkInMs() * 1000 or MIN_TIMESTAMP.micros
        late = watermark
        if self.plan.chained:
            # Outputs of another step in this micro-batch were on time there, although the watermark may have passed them.
            seen = self._blobs.get(CLOCK)
            late = MIN_TIMESTAMP.micros if seen is None else stored_time(seen)
            if late != watermark:
                self._blobs.put(CLOCK, WAKE_TIME.pack(watermark))
        clock = self.plan.clock
        return Clocks(late, watermark, clock.now_micros(times, self._batch_time), clock.is_final())

    def _wake_up(self, due: Due, times: Any) -> None:
        """Sets one Spark timer for when something is next due, or none if nothing is."""
        if not (self.plan.uses_event_time or self.plan.uses_processing_time):
            return
        wanted = self._next_wake(due, times)
        stored = self._blobs.get(WAKE)
        present = None if stored is None else stored_time(stored)
        if wanted == present:
            return
        if present is not None:
            self._blobs.delete_timer(present)
        if wanted is None:
            self._blobs.remove(WAKE)
        else:
            self._blobs.register_timer(wanted)
            self._blobs.put(WAKE, WAKE_TIME.pack(wanted))

    def _next_wake(self, due: Due, times: Any) -> int | None:
        """In milliseconds, rounded up, so that everything is due when Spark's clock shows that time.

        Always in the future. What is due by now has been done as far as this micro-batch allows; and Spark removes a timer
        after it has fired, so one for the same time, set while it fires, would be lost.
        """
        event = None if due.event is None or due.event >= _NEVER else due.event
        if not self._by_clock:
            return None if event is None else max(-(-event // 1000), times.getCurrentWatermarkInMs() + 1)
        if event is None and due.real is None:
            return None
        soon = spark_now_micros(times) // 1000 + 1
        if event is not None or due.real is None:
            return soon
        return self.plan.clock.wake_millis(-(-due.real // 1000), soon)


class StepProcessor:
    """An operator with one step: takes packed rows, gives (tag, payload) rows. Spark sees it through `operator.py`."""

    def __init__(self, plan: StepPlan) -> None:
        self._step = KeyGroupProcessor(plan, by_clock=plan.uses_processing_time)

    def open(self, handle: Any, state: Any) -> None:
        paused_for_task()
        self._step.open(handle, state)

    def close(self) -> None:
        task_over()

    def handle_rows(self, key: Any, rows: Iterable[Row], times: Any) -> Iterator[Row]:
        """Takes packed rows for a key group, or none if only its timer has fired."""
        taken = list(rows)
        packed = [(row.source, row.part, row.payload) for row in taken]
        outputs, report = self._step.bundle(int(key[0]), packed, times, batch_time_of(taken))
        for tag, batch in outputs:
            for payload in to_payloads(batch):
                yield _OutputRow(tag, payload)
        if report is not None:
            yield _OutputRow(REPORT_TAG, report)

    def handle_initial_state(self, key: Any, initial: Any, times: Any) -> None:
        self._step.take_initial(initial.name, bytes(initial.blob), times)


def batch_time_of(rows: list[Row]) -> int | None:
    """The time of the micro-batch that came with the rows, if it did."""
    found: int | None = getattr(rows[0], _BATCH_TIME, None) if rows else None
    return found


def with_batch_time(packed: DataFrame) -> DataFrame:
    """Packed rows with the time of their micro-batch, in microseconds: Spark's operator knows it only in a time mode.

    In a stream, `current_timestamp` is the time in the plan of the micro-batch, which is the same in a replay. Spark would
    write it into the code that it generates, and compile that anew for every micro-batch, which takes longer than a small
    one. It generates none for `reflect`, and evaluates its arguments where it calls.
    """
    micros = F.unix_micros(F.current_timestamp())
    text = F.reflect(F.lit("java.lang.Long"), F.lit("toString"), micros)
    return packed.withColumn(_BATCH_TIME, text.cast("long"))


def transformed(
    packed: GroupedData, processor: Any, schema: str, *, time_mode: str, initial: GroupedData | None = None
) -> DataFrame:
    """The rows that an operator makes from packed rows, grouped by label."""
    pickled: bytes = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
    with by_value():
        return packed.transformWithState(
            statefulProcessor=Operator(pickled, BLOB_KEY, BLOB_VALUE),
            outputStructType=schema,
            outputMode="Append",
            timeMode=time_mode,
            initialState=initial,
        )


def stored_time(blob: bytes) -> int:
    """The time in a blob: when to wake a key group, or the watermark that it has seen."""
    if len(blob) != WAKE_TIME.size:
        raise CorruptState(
            f"A time stored with a key group is damaged: it has {len(blob)} bytes, not {WAKE_TIME.size}.",
            todo="go back to an earlier micro-batch, or restore a savepoint",
        )
    found: int = WAKE_TIME.unpack(blob)[0]
    return found


def wake_soon(blobs: GroupStore, times: Any, *, by_clock: bool) -> None:
    """Has a key group woken as soon as its clock moves; it then finds out what it really waits for."""
    wanted = spark_now_micros(times) // 1000 + 1 if by_clock else times.getCurrentWatermarkInMs() + 1
    blobs.register_timer(wanted)
    blobs.put(WAKE, WAKE_TIME.pack(wanted))


def whereabouts() -> tuple[str, int]:
    """The query and micro-batch of this task."""
    context = TaskContext.get()
    if context is None:
        return "", -1
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    batch = context.getLocalProperty("streaming.sql.batchId")
    return query, -1 if batch is None else int(batch)
