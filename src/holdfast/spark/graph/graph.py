"""The graph of a job: its steps in an order in which each follows those it depends on, the edges between them, its sinks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.spark.graph.edges import Bypass, Edge, OutputOf, edges_of
from holdfast.spark.graph.grafts import Graft
from holdfast.spark.steps.lineage import BuiltStep

__all__ = ["Graph"]


@dataclass(frozen=True)
class Graph:
    """Steps, edges, and what the sinks are given."""

    steps: tuple[BuiltStep, ...]
    edges: tuple[Edge, ...]
    grafts: tuple[Graft, ...]

    @classmethod
    def of(cls, steps: Iterable[BuiltStep], grafts: Sequence[Graft]) -> Graph:
        """The graph of these steps, which must be all that the grafts depend on."""
        ways = {step: edges_of(step) for step in steps}
        ordered = _ordered({step: {edge.origin.step for edge in edges if edge.origin} for step, edges in ways.items()})
        return cls(tuple(ordered), tuple(edge for step in ordered for edge in ways[step]), tuple(grafts))

    @cached_property
    def upstream(self) -> dict[BuiltStep, set[BuiltStep]]:
        """The steps whose outputs each step is given."""
        return {
            step: {edge.origin.step for edge in self.edges if edge.target is step and edge.origin is not None}
            for step in self.steps
        }

    @cached_property
    def wanted(self) -> tuple[OutputOf | Bypass, ...]:
        """What sinks want: outputs of steps, and rows of sources."""
        return tuple(dict.fromkeys(origin for graft in self.grafts for _, origin in graft.found))

    @cached_property
    def bypasses(self) -> tuple[Bypass, ...]:
        """The rows of sources that sinks want."""
        return tuple(origin for origin in self.wanted if isinstance(origin, Bypass))


def _ordered(upstream: dict[BuiltStep, set[BuiltStep]]) -> list[BuiltStep]:
    """Each step after those it depends on; otherwise by name, so that the order is that of the graph and of nothing else."""
    ordered: list[BuiltStep] = []
    waiting = sorted(upstream, key=lambda step: step.plan.name)
    while waiting:
        ready = next(step for step in waiting if upstream[step] <= set(ordered))
        ordered.append(ready)
        waiting.remove(ready)
    return ordered
