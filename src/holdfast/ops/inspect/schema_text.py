"""The schema of a job's state as Markdown, for a repository or a wiki."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from holdfast.engine.stored.readable import visible
from holdfast.ops.inspect.schema import CellSchema, StepSchema

__all__ = ["facts_of", "kind_of", "schema_markdown"]

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def schema_markdown(steps: Iterable[StepSchema], job: str | None) -> Iterator[str]:
    """The lines: a heading for each step, what is so for all of it, and a table of its cells and one of its timers."""
    yield f"# State of {_plain(job)}" if job else "# State"
    for step in steps:
        yield from ("", f"## {_plain(step.step)}", "")
        yield from (f"- {name}: {_plain(value)}" for name, value in facts_of(step))
        if step.cells:
            rows = [(_code(c.name), kind_of(c), _code(c.coder), c.ttl or "", c.doc or "") for c in step.cells]
            yield from _table(("cell", "kind", "coder", "time to live", "what it holds"), rows)
        if step.timers:
            timers = [(_code(timer.name), timer.domain, timer.doc or "") for timer in step.timers]
            yield from _table(("timer", "follows", "what it is for"), timers)


def facts_of(step: StepSchema) -> Iterator[tuple[str, str]]:
    """What is so for the whole step: names and values."""
    yield "key", step.key
    yield "windows", step.windows
    if step.aggregation is not None:
        yield "aggregation", step.aggregation
    if step.is_time_sorted:
        yield "elements", "in order of event time"
    if step.parallel_over != "key":
        yield "parallel over", step.parallel_over
    yield "key groups", str(step.key_groups)
    yield "backend", step.backend
    if step.parameters:
        yield "parameters", json.dumps(step.parameters, ensure_ascii=False, sort_keys=True)


def kind_of(cell: CellSchema) -> str:
    """The kind of a cell, and whether the code still has it."""
    return f"{cell.kind}, no longer declared" if cell.is_kept else cell.kind


class _Ready(str):
    """Markdown already."""


def _code(text: str) -> str:
    shown = visible(text)
    return _Ready(_plain(shown)) if "`" in shown or "|" in shown else _Ready(f"`{shown}`")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell if isinstance(cell, _Ready) else _plain(cell) for cell in row)} |"


def _plain(text: str) -> str:
    """Text on one line, in which nothing means anything to Markdown."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split())))
