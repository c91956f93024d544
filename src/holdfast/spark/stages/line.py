"""The line: how the rows of a whole graph of steps flow through one query, each step running once.

A streaming query has one sink, and a branch below a stateful operator would run that operator twice. So the steps of a graph
stand in a line, and every row says what it is:

    route INT, label INT, source INT, part INT, payload BINARY

A route stands for the input of a step, for what a sink wants (an output, or rows of a source that pass no step), or for an
output that goes through more of Spark's work before it reaches another step. An operator takes the rows that are input of
its steps, runs a bundle for each key group, and lets everything else pass. Steps that do not depend on each other share an
operator; the label says whose key group it is.

The input of a step, and the rows of an output with one label, come in an order that does not depend on which task was
faster: by `source`, which counts the tasks of a stage after those of the stages before, and by `part`, which counts the rows
of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Row

from holdfast.checkpoint.labels import labels, slot_of_label
from holdfast.spark.errors.transport import carried
from holdfast.spark.stages.collecting import paused_for_task, task_over
from holdfast.spark.stages.handoff import Handoff
from holdfast.spark.stages.pack import chunks, payloads_by_label, source_by_content
from holdfast.spark.stages.payload import from_payload, to_payloads
from holdfast.spark.stages.pipeline import store_of
from holdfast.spark.stages.plan import StepPlan
from holdfast.spark.stages.processor import KeyGroupProcessor, Packed, batch_time_of, wake_soon

__all__ = [
    "LINE_COLUMNS",
    "LINE_SCHEMA",
    "REPORT_ROUTE",
    "Beacon",
    "Exit",
    "Lane",
    "LineProcessor",
    "Origin",
    "SinkLane",
    "Stop",
    "pack_lanes",
    "unpack_origins",
]

LINE_SCHEMA = "route int, label int, source int, part int, payload binary"
REPORT_ROUTE = -1
"""The route of the rows that tell what a bundle did; see `metrics.py`."""
LINE_COLUMNS = ("route", "label", "source", "part", "payload")

_ARROW = pa.schema(
    [
        ("route", pa.int32()),
        ("label", pa.int32()),
        ("source", pa.int32()),
        ("part", pa.int32()),
        ("payload", pa.binary()),
    ]
)
_LineRow = Row(*LINE_COLUMNS)
_TASKS_MAX = 2**20
_IN_OPERATOR, _AFTER_IT = 0, 1
_BEACON_PART = -1
_SINK_LABELS = 32
"""Over as many labels the rows of sources are spread that pass no step."""

Batches = Iterator[pa.RecordBatch]
Lift = Callable[[], Callable[[pa.RecordBatch], pa.RecordBatch]]


@dataclass(frozen=True)
class Lane:
    """The way of rows into a step: which columns of wide rows are its elements."""

    route: int
    """The input of the step."""
    key_groups: int
    slot: int
    columns: tuple[int, ...]
    """The positions of the key group, which is null if a row does not go this way, then of time, keys and values."""
    names: tuple[str, ...]
    lift: Lift | None = None

    def rows(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a chunk that go this way."""
        rows = pa.RecordBatch.from_arrays([chunk.column(number) for number in self.columns], names=list(self.names))
        return rows.filter(pc.is_valid(rows.column(0))) if rows.column(0).null_count else rows


@dataclass(frozen=True)
class SinkLane:
    """The way of rows of a source past all steps to a sink: which columns of wide rows are its own."""

    route: int
    flag: int | None
    """The position of a column that is true in rows that go this way; None if all do."""
    columns: tuple[int, ...]

    def packed(self, chunk: pa.RecordBatch, task: int) -> list[tuple[int, int, bytes | None]]:
        """The rows of a chunk that go this way. Their labels are those of no step: operators let them pass."""
        names = [f"c{number}" for number in range(len(self.columns))]
        rows = pa.RecordBatch.from_arrays([chunk.column(number) for number in self.columns], names=names)
        if self.flag is not None:
            rows = rows.filter(chunk.column(self.flag))
        label = -1 - task % _SINK_LABELS
        return [(self.route, label, payload) for payload in to_payloads(rows)]


@dataclass(frozen=True)
class Beacon:
    """An empty row for one key group of a step: so it is opened whenever there is input, and a manifest that does not match
    is noticed before anything is committed."""

    route: int
    label: int


@dataclass(frozen=True)
class Origin:
    """An output of a step that goes through more of Spark's work: where its columns are in wide rows."""

    route: int
    schema: pa.Schema


@dataclass(frozen=True)
class Exit:
    """Where the rows of an output go."""

    routes: tuple[int, ...] = ()
    """As payloads: to sinks, and to where they are unpacked again."""
    handoffs: tuple[Handoff, ...] = ()
    """To later steps, as their input."""


@dataclass(frozen=True)
class Stop:
    """A step in an operator."""

    plan: StepPlan
    route: int
    """Its input."""
    exits: dict[str, Exit]
    """By tag. An output without an exit is not wanted by anybody."""


def pack_lanes(
    lanes: Sequence[Lane | SinkLane],
    *,
    stage: int,
    beacons: Sequence[Beacon] = (),
    passing: bool,
    by_content: bool = False,
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: packs wide rows for the steps and sinks that they go to. If `passing`, the first columns
    are those of the line, and rows that have a label pass as they are. `by_content`: see `pack.py`."""

    def pack(batches: Batches) -> Batches:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        packers = [_packer(lane, task) for lane in lanes]
        if task == 0 and beacons:
            yield _line_rows([(beacon.route, beacon.label, None) for beacon in beacons], 0, _BEACON_PART, step=0)
        part, source = 0, _source(stage, _AFTER_IT, task)
        for number, chunk in enumerate(chunks(batches)):
            if by_content and number == 0:
                source = source_by_content(chunk)
            if passing:
                yield _passing(chunk)
            for packed in packers:
                rows = packed(chunk)
                if rows:
                    yield _line_rows(rows, source, part)
                    part += len(rows)

    return pack


def _source(stage: int, where: int, task: int) -> int:
    """Numbers the tasks of all stages. What an operator hands on itself is counted apart from what is packed after it."""
    return (2 * stage + where) * _TASKS_MAX + task


def _packer(lane: Lane | SinkLane, task: int) -> Callable[[pa.RecordBatch], list[tuple[int, int, bytes | None]]]:
    """What packs the rows of a lane, in one task."""
    if isinstance(lane, SinkLane):
        return partial(lane.packed, task=task)
    return partial(_packed, lane, None if lane.lift is None else lane.lift())


def _packed(lane: Lane, lift: Any, chunk: pa.RecordBatch) -> list[tuple[int, int, bytes | None]]:
    rows = lane.rows(chunk)
    if not rows.num_rows:
        return []
    if lift is not None:
        with carried():
            rows = lift(rows)
    return [(lane.route, label, payload) for label, payload in payloads_by_label(rows, labels(lane.key_groups, lane.slot))]


def _passing(chunk: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that have been unpacked have no label."""
    line = chunk.select(list(range(len(LINE_COLUMNS))))
    kept = line.filter(pc.is_valid(line.column(1)))
    return pa.RecordBatch.from_arrays(kept.columns, schema=_ARROW)


def _line_rows(rows: Sequence[tuple[int, int, bytes | None]], source: int, part: int, step: int = 1) -> pa.RecordBatch:
    routes, row_labels, payloads = zip(*rows, strict=True)
    parts = [part + number * step for number in range(len(rows))]
    return pa.record_batch([routes, row_labels, [source] * len(rows), parts, payloads], schema=_ARROW)


def unpack_origins(origins: Sequence[Origin]) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow`: widens the rows of the line by the columns of all origins. A payload of an origin becomes
    its rows, without a label; other rows pass with nulls there."""
    types = [field.type for origin in origins for field in origin.schema]
    begins: dict[int, int] = {}
    for origin in origins:
        begins[origin.route] = sum(len(before.schema) for before in origins[: len(begins)])
    schema = pa.schema([*_ARROW, *(pa.field(f"c{number}", kind) for number, kind in enumerate(types))])

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            own = pc.is_in(batch.column(0), value_set=pa.array(begins, pa.int32()))
            yield _widened(batch.filter(pc.invert(own)), {}, schema)
            taken = batch.filter(own)
            for route, payload in zip(taken.column(0).to_pylist(), taken.column(4), strict=True):
                for rows in from_payload(payload.as_buffer()):
                    columns = {begins[route] + number: column for number, column in enumerate(rows.columns)}
                    yield _widened(_empty_line(route, rows.num_rows), columns, schema)

    return unpack


def _empty_line(route: int, rows: int) -> pa.RecordBatch:
    nulls = [pa.nulls(rows, field.type) for field in list(_ARROW)[1:]]
    return pa.RecordBatch.from_arrays([pa.array([route] * rows, pa.int32()), *nulls], schema=_ARROW)


def _widened(line: pa.RecordBatch, columns: Mapping[int, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    more = list(schema)[len(LINE_COLUMNS) :]
    wide = [columns[n] if n in columns else pa.nulls(line.num_rows, field.type) for n, field in enumerate(more)]
    return pa.RecordBatch.from_arrays([*line.columns[: len(LINE_COLUMNS)], *wide], schema=schema)


class LineProcessor:
    """An operator of the line. Spark sees it through `operator.py`."""

    def __init__(self, stops: Mapping[int, Stop], *, stage: int, by_clock: bool) -> None:
        self._stops = dict(stops)
        """By the slots of the steps."""
        self._stage = stage
        self._by_clock = by_clock

    def open(self, handle: Any, state: Any) -> None:
        paused_for_task()
        self._handle, self._state = handle, state
        self._steps: dict[int, KeyGroupProcessor] = {}
        self._part = 0
        context = TaskContext.get()
        self._source = _source(self._stage, _IN_OPERATOR, 0 if context is None else context.partitionId())

    def close(self) -> None:
        task_over()

    def handle_rows(self, key: Any, rows: Iterable[Row], times: Any) -> Iterator[Row]:
        """Takes rows with the label of a key group, or none if only its timer has fired."""
        label, taken = int(key[0]), list(rows)
        stop = self._stops.get(slot_of_label(label))
        own: list[Packed] = []
        # Rows of one key have one label, and whoever keeps only the newest goes by their order.
        for row in sorted(taken, key=attrgetter("source", "part")):
            if stop is not None and row.route == stop.route:
                own.append((row.source, row.part, row.payload))
            else:
                yield _LineRow(row.route, row.label, row.source, row.part, row.payload)
        if stop is None:
            self._keep_waiting(taken, times)
        elif own or not taken:
            outputs, report = self._step(label, stop).bundle(label, own, times, batch_time_of(taken))
            for tag, batch in outputs:
                yield from self._leaving(label, stop.exits.get(tag, Exit()), batch)
            if report is not None:
                yield self._row(REPORT_ROUTE, label, report)

    def handle_initial_state(self, key: Any, initial: Any, times: Any) -> None:
        label = int(key[0])
        self._step(label, self._stops[slot_of_label(label)]).take_initial(initial.name, bytes(initial.blob), times)

    def _step(self, label: int, stop: Stop) -> KeyGroupProcessor:
        slot = slot_of_label(label)
        step = self._steps.get(slot)
        if step is None:
            step = self._steps[slot] = KeyGroupProcessor(stop.plan, by_clock=self._by_clock)
            step.open(self._handle, self._state)
        return step

    def _keep_waiting(self, taken: list[Row], times: Any) -> None:
        """A timer of a step that the job no longer has: it stays set, so that nothing is lost if the step comes back."""
        if not taken:
            wake_soon(store_of(self._handle, self._state), times, by_clock=self._by_clock)

    def _leaving(self, label: int, exit: Exit, batch: pa.RecordBatch) -> Iterator[Row]:
        if exit.routes:
            for payload in to_payloads(batch):
                yield from (self._row(route, label, payload) for route in exit.routes)
        for handoff in exit.handoffs:
            with carried():
                packed = payloads_by_label(handoff.prepared(batch), labels(handoff.key_groups, handoff.slot))
            yield from (self._row(handoff.route, target, payload) for target, payload in packed)

    def _row(self, route: int, label: int, payload: bytes) -> Row:
        self._part += 1
        return _LineRow(route, label, self._source, self._part, payload)
