"""Keyed streams: a DataFrame whose rows are elements, and the steps that can be put on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
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

from holdfast.engine.backends.choice import Backend
from holdfast.errors import HoldfastError, InvalidStep
from holdfast.model.coders import Coder
from holdfast.model.combine import CombineFn
from holdfast.model.dofn import DoFn
from holdfast.model.group_state import FlatMapGroupsWithState, GroupState, MapGroupsWithState
from holdfast.model.grouping import trigger_problems
from holdfast.model.limits import Limits
from holdfast.model.side_inputs import SideInput
from holdfast.model.step import read_windowing
from holdfast.model.timestamps import Duration
from holdfast.model.triggers import Trigger
from holdfast.model.windows import FixedWindows, WindowFn
from holdfast.spark.arrow_types import arrow_type
from holdfast.spark.assign import event_micros, key_column, key_group, quoted
from holdfast.spark.rows import ElementReader

__all__ = ["KEY", "KEY_AND_WINDOW", "KeyedStream", "keyed"]

KEY = "key"
KEY_AND_WINDOW = "key+window"


def keyed(
    df: DataFrame,
    key: str | Sequence[str],
    value: str | Sequence[str] | None = None,
    timestamp: str | None = None,
    watermark: str | Duration | int | float | None = None,
) -> KeyedStream:
    """Says which columns of a DataFrame, streaming or batch, are an element's key, value and event time.

    Several key columns make the key a tuple. One value column gives the bare value; several, or none named (then all
    that are neither key nor timestamp), give a named row. `watermark` is how far event time may be out of order.
    """
    problems = [*_name_problems(key=key, value=value, timestamp=timestamp)]
    if problems:
        raise InvalidStep.of("keyed", problems)
    keys = [key] if isinstance(key, str) else list(key)
    values = [value] if isinstance(value, str) else None if value is None else list(value)
    named = not isinstance(value, str)
    columns = {field.name: field for field in df.schema.fields}
    problems = _column_problems(columns, keys, values, timestamp)
    if watermark is not None and timestamp is None:
        problems.append("A watermark is given, but no timestamp column for it; add timestamp='...'.")
    delay = None if watermark is None else _delay(watermark, problems)
    if problems:
        raise InvalidStep("keyed", problems)
    if values is None:
        values = [name for name in columns if name not in keys and name != timestamp]
    return KeyedStream(df, tuple(keys), tuple(values), named, timestamp, delay)


def _name_problems(**given: Any) -> Iterator[str]:
    """Columns are given by their names."""
    for option, names in given.items():
        several = isinstance(names, (list, tuple)) and option != "timestamp"
        for name in names if several else [names]:
            if isinstance(name, Column):
                yield f"{option} is a Column; give the name of one: make it before, with df.withColumn('...', ...)."
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
        problems.append("A stateful step keeps its state by key, and no key column is given: key='...'.")
    for what, names in (("key", keys), ("value", values or []), ("timestamp", [timestamp] if timestamp else [])):
        for name in names:
            if name not in columns:
                problems.append(f"There is no column {name!r} for the {what}; there are {', '.join(columns)}.")
    for name in keys:
        kind = columns[name].dataType.typeName() if name in columns else ""
        if kind in ("void", "map", "variant"):
            problems.append(f"The key column {name!r} is of the type {kind}, which cannot be a key.")
    if (
        timestamp is not None
        and timestamp in columns
        and not isinstance(columns[timestamp].dataType, (TimestampType, TimestampNTZType))
    ):
        kind = columns[timestamp].dataType.simpleString()
        problems.append(f"The timestamp column {timestamp!r} is of the type {kind}; cast it to a timestamp.")
    return problems


@dataclass(frozen=True)
class KeyedStream:
    """A DataFrame with a key. Made by `keyed`; immutable: each method gives a new object."""

    df: DataFrame
    keys: tuple[str, ...]
    values: tuple[str, ...]
    named: bool
    timestamp: str | None
    watermark: Duration | None
    window_fn: WindowFn | None = None
    allowed_lateness: Duration | int | float | str = 0
    trigger: Trigger | None = None
    accumulation_mode: str | None = None

    def window_into(
        self,
        window_fn: WindowFn,
        *,
        allowed_lateness: Duration | int | float | str = 0,
        trigger: Trigger | None = None,
        accumulation_mode: str | None = None,
    ) -> KeyedStream:
        """Puts the elements into windows: state is kept for each key and window.

        `trigger` and `accumulation_mode` are for aggregations: when these give results, and whether a further one holds
        only what is new or all so far. By default there is one result when the watermark passes the end of the window,
        and one more whenever something comes late, within the allowed lateness.
        """
        problems: list[str] = []
        lateness, _ = read_windowing(window_fn, allowed_lateness, problems)
        problems += trigger_problems(trigger, accumulation_mode, lateness.micros)
        if problems:
            raise InvalidStep.of("window_into", problems)
        return replace(
            self,
            window_fn=window_fn,
            allowed_lateness=allowed_lateness,
            trigger=trigger,
            accumulation_mode=accumulation_mode,
        )

    def par_do(
        self,
        fn: DoFn,
        output: Any = None,
        *,
        outputs: Mapping[str, Any] | None = None,
        name: str | None = None,
        key_groups: int = 32,
        backend: Backend = "heap",
        side_inputs: Mapping[str, SideInput] | Sequence[SideInput] = (),
        requires_time_sorted_input: bool = False,
        on_error: str = "fail",
        parallel_over: str = KEY,
        drop_cells: Sequence[str] = (),
        limits: Limits | None = None,
        initial_state: DataFrame | None = None,
        memory_budget_bytes: int = 2 * 1024**3,
    ) -> Any:
        """Runs a function over the elements. Gives a DataFrame, or `Outputs` if there is more than the main output.

        `output` is the schema of the main output, `outputs` those of the others by tag; the tags `late`, `over_limit`
        and `dead_letter` may have None, for a schema made of the element's own columns. `key_groups` is fixed for the
        life of a checkpoint: it bounds how many tasks can share the work. `parallel_over="key+window"` lets the fixed
        windows of one key be worked on side by side. `drop_cells` are cells that older code had, whose state is to go.
        `limits` says how much state the step may keep, and what happens when it would be more. `initial_state` is what a new
        job begins with: a row for each key, with the key's columns, `window` (start, end) if there are windows, and a column
        for each cell, named like it; of a bag or set an array, of a map a map, of an ordered list an array of (time, value),
        of a combining cell what is added to it. `backend` keeps the state: "heap" in memory, "disk" in files of the worker's
        machine, or a factory of your own (docs/backends.md). `memory_budget_bytes` bounds what a worker keeps of state
        between micro-batches; the rest is read again when it is needed.
        """
        from holdfast.spark.build import StepOptions, build_par_do

        return build_par_do(
            self,
            fn,
            output=output,
            outputs=dict(outputs or {}),
            side_inputs=side_inputs,
            requires_time_sorted_input=requires_time_sorted_input,
            on_error=on_error,
            options=StepOptions(
                name, key_groups, backend, memory_budget_bytes, parallel_over, drop_cells, limits, initial_state
            ),
        )

    def combine_per_key(
        self,
        fn: CombineFn | Callable[..., Any] | Mapping[str, CombineFn | Callable[..., Any]],
        output: Any = None,
        *,
        outputs: Mapping[str, Any] | None = None,
        panes: bool = False,
        name: str | None = None,
        key_groups: int = 32,
        backend: Backend = "heap",
        parallel_over: str = KEY,
        lift: bool = True,
        memory_budget_bytes: int = 2 * 1024**3,
    ) -> Any:
        """Combines the values of each key and window: by one CombineFn or function such as `sum`, or by several, by name.

        Rows have the key columns, `window` (start, end) if there are windows, the results, and with `panes` a column `pane`.
        `output` is the schema of the results; ready combiners of plain columns need none. `outputs={"late": None}` gives
        `Outputs` with the elements that came too late. With `lift`, elements are combined before the shuffle where that
        can be done.
        """
        from holdfast.model.grouping import CombinePerKey

        return self._aggregate(
            CombinePerKey(fn), output, outputs, panes, lift, (name, key_groups, backend, memory_budget_bytes, parallel_over)
        )

    def group_by_key(
        self,
        output: Any = None,
        *,
        outputs: Mapping[str, Any] | None = None,
        panes: bool = False,
        name: str | None = None,
        key_groups: int = 32,
        backend: Backend = "heap",
        parallel_over: str = KEY,
        memory_budget_bytes: int = 2 * 1024**3,
    ) -> Any:
        """All values of each key and window, as an array `values` in the order in which they came."""
        from holdfast.model.grouping import GroupByKey

        options = (name, key_groups, backend, memory_budget_bytes, parallel_over)
        return self._aggregate(GroupByKey(), output, outputs, panes, False, options)

    def _aggregate(
        self, transform: Any, output: Any, outputs: Mapping[str, Any] | None, panes: bool, lift: bool, options: Any
    ) -> Any:
        from holdfast.spark.aggregate import build_aggregation
        from holdfast.spark.build import StepOptions

        return build_aggregation(
            self,
            transform,
            output=output,
            outputs=dict(outputs or {}),
            panes=panes,
            lift=lift,
            options=StepOptions(*options),
        )

    def reader(self) -> ElementReader:
        """What reads the elements from the columns that `prepared` gives."""
        return ElementReader(
            timed=self.timestamp is not None,
            keys=len(self.keys),
            value_names=self.values,
            value_types=tuple(_nested_type(field) for field in self.fields(self.values)),
            named=self.named,
        )

    def flat_map_groups_with_state(
        self,
        fn: Callable[[Any, list[Any], GroupState], Any],
        output: Any = None,
        *,
        timeout: str | None = None,
        state_coder: Coder | None = None,
        **options: Any,
    ) -> Any:
        """Calls `fn(key, values, state)` once for each key of a micro-batch, and once when the key's timeout has passed.

        The shape of Spark's `flatMapGroupsWithState`: `state` is a `GroupState`, `fn` yields rows. The options are those
        of `par_do`.
        """
        return self.par_do(FlatMapGroupsWithState(fn, timeout=timeout, state_coder=state_coder), output, **options)

    def map_groups_with_state(
        self,
        fn: Callable[[Any, list[Any], GroupState], Any],
        output: Any = None,
        *,
        timeout: str | None = None,
        state_coder: Coder | None = None,
        **options: Any,
    ) -> Any:
        """The same for a function that returns exactly one row."""
        return self.par_do(MapGroupsWithState(fn, timeout=timeout, state_coder=state_coder), output, **options)

    def join(
        self,
        right: KeyedStream,
        *,
        within: str | float | timedelta | Duration | tuple[Any, Any],
        how: str = "inner",
        suffixes: tuple[str, str] = ("_left", "_right"),
        name: str | None = None,
        **options: Any,
    ) -> Any:
        """Joins the rows of two streams that have the same key and are near each other in event time.

        `within` is a duration, or a pair (lower, upper): a right row's time is from left time + lower to left time + upper.
        `how` is "inner", "left", "right" or "outer". Gives a DataFrame with the key's columns, both timestamps, the left's
        values and the right's; `suffixes` go to names that both have. The options are those of `par_do`.
        """
        from holdfast.spark.join import build_join

        return build_join(self, right, within=within, how=how, suffixes=suffixes, name=name, **options)

    def prepared(self, key_groups: int, parallel_over: str = KEY) -> DataFrame:
        """The columns that the pack stage takes: key group, event time, keys, values."""
        key_columns = [key_column(name, self.df.schema[name].dataType) for name in self.keys]
        hashed = list(key_columns)
        columns = []
        if self.timestamp is not None:
            time = event_micros(self.timestamp, self.df.schema[self.timestamp].dataType)
            columns.append(time.alias("time"))
            if parallel_over == KEY_AND_WINDOW:
                assert isinstance(self.window_fn, FixedWindows)
                offset, size = F.lit(self.window_fn.offset.micros), F.lit(self.window_fn.size.micros)
                hashed.append(time - F.pmod(time - offset, size))
        columns.insert(0, key_group(hashed, key_groups).alias("group"))
        columns += [column.alias(f"k{i}") for i, column in enumerate(key_columns)]
        columns += [F.col(quoted(name)).alias(f"v{i}") for i, name in enumerate(self.values)]
        return self.watermarked().select(*columns)

    def watermarked(self) -> DataFrame:
        """The DataFrame with its watermark, if it is to have one."""
        if self.watermark is None or self.timestamp is None or not self.df.isStreaming:
            return self.df
        # Spark counts in milliseconds; less than was asked for would make elements late that are not.
        return self.df.withWatermark(self.timestamp, f"{-(-self.watermark.micros // 1000)} milliseconds")

    def fields(self, names: Sequence[str]) -> StructType:
        """The schema of some of the columns."""
        return StructType([self.df.schema[name] for name in names])


def _nested_type(field: StructField) -> pa.DataType:
    """The type of a value column, if it may have structs in it."""
    return arrow_type(field.dataType) if isinstance(field.dataType, (ArrayType, MapType, StructType)) else pa.null()
