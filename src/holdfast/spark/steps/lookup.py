"""Side inputs that are streams, on Spark: one step over the union of the elements and the rows of the streams, by key.

A flag says where a row comes from: 0 for an element, n for a row of side input n. Rows travel as flat columns; those of the
others are null. Spark's watermark for the union is the smallest of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType, TimestampType

from holdfast.errors import InvalidStep
from holdfast.model.functions.lookup import Lookup, SideRows, build_lookup, side_streams
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.side_inputs import SideInput
from holdfast.model.windows.functions import WindowFn
from holdfast.model.windows.ready import FixedWindows, GlobalWindows, SlidingWindows
from holdfast.spark.stages.assign import quoted
from holdfast.spark.stages.panes import PANE_DDL
from holdfast.spark.stages.unpack import Outputs
from holdfast.spark.steps.join import time_column
from holdfast.spark.steps.lineage import steps_above
from holdfast.spark.steps.par_do import build_par_do, output_schema
from holdfast.spark.steps.source import KeyedSource
from holdfast.spark.types.arrow import to_python
from holdfast.spark.types.rows import ElementReader
from holdfast.spark.types.schemas import Schema

__all__ = ["LookupReader", "build_with_side_streams"]

# Names that a user is unlikely to have; Python sees the columns by position.
_TIME = "~time"
_ORIGIN = "~origin"
_WINDOW, _PANE = "window", "pane"


class LookupReader(ElementReader):
    """Reads elements and rows of side inputs: values are (0, value) or (n, row)."""

    def __init__(self, main: ElementReader, sides: Sequence[ElementReader], *, keys: int) -> None:
        self._main = main
        self._parts = (main, *sides)
        names = tuple(name for part in self._parts for name in part.names)
        types = tuple(kind for part in self._parts for kind in part.types)
        super().__init__(timed=True, keys=keys, value_names=names, value_types=types, named=True)

    def flat(self, key: Any, value: Any) -> tuple[Any, ...]:
        return self._main.flat(key, value)

    def values(self, batch: pa.RecordBatch) -> list[Any]:
        origins, *columns = (to_python(column) for column in batch.columns[1 + self._keys :])
        begin, made = 0, []
        for part in self._parts:
            end = begin + len(part.names)
            made.append(part.values_of(columns[begin:end], batch.num_rows))
            begin = end
        return [(origin, made[origin][number]) for number, origin in enumerate(origins)]


@dataclass(frozen=True)
class _Side:
    """A side input that is a stream: where its rows come from, and their windows."""

    parameter: str
    source: KeyedSource
    window_fn: WindowFn
    by_window: bool
    side_input: SideInput

    @property
    def rows(self) -> SideRows:
        coder = self.source.reader().value_coder
        return SideRows(self.parameter, self.window_fn, self.by_window, self.side_input.wait, coder, self.side_input.ttl)

    @property
    def time(self) -> Column:
        """The time of a row: its own, or the last one of its window. Without any, the order of arrival decides."""
        if self.source.timestamp is not None:
            return time_column(self.source)
        if not self.by_window:
            return F.timestamp_micros(F.lit(0).cast("long"))
        window = F.col(quoted(_WINDOW))
        end = F.unix_micros(window["end"])
        last = F.timestamp_micros(end - 1)
        if not isinstance(self.window_fn, (FixedWindows, SlidingWindows)):
            return last
        # The windows of a DataFrame that has not come straight from an aggregation may be any.
        size, offset = self.window_fn.size.micros, self.window_fn.offset.micros
        period = self.window_fn.period.micros if isinstance(self.window_fn, SlidingWindows) else size
        start = F.unix_micros(window["start"])
        is_other = (end - start != size) | ((start - offset) % period != 0)
        told = f"The side input {self.parameter!r} is looked up in {self.window_fn!r}, but has a row of another window, "
        todo = ". Say which windows it is in: AsDict(hf.keyed(df, key=..., value=..., timestamp=...).window_into(...))"
        return F.when(is_other, F.raise_error(F.concat(F.lit(told), window.cast("string"), F.lit(todo)))).otherwise(last)


def is_side_stream(side_input: SideInput) -> bool:
    """Whether a side input is looked up row by row: a stream, a keyed stream, or results of windows."""
    source = _given(side_input.source)
    if isinstance(source, KeyedSource):
        return True
    if not isinstance(source, DataFrame):
        return False
    # Two columns of a batch DataFrame are the pairs of a table, whatever they are.
    return source.isStreaming or (side_input.takes_streams and len(source.columns) > 2 and _has_windows(source))


def build_with_side_streams(
    source: KeyedSource,
    fn: Any,
    *,
    output: Schema | None,
    outputs: Mapping[str, Schema | None] | None,
    initial: DataFrame | None,
    options: StepOptions,
) -> DataFrame | Outputs | None:
    """The DataFrames of a step with side inputs that are streams; None if it has none."""
    found = side_streams(fn, options.side_inputs, is_side_stream, options.name or "")
    if found is None:
        return None
    streams, others = found
    name = options.name or fn.default_label()
    main = options.windowing or GlobalWindows()
    sides = [_side(name, source, main, parameter, side) for parameter, side in streams.items()]
    problems = [problem for side in sides for problem in _problems(source, side)]
    if initial is not None:
        problems.append("initial_state cannot be had with a stream as a side input; let the stream begin with it.")
    options = replace(options, name=name, side_inputs=others)
    made = Lookup(fn, [side.rows for side in sides], source.reader().value_coder)
    step = build_lookup(made, options, input_problems=problems)
    schemas = {tag: output_schema(source, step, tag, schema) for tag, schema in (outputs or {}).items()}
    parts = [source, *(side.source for side in sides)]
    names = [[_name(n, column, source.keys) for column in part.values] for n, part in enumerate(parts)]
    fields = [part.fields(part.values).fields for part in parts]
    times = [time_column(source), *(side.time for side in sides)]
    every = [
        (column, field.dataType) for some in zip(names, fields, strict=True) for column, field in zip(*some, strict=True)
    ]
    frames = [
        _rows(n, part, source.keys, time, names[n], every) for n, (part, time) in enumerate(zip(parts, times, strict=True))
    ]
    both = reduce(DataFrame.union, frames)
    united = KeyedSource(both, source.keys, (_ORIGIN, *(column for column, _ in every)), True, _TIME, None)
    reader = LookupReader(source.reader(), [side.source.reader() for side in sides], keys=len(source.keys))
    return build_par_do(
        united,
        made,
        output=output,
        outputs=schemas if outputs is not None else None,
        initial=None,
        options=options,
        reader=reader,
    )


def _name(part: int, column: str, keys: Sequence[str]) -> str:
    """The name of a column in the union: its own for an element's, if it is free."""
    return column if part == 0 and column not in keys else f"~{part}.{column}"


def _rows(
    number: int, part: KeyedSource, keys: Sequence[str], time: Column, own: list[str], every: list[tuple[str, DataType]]
) -> DataFrame:
    """The rows of one part, with the columns of all."""
    named = [F.col(quoted(key)).alias(name) for key, name in zip(part.keys, keys, strict=True)]
    given = dict(zip(own, part.values, strict=True))
    values = [
        (F.col(quoted(given[column])) if column in given else F.lit(None).cast(kind)).alias(column) for column, kind in every
    ]
    return part.watermarked().select(*named, time.alias(_TIME), F.lit(number).alias(_ORIGIN), *values)


def _given(source: object) -> object:
    """The source of a side input; of a keyed stream, what it declares."""
    declared = getattr(source, "_source", None)
    return declared if isinstance(declared, KeyedSource) else source


def _has_windows(frame: DataFrame) -> bool:
    """Whether rows are results of windows, as an aggregation gives them."""
    kind = frame.schema[_WINDOW].dataType if _WINDOW in frame.columns else None
    return isinstance(kind, StructType) and [(f.name, type(f.dataType)) for f in kind.fields] == [
        ("start", TimestampType),
        ("end", TimestampType),
    ]


def _pane_of(frame: DataFrame) -> list[str]:
    """The column that says which result of its window a row is, if there is one."""
    pane = DataType.fromDDL(PANE_DDL)
    return [field.name for field in frame.schema.fields if field.name == _PANE and field.dataType == pane]


def _side(step: str, main: KeyedSource, main_windows: WindowFn, parameter: str, side_input: SideInput) -> _Side:
    given = _given(side_input.source)
    if isinstance(given, KeyedSource):
        return _Side(parameter, given, given.windows.windowing or GlobalWindows(), False, side_input)
    assert isinstance(given, DataFrame)
    missing = [key for key in main.keys if key not in given.columns]
    if missing:
        raise InvalidStep(
            step,
            [
                f"The side input {parameter!r} is a stream, which is looked up by the key of the elements, but has no "
                f"column {missing[0]!r}; its columns are {', '.join(given.columns)}. Say what its key is: "
                "AsDict(hf.keyed(df, key='...', value='...'))."
            ],
        )
    windowed = _has_windows(given)
    aside = {*main.keys, *((_WINDOW, *_pane_of(given)) if windowed else ())}
    values = [name for name in given.columns if name not in aside]
    source = KeyedSource(given, main.keys, tuple(values), len(values) != 1, None, None)
    return _Side(parameter, source, _windows_of(given, main_windows) if windowed else GlobalWindows(), windowed, side_input)


def _windows_of(frame: DataFrame, main: WindowFn) -> WindowFn:
    """The window function of the step that a DataFrame comes from; if it comes from none, that of the elements."""
    above = steps_above(frame)
    return (above[0].source.windows.windowing or main) if above else main


def _problems(main: KeyedSource, side: _Side) -> Iterator[str]:
    what = f"The side input {side.parameter!r}"
    source = side.source
    if source.df.isStreaming != main.df.isStreaming:
        is_what = ("a stream, but the elements are not", "no stream, but the elements are")[main.df.isStreaming]
        yield f"{what} is {is_what}: a table is AsDict(df) of two columns, key and value, and every call has all of it."
    if main.timestamp is None:
        yield f"{what} is a stream, so the elements need event time, but have none: hf.keyed(..., timestamp='...')."
    if source.timestamp is None and not side.by_window and not isinstance(side.window_fn, GlobalWindows):
        yield f"{what} is in {side.window_fn!r}, but has no timestamp: hf.keyed(..., timestamp='...')."
    if len(source.keys) != len(main.keys):
        yield f"{what} has {len(source.keys)} key columns, but the elements have {len(main.keys)}; give equally many."
    for own, other in zip(main.fields(main.keys).fields, source.fields(source.keys).fields, strict=False):
        types = own.dataType.simpleString(), other.dataType.simpleString()
        if types[0] != types[1]:
            yield f"{what} has the key {other.name!r} of type {types[1]}, the elements {own.name!r} of {types[0]}; cast one."
