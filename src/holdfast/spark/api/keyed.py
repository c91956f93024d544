"""Keyed streams: a DataFrame whose key, value and time columns you declare, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pyspark.sql import DataFrame

from holdfast.engine.run.options import AggregationOptions, DoFnOptions
from holdfast.errors import InvalidStep
from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.aggregate.triggers import Accumulation, Trigger
from holdfast.model.coders import Coder
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.group_state import (
    FlatMapGroupsWithState,
    GroupState,
    GroupTimeout,
    MapGroupsWithState,
)
from holdfast.model.functions.grouping import CombinePerKey, GroupByKey, trigger_problems
from holdfast.model.functions.interval_join import JoinKind, Span
from holdfast.model.functions.options import DurationLike, StepOptions
from holdfast.model.functions.stateless import Filter, PlainFunction, as_function, own_side_inputs
from holdfast.model.functions.step import read_windowing
from holdfast.model.state.ttl import Ttl
from holdfast.model.windows.ready import WindowFn
from holdfast.spark.stages.unpack import Outputs
from holdfast.spark.steps.aggregate import build_aggregation
from holdfast.spark.steps.group_state import read_shape
from holdfast.spark.steps.join import build_join
from holdfast.spark.steps.lookup import build_with_side_streams
from holdfast.spark.steps.map_with_state import spread_map
from holdfast.spark.steps.par_do import build_par_do
from holdfast.spark.steps.source import KeyedSource, read_source
from holdfast.spark.steps.stateless import build_direct, is_direct, rows_that_pass
from holdfast.spark.types.schemas import Schema

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["KeyedStream", "keyed"]

R = TypeVar("R")
S = TypeVar("S")

Combiner = CombineFn[Any, Any, Any] | Callable[[Iterable[Any]], Any]
TagSchemas = Mapping[str, Schema | None]
PlainCallable = Callable[..., Iterable[object] | None]
GroupFunction = Callable[[Any, list[Any], GroupState[Any]], R]


def keyed(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    value: str | Sequence[str] | None = None,
    timestamp: str | None = None,
    watermark: DurationLike | None = None,
) -> KeyedStream:
    """Declares which columns of a DataFrame, streaming or batch, are an element's key, value and event time.

    Several key columns make the key a tuple. One value column gives the bare value; several give a named row, and so does
    naming none, which takes all columns but key and timestamp. `watermark` is how far event time may be out of order.
    """
    return KeyedStream(read_source(df, key, value, timestamp, watermark))


class KeyedStream:
    """A DataFrame with a key, made by `keyed`. Immutable: each method returns a new object.

    Every step takes these options besides its own:

    `name`: the step's name in errors, metrics and the checkpoint. `key_groups`: how many groups the keys are divided into,
    which bounds how many tasks can share the work; fixed for the life of a checkpoint. `backend`: where state is kept,
    "heap" in memory, "disk" in files on the worker's machine, or a factory of your own (docs/backends.md).
    `parallel_over="key+window"`: the fixed windows of one key are processed in parallel. `on_error="dead_letter"`: an
    element whose call raises goes to the output `dead_letter`, which must be named in `outputs`. `drop_cells`: removed
    cells whose stored state should be deleted. `limits`: caps a step's keys and bytes; choose to fail, evict or divert.

    `outputs` names further outputs and their schemas. For the tags `late`, `over_limit` and `dead_letter`, None means the
    element's own columns. A step returns a DataFrame; with `outputs` it returns `Outputs`, one DataFrame for each tag.
    """

    __slots__ = ("_source",)

    def __init__(self, source: KeyedSource) -> None:
        self._source = source

    def __repr__(self) -> str:
        source = self._source
        parts = [f"key={_named(source.keys)}", f"value={_named(source.values)}"]
        parts += [f"timestamp={source.timestamp!r}"] if source.timestamp is not None else []
        parts += [f"windows={source.windows.windowing!r}"] if source.windows.windowing is not None else []
        return f"KeyedStream({', '.join(parts)})"

    @property
    def df(self) -> DataFrame:
        """The DataFrame, with its watermark."""
        return self._source.watermarked()

    def window_into(
        self,
        window_fn: WindowFn,
        *,
        allowed_lateness: DurationLike = 0,
        trigger: Trigger | None = None,
        accumulation_mode: Accumulation | None = None,
    ) -> KeyedStream:
        """Puts the elements into windows: state is kept for each key and window.

        `trigger` and `accumulation_mode` are for aggregations: when they give results, and whether a later result holds
        only what is new or everything so far. By default a window gives one result when the watermark passes its end, and
        another for each element that comes after that within the allowed lateness.
        """
        problems: list[str] = []
        lateness, _ = read_windowing(window_fn, allowed_lateness, problems)
        problems += trigger_problems(trigger, accumulation_mode, lateness.micros)
        if problems:
            raise InvalidStep.of("window_into", problems)
        windows = StepOptions(
            windowing=window_fn,
            allowed_lateness=allowed_lateness,
            trigger=trigger,
            accumulation_mode=accumulation_mode,
        )
        return KeyedStream(replace(self._source, windows=windows))

    @overload
    def par_do(
        self,
        fn: DoFn | PlainCallable,
        output: Schema | None = None,
        *,
        outputs: None = None,
        initial_state: DataFrame | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame: ...

    @overload
    def par_do(
        self,
        fn: DoFn | PlainCallable,
        output: Schema | None = None,
        *,
        outputs: TagSchemas,
        initial_state: DataFrame | None = None,
        **options: Unpack[DoFnOptions],
    ) -> Outputs: ...

    def par_do(
        self,
        fn: DoFn | PlainCallable,
        output: Schema | None = None,
        *,
        outputs: TagSchemas | None = None,
        initial_state: DataFrame | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame | Outputs:
        """Runs a function over the elements: a DoFn, or a plain function of an element, a (key, value) pair, that yields its
        outputs or returns them in an iterable; `hf.Map` is for one that returns a single output.

        A plain function runs where its rows are, without a shuffle and state, unless it has several `outputs` or options
        that need key groups.

        `output` is the schema of the main output. `side_inputs`: small data that every call may look at.
        `requires_time_sorted_input`: a key's elements come in event-time order, once the watermark has passed them.

        `initial_state` is the state a new job starts with: a row for each key, with the key's columns, `window` (start,
        end) if there are windows, and a column named after each cell: an array for a bag or set, a map for a map, an array
        of (time, value) for an ordered list, and for a combining cell the value to add.
        """
        source = self._source
        made, sides = own_side_inputs(as_function(fn), options.get("side_inputs", ()), options.get("name") or "")
        given = replace(source.options("par_do", options, outputs), side_inputs=sides)
        if isinstance(made, Filter):
            made, output = rows_that_pass(source, made, output)
        looked_up = build_with_side_streams(
            source, made, output=output, outputs=outputs, initial=initial_state, options=given
        )
        if looked_up is not None:
            return looked_up
        if isinstance(made, PlainFunction) and is_direct(options) and outputs is None and initial_state is None:
            return build_direct(source, made, output, given)
        return build_par_do(source, made, output=output, outputs=outputs, initial=initial_state, options=given)

    @overload
    def map_with_state(
        self,
        fn: Callable[[S | None, Any], tuple[S | None, R]],
        output: Schema,
        *,
        ttl: Ttl | DurationLike | None = None,
        state_coder: Coder[S] | None = None,
        outputs: None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame: ...

    @overload
    def map_with_state(
        self,
        fn: Callable[[S | None, Any], tuple[S | None, R]],
        output: Schema,
        *,
        ttl: Ttl | DurationLike | None = None,
        state_coder: Coder[S] | None = None,
        outputs: TagSchemas,
        **options: Unpack[DoFnOptions],
    ) -> Outputs: ...

    def map_with_state(
        self,
        fn: Callable[[S | None, Any], tuple[S | None, R]],
        output: Schema,
        *,
        ttl: Ttl | DurationLike | None = None,
        state_coder: Coder[S] | None = None,
        outputs: TagSchemas | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame | Outputs:
        """Calls `fn(state, value)` for each value of a key; it returns the new state and a row.

        The state is None before a key's first value, and after a call that returned None for it; a row of None is skipped.
        Rows have the key columns, then those of `output`; if that is one column, return the bare value. After `ttl` without
        a write, a key's state is forgotten. A running count:

            counts = stream.map_with_state(lambda n, value: ((n or 0) + 1, (n or 0) + 1), output="count long")
        """
        source = self._source
        made, schema = spread_map(source, fn, output, ttl, state_coder)
        given = source.options("map_with_state", options, outputs)
        return build_par_do(source, made, output=schema, outputs=outputs, initial=None, options=given)

    @overload
    def combine_per_key(
        self,
        fn: Combiner | Mapping[str, Combiner],
        output: Schema | None = None,
        *,
        outputs: None = None,
        lift: bool = True,
        **options: Unpack[AggregationOptions],
    ) -> DataFrame: ...

    @overload
    def combine_per_key(
        self,
        fn: Combiner | Mapping[str, Combiner],
        output: Schema | None = None,
        *,
        outputs: TagSchemas,
        lift: bool = True,
        **options: Unpack[AggregationOptions],
    ) -> Outputs: ...

    def combine_per_key(
        self,
        fn: Combiner | Mapping[str, Combiner],
        output: Schema | None = None,
        *,
        outputs: TagSchemas | None = None,
        lift: bool = True,
        **options: Unpack[AggregationOptions],
    ) -> DataFrame | Outputs:
        """Combines the values of each key and window with a CombineFn or a function such as `sum`, or with several by name.

        Rows have the key columns, `window` (start, end) if there are windows, the results, and with `panes=True` a column
        `pane`. `output` is the schema of the results; ready combiners over plain columns need none. `outputs={"late": None}`
        also gives the elements that came too late. With `lift`, elements are combined before the shuffle where possible.
        """
        return self._aggregate("combine_per_key", CombinePerKey(fn), output, outputs, lift, options)

    @overload
    def group_by_key(
        self, output: Schema | None = None, *, outputs: None = None, **options: Unpack[AggregationOptions]
    ) -> DataFrame: ...

    @overload
    def group_by_key(
        self, output: Schema | None = None, *, outputs: TagSchemas, **options: Unpack[AggregationOptions]
    ) -> Outputs: ...

    def group_by_key(
        self, output: Schema | None = None, *, outputs: TagSchemas | None = None, **options: Unpack[AggregationOptions]
    ) -> DataFrame | Outputs:
        """Collects all values of each key and window into an array `values`, in order of arrival."""
        return self._aggregate("group_by_key", GroupByKey(), output, outputs, False, options)

    def _aggregate(
        self,
        called: str,
        transform: CombinePerKey | GroupByKey,
        output: Schema | None,
        outputs: TagSchemas | None,
        lift: bool,
        given: AggregationOptions,
    ) -> DataFrame | Outputs:
        source = self._source
        own = dict(given)
        panes = bool(own.pop("panes", False))
        options = source.options(called, own, outputs)
        return build_aggregation(source, transform, output=output, outputs=outputs, panes=panes, lift=lift, options=options)

    @overload
    def flat_map_groups_with_state(
        self,
        fn: GroupFunction[Iterable[R] | None],
        output: Schema | None = None,
        *,
        state_schema: Schema | None = None,
        timeout: GroupTimeout | None = None,
        state_coder: Coder[S] | None = None,
        outputs: None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame: ...

    @overload
    def flat_map_groups_with_state(
        self,
        fn: GroupFunction[Iterable[R] | None],
        output: Schema | None = None,
        *,
        state_schema: Schema | None = None,
        timeout: GroupTimeout | None = None,
        state_coder: Coder[S] | None = None,
        outputs: TagSchemas,
        **options: Unpack[DoFnOptions],
    ) -> Outputs: ...

    @overload
    def flat_map_groups_with_state(
        self,
        fn: GroupFunction[Iterable[R] | None],
        state_schema: Schema,
        timeout: GroupTimeout | None,
        *,
        output: Schema | None = None,
        outputs: None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame: ...

    @overload
    def flat_map_groups_with_state(
        self,
        fn: GroupFunction[Iterable[R] | None],
        state_schema: Schema,
        timeout: GroupTimeout | None,
        *,
        output: Schema | None = None,
        outputs: TagSchemas,
        **options: Unpack[DoFnOptions],
    ) -> Outputs: ...

    def flat_map_groups_with_state(
        self,
        fn: GroupFunction[Iterable[R] | None],
        *shape: Schema | GroupTimeout | None,
        output: Schema | None = None,
        state_schema: Schema | None = None,
        timeout: GroupTimeout | None = None,
        state_coder: Coder[S] | None = None,
        outputs: TagSchemas | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame | Outputs:
        """Calls `fn(key, values, state)` once for each key of a micro-batch, and once when the key's timeout has passed.

        Works like Spark's `flatMapGroupsWithState`: `state` is a `GroupState`, `fn` yields rows. `state_schema` says what
        the state has; without one it is any plain value. In Spark's order, `(fn, state_schema, timeout)`, the schema of
        the rows is `output=`, and if that is left out, the state's.
        """
        called = "flat_map_groups_with_state"
        given = read_shape(called, shape, output, state_schema, timeout)
        step = FlatMapGroupsWithState(fn, given.state, given.timeout, state_coder=state_coder)
        return self.par_do(step, given.output, outputs=outputs, **options)

    @overload
    def map_groups_with_state(
        self,
        fn: GroupFunction[R],
        output: Schema | None = None,
        *,
        state_schema: Schema | None = None,
        timeout: GroupTimeout | None = None,
        state_coder: Coder[S] | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame: ...

    @overload
    def map_groups_with_state(
        self,
        fn: GroupFunction[R],
        state_schema: Schema,
        timeout: GroupTimeout | None,
        *,
        output: Schema | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame: ...

    def map_groups_with_state(
        self,
        fn: GroupFunction[R],
        *shape: Schema | GroupTimeout | None,
        output: Schema | None = None,
        state_schema: Schema | None = None,
        timeout: GroupTimeout | None = None,
        state_coder: Coder[S] | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame:
        """Like `flat_map_groups_with_state`, for a function that returns exactly one row."""
        given = read_shape("map_groups_with_state", shape, output, state_schema, timeout)
        step = MapGroupsWithState(fn, given.state, given.timeout, state_coder=state_coder)
        return self.par_do(step, given.output, **options)

    @overload
    def join(
        self,
        right: KeyedStream,
        *,
        within: Span | tuple[Span, Span],
        how: JoinKind = "inner",
        suffixes: tuple[str, str] = ("_left", "_right"),
        outputs: None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame: ...

    @overload
    def join(
        self,
        right: KeyedStream,
        *,
        within: Span | tuple[Span, Span],
        how: JoinKind = "inner",
        suffixes: tuple[str, str] = ("_left", "_right"),
        outputs: TagSchemas,
        **options: Unpack[DoFnOptions],
    ) -> Outputs: ...

    def join(
        self,
        right: KeyedStream,
        *,
        within: Span | tuple[Span, Span],
        how: JoinKind = "inner",
        suffixes: tuple[str, str] = ("_left", "_right"),
        outputs: TagSchemas | None = None,
        **options: Unpack[DoFnOptions],
    ) -> DataFrame | Outputs:
        """Joins rows of two streams that have the same key and are close in event time.

        `within` is a duration, or a pair (lower, upper): a right row's time is from left time + lower to left time + upper.
        `how` is "inner", "left", "right" or "outer". The result has the key columns, both timestamps, the left values and
        the right values; `suffixes` tell columns of the same name apart.
        """
        other = right._source if isinstance(right, KeyedStream) else right
        given = KeyedSource.options_of("join", options, outputs)
        return build_join(self._source, other, within=within, how=how, suffixes=suffixes, outputs=outputs, options=given)


def _named(columns: tuple[str, ...]) -> str:
    return repr(columns[0]) if len(columns) == 1 else repr(list(columns))
