"""The interval join of two keyed streams: one step over their union, with a flag for the side of each row.

Spark's watermark for the union is the smaller of the two. Rows travel as flat columns; those of the other side are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampType

from holdfast.model.functions.interval_join import IntervalJoin, JoinKind
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.time.timestamps import Timestamp
from holdfast.spark.stages.assign import event_micros, quoted
from holdfast.spark.stages.unpack import Outputs
from holdfast.spark.steps.lineage import has_watermark
from holdfast.spark.steps.par_do import build_par_do
from holdfast.spark.steps.source import KeyedSource
from holdfast.spark.types.schemas import Schema

__all__ = ["FlatJoin", "build_join", "time_column"]

# Names that a user is unlikely to have; Python sees the columns by position.
_TIME = "~time"
_IS_LEFT = "~left"


class FlatJoin(IntervalJoin):
    """The join over rows as Spark gives them: a flag for left, the left values, the right values.

    Its outputs are the key columns, both times, the left values, the right values.
    """

    def __init__(
        self, within: Any, how: JoinKind, left: Sequence[StructField], right: Sequence[StructField], *, keys: int
    ) -> None:
        super().__init__(within, how)
        self._keys = keys
        self._left, self._right = len(left), len(right)
        self._has_structs = any(_has_struct(field.dataType) for field in [*left, *right])

    def _read(self, value: Any) -> tuple[bool, Any]:
        row = value[1 : 1 + self._left] if value[0] else value[1 + self._left :]
        return value[0], _plain(row) if self._has_structs else row

    def _row(self, key: Any, left_time: Any, left: Any, right_time: Any, right: Any) -> Any:
        keys = (key,) if self._keys == 1 else key
        return (
            *keys,
            None if left_time is None else Timestamp._of_micros(left_time),
            None if right_time is None else Timestamp._of_micros(right_time),
            *((None,) * self._left if left is None else left),
            *((None,) * self._right if right is None else right),
        )


def _has_struct(data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return _has_struct(data_type.elementType)
    if isinstance(data_type, MapType):
        return _has_struct(data_type.keyType) or _has_struct(data_type.valueType)
    return isinstance(data_type, StructType)


def _plain(value: Any) -> Any:
    """Named rows as the bare tuples that state takes."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {_plain(key): _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def build_join(
    left: KeyedSource,
    right: Any,
    *,
    within: Any,
    how: JoinKind,
    suffixes: tuple[str, str],
    outputs: Mapping[str, Schema | None] | None,
    options: StepOptions,
) -> DataFrame | Outputs:
    """The DataFrame of the joined rows, and of diverted elements if asked for."""
    problems = [*_stream_problems(left, right)]
    options = replace(options, name=options.name or "join")
    if not isinstance(right, KeyedSource) or len(left.keys) != len(right.keys):
        build_step(IntervalJoin(within, how), options, input_problems=problems)
    names = _names(left, right, suffixes, problems)
    (left_time, *left_values), (right_time, *right_values) = _fields(left, names[0]), _fields(right, names[1])
    keys = [StructField(field.name, field.dataType) for field in left.fields(left.keys)]
    output = StructType([*keys, left_time, right_time, *left_values, *right_values])
    fn = FlatJoin(within, how, left_values, right_values, keys=len(keys))
    build_step(fn, options, input_problems=problems)
    columns = (left_values, right_values)
    both = _side(left, True, left.keys, columns).union(_side(right, False, left.keys, columns))
    values = (_IS_LEFT, *(field.name for field in [*left_values, *right_values]))
    source = KeyedSource(both, left.keys, values, True, _TIME, None)
    return build_par_do(source, fn, output=output, outputs=outputs, initial=None, options=options)


def _values(stream: KeyedSource) -> list[str]:
    """The columns besides key and time, which are in the output anyway."""
    return [name for name in stream.values if name not in stream.keys and name != stream.timestamp]


def _fields(stream: KeyedSource, names: list[str]) -> list[StructField]:
    """One side's columns in the output, its time first."""
    columns = [stream.timestamp or stream.keys[0], *_values(stream)]
    return [StructField(name, stream.df.schema[column].dataType) for name, column in zip(names, columns, strict=True)]


def _names(left: KeyedSource, right: KeyedSource, suffixes: Any, problems: list[str]) -> tuple[list[str], list[str]]:
    """The names of both sides' columns in the output, with a suffix where two are the same."""
    own = [[side.timestamp or "", *_values(side)] for side in (left, right)]
    if not isinstance(suffixes, (tuple, list)) or len(suffixes) != 2 or not all(isinstance(s, str) for s in suffixes):
        problems.append(f"suffixes is {suffixes!r}; give two strings, such as ('_left', '_right').")
        suffixes = ("_left", "_right")
    taken = [set(left.keys) | set(names) for names in reversed(own)]
    renamed = [
        [name + suffix if name in others else name for name in names]
        for names, others, suffix in zip(own, taken, suffixes, strict=True)
    ]
    every = [*left.keys, *renamed[0], *renamed[1]]
    for name in dict.fromkeys(name for name in every if every.count(name) > 1):
        problems.append(f"Two columns of the output would have the name {name!r}; choose other suffixes=('…', '…').")
    return renamed[0], renamed[1]


def _side(stream: KeyedSource, is_left: bool, keys: Sequence[str], columns: Sequence[Sequence[StructField]]) -> DataFrame:
    """One side's rows with the columns of both."""
    named = [F.col(quoted(own)).alias(name) for own, name in zip(stream.keys, keys, strict=True)]
    time = time_column(stream).alias(_TIME)
    own = iter(_values(stream))
    values = [
        (F.col(quoted(next(own))) if is_own else F.lit(None).cast(field.dataType)).alias(field.name)
        for fields, is_own in zip(columns, (is_left, not is_left), strict=True)
        for field in fields
    ]
    return stream.watermarked().select(*named, time, F.lit(is_left).alias(_IS_LEFT), *values)


def time_column(stream: KeyedSource) -> Column:
    """The event time of a stream, as a timestamp."""
    at = stream.timestamp or ""
    kind = stream.df.schema[at].dataType
    # A timestamp column stays untouched: Spark attaches the watermark to the column.
    return F.col(quoted(at)) if isinstance(kind, TimestampType) else F.timestamp_micros(event_micros(at, kind))


def _stream_problems(left: KeyedSource, right: Any) -> Iterator[str]:
    if not isinstance(right, KeyedSource):
        yield f"The other side of the join is {right!r}; declare it with hf.keyed(df, key=..., timestamp=...)."
        return
    if len(left.keys) != len(right.keys):
        yield f"The left side has {len(left.keys)} key columns, but the right side has {len(right.keys)}; give equally many."
    for one, other in zip(left.fields(left.keys), right.fields(right.keys), strict=False):
        types = one.dataType.simpleString(), other.dataType.simpleString()
        if types[0] != types[1]:
            yield f"The keys {one.name!r} and {other.name!r} have the types {types[0]} and {types[1]}; cast one of them."
    if left.df.isStreaming != right.df.isStreaming:
        yield "One side is a stream and the other is not; give the smaller one as a side input, or use Spark's own join."
    for which, side in (("left", left), ("right", right)):
        if side.timestamp is None:
            yield f"The {which} side has no timestamp, which a join needs: hf.keyed(..., timestamp='...')."
        elif side.df.isStreaming and side.watermark is None and not has_watermark(side.df):
            yield f"The {which} side has no watermark, so its rows would be kept forever: hf.keyed(..., watermark='...')."
        if side.windows.windowing is not None:
            yield f"The {which} side has windows, but a join goes by within=; leave out window_into."
