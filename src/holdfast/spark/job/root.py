"""The root of a job: the DataFrame that its query runs, and how what each sink is given follows from that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.errors import InvalidStep
from holdfast.spark.graph.edges import Bypass, OutputOf
from holdfast.spark.graph.grafts import Graft
from holdfast.spark.graph.graph import Graph
from holdfast.spark.graph.line import line_of
from holdfast.spark.graph.placing import Placement
from holdfast.spark.graph.sources import source_marks
from holdfast.spark.sinks.base import Sink
from holdfast.spark.steps.lineage import BuiltStep, analyzed, doubled_steps, steps_above

__all__ = ["Outline", "Part", "Root"]

Part = Callable[[DataFrame], DataFrame]
"""What a sink is given of a micro-batch."""


@dataclass(frozen=True)
class Root:
    """What the query of a job runs."""

    frame: DataFrame
    sinks: list[tuple[Part | None, Sink]]
    """Each sink with what it is given of a micro-batch; None stands for all of it, as it is."""
    placement: Placement | None = None
    """Where the steps are, if they are in a line."""

    @property
    def sources(self) -> list[str]:
        """The marks of its sources, in order."""
        return source_marks(analyzed(self.frame))


class Outline:
    """What a job writes, and the steps that this takes. Raises InvalidStep if one query cannot give all of it."""

    def __init__(self, job: str, writes: Sequence[tuple[DataFrame, Sink]], backend: str | None = None) -> None:
        self._job = job
        self.backend = backend
        """The backend of steps that have not named one."""
        self._frames = [frame for frame, _ in writes]
        self._sinks = [sink for _, sink in writes]
        self._grafts = [Graft.of(frame) for frame in self._frames]
        self.steps = _named_steps(job, self._frames)
        """All steps. Their names, by which their state is found, differ."""
        if self.as_built is None:
            self.check_line()

    @property
    def spark(self) -> SparkSession:
        return self._frames[0].sparkSession

    @cached_property
    def graph(self) -> Graph:
        return Graph.of(self.steps, self._grafts)

    @cached_property
    def as_built(self) -> Root | None:
        """The query as the user built it, if no step would run twice in it: it ends with the only step that is written, or
        with whatever Spark does after that, if only that is written."""
        if self._is_written_at_once and not doubled_steps(self._frames[0]):
            return Root(self._frames[0], [(None, self._sinks[0])])
        nearest = list(dict.fromkeys(step for graft in self._grafts for step in graft.steps))
        if len(nearest) != 1 or any(graft.problems or graft.has_bypasses for graft in self._grafts):
            return None
        packed = nearest[0].packed
        assert packed is not None
        return None if doubled_steps(packed) else self._root(packed, _rows_of_tag)

    @property
    def _is_written_at_once(self) -> bool:
        """Whether the rows need not be kept until all of them are there: the only sink evaluates them once by itself. If it
        does not, they are kept, and take less room as the step has packed them, unless there is more work after it."""
        if len(self._frames) > 1:
            return False
        return self._sinks[0].evaluates_all or not self._grafts[0].is_plain

    def line(self, placement: Placement, sources: Sequence[str] | None) -> Root:
        """The query with all steps in a line, and its sources in the order of these marks."""
        line = line_of(self.spark, self.graph, placement, sources)
        return replace(self._root(line.frame, line.rows_of), placement=placement)

    @cached_property
    def line_problems(self) -> list[str]:
        """What cannot be done with each micro-batch by itself after the steps."""
        return [
            f"What is written to {sink!r} has {problem}. In a job with several outputs, each row must stand for itself "
            "between a step and a sink: do the rest in the sink (hf.sinks.ForeachBatch), or write it with a job of its own."
            for graft, sink in zip(self._grafts, self._sinks, strict=True)
            for problem in graft.problems
        ]

    def check_line(self) -> None:
        """Raises InvalidStep if something after the steps cannot be done with each micro-batch by itself."""
        if self.line_problems:
            raise InvalidStep.of_job(self._job, self.line_problems)

    def _root(self, frame: DataFrame, rows_of: Callable[[OutputOf | Bypass], Column]) -> Root:
        parts = [_part(graft, rows_of) for graft in self._grafts]
        return Root(frame, list(zip(parts, self._sinks, strict=True)))


def _rows_of_tag(origin: OutputOf | Bypass) -> Column:
    assert isinstance(origin, OutputOf)
    return F.col("tag") == origin.tag


def _part(graft: Graft, rows_of: Callable[[OutputOf | Bypass], Column]) -> Part:
    return lambda packed: graft.onto(packed, rows_of)


def _named_steps(job: str, frames: list[DataFrame]) -> list[BuiltStep]:
    steps = list(dict.fromkeys(step for frame in frames for step in steps_above(frame)))
    names = [step.plan.name for step in steps]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidStep.of_job(
            job, [f"Two steps have the name {name!r}; give one of them another: name='...'." for name in doubled]
        )
    return steps
