"""The root of a job: the DataFrame that its query runs, and how what each sink is given follows from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdfast.errors import InvalidStep
from holdfast.spark.sinks.base import Sink
from holdfast.spark.steps.grafts import Graft
from holdfast.spark.steps.lineage import BuiltStep, doubled_steps, steps_above

__all__ = ["Root", "root_of"]


@dataclass(frozen=True)
class Root:
    """What the query of a job runs."""

    frame: DataFrame
    sinks: list[tuple[Graft | None, Sink]]
    """Each sink with what it is given of a micro-batch; None stands for all of it, as it is."""
    steps: list[BuiltStep]
    """All steps of the query. Their names, by which their state is found, differ."""


def root_of(job: str, writes: Sequence[tuple[DataFrame, Sink]]) -> Root:
    """The root of a job that writes these. Raises InvalidStep if one query cannot give all of it, each step running once."""
    grafts = [Graft.of(frame) for frame, _ in writes]
    steps = _named_steps(job, [frame for frame, _ in writes])
    if _is_to_be_grafted(grafts):
        packed = grafts[0].steps[0].packed
        assert packed is not None
        root = Root(packed, [(graft, sink) for graft, (_, sink) in zip(grafts, writes, strict=True)], steps)
    elif len(writes) == 1:
        root = Root(writes[0][0], [(None, writes[0][1])], steps)
    else:
        raise InvalidStep(job, _problems(grafts, [sink for _, sink in writes]))
    doubled = [
        f"The output of the step {step.plan.name!r} is used twice in one query, so it would run twice, with two copies "
        "of its state: give each use a job of its own, or filter and select in the sink, hf.sinks.ForeachBatch."
        for step in doubled_steps(root.frame)
    ]
    if doubled:
        raise InvalidStep(job, doubled)
    return root


def _is_to_be_grafted(grafts: list[Graft]) -> bool:
    """Whether the query ends with the outputs of a step, and what follows is done with each micro-batch."""
    nearest = {step for graft in grafts for step in graft.steps}
    if len(nearest) != 1 or any(graft.problems for graft in grafts):
        return False
    # A single one could be part of the query itself; its rows then need not be kept until all of them are there.
    return len(grafts) > 1 or len(grafts[0].found) > 1 or grafts[0].is_plain


def _problems(grafts: list[Graft], sinks: list[Sink]) -> list[str]:
    problems = [
        f"What is written to {sink!r} has {problem}. In a job with several outputs, each row must stand for itself between "
        "the step and a sink: do the rest in the sink (hf.sinks.ForeachBatch), or write it with a job of its own."
        for graft, sink in zip(grafts, sinks, strict=True)
        for problem in graft.problems
    ]
    names = sorted({step.plan.name for graft in grafts for step in graft.steps})
    if len(names) > 1:
        listed = ", ".join(map(repr, names))
        problems.append(
            f"Several outputs in one query must come from one step; these come from {listed}. Write those of each step with "
            "a job of its own."
        )
    return problems


def _named_steps(job: str, frames: list[DataFrame]) -> list[BuiltStep]:
    steps = list(dict.fromkeys(step for frame in frames for step in steps_above(frame)))
    names = [step.plan.name for step in steps]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidStep(
            job, [f"Two steps have the name {name!r}; give one of them another: name='...'." for name in doubled]
        )
    return steps
