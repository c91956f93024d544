"""Side inputs that are streams, in a script: they come to the step together with its elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from holdfast.errors import InvalidStep
from holdfast.model.functions.grouping import build
from holdfast.model.functions.lookup import Lookup, SideRows, side_streams
from holdfast.model.functions.options import StepOptions
from holdfast.model.time.timestamps import Timestamp
from holdfast.testing.memory_runtime import MemoryRuntime
from holdfast.testing.stream import AddElements, Event, SideStream, TestStream

__all__ = ["Aggregation", "Sides", "Timed", "check_script", "with_side_streams"]

Timed = tuple[Any, Timestamp]
"""An element, and its time."""


@dataclass(frozen=True)
class Sides:
    """The side inputs of a script that are streams, in the order in which the step counts them."""

    streams: tuple[SideStream, ...] = ()

    def event(self, event: Event) -> Event:
        """An event as the step takes it: its elements say where they come from."""
        if not self.streams or not isinstance(event, AddElements):
            return event
        origin = 0 if event.to is None else 1 + self.streams.index(event.to)
        return AddElements(tuple(((key, (origin, value)), time) for (key, value), time in event.elements))

    def aggregations(self) -> list[Aggregation]:
        """What makes the rows of those that are results."""
        made = [(origin, stream) for origin, stream in enumerate(self.streams, start=1) if stream.results_of is not None]
        return [Aggregation(origin, stream) for origin, stream in made]


class Aggregation:
    """Makes the rows of one side input from the elements of the script."""

    def __init__(self, origin: int, stream: SideStream) -> None:
        self._origin = origin
        make_step = partial(build, stream.results_of, stream.options)  # type: ignore[arg-type]
        self._runtime = MemoryRuntime(make_step, stream.options)
        self._taken = 0

    def play(self, event: Event) -> list[Timed]:
        """The rows that follow from an event of the script."""
        if isinstance(event, AddElements) and event.to is not None:
            return []
        self._runtime.play(event)
        new = self._runtime.outputs[self._taken :]
        self._taken += len(new)
        return [((key, (self._origin, result)), output.timestamp) for output in new for key, result in [output.value]]

    def finish(self) -> None:
        self._runtime.finish()


def with_side_streams(fn: Any, options: StepOptions) -> tuple[Any, StepOptions, Sides]:
    """The function that looks up the side inputs which are streams, the options without these, and the streams."""
    found = side_streams(fn, options.side_inputs, lambda side: isinstance(side.source, SideStream), options.name or "")
    if found is None:
        return fn, options, Sides()
    streams, others = found
    rows = [
        SideRows(name, side.source.windowing, side.source.results_of is not None, side.wait, side.source.coder, side.ttl)
        for name, side in streams.items()
    ]
    return Lookup(fn, rows), replace(options, side_inputs=others), Sides(tuple(side.source for side in streams.values()))


def check_script(sides: Sides, stream: TestStream, runtime: str) -> None:
    """Raises InvalidStep for a script that adds rows to side inputs which the step does not have."""
    problems = [*_problems(sides.streams, stream.events, runtime)]
    if problems:
        raise InvalidStep("run", dict.fromkeys(problems))


def _problems(streams: Sequence[SideStream], events: Iterable[Event], runtime: str) -> Iterator[str]:
    for event in events:
        if isinstance(event, AddElements) and event.to is not None:
            if event.to not in streams:
                yield "The script adds rows to a SideStream which is no side input: side_inputs={'…': hf.AsDict(…)}."
            elif event.to.results_of is not None:
                yield "The script adds rows to a SideStream that has results of an aggregation; those come by themselves."
    if runtime == "spark" and any(stream.results_of is not None for stream in streams):
        yield "SideStream(results_of=…) is for the runtime in memory: a script on Spark has one step. Add its rows with to=."
