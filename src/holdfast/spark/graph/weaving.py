"""Weaving: Spark's own work on the way to several steps, done on rows that all go the same way.

Rows for different steps cannot branch, since whatever is below a branch runs twice. So rows are made wide: each edge adds
the columns that its nodes compute, and a filter does not remove a row but clears a flag. In the end, the key group of an
edge is null in rows that do not go its way. What an edge computes is guarded by its flag, so that nothing is evaluated for a
row that the user's own plan would not have evaluated it for: a division by a number that was filtered out must not fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.spark.graph.catalyst import (
    Catalyst,
    attributes,
    expression_id,
    has_python,
    has_subquery,
    is_attribute,
    listed,
)
from holdfast.spark.graph.edges import Link
from holdfast.spark.steps.lineage import PLAIN_FUNCTION, children

__all__ = ["Weave", "Woven", "multiplies_rows", "spreads_rows", "weaving_problem"]

_SPREADING = frozenset({"RebalancePartitions", "Repartition", "RepartitionByExpression"})
"""Between steps they do nothing: rows are spread anew for each step anyway."""
_PLAIN = _SPREADING | {"ResolvedHint", "SubqueryAlias", "View"}
_SHARED = frozenset({"EventTimeWatermark", "Filter", "Project", "Union"})
_MULTIPLYING = frozenset({"Generate", "Join"})
_GENERATORS = frozenset({"Explode", "Inline", "PosExplode"})
_JOINS = {
    ("Inner", 0): "matched",
    ("Cross", 0): "matched",
    ("LeftOuter", 0): "outer",
    ("LeftAnti", 0): "anti",
    ("Inner", 1): "matched",
    ("Cross", 1): "matched",
    ("RightOuter", 1): "outer",
}
"""By the type of a join and the side of the stream: how it is done without losing rows that go another way."""


def weaving_problem(link: Link) -> str | None:
    """Why a node cannot be woven, if it cannot."""
    node = link.node
    name = str(node.nodeName())
    if name in _PLAIN:
        return None
    if "CTE" in name:
        return "a part with a name (WITH ... AS), which can be a temporary view instead"
    if has_python(node):
        if name == "MapInArrow" and node.functionExpr().name() == PLAIN_FUNCTION:
            return "a plain function; with key_groups=32 it is a step like the others, and can be there"
        return "a Python function"
    if name not in _SHARED | _MULTIPLYING:
        return name
    if name == "Join" and (str(node.joinType().toString()), link.child) not in _JOINS:
        return f"a {node.joinType().toString()} join with the stream on the {'left' if link.child == 0 else 'right'}"
    if name == "Generate" and node.generator().nodeName() not in _GENERATORS:
        return str(node.generator().prettyName())
    return "a subquery" if has_subquery(node) else None


def spreads_rows(node: Any) -> bool:
    """Whether a node only says how rows are spread over tasks."""
    return node.nodeName() in _SPREADING


def multiplies_rows(node: Any) -> bool:
    """Whether a node may make several rows of one, so that rows that go another way too need copies of their own."""
    return node.nodeName() in _MULTIPLYING


@dataclass
class Woven:
    """An edge, as far as it has been woven."""

    columns: dict[str, Any]
    """From the columns of the user's plan, by their ids, to those of the weave."""
    guard: Any = None
    """Whether a row goes this way, by a column that is true then, and else false or null; None if every row does."""


class Weave:
    """A plan that gets wider with every edge."""

    def __init__(self, catalyst: Catalyst, plan: Any) -> None:
        self.plan = plan
        self._catalyst = catalyst
        self._columns = attributes(plan)
        self._computed: dict[int, list[tuple[Any, Any]]] = {}
        """What has been computed, and the column that has it, by a hash of its meaning."""
        self._random: dict[tuple[str, str], Any] = {}
        """Columns whose values would be others each time, by their ids in the user's plan and by their guards."""
        self.watermarks: list[tuple[Any, str]] = []
        """The columns that have one, with its delay. Spark allows one for each row."""

    def begin(self, columns: Sequence[Any], given: Sequence[Any], guard: Any = None) -> Woven:
        """An edge whose first node has these columns, which are `given` here."""
        return Woven({expression_id(own): here for own, here in zip(columns, given, strict=True)}, guard)

    def flag(self, condition: Any) -> Any:
        """A column that says whether a condition holds."""
        return self._add(condition, "flag")

    def follow(self, woven: Woven, link: Link) -> None:
        """Adds what a node does. It must have no `weaving_problem`."""
        node = link.node
        name = node.nodeName()
        if name == "Project":
            for column in listed(node.projectList()):
                woven.columns[expression_id(column)] = self._column(woven, column)
        elif name == "Filter":
            woven.guard = self._add(self._guarded(woven, self._here(woven, node.condition())), "flag")
        elif name == "EventTimeWatermark":
            self._follow_watermark(woven, node)
        elif name == "Join":
            self._follow_join(woven, link)
        elif name == "Generate":
            self._follow_generate(woven, node)
        else:
            below = children(node)[link.child]
            for own, under in zip(attributes(node), attributes(below), strict=True):
                woven.columns[expression_id(own)] = woven.columns[expression_id(under)]

    def column(self, woven: Woven, attribute: Any) -> Any:
        """The column that has an attribute of the user's plan."""
        return woven.columns[expression_id(attribute)]

    def only_own(self, woven: Woven, column: Any) -> Any:
        """A column that is null in rows that do not go this way."""
        return column if woven.guard is None else self._add(self._guarded(woven, column), "own")

    def _column(self, woven: Woven, named: Any) -> Any:
        if is_attribute(named):
            return self.column(woven, named)
        expression = self._here(woven, named.child())
        if is_attribute(expression):
            return expression
        if expression.deterministic():
            return self._add(self._guarded(woven, expression), named.name())
        known = expression_id(named), "" if woven.guard is None else expression_id(woven.guard)
        if known not in self._random:
            self._random[known] = self._add(self._guarded(woven, expression), named.name())
        return self._random[known]

    def _guarded(self, woven: Woven, expression: Any) -> Any:
        if woven.guard is None:
            return expression
        return self._catalyst.choose(woven.guard, expression, self._catalyst.null(expression.dataType()))

    def _here(self, woven: Woven, expression: Any) -> Any:
        """An expression of the user's plan, over the columns of the weave."""
        if is_attribute(expression):
            return self.column(woven, expression)
        below = children(expression)
        changed = [self._here(woven, child) for child in below]
        if all(new is old for new, old in zip(changed, below, strict=True)):
            return expression
        return self._catalyst.over(expression, changed)

    def _add(self, expression: Any, name: str) -> Any:
        """A column with an expression; the same one if it is there already."""
        alike = self._computed.setdefault(expression.semanticHash(), [])
        for known, column in alike:
            if expression.deterministic() and known.semanticEquals(expression):
                return column
        added = self._catalyst.named(expression, name)
        self.plan = self._catalyst.project([*self._columns, added], self.plan)
        column = added.toAttribute()
        self._columns.append(column)
        alike.append((expression, column))
        return column

    def _follow_watermark(self, woven: Woven, node: Any) -> None:
        """The watermark goes by the rows of this edge alone: in others its column has a time that is too old to matter."""
        own = self.column(woven, node.eventTime())
        column = own
        if woven.guard is not None:
            early = self._catalyst.long_ago(own.dataType())
            column = self._add(self._catalyst.choose(woven.guard, own, early), "event_time")
        delay = str(node.delay().toString())
        if not any(known == delay and one.semanticEquals(column) for one, known in self.watermarks):
            self.plan = self._catalyst.watermark(node, column, self.plan)
            self._columns = attributes(self.plan)
            self.watermarks.append((column, delay))

    def _follow_join(self, woven: Woven, link: Link) -> None:
        """Rows that go another way match nothing, and stay: whatever a join removes, a flag says."""
        catalyst, node = self._catalyst, link.node
        how = _JOINS[str(node.joinType().toString()), link.child]
        other = children(node)[1 - link.child]
        # The same DataFrame may be joined on another edge too.
        fresh = [catalyst.named(attribute, attribute.name()) for attribute in attributes(other)]
        woven.columns |= {expression_id(own): new.toAttribute() for own, new in zip(attributes(other), fresh, strict=True)}
        matched = catalyst.named(catalyst.literal(True), "matched")
        given = None
        if node.condition().isDefined():
            theirs = {expression_id(new) for new in fresh}
            given = self._beforehand(woven, self._here(woven, node.condition().get()), theirs)
        condition = woven.guard if given is None else catalyst.both(woven.guard, given)
        self.plan = catalyst.join(how, self.plan, catalyst.project([*fresh, matched], other), condition, node.hint())
        self._columns = attributes(self.plan)
        if how == "matched":
            woven.guard = self._add(self._guarded(woven, matched.toAttribute()), "flag")

    def _beforehand(self, woven: Woven, expression: Any, theirs: set[str]) -> Any:
        """A condition of a join whose parts that need only rows of the stream are computed before it, under the guard: Spark
        would evaluate the keys of a join for every row."""
        below = children(expression)
        if not below:
            return expression
        used = {expression_id(attribute) for attribute in listed(expression.references().toSeq())}
        if used and not used & theirs:
            return self._add(self._guarded(woven, expression), "key")
        return self._catalyst.over(expression, [self._beforehand(woven, child, theirs) for child in below])

    def _follow_generate(self, woven: Woven, node: Any) -> None:
        """Rows that go another way have nothing to unfold, and stay."""
        catalyst = self._catalyst
        [collection] = [self._here(woven, child) for child in children(node.generator())]
        guarded = self._guarded(woven, collection)
        if not node.outer():
            woven.guard = self._add(self._guarded(woven, catalyst.has_items(collection)), "flag")
        made = [attribute.newInstance() for attribute in listed(node.generatorOutput())]
        self.plan = catalyst.generate(catalyst.over(node.generator(), [guarded]), made, self.plan)
        self._columns = attributes(self.plan)
        woven.columns |= {expression_id(own): new for own, new in zip(listed(node.generatorOutput()), made, strict=True)}
