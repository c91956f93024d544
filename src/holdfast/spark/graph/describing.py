"""Describes a graph: from steps, edges and plans of Spark to plain values. Nothing is run, and no checkpoint is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.types import StructType

from holdfast.engine.stored.words import (
    coder_words,
    combiner_words,
    domain_words,
    duration_words,
    limit_words,
    ttl_words,
    window_words,
    without_secrets,
)
from holdfast.spark.graph.description import (
    CellView,
    ColumnView,
    EdgeView,
    GraphView,
    OperatorView,
    OutputView,
    SinkView,
    StepView,
    TimerView,
)
from holdfast.spark.graph.edges import Edge, OutputOf
from holdfast.spark.graph.graph import Graph
from holdfast.spark.graph.handing import handoff_of
from holdfast.spark.graph.numbering import numbers_as_built
from holdfast.spark.graph.placing import Placement
from holdfast.spark.graph.streams import Sources
from holdfast.spark.steps.lineage import BuiltStep, analyzed, children, output_at
from holdfast.spark.steps.source import KeyedSource

__all__ = ["described"]

_ONLY_NAMES = frozenset({"SubqueryAlias", "View"})
"""Nodes that do nothing."""


def described(
    job: str,
    graph: Graph,
    sinks: Sequence[object],
    placement: Placement | None,
    root: Any,
    backend: str | None = None,
) -> GraphView:
    """A graph in plain values. `placement` is None for a query that runs as it was built; `root` is its plan then. `sinks`
    are in the order of the graph's grafts. `backend` is that of steps that have not named one."""
    describer = _Describer(graph, backend, in_line=placement is not None)
    operators = describer.as_built(numbers_as_built(root)) if placement is None else describer.in_line(placement)
    written = tuple(describer.sink(number, sink) for number, sink in enumerate(sinks))
    return GraphView(job, describer.sources.found, operators, written)


class _Describer:
    def __init__(self, graph: Graph, backend: str | None, *, in_line: bool) -> None:
        self._graph = graph
        self._backend = backend
        self._hands_on = in_line
        self.sources = Sources()

    # Operators

    def in_line(self, placement: Placement) -> tuple[OperatorView, ...]:
        last = len(placement.operators) - 1
        return tuple(
            OperatorView(last - level, level, tuple(map(self._step, operator.steps)))
            for level, operator in enumerate(placement.operators)
        )

    def as_built(self, numbers: dict[BuiltStep, int]) -> tuple[OperatorView, ...]:
        levels: dict[BuiltStep, int] = {}
        for step in self._graph.steps:
            levels[step] = max((levels[above] + 1 for above in self._graph.upstream[step]), default=0)
        ordered = sorted(self._graph.steps, key=levels.__getitem__)
        return tuple(OperatorView(numbers.get(step), levels[step], (self._step(step),)) for step in ordered)

    # Steps

    def _step(self, step: BuiltStep) -> StepView:
        plan, source = step.plan, step.source
        manifest = plan.manifest
        return StepView(
            name=plan.name,
            function=plan.function,
            keys=tuple(ColumnView(key["name"], key["type"]) for key in manifest["key"]),
            key_groups=plan.key_groups,
            backend=plan.running_on(self._backend).backend,
            inputs=tuple(view for edge in self._graph.edges if edge.target is step for view in self._edges(edge)),
            values=_columns(source.fields([name for name in source.values if not _is_own(name)])),
            outputs=tuple(OutputView(plan.name, tag) for tag in step.schemas),
            event_time=_event_time(source, manifest["time_sorted"]),
            windows=window_words(manifest["windowing"]),
            trigger=_trigger(manifest.get("grouping")),
            cells=tuple(map(_cell, manifest["cells"])),
            timers=tuple(TimerView(timer["name"], domain_words(timer["time_domain"])) for timer in manifest["timers"]),
            limits=limit_words(plan.limits),
        )

    def _edges(self, edge: Edge) -> Iterator[EdgeView]:
        after = [str(link.node.nodeName()) for link in edge.links]
        handed_on = self._hands_on and handoff_of(edge, 0, 0) is not None
        for view in self._ways(edge.base, ()):
            nodes = _told(_users([*view.nodes, *after], edge.target.source))
            yield EdgeView(view.origin, view.columns, () if handed_on else nodes, handed_on)

    # Sinks

    def sink(self, number: int, sink: object) -> SinkView:
        frame = self._graph.grafts[number].frame
        edges = [
            EdgeView(view.origin, view.columns, _told(view.nodes)) for view in dict.fromkeys(self._ways(analyzed(frame), ()))
        ]
        return SinkView(number + 1, without_secrets(repr(sink)), _columns(frame.schema), tuple(edges))

    def _ways(self, node: Any, above: tuple[str, ...]) -> Iterator[EdgeView]:
        """The ways to a node from the outputs and sources next to it. `above` are the nodes that follow it."""
        found = output_at(node)
        below = [child for child in children(node) if child.isStreaming()]
        if found is not None:
            output = OutputOf(*found)
            columns = _columns(output.step.schemas[output.tag])
            yield EdgeView(OutputView(output.step.plan.name, output.tag), columns, above)
        elif not below:
            yield EdgeView(self.sources.at(node), _columns(StructType.fromJson(json.loads(node.schema().json()))), above)
        for child in below if found is None else ():
            yield from self._ways(child, (str(node.nodeName()), *above))


def _users(nodes: list[str], source: KeyedSource) -> list[str]:
    """The nodes that the user has put on a way. The last are our own: two sides of a join that become one, the watermark,
    which the step tells of, and the columns that it takes."""
    nodes = nodes[:-3] if _is_own(source.timestamp) else nodes[:-1]
    has_own = source.watermark is not None or _is_own(source.timestamp)
    return nodes[:-1] if has_own and nodes[-1:] == ["EventTimeWatermark"] else nodes


def _is_own(column: str | None) -> bool:
    """Whether a column is one of those that a join makes."""
    return column is not None and column.startswith("~")


def _told(nodes: Sequence[str]) -> tuple[str, ...]:
    """The nodes that do something, each once where it stands several times in a row."""
    told = [name for name in nodes if name not in _ONLY_NAMES]
    return tuple(name for number, name in enumerate(told) if number == 0 or told[number - 1] != name)


def _columns(schema: StructType) -> tuple[ColumnView, ...]:
    return tuple(ColumnView(field.name, field.dataType.simpleString()) for field in schema.fields)


def _cell(cell: dict[str, Any]) -> CellView:
    kind, holds = str(cell["kind"]), coder_words(cell["coder"])
    if "key_coder" in cell:
        holds = f"{coder_words(cell['key_coder'])} to {holds}"
    elif "combine_fn" in cell:
        holds = combiner_words(str(cell["combine_fn"]))
    return CellView(str(cell["name"]), kind.replace("_", " "), holds, ttl_words(cell["ttl"]) if cell.get("ttl") else "")


def _event_time(source: KeyedSource, time_sorted: bool) -> str:
    if source.timestamp is None or _is_own(source.timestamp):
        return ""
    watermark = "" if source.watermark is None else f", watermark {duration_words(source.watermark.micros)}"
    return f"{source.timestamp}{watermark}{', in order' if time_sorted else ''}"


def _trigger(grouping: dict[str, Any] | None) -> str:
    """When an aggregation gives results, if not just at the end of a window."""
    if grouping is None or grouping["trigger"]["id"] == "default":
        return ""
    return f"{grouping['trigger']['id']}, {grouping['accumulation_mode']}"
