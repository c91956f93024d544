"""The description of a job as text, for a terminal of 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from holdfast.engine.stored.readable import counted, visible
from holdfast.spark.graph.description import (
    CellView,
    ColumnView,
    EdgeView,
    GraphView,
    OperatorView,
    OutputView,
    SinkView,
    StepView,
)

__all__ = ["columns_text", "operator_text", "text_of"]

_WIDTH = 100
_LABEL = 9
_NAME_MAX = 60
_COLUMNS_MAX = 240
_TOGETHER = "\ue000"
"""Stands for a space at which no line ends. What is visible has no such character."""


def text_of(graph: GraphView) -> str:
    """The text of a job: sources, operators with their steps in the order in which rows pass them, sinks."""
    return "\n".join([*_head(graph), *_sources(graph), *_operators(graph), *_sinks(graph)])


def columns_text(columns: Sequence[ColumnView], space: str = " ") -> str:
    """Columns with their types, and this between a name and its type; if that is long, the first ones and how many there
    are."""
    told = [f"{_name(column.name)}{space}{visible(column.type)}" for column in columns]
    lengths = accumulate(len(column) + 2 for column in told)
    first = [column for column, length in zip(told, lengths, strict=True) if length <= _COLUMNS_MAX] or told[:1]
    more = f", … ({counted(len(columns), 'column')})" if len(first) < len(told) else ""
    return f"{', '.join(first)}{more}"


def operator_text(operator: OperatorView) -> str:
    """The operator by its number, and how many steps share it."""
    number = "An operator" if operator.number is None else f"Operator {operator.number}"
    count = len(operator.steps)
    shared = f", shared by {count} steps" if count > 1 else "" if count else ", kept for the state of removed steps"
    return f"{number}{shared}"


def _head(graph: GraphView) -> list[str]:
    parts = [
        counted(len(graph.sources), "source"),
        f"{counted(len(graph.steps), 'step')} in {counted(len(graph.operators), 'operator')}",
        counted(len(graph.sinks), "sink"),
    ]
    return _wrapped("", "    ", f"Job {_name(graph.job)}: {', '.join(parts)}")


def _sources(graph: GraphView) -> Iterator[str]:
    yield from ("", "Sources")
    for source in graph.sources:
        yield from _entry(f"{source.number}  {visible(str(source))}")


def _operators(graph: GraphView) -> Iterator[str]:
    for operator in graph.operators:
        yield from ("", operator_text(operator))
        for step in operator.steps:
            function = "" if step.function == step.name else f" ({_name(step.function)})"
            yield from _entry(f"{_name(step.name)}{function}")
            for label, text in _step_lines(step, graph):
                yield from _detail(label, text)


def _step_lines(step: StepView, graph: GraphView) -> Iterator[tuple[str, str]]:
    yield from _inputs(step.inputs)
    key_groups = counted(step.key_groups, "key group")
    yield "key", f"{columns_text(step.keys, _TOGETHER)}; {key_groups}, backend {visible(step.backend)}"
    yield "value", columns_text(step.values, _TOGETHER)
    yield "time", visible(step.event_time)
    yield "windows", visible(step.windows)
    yield "trigger", visible(step.trigger)
    yield from zip(_once("cells"), map(_cell, step.cells), strict=False)
    yield from zip(_once("timers"), (f"{_name(t.name)}: {visible(t.domain)}" for t in step.timers), strict=False)
    yield "limits", visible(step.limits)
    yield from zip(_once("gives"), (_given(output, graph) for output in step.outputs), strict=False)


def _once(label: str) -> Iterator[str]:
    """A label for the first of several lines."""
    yield label
    while True:
        yield " "


def _inputs(edges: Iterable[EdgeView]) -> Iterator[tuple[str, str]]:
    told = (f"{_origin(edge)}{f': {visible(edge.words)}' if edge.words else ''}" for edge in edges)
    yield from zip(_once("from"), told, strict=False)


def _origin(edge: EdgeView) -> str:
    if isinstance(edge.origin, OutputView):
        return _output(edge.origin)
    return f"source {edge.origin.number}"


def _output(output: OutputView) -> str:
    return f"{_name(output.step)}.{_name(output.tag)}"


def _cell(cell: CellView) -> str:
    ttl = f"; lives {visible(cell.ttl)}" if cell.ttl else ""
    return f"{_name(cell.name)}: {cell.kind}, {visible(cell.type)}{ttl}"


def _given(output: OutputView, graph: GraphView) -> str:
    """An output, and where it goes."""
    targets = [target for edge, target in graph.edges if edge.origin == output]
    told = [f"sink {t.number}" if isinstance(t, SinkView) else _name(t.name) for t in dict.fromkeys(targets)]
    return f"{_name(output.tag)} to {', '.join(told)}" if told else f"{_name(output.tag)}, which nothing takes"


def _sinks(graph: GraphView) -> Iterator[str]:
    yield from ("", "Sinks")
    for sink in graph.sinks:
        yield from _entry(f"{sink.number}  {visible(sink.name)}")
        for label, text in (*_inputs(sink.inputs), ("columns", columns_text(sink.columns, _TOGETHER))):
            yield from _detail(label, text)


def _name(name: str) -> str:
    """A name as it is, unless it is very long or hides something."""
    shown = visible(name)
    return shown if len(shown) <= _NAME_MAX else f"{shown[: _NAME_MAX - 1]}…"


def _entry(text: str) -> list[str]:
    return _wrapped("  ", " " * 5, text)


def _detail(label: str, text: str) -> list[str]:
    """A line of what is known about something; none if nothing is."""
    return _wrapped(f"{'':5}{label:<{_LABEL}}", " " * (5 + _LABEL), text) if text else []


def _wrapped(first: str, more: str, text: str) -> list[str]:
    lines = textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=more, break_on_hyphens=False)
    return [line.replace(_TOGETHER, " ") for line in lines]
