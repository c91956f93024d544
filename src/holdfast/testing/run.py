"""Runs a function over a scripted stream."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from holdfast.engine.backends.choice import backend_problems
from holdfast.engine.run.options import DoFnOptions
from holdfast.errors import InvalidStep
from holdfast.model.aggregate.triggers import Accumulation, Trigger
from holdfast.model.functions.culprits import sending_problems
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.grouping import CombinePerKey, GroupByKey, build
from holdfast.model.functions.options import DurationLike, StepOptions
from holdfast.model.functions.stateless import as_function, own_side_inputs
from holdfast.model.functions.step import MAIN_TAG, Step
from holdfast.model.windows.ready import WindowFn
from holdfast.testing.memory_runtime import MemoryRuntime
from holdfast.testing.results import Results
from holdfast.testing.side_streams import check_script, with_side_streams
from holdfast.testing.stream import AddElements, TestStream

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["run"]


def run(
    fn: DoFn | CombinePerKey | GroupByKey | Callable[..., Iterable[object] | None],
    stream: TestStream,
    *,
    windowing: WindowFn | None = None,
    allowed_lateness: DurationLike = 0,
    trigger: Trigger | None = None,
    accumulation_mode: Accumulation | None = None,
    output: object = None,
    outputs: Mapping[str, object] | Iterable[str] | None = None,
    start_from: Results | None = None,
    runtime: Literal["memory", "spark"] = "memory",
    **options: Unpack[DoFnOptions],
) -> Results:
    """Runs a function or an aggregation over the script and returns its outputs, final state and counters.

    Takes the options of `par_do` and `window_into`, so that a test reads like the job; `key_groups` is 1 by default. In
    memory `output` is ignored: values come out as the function gave them. `outputs` declares tags besides the main one; if
    it is left out, any tag may be used. Late elements come out under the tag `late` if that is declared, otherwise they are
    only counted. With `start_from`, the run resumes with the state that another run left, perhaps with older code.
    """
    problems = [*_option_problems(options.get("backend"), runtime, start_from), *_unkeyed(stream)]
    windows = {
        "windowing": windowing,
        "allowed_lateness": allowed_lateness,
        "trigger": trigger,
        "accumulation_mode": accumulation_mode,
    }
    tags = None if outputs is None else outputs if isinstance(outputs, str) else tuple(t for t in outputs if t != MAIN_TAG)
    given = StepOptions.of("run", options, outputs=tags, **windows)
    fn, sides = own_side_inputs(as_function(fn), given.side_inputs, given.name or "")
    fn, given, streams = with_side_streams(fn, replace(given, side_inputs=sides))
    check_script(streams, stream, runtime)

    def make_step(problems: Iterable[str] = ()) -> Step:
        return build(_copied(fn), given, input_problems=problems)

    step = make_step(problems)
    played: Any
    if runtime == "memory":
        stores = None if start_from is None else start_from.stores
        query = "" if start_from is None else start_from.query
        played = MemoryRuntime(make_step, given, query=query, stores=stores)
    else:
        from holdfast.testing.spark_runtime import SparkRuntime

        played = SparkRuntime(fn, make_step, given)
    aggregations = streams.aggregations()
    try:
        for event in stream.events:
            rows = [row for aggregation in aggregations for row in aggregation.play(event)]
            if rows:
                played.play(streams.event(event), rows)
            else:
                played.play(streams.event(event))
    finally:
        for aggregation in aggregations:
            aggregation.finish()
        played.finish()
    stores, query = getattr(played, "stores", ()), getattr(played, "query", "")
    return Results(step, played.outputs, played.metrics, played.load, stores, query)


def _copied(fn: Any) -> Any:
    """A copy of the function, as a worker would receive it."""
    try:
        return copy.deepcopy(fn)
    except Exception as error:
        problems = sending_problems(copy.deepcopy, [(type(fn).__name__, fn)])
        raise InvalidStep(type(fn).__name__, problems or [f"The function cannot be sent to a worker: {error}"]) from error


def _option_problems(backend: object, runtime: str, start_from: Results | None) -> Iterator[str]:
    if start_from is not None and runtime != "memory":
        yield "start_from is for the memory runtime; on Spark a job resumes from its checkpoint."
    if runtime not in ("memory", "spark"):
        yield f"runtime is {runtime!r}; use 'memory' or 'spark'."
    yield from backend_problems(backend)


def _unkeyed(stream: Any) -> Iterator[str]:
    if not isinstance(stream, TestStream):
        raise InvalidStep("run", [f"The second argument is {stream!r}; it must be a TestStream."])
    for event in stream.events:
        for element, _ in event.elements if isinstance(event, AddElements) else ():
            if not isinstance(element, (tuple, list)) or len(element) != 2:
                yield (
                    f"The input is not keyed: {element!r} is not a (key, value) pair. A stateful step keeps its state "
                    "by key, so every element must be such a pair."
                )
                return
