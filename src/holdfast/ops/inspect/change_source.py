"""The changes of a job's state as a data source of Spark, for a batch and as a stream.

A stream's offset is a `Position`. It is asked for the newest committed micro-batch of the job that it follows; the changes
since then are read in Spark's workers, straight from the checkpoint's files, key groups of one partition together. The
changes of committed micro-batches never change, so a micro-batch of the stream that is done again has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.ops.inspect.changes import (
    BEGINNING,
    Part,
    Position,
    change_rows,
    check_range,
    committed_range,
    newest,
    parts_of,
    position_at,
)
from holdfast.ops.inspect.compare import Valued
from holdfast.ops.inspect.state_frame import window_struct
from holdfast.ops.reading.blobs import record_batches
from holdfast.ops.reading.direct import DirectSource
from holdfast.ops.reading.keys import key_text
from holdfast.ops.reading.steps import choose_step
from holdfast.spark.types.arrow import arrow_schema

__all__ = ["CHANGES_SCHEMA", "ChangeSource", "rows_of_changes"]

_TEXT = StringType()
CHANGES_SCHEMA = (
    StructType()
    .add("batch", LongType())
    .add("step", _TEXT)
    .add("key", _TEXT)
    .add("window", StructType().add("start", TimestampType()).add("end", TimestampType()))
    .add("cell", _TEXT)
    .add("kind", _TEXT)
    .add("change", _TEXT)
    .add("before", _TEXT)
    .add("after", _TEXT)
)
"""As types, since workers cannot read them from a text."""


def rows_of_changes(step: str, batch: int, changes: Sequence[Valued]) -> Iterator[tuple[Any, ...]]:
    """Changes as rows of `CHANGES_SCHEMA`."""
    for found in changes:
        place = (key_text(found.slot), window_struct(found.window), found.cell, found.kind)
        yield (batch, step, *place, found.what, found.old, found.new)


class _Asked:
    """What the options ask for."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.checkpoint = options["checkpoint"]
        self.step = options.get("step")
        self.start = options.get("start")
        self.end = options.get("end")
        self.trust_pickle = options.get("trust_pickle") == "true"
        self.accept_replaced = options.get("accept_replaced") == "true"

    def open(self) -> Checkpoint:
        return open_checkpoint(None, self.checkpoint)


class _Range(InputPartition):
    """Some key groups of a step, and from where to where their changes are wanted."""

    def __init__(self, part: Part, start: int, end: int) -> None:
        super().__init__((part, start, end))
        self.part, self.start, self.end = part, start, end


class ChangeSource(DataSource):
    """`spark.read` and `spark.readStream` of the format "holdfast_changes"."""

    @classmethod
    def name(cls) -> str:
        return "holdfast_changes"

    def schema(self) -> StructType:
        return CHANGES_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(_Asked(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(_Asked(self.options))


def _planned(asked: _Asked, place: Checkpoint, start: int, end: int) -> list[_Range]:
    committed_range(place, start, end)
    return [_Range(part, start, end) for part in parts_of(DirectSource(place), end, asked.step)]


def _read(asked: _Asked, wanted: Any) -> Iterator[pa.RecordBatch]:
    place = asked.open()
    source = DirectSource(place)
    columns = arrow_schema(CHANGES_SCHEMA)
    (ref,) = choose_step(source.steps(wanted.end), wanted.part.step, place.path)
    batches = committed_range(place, wanted.start, wanted.end)
    found = change_rows(source, ref, wanted.part.labels, batches, wanted.start, trust_pickle=asked.trust_pickle)
    for batch, changes in found:
        yield from record_batches(rows_of_changes(ref.name, batch, changes), columns)


class _BatchReader(DataSourceReader):
    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        start, end = int(self._asked.start or BEGINNING), int(self._asked.end or BEGINNING)
        return _planned(self._asked, self._asked.open(), start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._asked, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._until: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        place = self._asked.open()
        start = newest(place) if self._asked.start is None else int(self._asked.start)
        return position_at(place, start).as_offset()

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = newest(self._asked.open())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        place, known = self._asked.open(), Position.of_offset(start)
        check_range(place, known, accept_replaced=self._asked.accept_replaced)
        last = newest(place) if self._until is None else min(newest(place), self._until)
        return start if last <= known.batch else position_at(place, last).as_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = Position.of_offset(start), Position.of_offset(end)
        return [] if first.batch >= last.batch else _planned(self._asked, self._asked.open(), first.batch, last.batch)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._asked, partition)
