"""Plain functions on Spark: without key groups and state wherever nothing asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from holdfast.engine.stored.manifest import make_manifest
from holdfast.errors import InvalidStep
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.side_inputs import SideInput
from holdfast.model.functions.stateless import Filter, PlainFunction
from holdfast.model.functions.step import build_step
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import GlobalWindows
from holdfast.spark.stages.direct import direct_run
from holdfast.spark.stages.plan import StepPlan
from holdfast.spark.steps.lineage import PLAIN_FUNCTION
from holdfast.spark.steps.par_do import Given
from holdfast.spark.steps.side_inputs import send_all
from holdfast.spark.steps.source import KeyedSource
from holdfast.spark.types.arrow import arrow_schema
from holdfast.spark.types.schemas import Schema, read_output_schema

__all__ = ["build_direct", "is_direct", "rows_that_pass"]

_WITHOUT_STATE = frozenset({"name", "side_inputs"})
"""The options that a function needs no key groups for."""


class _RowFilter(Filter):
    """Lets rows pass: the columns of the key, the time if there is one, and the value."""

    def __init__(self, given: Filter, *, keys: int, timed: bool, named: bool) -> None:
        super().__init__(given.function)
        self._keys, self._timed, self._row = keys, timed, named

    def default_label(self) -> str:
        own = super().default_label()
        return Filter.__name__ if own == type(self).__name__ else own

    def _output(self, element: tuple[Any, Any], time: Timestamp) -> tuple[Any, ...]:
        key, value = element
        keys = (key,) if self._keys == 1 else key
        return (*keys, *((time,) if self._timed else ()), *(value if self._row else (value,)))


def is_direct(asked: Iterable[str]) -> bool:
    """Whether a plain function with these options needs no key groups."""
    return _WITHOUT_STATE.issuperset(asked)


def rows_that_pass(source: KeyedSource, fn: Filter, output: Schema | None) -> tuple[Filter, Schema]:
    """The filter of rows, and their schema, unless the user gave one."""
    names = [*source.keys, *([] if source.timestamp is None else [source.timestamp]), *source.values]
    fields = {field.name: field for field in source.fields(names)}
    schema = StructType([StructField(name, fields[name].dataType, True) for name in dict.fromkeys(names)])
    if output is not None:
        raise InvalidStep(
            fn.default_label(), ["hf.Filter gives the columns of the stream; leave out output=, and select from the result."]
        )
    return _RowFilter(fn, keys=len(source.keys), timed=source.timestamp is not None, named=source.named), schema


def build_direct(source: KeyedSource, fn: PlainFunction, output: Schema | None, options: StepOptions) -> DataFrame:
    """The rows of a plain function that runs without key groups."""
    problems = []
    if output is None:
        problems.append("No schema of the main output is given: output='card string, count int'.")
    windows = options.windowing or GlobalWindows()
    if source.timestamp is None and not isinstance(windows, GlobalWindows):
        problems.append(
            f"{type(windows).__name__} needs event time, but the stream has no timestamp: hf.keyed(..., timestamp='...')."
        )
    options = replace(options, outputs=())
    step = build_step(fn, options, input_problems=problems)
    schema = read_output_schema(output, step.name)
    named: dict[str, SideInput] = {key: Given(side) for key, side in step.side_inputs.items()}
    plan = StepPlan(
        name=step.name,
        pickled=StepPlan.pickle_step(fn, replace(options, name=step.name, side_inputs=named)),
        reader=source.reader(),
        schemas={"main": arrow_schema(schema)},
        manifest=make_manifest(step.describe(), key=[], key_groups=1, backend="heap"),
        key_groups=1,
        uses_event_time=False,
        uses_processing_time=False,
        chained=False,
        memory_budget_bytes=0,
        side_inputs=send_all(source.df.sparkSession, step),
        function=type(fn).__name__,
    )
    run = direct_run(plan)
    run.__name__ = PLAIN_FUNCTION
    return source.prepared(1).drop("group").mapInArrow(run, schema)
