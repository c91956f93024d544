"""What is written in the boxes of a picture and on its wires."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.engine.stored.readable import counted, visible
from holdfast.spark.graph.description import EdgeView, OutputView, SinkView, SourceView, StepView
from holdfast.spark.graph.picture.measure import cut, width_of
from holdfast.spark.graph.picture.text import columns_text

__all__ = ["GAP", "SMALL", "Content", "Line", "content_of", "label_of", "tooltip_of"]

TITLE = 14.0
SMALL = 11.5
GAP = 5.0
"""Between the two parts of a line."""
_WIDTH_MIN, _WIDTH_MAX = 150.0, 270.0
_PADDING = 12.0
_LINES_MAX = 9
_LABEL_MAX = 190.0
_FIRST, _LEADING = 24.0, 17.0


@dataclass(frozen=True)
class Line:
    """A line of small text: a word that says what it is about, and what it says."""

    label: str
    text: str

    @property
    def whole(self) -> str:
        return f"{self.label} {self.text}" if self.label else self.text

    @property
    def width(self) -> float:
        return width_of(self.label, SMALL) + (GAP if self.label else 0) + width_of(self.text, SMALL)


@dataclass(frozen=True)
class Content:
    """The text of a box, with names that are safe to show and as long as they are."""

    kind: str
    title: str
    lines: tuple[Line, ...]

    @property
    def width(self) -> float:
        # Bold letters are a little wider.
        widest = max([1.08 * width_of(self.title, TITLE), *(line.width for line in self.lines)])
        return min(max(widest + 2 * _PADDING, _WIDTH_MIN), _WIDTH_MAX)

    @property
    def height(self) -> float:
        return _FIRST + _LEADING * len(self.lines) + 11

    def shown_title(self) -> str:
        return cut(self.title, 1.08 * TITLE, self.width - 2 * _PADDING)

    def shown(self, line: Line) -> tuple[str, str]:
        """The label and the text of a line, as far as there is room."""
        room = self.width - 2 * _PADDING - (line.width - width_of(line.text, SMALL))
        return line.label, cut(line.text, SMALL, max(room, 0.0))

    def baselines(self) -> Iterator[tuple[Line, float]]:
        """The lines, and how far below the top of the box each stands."""
        for number, line in enumerate(self.lines, start=1):
            yield line, _FIRST + _LEADING * number


def content_of(thing: SourceView | StepView | SinkView) -> Content:
    if isinstance(thing, SourceView):
        lines = [Line("", visible(thing.place))] if thing.place else []
        return Content("source", visible(thing.kind), (Line("source", str(thing.number)), *lines))
    if isinstance(thing, SinkView):
        return Content("sink", visible(thing.name), (Line("sink", str(thing.number)), Line("", columns_text(thing.columns))))
    lines = [line for line in _step_lines(thing) if line.text]
    if len(lines) > _LINES_MAX:
        more = len(lines) - _LINES_MAX + 1
        lines = [*lines[: _LINES_MAX - 1], Line("", f"… and {counted(more, 'more line', 'more lines')}")]
    return Content("step", visible(thing.name), tuple(lines))


def _step_lines(step: StepView) -> Iterator[Line]:
    if step.function != step.name:
        yield Line("class", visible(step.function))
    yield Line("key", columns_text(step.keys))
    yield Line("in", f"{counted(step.key_groups, 'key group')}, {visible(step.backend)}")
    yield Line("time", visible(step.event_time))
    yield Line("windows", visible(step.windows))
    yield Line("trigger", visible(step.trigger))
    for cell in step.cells:
        ttl = f", {cell.ttl}" if cell.ttl else ""
        yield Line(cell.kind, visible(f"{cell.name}: {cell.type}{ttl}"))
    for timer in step.timers:
        yield Line("timer", visible(f"{timer.name}: {timer.domain}"))
    yield Line("limits", visible(step.limits))


def label_of(edge: EdgeView, *, is_one_of_several: bool) -> str:
    """The short text on a wire; nothing where there is nothing to say. The tag of a step's only output says nothing."""
    tag = visible(edge.origin.tag) if isinstance(edge.origin, OutputView) and is_one_of_several else ""
    way = "directly" if edge.is_handed_on else visible(edge.words)
    return cut(" · ".join(part for part in (tag, way) if part), SMALL, _LABEL_MAX)


def tooltip_of(edge: EdgeView, target: StepView | SinkView) -> str:
    """All there is to say of a wire."""
    origin = f"source {edge.origin.number}" if isinstance(edge.origin, SourceView) else str(edge.origin)
    way = f": {edge.words}" if edge.words else ""
    goal = f"sink {target.number}" if isinstance(target, SinkView) else target.name
    return f"{visible(f'{origin} to {goal}{way}')}\n{columns_text(edge.columns)}"
