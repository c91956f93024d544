"""Builds an aggregation: what `combine_per_key` and `group_by_key` put on a keyed source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StructField,
    StructType,
)

from holdfast.engine.backends.choice import backend_problems
from holdfast.errors import InvalidStep
from holdfast.model.aggregate.combine import BuiltinSum, CallableCombineFn, FieldCombineFn
from holdfast.model.aggregate.combiners import Count, Max, Mean, Min, Sum
from holdfast.model.functions.grouping import Column, CombinePerKey, GroupByKey, build_grouping
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, OVER_LIMIT_TAG, Step
from holdfast.model.windows.ready import GlobalWindows
from holdfast.spark.stages.lifting import LiftedReader, Lifting, can_lift
from holdfast.spark.stages.panes import PANE_DDL, WINDOW_DDL, PaneLayout
from holdfast.spark.stages.pickling import pickled_step
from holdfast.spark.stages.plan import Reader, by_value
from holdfast.spark.stages.unpack import Outputs
from holdfast.spark.steps.par_do import check_stream, make_plan, output_schema, outputs_of
from holdfast.spark.steps.source import KeyedSource
from holdfast.spark.types.arrow import arrow_schema
from holdfast.spark.types.schemas import Schema, read_output_schema

__all__ = ["build_aggregation"]

_DIVERTED = (LATE_TAG, OVER_LIMIT_TAG, DEAD_LETTER_TAG)


def build_aggregation(
    source: KeyedSource,
    transform: CombinePerKey | GroupByKey,
    *,
    output: Schema | None,
    outputs: Mapping[str, Schema | None] | None,
    panes: bool,
    lift: bool,
    options: StepOptions,
) -> DataFrame | Outputs:
    """The DataFrames of an aggregation's outputs: its results, and the elements that were diverted, if asked for."""
    given = dict(outputs or {})
    problems = [*backend_problems(options.backend), *_problems(source, given), *_field_problems(source, transform)]
    if isinstance(transform, GroupByKey):
        transform = GroupByKey(source.reader().value_coder)
    step = build_grouping(transform, options, input_problems=problems)
    check_stream(source, step, options)
    assert step.grouping is not None
    values = _value_schema(source, step, output)
    layout = PaneLayout(
        keys=len(source.keys),
        windowed=not isinstance(step.grouping.windowing.window_fn, GlobalWindows),
        single=isinstance(transform, GroupByKey) or transform.is_single,
        panes=panes,
    )
    schemas = {MAIN_TAG: _result_schema(source, step, values, layout)}
    schemas |= {tag: output_schema(source, step, tag, schema) for tag, schema in given.items()}
    reader: Reader = source.reader()
    lifting = None
    if lift and _is_lifted(source, step):
        assert isinstance(transform, CombinePerKey)
        lifting = _lift_function(source, transform, step)
        reader = LiftedReader(source.reader(), merging=step.grouping.windowing.window_fn.is_merging())
    plan = make_plan(source, step, transform, replace(options, name=step.name), reader, schemas, panes=layout)
    return outputs_of(source, plan, schemas, several=outputs is not None, lift=lifting)


def _problems(source: KeyedSource, outputs: Mapping[str, Any]) -> Iterator[str]:
    for tag in outputs:
        if tag not in _DIVERTED:
            yield f"An aggregation has no output {tag!r}; besides its results it has {', '.join(map(repr, _DIVERTED))}."
    windows = source.windows
    never = windows.trigger is None and isinstance(windows.windowing or GlobalWindows(), GlobalWindows)
    if source.df.isStreaming and never:
        yield (
            "The global window of a stream never ends, so without a trigger there would never be a result. Use "
            "window_into with other windows, or with a trigger such as Repeatedly(AfterCount(1000))."
        )


def _field_problems(source: KeyedSource, transform: CombinePerKey | GroupByKey) -> Iterator[str]:
    """Combiners that name a field the values do not have."""
    for column in transform.columns()[0]:
        fn = column.combine_fn
        if not isinstance(fn, FieldCombineFn) or fn.field is None:
            continue
        if not source.named and not isinstance(source.df.schema[source.values[0]].dataType, StructType):
            yield f"{fn.default_label()} reads a field of each value, but the value is the bare column {source.values[0]!r}."
        elif source.named and fn.field not in source.values:
            yield f"{fn.default_label()}: the values have no column {fn.field!r}; there are {', '.join(source.values)}."


def _is_lifted(source: KeyedSource, step: Step) -> bool:
    """If diverted elements are wanted, nothing can be combined before it is known which those are."""
    grouping = step.grouping
    assert grouping is not None
    key_types = [field.type for field in arrow_schema(source.fields(source.keys))]
    lifts = isinstance(grouping.transform, CombinePerKey) and not step.tags
    return lifts and can_lift(grouping.windowing.window_fn, key_types)


def _lift_function(source: KeyedSource, transform: CombinePerKey, step: Step) -> Any:
    assert step.grouping is not None
    content = (transform, step.grouping.windowing.window_fn, source.reader(), step.name)
    given = transform.fn.values() if isinstance(transform.fn, Mapping) else [transform.fn]
    with by_value([type(fn) for fn in given], [fn for fn in given if callable(fn)]):
        content_bytes = pickled_step(
            transform, StepOptions(name=step.name, windowing=step.grouping.windowing.window_fn), content
        )

    def lift() -> Any:
        return _lifting(content_bytes).lift

    return lift


@lru_cache(maxsize=32)
def _lifting(pickled: bytes) -> Lifting:
    """Made once in a worker, not once for each task."""
    return Lifting(*cloudpickle.loads(pickled))


def _result_schema(source: KeyedSource, step: Step, values: StructType, layout: PaneLayout) -> StructType:
    fields = [StructField(field.name, field.dataType, True) for field in source.fields(source.keys)]
    if layout.windowed:
        fields.append(StructField("window", _ddl(WINDOW_DDL), False))
    fields += values.fields
    if layout.panes:
        fields.append(StructField("pane", _ddl(PANE_DDL), False))
    names = [field.name for field in fields]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidStep(step.name, [f"Two columns of the result would be called {name!r}." for name in doubled])
    return StructType(fields)


def _ddl(text: str) -> DataType:
    parsed = StructType.fromDDL(f"x {text}")
    assert isinstance(parsed, StructType)
    return parsed.fields[0].dataType


def _value_schema(source: KeyedSource, step: Step, output: Schema | None) -> StructType:
    """The value columns: those given, else inferred from the combiners."""
    assert step.grouping is not None
    transform, columns = step.grouping.transform, step.grouping.columns
    single = isinstance(transform, GroupByKey) or transform.is_single
    if output is None:
        return StructType([_inferred(source, step, column) for column in columns])
    given = read_output_schema(output, step.name)
    if single:
        return given
    names = [column.name for column in columns]
    if sorted(given.names) != sorted(names):
        problem = f"The output has the columns {', '.join(given.names)}, but the results are {', '.join(names)}."
        raise InvalidStep(step.name, [problem])
    return StructType([given[name] for name in names])


def _inferred(source: KeyedSource, step: Step, column: Column) -> StructField:
    if column.combine_fn is None:
        value = source.fields(source.values) if source.named else source.df.schema[source.values[0]].dataType
        return StructField(column.name, ArrayType(value), False)
    found = _type_of(column.combine_fn, _field_type(source, getattr(column.combine_fn, "field", None)))
    if found is None:
        label = column.combine_fn.default_label()
        raise InvalidStep(
            step.name, [f"The type that {label} gives for {column.name!r} is unknown; give output='{column.name} ...'."]
        )
    return StructField(column.name, found, not isinstance(column.combine_fn, Count))


def _field_type(source: KeyedSource, field: str | None) -> DataType | None:
    name = field if source.named else None if field is not None else source.values[0]
    return source.df.schema[name].dataType if name in source.values else None


def _type_of(fn: Any, value: DataType | None) -> DataType | None:
    """The type of a ready combiner's result."""
    if type(fn) is Count:
        return LongType()
    if type(fn) is Mean and isinstance(value, (IntegralType, FloatType, DoubleType)):
        return DoubleType()
    if type(fn) in (Min, Max) or (isinstance(fn, CallableCombineFn) and fn.fn in (min, max)):
        return value
    if type(fn) in (Sum, BuiltinSum):
        if isinstance(value, IntegralType):
            return LongType()
        return DoubleType() if isinstance(value, (FloatType, DoubleType)) else None
    return None
