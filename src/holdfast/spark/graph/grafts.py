"""Grafts: the stateless work between steps and a sink, applied to one micro-batch after another.

A streaming query has one sink, and two branches below a stateful operator would run it twice. So the query of a job ends
with the packed outputs of its steps. What the user built on top of them, with ordinary DataFrame calls, is a plan in which
each output is a node: for each micro-batch that node is given the rows that the step has made, and Spark runs the rest as a
batch. They have the same column, with the same id, so nothing else in the plan changes. Rows of sources that pass no step
come packed too, after all that is done with them; they take the place of that part of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame

from holdfast.spark.graph.catalyst import Catalyst, attributes, expressions
from holdfast.spark.graph.edges import Bypass, OutputOf, has_outputs
from holdfast.spark.stages.unpack import unpacked
from holdfast.spark.steps.lineage import BuiltStep, analyzed, children, output_at

__all__ = ["STATELESS", "Graft", "keeps_state"]

_OBSERVE = "CollectMetrics"
"""What `observe` puts into a plan; each of our operators has one above it."""
STATELESS = frozenset(
    {
        "DataFrameDropColumns",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "Join",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "SubqueryAlias",
        "Union",
        "Unpivot",
        "View",
    }
)
"""What treats each row by itself, so that a micro-batch needs no other. Anything else may keep state in a stream."""
_OF_THE_LEFT = frozenset({"Inner", "LeftOuter", "LeftSemi", "LeftAnti", "Cross"})
_OF_THE_RIGHT = frozenset({"Inner", "RightOuter", "Cross"})
"""Joins that give for each row of a stream, on that side, what they would give for all rows together."""

_RANDOM = frozenset({"Rand", "RandStr", "Randn", "Shuffle", "Uniform", "Uuid"})

Path = tuple[int, ...]
"""The way from the root of a plan to a node: which child, at each node."""


@dataclass(frozen=True)
class Graft:
    """A streaming DataFrame as work on the outputs of steps."""

    frame: DataFrame
    found: tuple[tuple[Path, OutputOf | Bypass], ...]
    """The outputs and the rows of sources next to it, and where they are in its plan."""
    problems: tuple[str, ...]
    """Why it cannot be applied to a micro-batch by itself."""

    @classmethod
    def of(cls, frame: DataFrame) -> Graft:
        found: list[tuple[Path, OutputOf | Bypass]] = []
        problems: dict[str, None] = {}
        # There are no steps inside of its expressions: Spark refuses a subquery over a stream.
        _walk(analyzed(frame), (), found, problems)
        return cls(frame, tuple(found), tuple(problems))

    @property
    def steps(self) -> tuple[BuiltStep, ...]:
        return tuple(dict.fromkeys(origin.step for _, origin in self.found if isinstance(origin, OutputOf)))

    @property
    def has_bypasses(self) -> bool:
        """Whether there are rows of sources in it that pass no step."""
        return any(isinstance(origin, Bypass) for _, origin in self.found)

    @property
    def is_plain(self) -> bool:
        """Whether it is an output as the step gives it."""
        return [path for path, _ in self.found] == [()] and not self.has_bypasses

    def onto(self, packed: DataFrame, rows_of: Callable[[OutputOf | Bypass], Column]) -> DataFrame:
        """The rows that the DataFrame stands for, of one micro-batch. `packed` has a column with payloads; `rows_of` says
        which of its rows are those of an output, or of a source."""
        catalyst = Catalyst(packed.sparkSession)
        plan = analyzed(self.frame)
        for path, origin in self.found:
            payloads = packed.where(rows_of(origin)).select("payload")
            if isinstance(origin, Bypass):
                given = partial(_renamed, catalyst, analyzed(unpacked(payloads, origin.schema)))
            else:
                given = partial(_fed, catalyst, analyzed(payloads))
            plan = _replaced(catalyst, plan, path, given)
        return catalyst.frame(plan)


def keeps_state(node: Any) -> bool:
    """Whether Spark keeps state of its own for a node of a stream, or may."""
    below = [child for child in children(node) if child.isStreaming()]
    name = node.nodeName()
    return bool(below) and (name not in (*STATELESS, _OBSERVE) or (name == "Join" and len(below) > 1))


def _walk(node: Any, path: Path, found: list[tuple[Path, OutputOf | Bypass]], problems: dict[str, None]) -> None:
    """Finds the outputs, and what stands between them and the root that is not stateless. What is no stream stays, and what
    has no outputs is done by the query."""
    if not node.isStreaming():
        return
    output = output_at(node)
    if output is not None:
        found.append((path, OutputOf(*output)))
        return
    if not has_outputs(node):
        found.append((path, Bypass(node)))
        return
    name, below = node.nodeName(), children(node)
    if name == "WithCTE":
        # Wherever such a part is used, its plan says that it is a stream.
        problems["a part with a name (WITH ... AS), which can be a temporary view instead"] = None
        return
    if name not in STATELESS:
        problems[f"{name}, which does not treat each row by itself"] = None
    elif name == "Join":
        problems.update(dict.fromkeys(_join_problems(node, below)))
    elif name == "Union" and not all(child.isStreaming() for child in below):
        # Its rows would come again with every micro-batch.
        problems["a union with a batch DataFrame"] = None
    problems.update(dict.fromkeys(_random_problems(node)))
    for number, child in enumerate(below):
        _walk(child, (*path, number), found, problems)


def _join_problems(node: Any, below: list[Any]) -> list[str]:
    left, right = (child.isStreaming() for child in below)
    kind = str(node.joinType().toString())
    if left and right:
        return ["a join of two streams"]
    if kind not in (_OF_THE_LEFT if left else _OF_THE_RIGHT):
        return [f"a {kind} join, whose rows depend on the whole stream"]
    return []


def _random_problems(node: Any) -> list[str]:
    """Spark gives random functions a new seed with every micro-batch of a stream, and with none of a batch."""
    return [
        f"{expression.prettyName()}(), whose values would come again with every micro-batch"
        for expression in expressions(node)
        if expression.nodeName() in _RANDOM
    ]


def _replaced(catalyst: Catalyst, node: Any, path: Path, replace: Callable[[Any], Any]) -> Any:
    """A plan with another node at the end of the path."""
    if not path:
        return replace(node)
    below = children(node)
    below[path[0]] = _replaced(catalyst, below[path[0]], path[1:], replace)
    return catalyst.over(node, below)


def _fed(catalyst: Catalyst, rows: Any, node: Any) -> Any:
    """A node that unpacks an output, with these rows below it."""
    return catalyst.over(node, [_renamed(catalyst, rows, children(node)[0])])


def _renamed(catalyst: Catalyst, rows: Any, node: Any) -> Any:
    """Rows whose columns have the names and ids of a node's, in its place."""
    pairs = zip(attributes(rows), attributes(node), strict=True)
    return catalyst.project([catalyst.named(here, wanted.name(), of=wanted) for here, wanted in pairs], rows)
