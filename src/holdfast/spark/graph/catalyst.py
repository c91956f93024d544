"""Nodes and expressions of Spark's own plans, made and taken apart. PySpark has no calls for this: it is done here alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
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


class _Classes:
    """Spark's classes, and Scala's objects among them, by their names. To find one takes several calls into the JVM, and a
    job makes plans in each micro-batch; so each is looked for once."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._found: dict[str, Any] = {}
        self.nothing = getattr(getattr(jvm.scala, "Option$"), "MODULE$").empty()
        self.some = jvm.scala.Some

    def __getitem__(self, name: str) -> Any:
        found = self._found.get(name)
        if found is None:
            found = self._jvm.org.apache.spark
            for part in name.split("."):
                found = getattr(found, part)
            found = self._found[name] = found if name[-1] != "$" else getattr(found, "MODULE$")
        return found


@lru_cache(maxsize=1)
def _classes_of(jvm: Any) -> _Classes:
    return _Classes(jvm)


class Catalyst:
    """Makes plans in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        check_version("A job of several steps", "give each step a job of its own")
        self._spark = spark
        self._classes = _classes_of(spark._jvm)

    def frame(self, plan: Any) -> DataFrame:
        """A plan as a DataFrame."""
        dataset = self._classes["sql.classic.Dataset"].ofRows(self._spark._jsparkSession, plan)
        return DataFrame(dataset, self._spark)

    def seq(self, items: Sequence[Any]) -> Any:
        return self._classes["api.python.PythonUtils"].toSeq(list(items))

    def _expression(self, name: str) -> Any:
        return self._classes[f"sql.catalyst.expressions.{name}"]

    def _node(self, name: str) -> Any:
        return self._classes[f"sql.catalyst.plans.logical.{name}"]

    # Expressions

    def literal(self, value: Any) -> Any:
        return self._expression("Literal$").apply(value)

    def null(self, data_type: Any) -> Any:
        return self._expression("Literal$").create(None, data_type)

    def long_ago(self, data_type: Any) -> Any:
        """The earliest time of a timestamp's type."""
        return self._expression("Literal$").create(_LONG_AGO_MICROS, data_type)

    def equal(self, left: Any, right: Any) -> Any:
        return self._expression("EqualTo")(left, right)

    def both(self, left: Any, right: Any) -> Any:
        return self._expression("And")(left, right)

    def has_items(self, collection: Any) -> Any:
        """Whether an array or a map has any; null, or false, if it is null."""
        return self._expression("GreaterThan")(self._expression("Size")(collection, False), self.literal(0))

    def choose(self, condition: Any, one: Any, other: Any) -> Any:
        return self._expression("If")(condition, one, other)

    def named(self, expression: Any, name: str, of: Any = None) -> Any:
        """An expression as a column: a new one, or in place of the column `of`."""
        identity = self._expression("NamedExpression$").newExprId() if of is None else of.exprId()
        return self._expression("Alias")(expression, name, identity, self.seq([]), self._classes.nothing, self.seq([]))

    # Nodes

    def project(self, columns: Sequence[Any], plan: Any) -> Any:
        return self._node("Project")(self.seq(columns), plan)

    def watermark(self, of: Any, column: Any, plan: Any) -> Any:
        """The watermark of the node `of`, on another column."""
        return self._node("EventTimeWatermark")(of.nodeId(), column, of.delay(), plan)

    def join(self, how: str, left: Any, right: Any, condition: Any, hint: Any) -> Any:
        """A join that keeps every row of the left side; if it is "anti", every one that has no match."""
        kind = self._classes["sql.catalyst.plans.LeftAnti$" if how == "anti" else "sql.catalyst.plans.LeftOuter$"]
        return self._node("Join")(left, right, kind, self._classes.some(condition), hint)

    def generate(self, generator: Any, made: Sequence[Any], plan: Any) -> Any:
        """Unfolds a collection; rows without one stay."""
        return self._node("Generate")(generator, self.seq([]), True, self._classes.nothing, self.seq(made), plan)

    def over(self, node: Any, below: Sequence[Any]) -> Any:
        """A node with other nodes below it."""
        return node.withNewChildren(self.seq(below))
