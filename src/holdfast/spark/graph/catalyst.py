"""Nodes and expressions of Spark's own plans, made and taken apart. PySpark has no calls for this: it is done here alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.session.versions import check_version
from holdfast.spark.steps.lineage import children

__all__ = ["Catalyst", "attributes", "expression_id", "expressions", "has_python", "has_subquery", "is_attribute", "listed"]

_SUBQUERIES = frozenset({"Exists", "InSubquery", "LateralSubquery", "ListQuery", "ScalarSubquery"})
_LONG_AGO_MICROS = -62_135_596_800_000_000
"""The first moment of the year 1, where Spark's timestamps begin."""


def listed(sequence: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [sequence.apply(number) for number in range(sequence.size())]


def attributes(node: Any) -> list[Any]:
    """The columns that a node gives."""
    return listed(node.output())


def expression_id(attribute: Any) -> str:
    """What identifies a column in a plan, whatever its name."""
    return str(attribute.exprId().toString())


def is_attribute(expression: Any) -> bool:
    return bool(expression.nodeName() == "AttributeReference")


def expressions(node: Any) -> Iterator[Any]:
    """All expressions of a node, with those inside them."""
    waiting = listed(node.expressions())
    while waiting:
        expression = waiting.pop()
        yield expression
        waiting += children(expression)


def has_python(node: Any) -> bool:
    """Whether a node calls Python functions, which Spark does for every row, whatever stands around the call."""
    return any("Python" in expression.getClass().getSimpleName() for expression in expressions(node))


def has_subquery(node: Any) -> bool:
    return any(expression.nodeName() in _SUBQUERIES for expression in expressions(node))


class Catalyst:
    """Makes plans in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        check_version("A job of several steps", "give each step a job of its own")
        self._spark = spark
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._expressions: Any = jvm.org.apache.spark.sql.catalyst.expressions
        self._nodes: Any = jvm.org.apache.spark.sql.catalyst.plans.logical

    def frame(self, plan: Any) -> DataFrame:
        """A plan as a DataFrame."""
        dataset = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)
        return DataFrame(dataset, self._spark)

    def seq(self, items: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))

    @cached_property
    def _literals(self) -> Any:
        return getattr(getattr(self._expressions, "Literal$"), "MODULE$")

    @cached_property
    def _names(self) -> Any:
        return getattr(getattr(self._expressions, "NamedExpression$"), "MODULE$")

    @cached_property
    def _nothing(self) -> Any:
        return getattr(getattr(self._jvm.scala, "Option$"), "MODULE$").empty()

    # Expressions

    def literal(self, value: Any) -> Any:
        return self._literals.apply(value)

    def null(self, data_type: Any) -> Any:
        return self._literals.create(None, data_type)

    def long_ago(self, data_type: Any) -> Any:
        """The earliest time of a timestamp's type."""
        return self._literals.create(_LONG_AGO_MICROS, data_type)

    def equal(self, left: Any, right: Any) -> Any:
        return self._expressions.EqualTo(left, right)

    def both(self, left: Any, right: Any) -> Any:
        return self._expressions.And(left, right)

    def has_items(self, collection: Any) -> Any:
        """Whether an array or a map has any; null, or false, if it is null."""
        return self._expressions.GreaterThan(self._expressions.Size(collection, False), self.literal(0))

    def choose(self, condition: Any, one: Any, other: Any) -> Any:
        return self._expressions.If(condition, one, other)

    def named(self, expression: Any, name: str, of: Any = None) -> Any:
        """An expression as a column: a new one, or in place of the column `of`."""
        identity = self._names.newExprId() if of is None else of.exprId()
        return self._expressions.Alias(expression, name, identity, self.seq([]), self._nothing, self.seq([]))

    # Nodes

    def project(self, columns: Sequence[Any], plan: Any) -> Any:
        return self._nodes.Project(self.seq(columns), plan)

    def watermark(self, of: Any, column: Any, plan: Any) -> Any:
        """The watermark of the node `of`, on another column."""
        return self._nodes.EventTimeWatermark(of.nodeId(), column, of.delay(), plan)

    def join(self, how: str, left: Any, right: Any, condition: Any, hint: Any) -> Any:
        """A join that keeps every row of the left side; if it is "anti", every one that has no match."""
        plans = self._jvm.org.apache.spark.sql.catalyst.plans
        kind = getattr(getattr(plans, "LeftAnti$" if how == "anti" else "LeftOuter$"), "MODULE$")
        return self._nodes.Join(left, right, kind, self._jvm.scala.Some(condition), hint)

    def generate(self, generator: Any, made: Sequence[Any], plan: Any) -> Any:
        """Unfolds a collection; rows without one stay."""
        return self._nodes.Generate(generator, self.seq([]), True, self._nothing, self.seq(made), plan)

    def over(self, node: Any, below: Sequence[Any]) -> Any:
        """A node with other nodes below it."""
        return node.withNewChildren(self.seq(below))
