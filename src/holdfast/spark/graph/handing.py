"""Handing on: edges on which nothing happens to the rows, so that a step's output need not leave Arrow."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StringType

from holdfast.model.functions.options import KEY
from holdfast.spark.graph.catalyst import attributes, expression_id, is_attribute, listed
from holdfast.spark.graph.edges import Edge, Link
from holdfast.spark.stages.handoff import Handoff
from holdfast.spark.stages.hashing import can_hash
from holdfast.spark.steps.lineage import children
from holdfast.spark.steps.source import KeyedSource

__all__ = ["handoff_of"]


def handoff_of(edge: Edge, route: int, slot: int) -> Handoff | None:
    """How an output is handed to a step as its input; None if something is done with its rows on the way."""
    source: KeyedSource = edge.target.source
    if edge.origin is None or source.watermark is not None or edge.target.plan.parallel_over != KEY:
        return None
    positions = _positions(edge)
    if positions is None or not _are_hashed_alike(edge, source, positions):
        return None
    return Handoff(
        route=route,
        key_groups=edge.target.plan.key_groups,
        slot=slot,
        time=None if source.timestamp is None else positions[source.timestamp],
        keys=tuple(positions[name] for name in source.keys),
        values=tuple(positions[name] for name in source.values),
        lift=edge.target.lift,
    )


def _positions(edge: Edge) -> dict[str, int] | None:
    """Where the columns that the step is keyed on are in the output, by name; None if they are not simply there."""
    found = {expression_id(column): number for number, column in enumerate(attributes(edge.base))}
    *between, last = edge.links
    for link in between:
        if not _follow(link, found):
            return None
    columns = attributes(children(last.node)[0])
    names = [str(column.name()) for column in columns]
    if len(set(names)) < len(names) or any(expression_id(column) not in found for column in columns):
        return None
    return {name: found[expression_id(column)] for name, column in zip(names, columns, strict=True)}


def _follow(link: Link, found: dict[str, int]) -> bool:
    """Notes where the columns of a node are; whether it only chooses and renames them."""
    name = link.node.nodeName()
    if name in ("SubqueryAlias", "Union", "View"):
        pairs: list[tuple[Any, Any]] = list(
            zip(attributes(link.node), attributes(children(link.node)[link.child]), strict=True)
        )
    elif name == "Project":
        columns = listed(link.node.projectList())
        pairs = [(column, column if is_attribute(column) else column.child()) for column in columns]
    else:
        return False
    if not all(is_attribute(below) for _, below in pairs):
        return False
    found.update({expression_id(own): found[expression_id(below)] for own, below in pairs})
    return True


def _are_hashed_alike(edge: Edge, source: KeyedSource, positions: dict[str, int]) -> bool:
    """Whether Python finds the key groups that Spark would."""
    assert edge.origin is not None
    schema = edge.origin.step.plan.schemas[edge.origin.tag]
    texts = [field.dataType for field in source.fields(source.keys) if isinstance(field.dataType, StringType)]
    if any(text.simpleString() != "string" for text in texts):
        # A collation has texts that are equal though they differ.
        return False
    return can_hash([schema.field(positions[name]).type for name in source.keys])
