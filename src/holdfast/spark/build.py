"""Builds a step: checks everything on the driver, then puts the stages together.

assign (key group of each row) → pack → shuffle by label → processor, or one run for bounded input → unpack
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from holdfast.engine.metrics import StepMetrics
from holdfast.model.dofn import DoFn
from holdfast.model.side_inputs import SideInput
from holdfast.model.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, Step, build_step
from holdfast.model.timers import TimeDomain
from holdfast.model.windows import GlobalWindows
from holdfast.spark.arrow_types import arrow_schema
from holdfast.spark.bounded import bounded_run
from holdfast.spark.keyed import KeyedStream
from holdfast.spark.lineage import plan_text, register, steps_above
from holdfast.spark.manifest import make_manifest
from holdfast.spark.metrics import MetricsParam
from holdfast.spark.pack import PACKED_SCHEMA, pack_function
from holdfast.spark.plan import StepPlan
from holdfast.spark.processor import OUTPUT_SCHEMA, KeyGroupProcessor
from holdfast.spark.rows import ElementReader
from holdfast.spark.schemas import read_schema
from holdfast.spark.session import apply_settings
from holdfast.spark.side_inputs import send_all
from holdfast.spark.unpack import Origin, Outputs
from holdfast.spark.unpack import output as output_frame

__all__ = ["build_par_do"]

_BACKENDS = ("heap",)
_KEY_GROUPS_MAX = 32_768


def build_par_do(
    stream: KeyedStream,
    fn: DoFn,
    *,
    output: Any,
    outputs: dict[str, Any],
    name: str | None,
    key_groups: int,
    backend: str,
    side_inputs: Mapping[str, SideInput] | Sequence[SideInput],
    requires_time_sorted_input: bool,
    on_error: str,
    memory_budget_bytes: int,
) -> DataFrame | Outputs:
    """The DataFrames of a step's outputs."""
    given = dict(outputs)
    if output is not None:
        given[MAIN_TAG] = output
    if on_error == "dead_letter":
        given.setdefault(DEAD_LETTER_TAG, None)
    options: dict[str, Any] = {
        "name": name,
        "windowing": stream.window_fn,
        "allowed_lateness": stream.allowed_lateness,
        "on_error": on_error,
        "requires_time_sorted_input": requires_time_sorted_input,
        "outputs": [tag for tag in given if tag != MAIN_TAG],
    }
    problems = [*_option_problems(given, key_groups, backend, memory_budget_bytes)]
    step = build_step(fn, side_inputs=side_inputs, input_problems=problems, **options)
    _check_place(stream, step)
    schemas = {tag: _schema(stream, step, tag, schema) for tag, schema in given.items()}
    plan = _plan(stream, step, options, side_inputs, schemas, key_groups, backend, memory_budget_bytes)
    return _outputs(stream, plan, schemas)


def _option_problems(given: Mapping[str, Any], key_groups: Any, backend: str, memory_budget_bytes: Any) -> Iterator[str]:
    if MAIN_TAG not in given:
        yield "No schema of the main output is given: output='card string, count int'."
    if not isinstance(key_groups, int) or not 1 <= key_groups <= _KEY_GROUPS_MAX:
        yield f"key_groups is {key_groups!r}; it must be a whole number from 1 to {_KEY_GROUPS_MAX}."
    if backend not in _BACKENDS:
        yield f"backend is {backend!r}; it can be {', '.join(map(repr, _BACKENDS))}."
    if not isinstance(memory_budget_bytes, int) or memory_budget_bytes < 0:
        yield f"memory_budget_bytes is {memory_budget_bytes!r}; it must be a number of bytes."


def _check_place(stream: KeyedStream, step: Step) -> None:
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
    if problems:
        build_step(step.fn, name=step.name, input_problems=problems)


def _event_time_needs(step: Step) -> str:
    if not isinstance(step.windowing.window_fn, GlobalWindows):
        return f"{type(step.windowing.window_fn).__name__} needs"
    if step.time_sorted:
        return "requires_time_sorted_input needs"
    if any(timer.time_domain is TimeDomain.WATERMARK for timer in step.timers):
        return "A timer of the domain WATERMARK needs"
    return ""


def _schema(stream: KeyedStream, step: Step, tag: str, given: Any) -> StructType:
    if given is not None:
        return read_schema(given, step.name)
    fields = [_nullable(f) for f in stream.fields([*stream.keys, *stream.values])]
    if tag == DEAD_LETTER_TAG:
        fields += [
            StructField("timestamp", TimestampType()),
            StructField("method", StringType()),
            StructField("error", StringType()),
            StructField("traceback", StringType()),
        ]
    elif tag != LATE_TAG:
        build_step(step.fn, name=step.name, input_problems=[f"The output {tag!r} has no schema."])
    return StructType(fields)


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, True)


def _plan(
    stream: KeyedStream,
    step: Step,
    options: dict[str, Any],
    side_inputs: Mapping[str, SideInput] | Sequence[SideInput],
    schemas: Mapping[str, StructType],
    key_groups: int,
    backend: str,
    memory_budget_bytes: int,
) -> StepPlan:
    named = {key: _Given(side) for key, side in step.side_inputs.items()}
    pickled = StepPlan.pickle_step(step.fn, {**options, "name": step.name, "side_inputs": named})
    reader = ElementReader(
        timed=stream.timestamp is not None, keys=len(stream.keys), value_names=stream.values, named=stream.named
    )
    key = [{"name": f.name, "type": f.dataType.simpleString()} for f in stream.fields(stream.keys)]
    domains = {timer.time_domain for timer in step.timers}
    return StepPlan(
        name=step.name,
        pickled=pickled,
        reader=reader,
        schemas={tag: arrow_schema(schema) for tag, schema in schemas.items()},
        manifest=make_manifest(step.describe(), key=key, key_groups=key_groups, backend=backend),
        key_groups=key_groups,
        uses_event_time=bool(_event_time_needs(step)),
        uses_processing_time=TimeDomain.REAL_TIME in domains,
        chained=stream.watermark is None and bool(steps_above(stream.df)),
        memory_budget_bytes=memory_budget_bytes,
        side_inputs=send_all(stream.df.sparkSession, step),
    )


class _Given(SideInput):
    """Stands for a side input in the pickled options: its content travels by itself."""

    def __init__(self, side_input: SideInput) -> None:
        super().__init__(None)
        self.kind = type(side_input).__name__


def _outputs(stream: KeyedStream, plan: StepPlan, schemas: Mapping[str, StructType]) -> DataFrame | Outputs:
    spark = stream.df.sparkSession
    metrics = spark.sparkContext.accumulator(StepMetrics(), MetricsParam())
    pack = pack_function(plan.key_groups, register(plan))
    packed = stream.prepared(plan.key_groups).mapInArrow(pack, PACKED_SCHEMA).groupBy("label")
    if stream.df.isStreaming:
        apply_settings(spark)
        results = packed.transformWithState(
            statefulProcessor=KeyGroupProcessor(plan, metrics),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="Append",
            timeMode=_time_mode(plan),
        )
    else:
        results = packed.applyInArrow(bounded_run(plan, metrics), OUTPUT_SCHEMA)
        if len(schemas) > 1:
            results = results.persist()
    frames = {tag: output_frame(Origin(results, tag, schema, plan, metrics)) for tag, schema in schemas.items()}
    return frames[MAIN_TAG] if len(frames) == 1 else Outputs(frames)


def _time_mode(plan: StepPlan) -> str:
    if plan.uses_processing_time:
        return "ProcessingTime"
    return "EventTime" if plan.uses_event_time else "None"
