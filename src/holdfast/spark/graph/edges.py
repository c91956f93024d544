"""Edges: the ways on which rows reach a step, from sources and from outputs of other steps, found in the plan of its input.

An edge is a chain of nodes without branches. Where a step is given a union, each of its parts is an edge of its own; the
other side of a join with a batch DataFrame belongs to the chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructField, StructType

from holdfast.spark.steps.lineage import BuiltStep, analyzed, children, output_at

__all__ = ["Bypass", "Edge", "Link", "OutputOf", "edges_of", "has_outputs"]


@dataclass(frozen=True)
class OutputOf:
    """An output of a step."""

    step: BuiltStep
    tag: str


@dataclass(frozen=True)
class Bypass:
    """Rows of sources that a sink is given without their passing a step."""

    plan: Any
    """The part of the plan that gives them."""

    @property
    def schema(self) -> StructType:
        """Of the rows in payloads, with names that differ whatever those in the plan are."""
        fields = StructType.fromJson(json.loads(self.plan.schema().json())).fields
        return StructType([StructField(f"c{number}", field.dataType, field.nullable) for number, field in enumerate(fields)])


@dataclass(frozen=True, eq=False)
class Link:
    """A node on the way, and which of its children the way comes from."""

    node: Any
    child: int


@dataclass(frozen=True, eq=False)
class Edge:
    """One way into a step."""

    target: BuiltStep
    origin: OutputOf | None
    """Where its rows come from; None: from sources, whatever is done with them on the way."""
    base: Any
    """The node at which it begins: that of the output, or the largest part of the plan without steps."""
    links: tuple[Link, ...]
    """The nodes from there to the input of the step."""


def edges_of(step: BuiltStep) -> list[Edge]:
    """All ways into a step."""
    assert step.prepared is not None
    return [Edge(step, origin, base, tuple(reversed(links))) for origin, base, links in _ways(analyzed(step.prepared), [])]


def _ways(node: Any, links: list[Link]) -> Iterator[tuple[OutputOf | None, Any, list[Link]]]:
    found = output_at(node)
    if found is not None:
        yield OutputOf(*found), node, links
    elif not has_outputs(node):
        yield None, node, links
    else:
        for number, child in enumerate(children(node)):
            if child.isStreaming():
                yield from _ways(child, [*links, Link(node, number)])


def has_outputs(node: Any) -> bool:
    """Whether there are outputs of steps in a plan."""
    return node.isStreaming() and (output_at(node) is not None or any(map(has_outputs, children(node))))
