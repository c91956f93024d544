"""Branches: the parts of a plan that come before all steps, each read once for all steps and sinks that share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.spark.graph.catalyst import Catalyst, attributes, expression_id
from holdfast.spark.graph.edges import Bypass, Edge, Link
from holdfast.spark.graph.grafts import keeps_state
from holdfast.spark.graph.weaving import multiplies_rows, spreads_rows, weaving_problem
from holdfast.spark.steps.lineage import children

__all__ = ["Branch", "branches_of", "stateful_nodes"]


@dataclass
class Branch:
    """Ways from one part of the plan, which is read once for all of them."""

    base: Any
    """The part that stays as it is."""
    members: list[tuple[Edge | Bypass, tuple[Link, ...]]] = field(default_factory=list)
    """The ways, with the nodes above the base that are woven."""
    watermark: str | None = None

    def takes(self, base: Any, watermark: str | None) -> bool:
        """Whether a way can join: rows can have one watermark only. For another one they are read again."""
        return self.base.equals(base) and (watermark is None or self.watermark in (None, watermark))


def branches_of(catalyst: Catalyst, edges: Iterable[Edge], bypasses: Iterable[Bypass]) -> list[Branch]:
    """The branches on which rows of sources reach steps, by the edges of these that begin at sources, and sinks."""
    plans: list[tuple[Edge | Bypass, Any]] = [(edge, _whole(catalyst, edge)) for edge in edges if edge.origin is None]
    plans += [(bypass, bypass.plan) for bypass in bypasses]
    branches: list[Branch] = []
    for way, plan in plans:
        base, links = _taken_apart(plan)
        watermark = _watermark(links)
        branch = next((known for known in branches if known.takes(base, watermark)), None)
        if branch is None:
            branch = Branch(base)
            branches.append(branch)
        branch.members.append((way, links))
        branch.watermark = branch.watermark or watermark
    return branches


def stateful_nodes(way: Edge | Bypass) -> Iterator[str]:
    """The nodes on a way from sources for which Spark keeps state of its own, or may."""
    if isinstance(way, Edge):
        yield from (str(link.node.nodeName()) for link in way.links if keeps_state(link.node))
    yield from _stateful(way.base if isinstance(way, Edge) else way.plan)


def _stateful(node: Any) -> Iterator[str]:
    if keeps_state(node):
        yield str(node.nodeName())
    for child in children(node):
        if child.isStreaming():
            yield from _stateful(child)


def _whole(catalyst: Catalyst, edge: Edge) -> Any:
    """The plan of an edge from the sources, as the user built it, without the other ways into the step."""
    plan = edge.base
    for link in edge.links:
        below = children(link.node)
        if link.node.nodeName() == "Union":
            pairs = zip(attributes(below[link.child]), attributes(link.node), strict=True)
            plan = catalyst.project([catalyst.named(here, own.name(), of=own) for here, own in pairs], plan)
        else:
            below[link.child] = plan
            plan = catalyst.over(link.node, below)
    return plan


def _taken_apart(plan: Any) -> tuple[Any, tuple[Link, ...]]:
    """The part of a plan that must stay as it is, and the nodes above it that can be woven."""
    links: list[Link] = []
    while len(below := children(plan)) == 1 and below[0].isStreaming() and _is_shared(plan):
        links.insert(0, Link(plan, 0))
        [plan] = below
    return plan, tuple(links)


def _is_shared(node: Any) -> bool:
    """Whether rows for several steps can pass a node as the same rows. Those of a source stay spread as the user said."""
    return weaving_problem(Link(node, 0)) is None and not (multiplies_rows(node) or spreads_rows(node))


def _watermark(links: Sequence[Link]) -> str | None:
    """What identifies the watermark on a way. If rows are filtered or changed before, that is part of it."""
    for number, link in enumerate(links):
        if link.node.nodeName() == "EventTimeWatermark":
            changed = any(below.node.nodeName() in ("Filter", "Project") for below in links[:number])
            of = children(link.node)[0].hashCode() if changed else ""
            return f"{expression_id(link.node.eventTime())} {link.node.delay().toString()} {of}"
    return None
