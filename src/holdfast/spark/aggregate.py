"""Builds an aggregation: what `combine_per_key` and `group_by_key` put on a keyed stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

from holdfast.errors import InvalidStep
from holdfast.model.combine import BuiltinSum, CallableCombineFn, FieldCombineFn
from holdfast.model.combiners import Count, Max, Mean, Min, Sum
from holdfast.model.grouping import Column, CombinePerKey, GroupByKey, build_grouping
from holdfast.model.step import LATE_TAG, MAIN_TAG, Step
from holdfast.model.windows import GlobalWindows
from holdfast.spark.arrow_types import arrow_schema
from holdfast.spark.build import StepOptions, check_place, make_plan, option_problems, output_schema, outputs_of
from holdfast.spark.keyed import KeyedStream
from holdfast.spark.lifting import LiftedReader, Lifting, can_lift
from holdfast.spark.panes import PANE_DDL, WINDOW_DDL, PaneLayout
from holdfast.spark.pickling import pickled_step
from holdfast.spark.plan import by_value
from holdfast.spark.rows import ElementReader
from holdfast.spark.schemas import read_output_schema
from holdfast.spark.unpack import Outputs

__all__ = ["build_aggregation"]


def build_aggregation(
    stream: KeyedStream,
    transform: CombinePerKey | GroupByKey,
    *,
    output: Any,
    outputs: Mapping[str, Any],
    panes: bool,
    lift: bool,
    options: StepOptions,
) -> DataFrame | Outputs:
    """The DataFrames of an aggregation's outputs: its results, and late elements if they are asked for."""
    arguments: dict[str, Any] = {
        "name": options.name,
        "windowing": stream.window_fn,
        "allowed_lateness": stream.allowed_lateness,
        "trigger": stream.trigger,
        "accumulation_mode": stream.accumulation_mode,
        "outputs": list(outputs),
    }
    problems = [*option_problems(options), *_problems(stream, outputs), *_field_problems(stream, transform)]
    if isinstance(transform, GroupByKey):
        transform = GroupByKey(stream.reader().value_coder)
    step = build_grouping(transform, input_problems=problems, **arguments)
    check_place(stream, step, options)
    assert step.grouping is not None
    values = _value_schema(stream, step, output)
    layout = PaneLayout(
        keys=len(stream.keys),
        windowed=not isinstance(step.grouping.windowing.window_fn, GlobalWindows),
        single=isinstance(transform, GroupByKey) or transform.is_single,
        panes=panes,
    )
    schemas = {MAIN_TAG: _result_schema(stream, step, values, layout)}
    schemas |= {tag: output_schema(stream, step, tag, given) for tag, given in outputs.items()}
    reader: ElementReader | LiftedReader = stream.reader()
    lifting = None
    if lift and _is_lifted(stream, step):
        assert isinstance(transform, CombinePerKey)
        lifting = _lift_function(stream, transform, step)
        reader = LiftedReader(stream.reader(), merging=step.grouping.windowing.window_fn.is_merging())
    plan = make_plan(stream, step, transform, {**arguments, "name": step.name}, reader, schemas, options, panes=layout)
    return outputs_of(stream, plan, schemas, lifting)


def _problems(stream: KeyedStream, outputs: Mapping[str, Any]) -> Iterator[str]:
    for tag in outputs:
        if tag != LATE_TAG:
            yield f"An aggregation has no output {tag!r}; besides its results there is {LATE_TAG!r}."
    never = stream.trigger is None and isinstance(stream.window_fn or GlobalWindows(), GlobalWindows)
    if stream.df.isStreaming and never:
        yield (
            "The global window of a stream never ends, so without a trigger there would never be a result. Use "
            "window_into with other windows, or with a trigger such as Repeatedly(AfterCount(1000))."
        )


def _field_problems(stream: KeyedStream, transform: CombinePerKey | GroupByKey) -> Iterator[str]:
    """Combiners that name a field which the values do not have."""
    for column in transform.columns()[0]:
        fn = column.combine_fn
        if not isinstance(fn, FieldCombineFn) or fn.field is None:
            continue
        if not stream.named and not isinstance(stream.df.schema[stream.values[0]].dataType, StructType):
            yield f"{fn.default_label()} reads a field of each value, but the value is the bare column {stream.values[0]!r}."
        elif stream.named and fn.field not in stream.values:
            yield f"{fn.default_label()}: the values have no column {fn.field!r}; there are {', '.join(stream.values)}."


def _is_lifted(stream: KeyedStream, step: Step) -> bool:
    """Where late elements are wanted themselves, they cannot be combined before it is known that they are late."""
    grouping = step.grouping
    assert grouping is not None
    key_types = [field.type for field in arrow_schema(stream.fields(stream.keys))]
    wants_late = step.tags is not None and LATE_TAG in step.tags
    lifts = isinstance(grouping.transform, CombinePerKey) and not wants_late
    return lifts and can_lift(grouping.windowing.window_fn, key_types)


def _lift_function(stream: KeyedStream, transform: CombinePerKey, step: Step) -> Any:
    assert step.grouping is not None
    content = (transform, step.grouping.windowing.window_fn, stream.reader(), step.name)
    given = transform.fn.values() if isinstance(transform.fn, Mapping) else [transform.fn]
    with by_value([type(fn) for fn in given], [fn for fn in given if callable(fn)]):
        content_bytes = pickled_step(transform, {"name": step.name, "windowing": step.grouping.windowing.window_fn}, content)

    def lift() -> Any:
        return _lifting(content_bytes).lift

    return lift


@lru_cache(maxsize=32)
def _lifting(pickled: bytes) -> Lifting:
    """Made once in a worker, not once for each task."""
    return Lifting(*cloudpickle.loads(pickled))


def _result_schema(stream: KeyedStream, step: Step, values: StructType, layout: PaneLayout) -> StructType:
    fields = [StructField(field.name, field.dataType, True) for field in stream.fields(stream.keys)]
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


def _value_schema(stream: KeyedStream, step: Step, output: Any) -> StructType:
    """The value columns: those given, else what follows from the combiners."""
    assert step.grouping is not None
    transform, columns = step.grouping.transform, step.grouping.columns
    single = isinstance(transform, GroupByKey) or transform.is_single
    if output is None:
        return StructType([_inferred(stream, step, column) for column in columns])
    given = read_output_schema(output, step.name)
    if single:
        return given
    names = [column.name for column in columns]
    if sorted(given.names) != sorted(names):
        problem = f"The output has the columns {', '.join(given.names)}, but the results are {', '.join(names)}."
        raise InvalidStep(step.name, [problem])
    return StructType([given[name] for name in names])


def _inferred(stream: KeyedStream, step: Step, column: Column) -> StructField:
    if column.combine_fn is None:
        value = stream.fields(stream.values) if stream.named else stream.df.schema[stream.values[0]].dataType
        return StructField(column.name, ArrayType(value), False)
    found = _type_of(column.combine_fn, _field_type(stream, getattr(column.combine_fn, "field", None)))
    if found is None:
        label = column.combine_fn.default_label()
        raise InvalidStep(
            step.name, [f"What {label} gives for {column.name!r} is not known: give output='{column.name} ...'."]
        )
    return StructField(column.name, found, not isinstance(column.combine_fn, Count))


def _field_type(stream: KeyedStream, field: str | None) -> DataType | None:
    name = field if stream.named else None if field is not None else stream.values[0]
    return stream.df.schema[name].dataType if name in stream.values else None


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
