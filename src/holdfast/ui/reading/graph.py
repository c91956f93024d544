"""The graph of a job, from what it wrote beside its checkpoint: `holdfast/graph.json`, or else its manifest.

The file is what `dataclasses.asdict` gives of a `GraphView`. Anybody may have written it: it is checked, texts are cut and
made visible, and of very large graphs the beginning is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.stored.readable import counted
from holdfast.errors import HoldfastError
from holdfast.ui.reading.texts import cut

__all__ = ["GRAPH", "Edge", "Graph", "Line", "Node", "read_graph"]

GRAPH = "holdfast/graph.json"
_BYTES_MAX = 16 << 20
_NODES_MAX = 400
_EDGES_MAX = 1_200
_LINES_MAX = 40
_TEXT_MAX = 240


class _Column(msgspec.Struct):
    name: str
    type: str


class _Origin(msgspec.Struct):
    """A source, or an output of a step."""

    number: int | None = None
    step: str | None = None
    tag: str = ""


class _Edge(msgspec.Struct):
    origin: _Origin
    columns: list[_Column] = []
    nodes: list[str] = []
    is_handed_on: bool = False


class _Source(msgspec.Struct):
    number: int
    kind: str
    place: str = ""


class _Cell(msgspec.Struct):
    name: str
    kind: str
    type: str
    ttl: str = ""


class _Timer(msgspec.Struct):
    name: str
    domain: str


class _Step(msgspec.Struct):
    name: str
    function: str
    keys: list[_Column] = []
    key_groups: int = 0
    backend: str = ""
    inputs: list[_Edge] = []
    event_time: str = ""
    windows: str = ""
    trigger: str = ""
    cells: list[_Cell] = []
    timers: list[_Timer] = []
    limits: str = ""


class _Operator(msgspec.Struct):
    number: int | None = None
    level: int = 0
    steps: list[_Step] = []


class _Sink(msgspec.Struct):
    number: int
    name: str
    columns: list[_Column] = []
    inputs: list[_Edge] = []


class _Graph(msgspec.Struct):
    job: str
    sources: list[_Source] = []
    operators: list[_Operator] = []
    sinks: list[_Sink] = []


@dataclass(frozen=True)
class Line:
    """A word that says what it is about, and what it says."""

    label: str
    text: str


@dataclass(frozen=True)
class Node:
    """A source, a step or a sink."""

    id: str
    kind: str
    title: str
    lines: list[Line] = field(default_factory=list)
    operator: int | None = None
    """Which steps share an operator: those with the same number here."""
    step: str | None = None
    """The step's name in the history."""
    source: int | None = None
    """The source's number, from 1."""


@dataclass(frozen=True)
class Edge:
    """A way on which rows go."""

    origin: str
    target: str
    label: str = ""
    columns: str = ""


@dataclass(frozen=True)
class Graph:
    """Nodes and the edges between them. Without `is_whole`, only the steps are known."""

    nodes: list[Node]
    edges: list[Edge]
    is_whole: bool
    is_cut: bool = False
    """Whether it is too large to be shown whole."""


def read_graph(folder: Path) -> Graph:
    """The graph of the job whose checkpoint this is; empty if nothing describes it."""
    described = _described(folder / GRAPH)
    if described is None:
        return Graph(list(islice(_steps_of_manifest(folder), _NODES_MAX)), [], is_whole=False)
    nodes = list(islice(_nodes(described), _NODES_MAX + 1))
    known = {node.id for node in nodes[:_NODES_MAX]}
    edges = [edge for edge in islice(_edges(described), _EDGES_MAX + 1) if {edge.origin, edge.target} <= known]
    is_cut = len(nodes) > _NODES_MAX or len(edges) > _EDGES_MAX
    return Graph(nodes[:_NODES_MAX], edges[:_EDGES_MAX], is_whole=True, is_cut=is_cut)


def _described(path: Path) -> _Graph | None:
    try:
        if path.stat().st_size > _BYTES_MAX:
            return None
        return msgspec.json.decode(path.read_bytes(), type=_Graph)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def _nodes(graph: _Graph) -> Iterator[Node]:
    for source in graph.sources:
        lines = [Line("", _text(source.place))] if source.place else []
        yield Node(_source_id(source.number), "source", _text(source.kind), lines, source=source.number)
    for place, operator in enumerate(graph.operators):
        for step in operator.steps:
            lines = list(islice((line for line in _step_lines(step) if line.text), _LINES_MAX))
            yield Node(_step_id(step.name), "step", _text(step.name), lines, operator=place, step=_text(step.name))
    for sink in graph.sinks:
        yield Node(_sink_id(sink.number), "sink", _text(sink.name), [Line("", _columns(sink.columns))])


def _step_lines(step: _Step) -> Iterator[Line]:
    if step.function != step.name:
        yield Line("class", _text(step.function))
    yield Line("key", _columns(step.keys))
    yield Line("in", _text(f"{counted(step.key_groups, 'key group')}, {step.backend}"))
    yield Line("time", _text(step.event_time))
    yield Line("windows", _text(step.windows))
    yield Line("trigger", _text(step.trigger))
    for cell in step.cells:
        yield Line(_text(cell.kind), _text(f"{cell.name}: {cell.type}{f', {cell.ttl}' if cell.ttl else ''}"))
    for timer in step.timers:
        yield Line("timer", _text(f"{timer.name}: {timer.domain}"))
    yield Line("limits", _text(step.limits))


def _edges(graph: _Graph) -> Iterator[Edge]:
    steps = [step for operator in graph.operators for step in operator.steps]
    for step in steps:
        yield from _edges_to(_step_id(step.name), step.inputs)
    for sink in graph.sinks:
        yield from _edges_to(_sink_id(sink.number), sink.inputs)


def _edges_to(target: str, inputs: Iterable[_Edge]) -> Iterator[Edge]:
    for edge in inputs:
        of_step = edge.origin.step is not None
        origin = _step_id(edge.origin.step or "") if of_step else _source_id(edge.origin.number or 0)
        way = "directly" if edge.is_handed_on else ", ".join(edge.nodes)
        tag = edge.origin.tag if of_step and edge.origin.tag != "main" else ""
        label = " · ".join(part for part in (tag, way) if part)
        yield Edge(origin, target, _text(label), _columns(edge.columns))


def _steps_of_manifest(folder: Path) -> Iterator[Node]:
    try:
        manifest: dict[str, Any] = Checkpoint(LocalFiles(), str(folder)).manifest
    except (HoldfastError, OSError):
        return
    for name, step in manifest.get("steps", {}).items():
        lines = [Line("in", _text(f"{counted(step.get('key_groups', 0), 'key group')}, {step.get('backend', '')}"))]
        for described in islice(step.get("cells", ()), _LINES_MAX):
            lines.append(Line(_text(str(described.get("kind", "cell"))), _text(str(described.get("name", "")))))
        for described in islice(step.get("timers", ()), _LINES_MAX):
            lines.append(Line("timer", _text(str(described.get("name", "")))))
        yield Node(_step_id(name), "step", _text(name), lines, step=_text(name))


def _columns(columns: Iterable[_Column]) -> str:
    return _text(", ".join(f"{column.name} {column.type}" for column in columns))


def _text(text: str) -> str:
    return cut(text, _TEXT_MAX)


def _source_id(number: int) -> str:
    return f"source {number}"


def _step_id(name: str) -> str:
    return f"step {_text(name)}"


def _sink_id(number: int) -> str:
    return f"sink {number}"
