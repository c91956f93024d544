"""Builds a step: checks everything on the driver, then puts the stages together.

assign (key group of each row) → pack → shuffle by label → processor, or one run for bounded input → unpack
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from holdfast.engine.backends.choice import Backend, backend_name, backend_problems
from holdfast.engine.manifest import Evolution, make_manifest
from holdfast.engine.metrics import StepMetrics
from holdfast.errors import InvalidStep
from holdfast.model.dofn import DoFn
from holdfast.model.grouping import build
from holdfast.model.limits import Limits
from holdfast.model.side_inputs import SideInput
from holdfast.model.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, OVER_LIMIT_TAG, Step
from holdfast.model.timers import TimeDomain
from holdfast.model.windows import FixedWindows, GlobalWindows
from holdfast.spark.arrow_types import arrow_schema
from holdfast.spark.bounded import bounded_run
from holdfast.spark.ending import let_queries_end
from holdfast.spark.initial_state import initial_blobs, initial_problems
from holdfast.spark.keyed import KEY, KEY_AND_WINDOW, KeyedStream
from holdfast.spark.lifting import LiftedReader
from holdfast.spark.lineage import plan_text, register, steps_above
from holdfast.spark.metrics import MetricsParam
from holdfast.spark.pack import PACKED_SCHEMA, pack_function
from holdfast.spark.panes import PaneLayout
from holdfast.spark.plan import StepPlan
from holdfast.spark.processor import OUTPUT_SCHEMA, transformed, with_batch_time
from holdfast.spark.rows import ElementReader
from holdfast.spark.schemas import read_output_schema
from holdfast.spark.session import apply_settings
from holdfast.spark.side_inputs import send_all
from holdfast.spark.unpack import Origin, Outputs
from holdfast.spark.unpack import output as output_frame

__all__ = [
    "StepOptions",
    "build_par_do",
    "check_place",
    "make_plan",
    "option_problems",
    "output_schema",
    "outputs_of",
]

_KEY_GROUPS_MAX = 32_768


@dataclass(frozen=True)
class StepOptions:
    """What every kind of step can be told."""

    name: str | None
    key_groups: int
    backend: Backend
    memory_budget_bytes: int
    parallel_over: str
    drop_cells: Sequence[str] = ()
    limits: Limits | None = None
    initial_state: DataFrame | None = None


def build_par_do(
    stream: KeyedStream,
    fn: DoFn,
    *,
    output: Any,
    outputs: dict[str, Any],
    side_inputs: Mapping[str, SideInput] | Sequence[SideInput],
    requires_time_sorted_input: bool,
    on_error: str,
    options: StepOptions,
) -> DataFrame | Outputs:
    """The DataFrames of a step's outputs."""
    given = dict(outputs)
    if output is not None:
        given[MAIN_TAG] = output
    if on_error == "dead_letter":
        given.setdefault(DEAD_LETTER_TAG, None)
    if isinstance(options.limits, Limits) and options.limits.diverts:
        given.setdefault(OVER_LIMIT_TAG, None)
    arguments: dict[str, Any] = {
        "name": options.name,
        "windowing": stream.window_fn,
        "allowed_lateness": stream.allowed_lateness,
        "trigger": stream.trigger,
        "accumulation_mode": stream.accumulation_mode,
        "on_error": on_error,
        "requires_time_sorted_input": requires_time_sorted_input,
        "outputs": [tag for tag in given if tag != MAIN_TAG],
        "limits": options.limits,
        "key_groups": options.key_groups,
    }
    problems = [*option_problems(options)]
    if MAIN_TAG not in given:
        problems.append("No schema of the main output is given: output='card string, count int'.")
    step = build(fn, side_inputs=side_inputs, input_problems=problems, **arguments)
    check_place(stream, step, options)
    if options.initial_state is not None:
        _check_initial(stream, step, options)
    schemas = {tag: output_schema(stream, step, tag, schema) for tag, schema in given.items()}
    named = {key: _Given(side) for key, side in step.side_inputs.items()}
    arguments |= {"name": step.name, "side_inputs": named}
    plan = make_plan(stream, step, step.fn, arguments, stream.reader(), schemas, options)
    initial = None
    if options.initial_state is not None:
        initial = initial_blobs(options.initial_state, plan, stream.fields(stream.keys), step)
    return outputs_of(stream, plan, schemas, initial=initial)


def _check_initial(stream: KeyedStream, step: Step, options: StepOptions) -> None:
    problems = [*initial_problems(options.initial_state, step, stream.fields(stream.keys), backend_name(options.backend))]
    if not stream.df.isStreaming:
        problems.append("initial_state is for a streaming DataFrame; union what a batch should begin with into its input.")
    if problems:
        raise InvalidStep(step.name, problems)


def option_problems(options: StepOptions) -> Iterator[str]:
    key_groups, budget = options.key_groups, options.memory_budget_bytes
    if not isinstance(key_groups, int) or not 1 <= key_groups <= _KEY_GROUPS_MAX:
        yield f"key_groups is {key_groups!r}; it must be a whole number from 1 to {_KEY_GROUPS_MAX}."
    yield from backend_problems(options.backend)
    if not isinstance(budget, int) or budget < 0:
        yield f"memory_budget_bytes is {budget!r}; it must be a number of bytes."
    if isinstance(options.drop_cells, str):
        yield f"drop_cells is {options.drop_cells!r}; give the names in a list: drop_cells=[{options.drop_cells!r}]."
    if options.parallel_over not in (KEY, KEY_AND_WINDOW):
        yield f"parallel_over is {options.parallel_over!r}; it can be {KEY!r} or {KEY_AND_WINDOW!r}."


def check_place(stream: KeyedStream, step: Step, options: StepOptions) -> None:
    """Event time must come from somewhere, or nothing that waits for it would ever happen; names must differ."""
    needs = _event_time_needs(step)
    plan = plan_text(stream.df)
    problems = [
        f"There is a step {step.name!r} above this one already; give one of them another name: name='...'."
        for above in steps_above(stream.df)
        if above.name == step.name
    ]
    if needs and stream.timestamp is None:
        problems.append(f"{needs} event time, but the stream has no timestamp: hf.keyed(..., timestamp='...').")
    elif needs and stream.df.isStreaming and stream.watermark is None and "EventTimeWatermark" not in plan:
        problems.append(f"{needs} a watermark, but the stream has none: hf.keyed(..., watermark='10 seconds').")
    if options.parallel_over == KEY_AND_WINDOW and type(_windowing(step).window_fn) is not FixedWindows:
        problems.append(
            "parallel_over='key+window' sends an element to the key group of its window, so it must have exactly one: use "
            "FixedWindows."
        )
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


def output_schema(stream: KeyedStream, step: Step, tag: str, given: Any) -> StructType:
    """The schema of an output: as given, or of `late`, `over_limit` and `dead_letter` that of the elements."""
    if given is not None:
        return read_output_schema(given, step.name)
    fields = [_nullable(f) for f in stream.fields([*stream.keys, *stream.values])]
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
    stream: KeyedStream,
    step: Step,
    fn: Any,
    arguments: dict[str, Any],
    reader: ElementReader | LiftedReader,
    schemas: Mapping[str, StructType],
    options: StepOptions,
    panes: PaneLayout | None = None,
) -> StepPlan:
    """The plan of a step; workers build the step anew from `fn` and `arguments`."""
    key = [{"name": f.name, "type": f.dataType.simpleString()} for f in stream.fields(stream.keys)]
    domains = {timer.time_domain for timer in step.timers}
    return StepPlan(
        name=step.name,
        pickled=StepPlan.pickle_step(fn, arguments),
        reader=reader,
        schemas={tag: arrow_schema(schema) for tag, schema in schemas.items()},
        manifest=make_manifest(
            step.describe(),
            key=key,
            key_groups=options.key_groups,
            backend=backend_name(options.backend),
            parallel_over=options.parallel_over,
        ),
        key_groups=options.key_groups,
        uses_event_time=bool(_event_time_needs(step)),
        uses_processing_time=TimeDomain.REAL_TIME in domains,
        chained=stream.watermark is None and bool(steps_above(stream.df)),
        memory_budget_bytes=options.memory_budget_bytes,
        backend=backend_name(options.backend),
        factory=StepPlan.pickle_backend(step.name, options.backend),
        evolution=Evolution.of(step.cells, options.drop_cells),
        parallel_over=options.parallel_over,
        side_inputs=send_all(stream.df.sparkSession, step),
        panes=panes,
    )


class _Given(SideInput):
    """Stands for a side input in the pickled options: its content travels by itself."""

    def __init__(self, side_input: SideInput) -> None:
        super().__init__(None)
        self.kind = type(side_input).__name__


def outputs_of(
    stream: KeyedStream,
    plan: StepPlan,
    schemas: Mapping[str, StructType],
    lift: Any = None,
    initial: DataFrame | None = None,
) -> DataFrame | Outputs:
    """Puts the stages together. `lift` combines elements in the pack stage. `initial` are blobs to begin with."""
    spark = stream.df.sparkSession
    metrics = spark.sparkContext.accumulator(StepMetrics(), MetricsParam())
    # A step over a batch has no state in a checkpoint, whatever query its rows go into.
    mark = register(plan) if stream.df.isStreaming else "holdfast_bounded_step"
    pack = pack_function(plan.key_groups, mark, lift)
    packed = stream.prepared(plan.key_groups, plan.parallel_over).mapInArrow(pack, PACKED_SCHEMA)
    if stream.df.isStreaming:
        apply_settings(spark)
        if plan.uses_processing_time:
            let_queries_end(spark)
        begun_with = None if initial is None else initial.groupBy("label")
        if _time_mode(plan) == "None":
            packed = with_batch_time(packed)
        grouped = packed.groupBy("label")
        results = transformed(grouped, plan, metrics, time_mode=_time_mode(plan), initial=begun_with)
    else:
        results = packed.groupBy("label").applyInArrow(bounded_run(plan, metrics), OUTPUT_SCHEMA)
        if len(schemas) > 1:
            results = results.persist()
    frames = {tag: output_frame(Origin(results, tag, schema, plan, metrics)) for tag, schema in schemas.items()}
    return frames[MAIN_TAG] if len(frames) == 1 else Outputs(frames)


def _time_mode(plan: StepPlan) -> str:
    if plan.uses_processing_time:
        return "ProcessingTime"
    return "EventTime" if plan.uses_event_time else "None"
