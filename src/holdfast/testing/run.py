"""Run a function over a scripted stream."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.engine.backends.choice import Backend, backend_problems
from holdfast.errors import InvalidStep
from holdfast.model.culprits import sending_problems
from holdfast.model.dofn import DoFn
from holdfast.model.grouping import CombinePerKey, GroupByKey, build
from holdfast.model.limits import Limits
from holdfast.model.side_inputs import SideInput
from holdfast.model.step import MAIN_TAG, Step
from holdfast.model.timestamps import Duration
from holdfast.model.triggers import Trigger
from holdfast.model.windows import WindowFn
from holdfast.testing.memory_runtime import MemoryRuntime
from holdfast.testing.results import Results
from holdfast.testing.stream import AddElements, TestStream

__all__ = ["run"]


def run(
    fn: DoFn | CombinePerKey | GroupByKey,
    stream: TestStream,
    *,
    windowing: WindowFn | None = None,
    allowed_lateness: Duration | int | float | str = 0,
    trigger: Trigger | None = None,
    accumulation_mode: str | None = None,
    output: Any = None,
    outputs: Mapping[str, Any] | Iterable[str] | None = None,
    name: str | None = None,
    key_groups: int = 1,
    backend: Backend = "heap",
    side_inputs: Mapping[str, SideInput] | Sequence[SideInput] = (),
    requires_time_sorted_input: bool = False,
    on_error: str = "fail",
    drop_cells: Sequence[str] = (),
    limits: Limits | None = None,
    start_from: Results | None = None,
    runtime: str = "memory",
) -> Results:
    """Runs a DoFn, or an aggregation, over the script and gives its outputs, final state and counters.

    Takes what `par_do` and `window_into` take, so that a test says what the job says. In memory `output` is not looked
    at: values come out as they were given. `outputs` declares tags (besides the main one); if it is left out, any tag
    may be used. Late elements come out under the tag `late` if that is declared, otherwise they are only counted.
    With `start_from`, the run goes on with the state that another run left, perhaps of older code.
    """
    problems = [*_option_problems(backend, key_groups, runtime, start_from), *_unkeyed(stream)]
    tags = None if outputs is None else [tag for tag in outputs if tag != MAIN_TAG]

    options: dict[str, Any] = {
        "name": name,
        "windowing": windowing,
        "allowed_lateness": allowed_lateness,
        "trigger": trigger,
        "accumulation_mode": accumulation_mode,
        "side_inputs": side_inputs,
        "on_error": on_error,
        "requires_time_sorted_input": requires_time_sorted_input,
        "outputs": tags,
        "limits": limits,
        "key_groups": key_groups,
    }

    def make_step(problems: Iterable[str] = ()) -> Step:
        return build(_copied(fn), **options, input_problems=problems)

    step = make_step(problems)
    played: Any
    if runtime == "memory":
        stores = None if start_from is None else start_from.stores
        query = "" if start_from is None else start_from.query
        played = MemoryRuntime(make_step, key_groups, backend, query=query, stores=stores, drop_cells=drop_cells)
    else:
        from holdfast.testing.spark_runtime import SparkRuntime

        played = SparkRuntime(fn, make_step, options, key_groups, backend)
    try:
        for event in stream.events:
            played.play(event)
    finally:
        played.finish()
    stores, query = getattr(played, "stores", ()), getattr(played, "query", "")
    return Results(step, played.outputs, played.metrics, played.load, stores, query)


def _copied(fn: Any) -> Any:
    """A function of the worker's own, as one that was sent to it would be."""
    try:
        return copy.deepcopy(fn)
    except Exception as error:
        problems = sending_problems(copy.deepcopy, [(type(fn).__name__, fn)])
        raise InvalidStep(type(fn).__name__, problems or [f"The function cannot be sent to a worker: {error}"]) from error


def _option_problems(backend: Backend, key_groups: int, runtime: str, start_from: Results | None) -> Iterator[str]:
    if start_from is not None and runtime != "memory":
        yield "start_from goes with the memory runtime; on Spark a job goes on from its checkpoint."
    if runtime not in ("memory", "spark"):
        yield f"runtime is {runtime!r}; it can be 'memory' or 'spark'."
    yield from backend_problems(backend)
    if not isinstance(key_groups, int) or key_groups < 1:
        yield f"key_groups is {key_groups!r}; it must be a whole number of at least 1."


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
