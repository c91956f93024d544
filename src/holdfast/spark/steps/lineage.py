"""Lineage: which steps a DataFrame depends on, found in its plan.

A DataFrame forgets where it came from as soon as it is transformed, but its plan does not: the pack stage of a step is a
function whose name contains the step's number. The public `explain` only prints the plan, cut off at a length that is a
setting; so this module asks the nodes of the plan themselves.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

__all__ = [
    "PLAIN_FUNCTION",
    "BuiltStep",
    "analyzed",
    "children",
    "doubled_steps",
    "has_watermark",
    "output_at",
    "register",
    "step_at",
    "steps_above",
    "steps_in",
    "tasks_vary",
]

PLAIN_FUNCTION = "holdfast_plain_function"
"""The name of the stage that runs a plain function, by which it is told apart from a Python function of Spark's."""

_MARK = re.compile(r"holdfast_step_(\d+)")
_OUTPUT = re.compile(r"holdfast_output_(\d+)_(\d+)")
_OPERATOR = "TransformWithStateInPySpark"
_numbers = itertools.count(1)
_steps: dict[int, BuiltStep] = {}


@dataclass(eq=False)
class BuiltStep:
    """A step of a stream, as it was built."""

    number: int
    plan: Any
    prepared: DataFrame | None = field(default=None, repr=False)
    """Its input: key group, time, keys and values of each row."""
    packed: DataFrame | None = field(default=None, repr=False)
    """All its outputs, as (tag, payload) rows."""
    source: Any = field(default=None, repr=False)
    """The keyed stream that it was built on."""
    lift: Any = field(default=None, repr=False)
    """What combines elements before the shuffle, if anything does."""
    schemas: dict[str, StructType] = field(default_factory=dict, repr=False)
    """Those of its outputs, by tag."""
    initial: Callable[[int], DataFrame] | None = field(default=None, repr=False)
    """Gives the blobs of its initial state, for a slot."""

    def output_name(self, tag: str) -> str:
        """The name of the stage that unpacks an output, by which it is found in a plan."""
        return f"holdfast_output_{self.number}_{list(self.schemas).index(tag)}"

    @property
    def mark(self) -> str:
        """The name of its pack stage, by which it is found in the plan of whatever depends on it."""
        return f"holdfast_step_{self.number}"


def register(plan: Any) -> BuiltStep:
    """Remembers a step, so that it is found again by its mark."""
    step = BuiltStep(next(_numbers), plan)
    _steps[step.number] = step
    return step


def analyzed(frame: DataFrame) -> Any:
    """The logical plan of a DataFrame, in Spark's JVM."""
    return frame._jdf.queryExecution().analyzed()


def children(node: Any) -> list[Any]:
    """The nodes below a node of a plan."""
    below = node.children()
    return [below.apply(number) for number in range(below.size())]


def steps_above(frame: DataFrame) -> list[BuiltStep]:
    """The steps that a DataFrame depends on; those next to it come first."""
    return steps_in(analyzed(frame))


def steps_in(plan: Any) -> list[BuiltStep]:
    """The steps in a logical plan, those next to its root first."""
    return list(dict.fromkeys(_all_steps(plan)))


def doubled_steps(frame: DataFrame) -> list[BuiltStep]:
    """The steps that are in the plan of a DataFrame more than once, each of which would run as often."""
    found = _all_steps(analyzed(frame))
    return [step for step in dict.fromkeys(found) if found.count(step) > 1]


def has_watermark(frame: DataFrame) -> bool:
    """Whether the rows of a stream have a watermark."""
    return any(node.nodeName() == "EventTimeWatermark" for node in _streaming_nodes(analyzed(frame)))


def tasks_vary(plan: Any) -> bool:
    """Whether a replay may give the rows of a task to one with another number. Kafka's connector plans its tasks in the
    order in which it has met the partitions of topics, which is another after a restart."""
    leaves = [node for node in _streaming_nodes(plan) if node.nodeName() == "StreamingRelationV2"]
    return any(str(leaf.sourceName()) == "kafka" for leaf in leaves)


def step_at(node: Any) -> BuiltStep | None:
    """The step whose operator a node is. A stateful operator of Spark's own that follows a step is none."""
    if node.nodeName() != _OPERATOR:
        return None
    below = children(node)[0]
    while below.nodeName() == "Project":
        [below] = children(below)
    if below.nodeName() != "MapInArrow":
        return None
    mark = _MARK.fullmatch(below.functionExpr().name())
    return None if mark is None else _steps.get(int(mark[1]))


def output_at(node: Any) -> tuple[BuiltStep, str] | None:
    """The step and the tag whose rows a node gives, if it is what unpacks an output."""
    mark = _OUTPUT.fullmatch(node.functionExpr().name()) if node.nodeName() == "MapInArrow" else None
    step = None if mark is None else _steps.get(int(mark[1]))
    return None if step is None or mark is None else (step, list(step.schemas)[int(mark[2])])


def _all_steps(plan: Any) -> list[BuiltStep]:
    return [step for node in _streaming_nodes(plan) if (step := step_at(node)) is not None]


def _streaming_nodes(node: Any) -> Iterator[Any]:
    if node.isStreaming():
        yield node
        for child in children(node):
            yield from _streaming_nodes(child)
