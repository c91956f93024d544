"""Grafts: the stateless work between a step and a sink, applied to one micro-batch after another.

A streaming query has one sink, and two branches below a stateful operator would run it twice. So the query of a job ends
with the packed outputs of its step. What the user built on top of them, with ordinary DataFrame calls, is a plan in which
the step is a node: for each micro-batch that node is replaced by the rows that the step has given, and Spark runs the rest
as a batch. Both have the same columns, with the same ids, so nothing else in the plan changes.

PySpark has no call that replaces a node. This is the only module that does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.session.versions import check_version
from holdfast.spark.steps.lineage import BuiltStep, analyzed, children, step_at

__all__ = ["Graft"]

_STATELESS = frozenset(
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
    found: tuple[tuple[Path, BuiltStep], ...]
    """The steps next to it, and where they are in its plan."""
    problems: tuple[str, ...]
    """Why it cannot be applied to a micro-batch by itself."""

    @classmethod
    def of(cls, frame: DataFrame) -> Graft:
        found: list[tuple[Path, BuiltStep]] = []
        problems: dict[str, None] = {}
        # There are no steps inside of its expressions: Spark refuses a subquery over a stream.
        _walk(analyzed(frame), (), found, problems)
        return cls(frame, tuple(found), tuple(problems))

    @property
    def steps(self) -> tuple[BuiltStep, ...]:
        return tuple(dict.fromkeys(step for _, step in self.found))

    @property
    def is_plain(self) -> bool:
        """Whether it is an output as the step gives it: the rows of its tag, unpacked."""
        return [path for path, _ in self.found] == [(0, 0, 0)]

    def onto(self, packed: DataFrame) -> DataFrame:
        """The rows that the DataFrame stands for, of one micro-batch. `packed` has the outputs of the only step."""
        check_version("Stateless work on several outputs", "write each output with a job of its own, or unchanged")
        spark = packed.sparkSession
        rows = analyzed(packed)
        plan = analyzed(self.frame)
        for path, _ in self.found:
            plan = _replaced(spark, plan, path, rows)
        jvm: Any = spark._jvm
        return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _walk(node: Any, path: Path, found: list[tuple[Path, BuiltStep]], problems: dict[str, None]) -> None:
    """Finds the steps, and what stands between them and the root that is not stateless. What is no stream is left alone."""
    if not node.isStreaming():
        return
    step = step_at(node)
    if step is not None:
        found.append((path, step))
        return
    name, below = node.nodeName(), children(node)
    if name == "WithCTE":
        # Wherever such a part is used, its plan says that it is a stream.
        problems["a part with a name (WITH ... AS), which can be a temporary view instead"] = None
        return
    if not below:
        problems["rows of a source that pass no step"] = None
    elif name not in _STATELESS:
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
    found = []
    waiting = [node.expressions().apply(number) for number in range(node.expressions().size())]
    while waiting:
        expression = waiting.pop()
        if not expression.deterministic():
            if expression.nodeName() in _RANDOM:
                found.append(f"{expression.prettyName()}(), whose values would come again with every micro-batch")
            waiting += children(expression)
    return found


def _replaced(spark: SparkSession, node: Any, path: Path, by: Any) -> Any:
    """A plan with the node at the end of the path replaced."""
    if not path:
        return by
    below = children(node)
    below[path[0]] = _replaced(spark, below[path[0]], path[1:], by)
    jvm: Any = spark._jvm
    return node.withNewChildren(jvm.PythonUtils.toSeq(below))
