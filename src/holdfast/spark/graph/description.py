"""What a job consists of, in plain values: its sources, its steps in their operators, its sinks, and the edges between them.

Nothing in it knows Spark, so that it can be compared, drawn and made by hand. `describing.py` makes it of a graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "CellView",
    "ColumnView",
    "EdgeView",
    "GraphView",
    "OperatorView",
    "OutputView",
    "SinkView",
    "SourceView",
    "StepView",
    "TimerView",
]


@dataclass(frozen=True)
class ColumnView:
    """A column of rows."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class SourceView:
    """A stream that the job reads."""

    number: int
    """Tells apart sources that look the same. They are counted from 1."""
    kind: str
    """Such as json, kafka or rate."""
    place: str = ""
    """The path or the topic, if there is one. Nothing else that was said to a source is here: it may be secret."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}" if self.place else self.kind


@dataclass(frozen=True)
class OutputView:
    """An output of a step, by the names of both."""

    step: str
    tag: str

    def __str__(self) -> str:
        return f"{self.step}.{self.tag}"


@dataclass(frozen=True)
class EdgeView:
    """A way on which rows go to a step or a sink."""

    origin: SourceView | OutputView
    columns: tuple[ColumnView, ...]
    """Of the rows at its beginning."""
    nodes: tuple[str, ...] = ()
    """What Spark does with them on the way, by the names of its nodes, in that order."""
    is_handed_on: bool = False
    """Whether the rows go from one step to another as they are, without leaving Arrow."""

    @property
    def words(self) -> str:
        """What happens on the way; nothing if the rows are taken as they are."""
        return "directly, in Arrow" if self.is_handed_on else ", ".join(self.nodes)


@dataclass(frozen=True)
class CellView:
    """A cell of a step's state."""

    name: str
    kind: str
    type: str
    """What it holds, by its coder."""
    ttl: str = ""


@dataclass(frozen=True)
class TimerView:
    """A timer of a step."""

    name: str
    domain: str


@dataclass(frozen=True)
class StepView:
    """A step: what it is, what it keeps, and what it is given."""

    name: str
    function: str
    """The class of the function."""
    keys: tuple[ColumnView, ...]
    key_groups: int
    backend: str
    inputs: tuple[EdgeView, ...] = ()
    values: tuple[ColumnView, ...] = ()
    outputs: tuple[OutputView, ...] = ()
    event_time: str = ""
    """The column with the event time, with its watermark and whether elements wait for their order, in words."""
    windows: str = ""
    """In words; nothing for the global window."""
    trigger: str = ""
    cells: tuple[CellView, ...] = ()
    timers: tuple[TimerView, ...] = ()
    limits: str = ""


@dataclass(frozen=True)
class OperatorView:
    """A stateful operator of Spark's, and the steps that share it."""

    number: int | None
    """Spark's own, which counts from the end of a query. None if operators of Spark's own are in between."""
    level: int
    """After how many others rows pass it."""
    steps: tuple[StepView, ...]


@dataclass(frozen=True)
class SinkView:
    """A sink, and what it is given."""

    number: int
    name: str
    columns: tuple[ColumnView, ...]
    inputs: tuple[EdgeView, ...] = ()


@dataclass(frozen=True)
class GraphView:
    """A job."""

    job: str
    sources: tuple[SourceView, ...]
    operators: tuple[OperatorView, ...]
    """In the order in which rows pass them."""
    sinks: tuple[SinkView, ...]

    @property
    def steps(self) -> tuple[StepView, ...]:
        """All steps, each after those it depends on."""
        return tuple(step for operator in self.operators for step in operator.steps)

    @property
    def edges(self) -> Iterator[tuple[EdgeView, StepView | SinkView]]:
        """All edges, with where they lead."""
        targets: list[StepView | SinkView] = [*self.steps, *self.sinks]
        for target in targets:
            for edge in target.inputs:
                yield edge, target

    def sharing(self, step: str) -> tuple[str, ...]:
        """The names of the other steps in a step's operator."""
        names = [[other.name for other in operator.steps] for operator in self.operators]
        return tuple(other for group in names if step in group for other in group if other != step)
