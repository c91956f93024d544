"""The Spark runtime of scripted streams: the same script on real Spark, with a micro-batch for each event.

Elements are any Python values: they and the outputs travel as bytes of the default coder. The watermark is a column of its
own that the script sets; the processing-time clock is a small file, so that no test ever waits. A crash makes the workers
forget everything; the next micro-batch reads from the state store.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.files.local import temporary_folder
from holdfast.checkpoint.labels import labels
from holdfast.engine.backends.choice import backend_name, backend_of
from holdfast.engine.backends.protocol import Place
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.outputs import Output
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.stored.manifest import make_manifest
from holdfast.engine.tables import Slot
from holdfast.model.coders import Coder, default_coder
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import MAIN_TAG, Step
from holdfast.model.time.timers import TimeDomain
from holdfast.model.time.timestamps import Timestamp
from holdfast.spark.errors.failures import is_worker_trouble, query_failure
from holdfast.spark.errors.transport import rebuilding
from holdfast.spark.session.settings import session, with_settings
from holdfast.spark.stages.metrics import distinct_reports
from holdfast.spark.stages.pack import PACKED_SCHEMA, pack_function, packed_rows
from holdfast.spark.stages.payload import from_payload
from holdfast.spark.stages.plan import StepPlan
from holdfast.spark.stages.processor import OUTPUT_SCHEMA, REPORT_TAG, StepProcessor, transformed
from holdfast.spark.steps.side_inputs import send_all
from holdfast.spark.types.rows import ElementReader
from holdfast.testing.memory_runtime import HeapBackends, copied_backend
from holdfast.testing.memory_store import MemoryStore
from holdfast.testing.stream import AddElements, AdvanceProcessingTime, AdvanceWatermark, Crash, Event

__all__ = ["SparkRuntime"]

_PLAIN = default_coder()
_SOURCE = pa.schema(
    [
        ("kind", pa.int32()),
        ("watermark", pa.timestamp("us", tz="UTC")),
        ("time", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_SOURCE_DDL = "kind int, watermark timestamp, time bigint, key binary, value binary"
_OUTPUT = pa.schema([("tag", pa.string()), ("time", pa.int64()), ("window", pa.binary()), ("value", pa.binary())])
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_WORKER_TRIES = 4
_ELEMENT, _MARKER, _EVERYWHERE = 0, 1, 2
_END_SECONDS = 253_000_000_000  # Spark's timestamps end with the year 9999


class ScriptFile:
    """The clock of a script, as a file that driver and workers share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, now: int, epoch: int, final: bool) -> None:
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps({"now": now, "epoch": epoch, "final": final}))
        partial.replace(self._path)

    def _read(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._path.read_text())
        return content

    def scope(self) -> str:
        return f"#{self._path}#{self._read()['epoch']}"

    def now_micros(self, times: Any, batch_time: int | None) -> int:
        return int(self._read()["now"])

    def wake_millis(self, due: int, soon: int) -> int:
        # The script's clock may move between any two micro-batches.
        return soon

    def is_final(self) -> bool:
        return bool(self._read()["final"])


class PlainReader(ElementReader):
    """Reads elements that travel as bytes of the default coder."""

    def __init__(self) -> None:
        """It needs no columns."""

    @property
    def value_coder(self) -> Coder[Any]:
        return _PLAIN

    def read(self, batch: pa.RecordBatch, default_time: int) -> tuple[list[tuple[Any, Any]], list[int]]:
        times, keys, values = (column.to_pylist() for column in batch.columns)
        return [(_PLAIN.decode(k), _PLAIN.decode(v)) for k, v in zip(keys, values, strict=True)], times


class PlainWriter:
    """Writes outputs with their time, window and tag."""

    def __init__(self, schema: pa.Schema, step: str, tag: str) -> None:
        self._schema = schema

    def write(self, items: list[Output]) -> pa.RecordBatch:
        rows = [_output_row(output) for output in items]
        return pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=self._schema)


def _output_row(output: Output) -> tuple[str, int, bytes, bytes]:
    from pyspark import cloudpickle

    # The window may be of a user's own class: it is the test's own data, in the test's process.
    window = cloudpickle.dumps((output.window, output.pane))  # type: ignore[no-untyped-call]
    value = cloudpickle.dumps(output.value)  # type: ignore[no-untyped-call]
    return output.tag, output.timestamp.micros, window, value


class SparkRuntime:
    """Plays the events of a script, finishing each before the next."""

    def __init__(self, fn: Any, make_step: Callable[[], Step], options: StepOptions) -> None:
        self._step = make_step()
        self._make_step = make_step
        self._key_groups = options.key_groups
        self._backend = backend_of(options)
        self._spark = scripted_session()
        root = temporary_folder(self, "holdfast-script-")
        self._input = root / "input"
        self._input.mkdir()
        self._checkpoint = str(root / "checkpoint")
        self._script = ScriptFile(root / "script.json")
        self._now, self._epoch, self._final = 0, 0, False
        self._watermark: Timestamp | None = None
        self._files = itertools.count()
        self.outputs: list[Output] = []
        self.metrics = StepMetrics()
        self._plan = self._make_plan(fn, options)
        self._write_script()
        self._query: Any = self._start()

    def play(self, event: Event) -> None:
        if isinstance(event, Crash):
            self._epoch += 1
            self._write_script()
            return
        if isinstance(event, AddElements):
            rows = [(_ELEMENT, t.micros, _PLAIN.encode(e[0]), _PLAIN.encode(e[1])) for e, t in event.elements]
            self._feed(rows or [(_MARKER, 0, b"", b"")])
        elif isinstance(event, AdvanceProcessingTime):
            self._now += event.by.micros
            self._write_script()
            self._feed([(_MARKER, 0, b"", b"")])
        elif isinstance(event, AdvanceWatermark):
            self._advance(event)

    def _advance(self, event: AdvanceWatermark) -> None:
        self._final = event.is_final
        self._watermark = Timestamp(min(float(event.to), _END_SECONDS)) if event.is_final else event.to
        # A micro-batch uses the watermark set by those before it, so it takes two to see a new one.
        self._feed([(_MARKER, 0, b"", b"")])
        self._write_script()
        self._feed([(_EVERYWHERE if event.is_final else _MARKER, 0, b"", b"")])

    def finish(self) -> None:
        self._query.stop()

    def load(self, slot: Slot | None) -> list[KeyGroupState]:
        """The committed state, read through Spark's own state reader."""
        rows = self._spark.read.format("statestore").option("stateVarName", "blobs").load(self._checkpoint).collect()
        stores: dict[int, dict[str, bytes]] = {}
        for row in rows:
            stores.setdefault(row.key[0], {})[row.user_map_key[0]] = bytes(row.user_map_value[0])
        layout = Layout(self._make_step())
        # Any of Holdfast's own backends can read what another stored.
        factory = HeapBackends() if isinstance(self._backend, str) else copied_backend(self._backend)
        found: list[KeyGroupState] = []
        for label, blobs in sorted(stores.items()):
            backend = factory.make(layout, Place(str(self._query.id), self._step.name, label))
            found += backend.everything(MemoryStore(blobs))
            backend.release()
        return found

    def _write_script(self) -> None:
        self._script.write(self._now, self._epoch, self._final)

    def _make_plan(self, fn: Any, options: StepOptions) -> StepPlan:
        step, name = self._step, backend_name(self._backend)
        return StepPlan(
            name=step.name,
            pickled=StepPlan.pickle_step(fn, replace(options, backend=None)),
            reader=PlainReader(),
            schemas={MAIN_TAG: _OUTPUT},
            manifest=make_manifest(step.describe(), key=[], key_groups=self._key_groups, backend=name),
            key_groups=self._key_groups,
            uses_event_time=True,
            uses_processing_time=any(t.time_domain is TimeDomain.REAL_TIME for t in step.timers),
            chained=False,
            memory_budget_bytes=1 << 28,
            backend=name,
            factory=StepPlan.pickle_backend(step.name, self._backend),
            side_inputs=send_all(self._spark, step),
            writer=PlainWriter,  # type: ignore[arg-type]
            clock=self._script,
            origins=True,
        )

    def _start(self) -> Any:
        source = self._spark.readStream.schema(_SOURCE_DDL).option("maxFilesPerTrigger", 1).parquet(str(self._input))
        group = F.when(F.col("kind") == _ELEMENT, F.pmod(F.xxhash64("key"), F.lit(self._key_groups)).cast("int"))
        columns: list[Any] = [group.otherwise(-F.col("kind")).alias("group"), "time", "key", "value"]
        packed = source.withWatermark("watermark", "0 seconds").select(*columns)
        grouped = packed.mapInArrow(_scripted_pack(self._key_groups), PACKED_SCHEMA).groupBy("label")
        time_mode = "ProcessingTime" if self._plan.uses_processing_time else "EventTime"
        processor = StepProcessor(self._plan)
        results = transformed(grouped, processor, OUTPUT_SCHEMA, time_mode=time_mode)
        writer = results.writeStream.option("checkpointLocation", self._checkpoint).outputMode("append")
        # Without micro-batches that Spark starts by itself: with processing-time timers they would never end.
        with with_settings(self._spark, {_NO_DATA: "false"}), rebuilding(self._spark):
            return writer.foreachBatch(self._take).start()

    def _take(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.collect()
        for report in distinct_reports(bytes(row.payload) for row in rows if row.tag == REPORT_TAG).values():
            self.metrics.add(report.metrics)
        for row in rows:
            if row.tag == REPORT_TAG:
                continue
            for part in from_payload(bytes(row.payload)):
                self.outputs.extend(
                    _read_output(*values) for values in zip(*(c.to_pylist() for c in part.columns), strict=True)
                )

    def _feed(self, rows: list[tuple[int, int, bytes, bytes]]) -> None:
        """Gives the query one file, and waits until it and everything it causes is done."""
        seconds = 0.0 if self._watermark is None else float(self._watermark)
        kinds, times, keys, values = (list(column) for column in zip(*rows, strict=True))
        watermark = pa.array([int(seconds * 1_000_000)] * len(rows), type=pa.timestamp("us", tz="UTC"))
        table = pa.table([kinds, watermark, times, keys, values], schema=_SOURCE)
        name = f"{next(self._files):06d}.parquet"
        pq.write_table(table, self._input / f".{name}")
        (self._input / f".{name}").rename(self._input / name)
        for tries_left in reversed(range(_WORKER_TRIES)):
            try:
                self._query.processAllAvailable()
                return
            except Exception as error:
                failed = self._query.exception() or error
                if not tries_left or not is_worker_trouble(failed):
                    raise query_failure(failed, self._checkpoint) from None
                # Nothing of the micro-batch was taken.
                self._query = self._start()


def _read_output(tag: str, time: int, window: bytes, value: bytes) -> Output:
    from pyspark import cloudpickle

    own, pane = cloudpickle.loads(window)
    return Output(cloudpickle.loads(value), Timestamp(micros=time), own, tag, pane)


def _scripted_pack(key_groups: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Packs elements as usual; markers only carry the watermark, except the one that wakes every key group."""
    pack = pack_function(key_groups, "scripted")

    def scripted_pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        kept = [batch.filter(pc.greater_equal(batch.column(0), 0)) for batch in held]
        yield from pack(iter(kept))
        if any(-_EVERYWHERE in batch.column(0).to_pylist() for batch in held):
            yield packed_rows([(label, None) for label in labels(key_groups)], 0, -key_groups)

    return scripted_pack


_session: list[SparkSession] = []


def scripted_session() -> SparkSession:
    """One session for all scripts of a process, as small as possible."""
    if not _session:
        config = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.pollingDelay": "1ms"}
        _session.append(session("holdfast-testing", cores=2, config=config))
    return _session[0]
