"""Builds a step: checks everything on the driver, then puts the stages together.

assign (key group of each row) → pack → shuffle by label → processor, or one run for bounded input → unpack
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from holdfast.engine.backends.choice import backend_name, backend_of, backend_problems
from holdfast.engine.stored.manifest import Evolution, make_manifest
from holdfast.errors import InvalidStep
from holdfast.model.functions.batches import BatchDoFn
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.grouping import build
from holdfast.model.functions.lookup import Lookup
from holdfast.model.functions.options import KEY_AND_WINDOW, StepOptions
from holdfast.model.functions.side_inputs import SideInput
from holdfast.model.functions.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, OVER_LIMIT_TAG, Step
from holdfast.model.time.timers import TimeDomain
from holdfast.model.windows.ready import FixedWindows, GlobalWindows
from holdfast.spark.session.settings import memory_budget_bytes, required_problems
from holdfast.spark.stages.bounded import bounded_run
from holdfast.spark.stages.metrics import observed
from holdfast.spark.stages.pack import PACKED_SCHEMA, pack_function
from holdfast.spark.stages.panes import PaneLayout
from holdfast.spark.stages.plan import Reader, StepPlan
from holdfast.spark.stages.processor import OUTPUT_SCHEMA, REPORT_TAG, StepProcessor, transformed, with_batch_time
from holdfast.spark.stages.unpack import Outputs, unpack
from holdfast.spark.steps.initial_state import initial_blobs, initial_problems
from holdfast.spark.steps.lineage import analyzed, has_watermark, register, steps_above, tasks_vary
from holdfast.spark.steps.side_inputs import send_all
from holdfast.spark.steps.source import KeyedSource
from holdfast.spark.steps.starting import watch_starts
from holdfast.spark.types.arrow import arrow_schema
from holdfast.spark.types.batch_rows import BatchReader
from holdfast.spark.types.schemas import Schema, read_output_schema

__all__ = [
    "Given",
    "build_par_do",
    "check_stream",
    "make_plan",
    "output_schema",
    "outputs_of",
    "time_mode_of",
]


def build_par_do(
    source: KeyedSource,
    fn: DoFn,
    *,
    output: Schema | None,
    outputs: Mapping[str, Schema | None] | None,
    initial: DataFrame | None,
    options: StepOptions,
    reader: Reader | None = None,
) -> DataFrame | Outputs:
    """The DataFrames of a step's outputs. `reader` is for what crosses the shuffle, if it is not the plain elements."""
    given = dict(outputs or {})
    if output is not None:
        given[MAIN_TAG] = output
    options = replace(options, outputs=tuple(tag for tag in given if tag != MAIN_TAG))
    problems = [*backend_problems(options.backend)]
    if MAIN_TAG not in given:
        problems.append("No schema of the main output is given: output='card string, count int'.")
    step = build(fn, options, input_problems=problems)
    check_stream(source, step, options)
    if initial is not None:
        _check_initial(source, step, initial, options)
    schemas = {tag: output_schema(source, step, tag, schema) for tag, schema in given.items()}
    named: dict[str, SideInput] = {key: Given(side) for key, side in step.side_inputs.items()}
    sent = replace(options, name=step.name, side_inputs=named)
    if reader is None:
        reader = BatchReader(source.reader()) if isinstance(step.fn, BatchDoFn) else source.reader()
    plan = make_plan(source, step, step.fn, sent, reader, schemas)
    return outputs_of(source, plan, schemas, several=outputs is not None, initial=_begun_with(source, initial, plan, step))


def _begun_with(
    source: KeyedSource, initial: DataFrame | None, plan: StepPlan, step: Step
) -> Callable[[int], DataFrame] | None:
    if initial is None:
        return None
    return lambda slot: initial_blobs(initial, plan, source.fields(source.keys), step, slot)


def _check_initial(source: KeyedSource, step: Step, initial: DataFrame, options: StepOptions) -> None:
    backend = backend_name(backend_of(options))
    problems = [*initial_problems(initial, step, source.fields(source.keys), backend)]
    if not source.df.isStreaming:
        problems.append("initial_state is for a streaming DataFrame; union what a batch should begin with into its input.")
    if problems:
        raise InvalidStep(step.name, problems)


def check_stream(source: KeyedSource, step: Step, options: StepOptions) -> None:
    """Event time must come from somewhere, or nothing that waits for it would ever happen; names must differ; the session
    must not forbid the only store that steps can use."""
    needs = _event_time_needs(step)
    problems = [
        f"There is a step {step.name!r} above this one already; give one of them another name: name='...'."
        for above in steps_above(source.df)
        if above.plan.name == step.name
    ]
    if needs and source.timestamp is None:
        problems.append(f"{needs} event time, but the stream has no timestamp: hf.keyed(..., timestamp='...').")
    elif needs and source.df.isStreaming and source.watermark is None and not has_watermark(source.df):
        problems.append(f"{needs} a watermark, but the stream has none: hf.keyed(..., watermark='10 seconds').")
    if options.parallel_over == KEY_AND_WINDOW and type(_windowing(step).window_fn) is not FixedWindows:
        problems.append(
            "parallel_over='key+window' sends an element to the key group of its window, so it must have exactly one: use "
            "FixedWindows."
        )
    if source.df.isStreaming:
        problems += required_problems(source.df.sparkSession)
    if problems:
        raise InvalidStep(step.name, problems)


def _windowing(step: Step) -> Any:
    return step.windowing if step.grouping is None else step.grouping.windowing


def _event_time_needs(step: Step) -> str:
    window_fn = _windowing(step).window_fn
    if not isinstance(window_fn, GlobalWindows):
        return f"{type(window_fn).__name__} needs"
    if step.time_sorted:
        return "requires_time_sorted_input needs"
    if step.grouping is None and any(timer.time_domain is TimeDomain.WATERMARK for timer in step.timers):
        return "A timer of the domain WATERMARK needs"
    if any(cell.ttl is not None and cell.ttl.in_event_time for cell in step.cells):
        return "A TTL in event time needs"
    return ""


def output_schema(source: KeyedSource, step: Step, tag: str, given: Any) -> StructType:
    """The schema of an output: as given, or of `late`, `over_limit` and `dead_letter` that of the elements."""
    if given is not None:
        return read_output_schema(given, step.name)
    fields = [_nullable(f) for f in source.fields([*source.keys, *source.values])]
    if tag == DEAD_LETTER_TAG:
        fields += [
            StructField("timestamp", TimestampType()),
            StructField("method", StringType()),
            StructField("error", StringType()),
            StructField("traceback", StringType()),
        ]
    elif tag not in (LATE_TAG, OVER_LIMIT_TAG):
        raise InvalidStep(step.name, [f"The output {tag!r} has no schema."])
    return StructType(fields)


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, True)


def make_plan(
    source: KeyedSource,
    step: Step,
    fn: Any,
    options: StepOptions,
    reader: Reader,
    schemas: Mapping[str, StructType],
    panes: PaneLayout | None = None,
) -> StepPlan:
    """The plan of a step; workers build the step anew from `fn` and the options."""
    backend = backend_of(options)
    # What runs the step, and where, is the plan's own; a DataFrame cannot travel.
    sent = replace(options, backend=None)
    key = [{"name": f.name, "type": f.dataType.simpleString()} for f in source.fields(source.keys)]
    domains = {timer.time_domain for timer in step.timers}
    return StepPlan(
        name=step.name,
        pickled=StepPlan.pickle_step(fn, sent),
        reader=reader,
        schemas={tag: arrow_schema(schema) for tag, schema in schemas.items()},
        manifest=make_manifest(
            step.describe(),
            key=key,
            key_groups=options.key_groups,
            backend=backend_name(backend),
            parallel_over=options.parallel_over,
        ),
        key_groups=options.key_groups,
        uses_event_time=bool(_event_time_needs(step)),
        uses_processing_time=TimeDomain.REAL_TIME in domains,
        chained=source.watermark is None and bool(steps_above(source.df)),
        memory_budget_bytes=memory_budget_bytes(source.df.sparkSession),
        backend=backend_name(backend),
        factory=StepPlan.pickle_backend(step.name, backend),
        names_backend=options.backend is not None,
        evolution=Evolution.of(step.cells, options.drop_cells),
        parallel_over=options.parallel_over,
        side_inputs=send_all(source.df.sparkSession, step),
        panes=panes,
        function=_class_name(fn.fn if isinstance(fn, Lookup) else fn),
        limits=options.limits,
    )


def _class_name(fn: Any) -> str:
    """The class of a function as its author knows it: not one that we have derived from it to fit it to rows."""
    return next((cls.__name__ for cls in type(fn).__mro__ if not _is_derived(cls)), type(fn).__name__)


def _is_derived(cls: type[Any]) -> bool:
    """Whether a class is one of our own that users do not name: for Spark alone, or made while a program runs."""
    if not cls.__module__.startswith("holdfast."):
        return False
    return (
        cls.__module__.startswith("holdfast.spark.") or getattr(sys.modules[cls.__module__], cls.__name__, None) is not cls
    )


class Given(SideInput):
    """Stands for a side input in the pickled options: its content travels by itself."""

    def __init__(self, side_input: SideInput) -> None:
        super().__init__(None)
        self.kind = type(side_input).__name__


def outputs_of(
    source: KeyedSource,
    plan: StepPlan,
    schemas: Mapping[str, StructType],
    *,
    several: bool,
    lift: Any = None,
    initial: Callable[[int], DataFrame] | None = None,
) -> DataFrame | Outputs:
    """Puts the stages together. `several`: whether outputs were named, so that they come by tag. `lift` combines elements in
    the pack stage. `initial` gives the blobs to begin with, for a slot."""
    spark = source.df.sparkSession
    main_first = {tag: schemas[tag] for tag in sorted(schemas, key=lambda tag: tag != MAIN_TAG)}
    # A step over a batch has no state in a checkpoint, whatever query its rows go into.
    built = register(plan) if source.df.isStreaming else None
    name = "holdfast_bounded_step" if built is None else built.mark
    pack = pack_function(plan.key_groups, name, lift, by_content=tasks_vary(analyzed(source.df)))
    prepared = source.prepared(plan.key_groups, plan.parallel_over)
    packed = prepared.mapInArrow(pack, PACKED_SCHEMA)
    if built is not None:
        watch_starts(spark)
        begun_with = None if initial is None else initial(0).groupBy("label")
        time_mode = time_mode_of([plan])
        if time_mode == "None":
            packed = with_batch_time(packed)
        grouped = packed.groupBy("label")
        rows = transformed(grouped, StepProcessor(plan), OUTPUT_SCHEMA, time_mode=time_mode, initial=begun_with)
        results = observed(rows, built.mark, F.col("tag") == REPORT_TAG)
        built.prepared, built.packed, built.source = prepared, results, source
        built.lift, built.initial, built.schemas = lift, initial, main_first
    else:
        results = packed.groupBy("label").applyInArrow(bounded_run(plan), OUTPUT_SCHEMA)
        if len(schemas) > 1:
            results = results.persist()
    frames = {
        tag: unpack(results, tag, schema, "holdfast_bounded_output" if built is None else built.output_name(tag))
        for tag, schema in main_first.items()
    }
    return Outputs(frames) if several else frames[MAIN_TAG]


def time_mode_of(plans: Iterable[StepPlan]) -> str:
    """The time mode of an operator with these steps."""
    plans = list(plans)
    if any(plan.uses_processing_time for plan in plans):
        return "ProcessingTime"
    return "EventTime" if any(plan.uses_event_time for plan in plans) else "None"
