"""The decoding stage: raw records become rows, or dead letters with the reason. It runs in Spark's Python processes.

    in    value, and the columns of the source that are needed; perhaps `now`, the time of the micro-batch
    out   main STRUCT, letter STRUCT     one of them is null: a record is either a row or a dead letter

With `on_malformed="fail"` there are no letters: the columns of `main` are the columns themselves.

Invariants
- Each record comes out once, in the order in which it came.
- What becomes of a record depends on nothing but itself and the time of its micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from holdfast.errors import InputError
from holdfast.spark.errors.transport import carried
from holdfast.spark.sources.event_time import EventTime
from holdfast.spark.sources.formats import Format
from holdfast.spark.sources.malformed import Malformed
from holdfast.spark.sources.text_records import not_utf8
from holdfast.spark.types.arrow import arrow_schema

__all__ = ["LETTER", "MAIN", "NOW", "VALUE", "DecodingPlan", "OnMalformed", "Tombstones", "decoding_stage"]

OnMalformed = Literal["dead_letter", "fail"]
"""What happens to a malformed record: it goes to the output `dead_letter`, or fails its micro-batch."""
Tombstones = Literal["malformed", "rows", "skip"]
"""What a record without a value is: malformed, a row in which all columns of the value are null, or left out."""

MAIN, LETTER, VALUE, NOW = "main", "letter", "value", "now"
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, which timestamps of Spark and of Python have."""


@dataclass(frozen=True)
class DecodingPlan:
    """What a worker has to know."""

    source: str
    """What the records are of, for messages: "the topic 'payments'"."""
    format: Format
    value: StructType
    """The columns that the format gives."""
    kept: tuple[tuple[str, StructField], ...]
    """Columns of the source that rows have too, with what they are there."""
    text_key: bool
    """Whether the column `key` is among them as a text."""
    letter: StructType
    """Columns of a dead letter; each but `reason` is one of the source."""
    zone: str
    on_malformed: OnMalformed
    tombstones: Tombstones
    event_time: EventTime | None

    @property
    def main(self) -> StructType:
        return StructType([*self.value.fields, *(field for _, field in self.kept)])

    @property
    def output(self) -> StructType:
        """The schema of what the stage gives."""
        if self.on_malformed == "fail":
            return self.main
        nullable = StructType([StructField(field.name, field.dataType) for field in self.main.fields])
        return StructType([StructField(MAIN, nullable), StructField(LETTER, self.letter)])


def decoding_stage(plan: DecodingPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`."""

    def holdfast_source(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            stage = _Stage(plan)
            for batch in plan.format.records(batches, plan.value.names):
                yield stage.decoded(batch)

    return holdfast_source


class _Stage:
    def __init__(self, plan: DecodingPlan) -> None:
        self._plan = plan
        self._decoder = plan.format.decoder(plan.value, plan.zone)
        self._output = arrow_schema(plan.output)
        self._main = arrow_schema(plan.main)
        letter = arrow_schema(plan.letter)
        self._letter = [letter.field(number) for number in range(len(letter.names))]
        self._times = [number for number, field in enumerate(self._main) if _is_time(field.type)]

    def decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._rows(batch)
        reasons = {number: row.reason for number, row in enumerate(rows) if isinstance(row, Malformed)}
        columns = self._columns(rows, batch, reasons)
        while wrong := self._out_of_range(columns, batch, reasons):
            reasons |= wrong
            columns = self._columns(rows, batch, reasons)
        if self._plan.on_malformed == "fail":
            self._check_none(batch, reasons)
            return pa.RecordBatch.from_arrays(columns, schema=self._output)
        bad = np.zeros(batch.num_rows, dtype=bool)
        bad[list(reasons)] = True
        return pa.RecordBatch.from_arrays(
            [_struct(columns, self._output.field(0).type, bad), self._letters(batch, reasons, bad)], schema=self._output
        )

    def _rows(self, batch: pa.RecordBatch) -> list[Any]:
        """A row, or what is wrong, for each record."""
        values = batch.column(VALUE)
        if not values.null_count:
            return self._decoder.rows(values)
        rows = iter(self._decoder.rows(values.drop_null()))
        if self._plan.tombstones == "rows" or not self._plan.format.can_fail:
            without: Any = (None,) * len(self._plan.value.fields)
        else:
            without = Malformed("without a value (a tombstone)")
        return [next(rows) if there else without for there in values.is_valid().to_pylist()]

    def _columns(self, rows: list[Any], batch: pa.RecordBatch, reasons: dict[int, str]) -> list[pa.Array]:
        """The columns of the rows; where there is none, they are null. A value that Arrow refuses adds a reason."""
        width = len(self._plan.value.fields)
        nothing = (None,) * width
        held = [nothing if number in reasons else row for number, row in enumerate(rows)]
        by_column: Sequence[Sequence[Any]] = list(zip(*held, strict=True)) if held else [()] * width
        fields = [self._main.field(number) for number in range(width)]
        columns = [_column(values, field, reasons) for values, field in zip(by_column, fields, strict=True)]
        return [*columns, *self._kept(batch, reasons)]

    def _kept(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> Iterator[pa.Array]:
        for name, field in self._plan.kept:
            column = batch.column(name)
            if name == "key" and self._plan.text_key:
                yield _texts(column, reasons)
            else:
                yield column.cast(self._main.field(field.name).type)

    def _out_of_range(self, columns: list[pa.Array], batch: pa.RecordBatch, known: dict[int, str]) -> dict[int, str]:
        """Rows with a time that cannot be, and are not known to be malformed."""
        found: dict[int, str] = {}
        for number in self._times:
            name = self._main.field(number).name
            for place in _outside(columns[number], _FIRST_MICROS, _LAST_MICROS):
                found.setdefault(place, f"Time not in the years 1 to 9999 - at `$.{name}`")
        if self._plan.event_time is not None:
            self._check_event_time(self._plan.event_time, columns, batch, found)
        return {place: reason for place, reason in found.items() if place not in known}

    def _check_event_time(
        self, event_time: EventTime, columns: list[pa.Array], batch: pa.RecordBatch, found: dict[int, str]
    ) -> None:
        name, column = event_time.column, columns[self._main.get_field_index(event_time.column)]
        for place in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            found.setdefault(place, f"without an event time - at `$.{name}`")
        low = event_time.earliest_micros
        if low is not None:
            for place in _outside(column, low, _LAST_MICROS):
                found.setdefault(place, f"Event time before {event_time.earliest} - at `$.{name}`")
        if event_time.ahead_micros is not None and batch.num_rows:
            now = batch.column(NOW).cast(pa.int64())[0].as_py()
            for place in _outside(column, _FIRST_MICROS, now + event_time.ahead_micros):
                found.setdefault(place, f"Event time later than {event_time.ahead} from now - at `$.{name}`")

    def _letters(self, batch: pa.RecordBatch, reasons: dict[int, str], bad: Any) -> pa.Array:
        columns = [self._letter_column(field, batch, reasons, bad) for field in self._letter]
        return _struct(columns, self._output.field(1).type, ~bad)

    def _letter_column(self, field: pa.Field, batch: pa.RecordBatch, reasons: dict[int, str], bad: Any) -> pa.Array:
        rows = batch.num_rows
        if field.name == "reason":
            return pa.array([reasons.get(number) for number in range(rows)], field.type)
        if not reasons:
            # What is not needed is not sent back.
            return pa.nulls(rows, field.type)
        column = batch.column(field.name)
        return pc.if_else(pa.array(bad), column.cast(field.type), pa.scalar(None, field.type))

    def _check_none(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> None:
        if not reasons:
            return
        place = min(reasons)
        named = [
            field.name for field in self._letter if field.name in batch.schema.names and field.name not in ("key", VALUE)
        ]
        where = {name: batch.column(name)[place].as_py() for name in named}
        raise InputError(
            f"A record of {self._plan.source} is malformed: {reasons[place]}.",
            detail=", ".join(f"{name} {value}" for name, value in where.items() if value is not None),
            todo="put such records aside, with on_malformed='dead_letter'; the micro-batch comes again with the next start",
        )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _struct(columns: list[pa.Array], kind: pa.DataType, null: Any) -> pa.Array:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(null))


def _outside(column: pa.Array, low: int, high: int) -> list[int]:
    """The places of times before or after the bounds, in microseconds."""
    micros = column.cast(pa.int64()).fill_null(max(low, min(high, 0))).to_numpy(zero_copy_only=False)
    return [int(place) for place in np.flatnonzero((micros < low) | (micros > high))]


def _column(values: Sequence[Any], field: pa.Field, reasons: dict[int, str]) -> pa.Array:
    """A column; values that Arrow refuses are null in it, and have a reason."""
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    fitting = list(values)
    for number, value in enumerate(values):
        try:
            pa.array([value], field.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            fitting[number] = None
            reasons.setdefault(number, f"Value does not fit {field.type} - at `$.{field.name}`")
    return pa.array(fitting, field.type)


def _texts(column: pa.Array, reasons: dict[int, str]) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(key, number, reasons) for number, key in enumerate(column.to_pylist())], pa.string())


def _text(key: bytes | None, number: int, reasons: dict[int, str]) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError as error:
        reasons.setdefault(number, f"the key is {not_utf8(error)}")
        return None
