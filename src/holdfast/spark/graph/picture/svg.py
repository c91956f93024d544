"""The description of a job as SVG: sources at the top, below them the operators with their steps, sinks at the bottom.

It needs nothing else: no script, no font, nothing from elsewhere. It has a ground of its own, so that it can be read on any
page, and is dark where the reader wants that.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from holdfast.engine.stored.readable import counted, visible
from holdfast.spark.graph.description import EdgeView, GraphView, OperatorView, OutputView, SinkView, SourceView, StepView
from holdfast.spark.graph.picture.content import GAP, SMALL, Content, content_of, label_of, tooltip_of
from holdfast.spark.graph.picture.layout import FRAME, Box, Group, Wire, arrange
from holdfast.spark.graph.picture.measure import width_of
from holdfast.spark.graph.picture.style import STYLE
from holdfast.spark.graph.picture.text import operator_text
from holdfast.spark.graph.picture.wires import GapWire

__all__ = ["svg_of"]


def svg_of(graph: GraphView) -> str:
    """A picture of a job, as SVG that stands for itself."""
    return "\n".join([*_Picture(graph).lines(), ""])


class _Picture:
    def __init__(self, graph: GraphView) -> None:
        self._graph = graph
        self._contents: dict[Box, Content] = {}
        self._sources = {source: self._box(source) for source in graph.sources}
        self._steps = {step.name: self._box(step) for step in graph.steps}
        self._sinks = {sink: self._box(sink) for sink in graph.sinks}
        self._frames = {o: Group([self._steps[step.name] for step in o.steps], is_framed=True) for o in graph.operators}
        self._wires = [
            (Wire(self._origin(edge.origin), self._target(target), _label_width(self._label(edge))), edge, target)
            for edge, target in graph.edges
        ]
        self._size = arrange(self._layers(), [wire for wire, _, _ in self._wires])

    def lines(self) -> Iterator[str]:
        width, height = map(_number, self._size)
        name = escape(visible(self._graph.job))
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="hf-graph" role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">'
        )
        yield f"<title>The job {name}</title>"
        yield f"<desc>{escape(self._summary())}</desc>"
        yield f"<style>{STYLE}</style>"
        yield f'<rect class="hf-ground" width="{width}" height="{height}" rx="10"/>'
        # What can be read comes last, so that no line goes through it.
        for operator in self._graph.operators:
            yield from self._frame(operator)
        for wire, edge, target in self._wires:
            yield from _wire(wire, tooltip_of(edge, target))
        for wire, edge, target in self._wires:
            yield from _label(wire, self._label(edge), tooltip_of(edge, target))
        for box, content in self._contents.items():
            yield from _box(box, content)
        yield "</svg>"

    def _summary(self) -> str:
        graph = self._graph
        steps = ", ".join(visible(step.name) for step in graph.steps) or "none"
        return f"{counted(len(graph.sources), 'source')}; steps: {steps}; {counted(len(graph.sinks), 'sink')}."

    def _box(self, thing: SourceView | StepView | SinkView) -> Box:
        content = content_of(thing)
        box = Box(content.width, content.height)
        self._contents[box] = content
        return box

    def _layers(self) -> list[list[Group]]:
        levels = sorted({operator.level for operator in self._graph.operators})
        between = [[self._frames[o] for o in self._graph.operators if o.level == level and o.steps] for level in levels]
        outer = [[Group([box]) for box in boxes.values()] for boxes in (self._sources, self._sinks)]
        return [layer for layer in (outer[0], *between, outer[1]) if layer]

    def _origin(self, origin: SourceView | OutputView) -> Box:
        return self._steps[origin.step] if isinstance(origin, OutputView) else self._sources[origin]

    def _target(self, target: StepView | SinkView) -> Box:
        return self._sinks[target] if isinstance(target, SinkView) else self._steps[target.name]

    def _label(self, edge: EdgeView) -> str:
        outputs = [step.outputs for step in self._graph.steps if edge.origin in step.outputs]
        return label_of(edge, is_one_of_several=any(len(others) > 1 for others in outputs))

    def _frame(self, operator: OperatorView) -> Iterator[str]:
        group = self._frames[operator]
        if operator.steps:
            left = group.x - group.width / 2
            yield (
                f'<rect class="hf-frame" x="{_number(left)}" y="{_number(group.top)}" width="{_number(group.width)}" '
                f'height="{_number(group.height)}" rx="10"/>'
            )
            name = "operator" if operator.number is None else f"operator {operator.number}"
            text = f'<text class="hf-note" x="{_number(left + FRAME[0])}" y="{_number(group.top + 19)}">'
            yield f"{text}<title>{operator_text(operator)}</title>{name}</text>"


def _label_width(label: str) -> float:
    return width_of(label, SMALL) + 10 if label else 0.0


def _wire(wire: Wire, tooltip: str) -> Iterator[str]:
    first, last = wire.curves[0], wire.curves[-1]
    parts = [f"M{_number(first.start)} {_number(wire.origin.top + wire.origin.height)}", *map(_curve, wire.curves)]
    parts.append(f"V{_number(wire.target.top - 7)}")
    yield f"<g><title>{escape(tooltip)}</title>"
    # What is wide and invisible makes the wire easier to point at.
    yield f'<path class="hf-reach" d="{" ".join(parts)}"/>'
    yield f'<path class="hf-wire" d="{" ".join(parts)}"/>'
    x, y = _number(last.end), _number(wire.target.top)
    yield f'<path class="hf-tip" d="M{x} {y} l-4.5 -8 h9 z"/>'
    yield "</g>"


def _label(wire: Wire, label: str, tooltip: str) -> Iterator[str]:
    if label:
        at = wire.curves[0]
        left, top = _number(at.label_x - wire.label / 2), _number(at.label_y - 8)
        yield f'<rect class="hf-ground" x="{left}" y="{top}" width="{_number(wire.label)}" height="16" rx="4"/>'
        yield _text("hf-label", _number(at.label_x), at.label_y + 4, tooltip, escape(label))


def _curve(curve: GapWire) -> str:
    half = _number((curve.top + curve.bottom) / 2)
    start, end, bottom = _number(curve.start), _number(curve.end), _number(curve.bottom)
    return f"L{start} {_number(curve.top)} C{start} {half} {end} {half} {end} {bottom}"


def _box(box: Box, content: Content) -> Iterator[str]:
    left = box.x - box.width / 2
    x = _number(left + 12)
    yield "<g>"
    yield (
        f'<rect class="hf-box hf-{content.kind}" x="{_number(left)}" y="{_number(box.top)}" width="{_number(box.width)}" '
        f'height="{_number(box.height)}" rx="7"/>'
    )
    yield _text("hf-title", x, box.top + 24, content.title, escape(content.shown_title()))
    for line, below in content.baselines():
        label, text = map(escape, content.shown(line))
        # Not with a space: some programs leave it out at the end of a part.
        shown = f'<tspan class="hf-word">{label}</tspan><tspan dx="{GAP:g}">{text}</tspan>' if label else text
        yield _text("hf-line", x, box.top + below, line.whole, shown)
    yield "</g>"


def _text(style: str, x: str, y: float, whole: str, shown: str) -> str:
    """A line of text whose whole can be seen when one points at it."""
    return f'<text class="{style}" x="{x}" y="{_number(y)}"><title>{escape(whole)}</title>{shown}</text>'


def _number(value: float) -> str:
    """Half a pixel is fine enough, and the same on every machine."""
    return f"{round(value * 2) / 2:g}"
