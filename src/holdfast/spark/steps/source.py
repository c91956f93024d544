"""Where a step's elements come from: a DataFrame whose key, value and time columns are declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.functions.options import KEY, KEY_AND_WINDOW, StepOptions
from holdfast.model.time.timestamps import Duration
from holdfast.model.windows.ready import FixedWindows
from holdfast.spark.stages.assign import event_micros, key_column, key_group, quoted
from holdfast.spark.types.arrow import arrow_type
from holdfast.spark.types.rows import ElementReader

__all__ = ["KeyedSource", "read_source"]

_NO_WINDOWS = StepOptions()
_FROM_WINDOWS = {"windowing": None, "allowed_lateness": 0, "trigger": None, "accumulation_mode": None}


@dataclass(frozen=True)
class KeyedSource:
    """The columns of a DataFrame that make up an element, and the windows of its elements."""

    df: DataFrame
    keys: tuple[str, ...]
    values: tuple[str, ...]
    named: bool
    """Whether a value is a named row rather than a bare value."""
    timestamp: str | None
    watermark: Duration | None
    windows: StepOptions = _NO_WINDOWS
    """As set by `window_into`."""

    def options(self, step: str, given: Mapping[str, object], outputs: Mapping[str, object] | None) -> StepOptions:
        """The options of a step on this stream: those given to it, and the windows."""
        return replace(
            self.options_of(step, given, outputs),
            windowing=self.windows.windowing,
            allowed_lateness=self.windows.allowed_lateness,
            trigger=self.windows.trigger,
            accumulation_mode=self.windows.accumulation_mode,
        )

    @staticmethod
    def options_of(step: str, given: Mapping[str, object], outputs: Mapping[str, object] | None) -> StepOptions:
        """The options given to a step, without those of its windows."""
        return StepOptions.of(step, {"key_groups": 32, **given}, outputs=tuple(outputs or ()), **_FROM_WINDOWS)

    def reader(self) -> ElementReader:
        """Reads elements from the columns of `prepared`."""
        return ElementReader(
            timed=self.timestamp is not None,
            keys=len(self.keys),
            value_names=self.values,
            value_types=tuple(_nested_type(field) for field in self.fields(self.values)),
            named=self.named,
        )

    def prepared(self, key_groups: int, parallel_over: str = KEY) -> DataFrame:
        """The columns that the pack stage takes: key group, event time, keys, values."""
        key_columns = [key_column(name, self.df.schema[name].dataType) for name in self.keys]
        hashed = list(key_columns)
        columns = []
        if self.timestamp is not None:
            time = event_micros(self.timestamp, self.df.schema[self.timestamp].dataType)
            columns.append(time.alias("time"))
            if parallel_over == KEY_AND_WINDOW:
                assert isinstance(self.windows.windowing, FixedWindows)
                offset, size = F.lit(self.windows.windowing.offset.micros), F.lit(self.windows.windowing.size.micros)
                hashed.append(time - F.pmod(time - offset, size))
        columns.insert(0, key_group(hashed, key_groups).alias("group"))
        columns += [column.alias(f"k{i}") for i, column in enumerate(key_columns)]
        columns += [F.col(quoted(name)).alias(f"v{i}") for i, name in enumerate(self.values)]
        return self.watermarked().select(*columns)

    def watermarked(self) -> DataFrame:
        """The DataFrame, with its watermark if it has one."""
        if self.watermark is None or self.timestamp is None or not self.df.isStreaming:
            return self.df
        # Spark counts in milliseconds; rounding down would make elements late that are not.
        return self.df.withWatermark(self.timestamp, f"{-(-self.watermark.micros // 1000)} milliseconds")

    def fields(self, names: Sequence[str]) -> StructType:
        """The schema of some of the columns."""
        return StructType([self.df.schema[name] for name in names])


def read_source(
    df: DataFrame,
    key: str | Sequence[str],
    value: str | Sequence[str] | None,
    timestamp: str | None,
    watermark: Any,
) -> KeyedSource:
    """Checks the arguments of `keyed`; raises one InvalidStep that lists everything wrong."""
    problems = [*_name_problems(key=key, value=value, timestamp=timestamp)]
    if problems:
        raise InvalidStep.of("keyed", problems)
    keys = [key] if isinstance(key, str) else list(key)
    values = [value] if isinstance(value, str) else None if value is None else list(value)
    named = not isinstance(value, str)
    columns = {field.name: field for field in df.schema.fields}
    problems = _column_problems(columns, keys, values, timestamp)
    if watermark is not None and timestamp is None:
        problems.append("A watermark needs a timestamp column; add timestamp='...'.")
    delay = None if watermark is None else _delay(watermark, problems)
    if problems:
        raise InvalidStep("keyed", problems)
    if values is None:
        values = [name for name in columns if name not in keys and name != timestamp]
    return KeyedSource(df, tuple(keys), tuple(values), named, timestamp, delay)


def _name_problems(**given: Any) -> Iterator[str]:
    """Columns are given by their names."""
    for option, names in given.items():
        several = isinstance(names, (list, tuple)) and option != "timestamp"
        for name in names if several else [names]:
            if isinstance(name, Column):
                yield f"{option} is a Column; give the name of one, made with df.withColumn('...', ...)."
            elif not isinstance(name, str) and (option == "key" or name is not None):
                yield f"{option} is {names!r}; give the name of a column{'' if option == 'timestamp' else ', or several'}."


def _delay(watermark: Any, problems: list[str]) -> Duration | None:
    try:
        delay = Duration.of(watermark)
    except (HoldfastError, TypeError, ValueError) as refused:
        problems.append(f"watermark is not a duration: {refused}")
        return None
    if delay.micros < 0:
        problems.append(f"watermark is {watermark!r}; it cannot be negative.")
    return delay


def _column_problems(
    columns: Mapping[str, StructField], keys: list[str], values: list[str] | None, timestamp: str | None
) -> list[str]:
    problems = []
    if not keys:
        problems.append("A stateful step keeps its state by key; give a key column: key='...'.")
    for what, names in (("key", keys), ("value", values or []), ("timestamp", [timestamp] if timestamp else [])):
        for name in names:
            if name not in columns:
                problems.append(f"There is no column {name!r} for the {what}; the columns are {', '.join(columns)}.")
    for name in keys:
        kind = columns[name].dataType.typeName() if name in columns else ""
        if kind in ("void", "map", "variant"):
            problems.append(f"The key column {name!r} has the type {kind}, which cannot be a key.")
    if (
        timestamp is not None
        and timestamp in columns
        and not isinstance(columns[timestamp].dataType, (TimestampType, TimestampNTZType))
    ):
        kind = columns[timestamp].dataType.simpleString()
        problems.append(f"The timestamp column {timestamp!r} has the type {kind}; cast it to a timestamp.")
    return problems


def _nested_type(field: StructField) -> pa.DataType:
    """The type of a value column that may contain structs."""
    return arrow_type(field.dataType) if isinstance(field.dataType, (ArrayType, MapType, StructType)) else pa.null()
