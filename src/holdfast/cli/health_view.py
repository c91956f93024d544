"""Health on a terminal: the measures as a table, then the symptoms, each with its evidence and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from holdfast.cli.output import table, text
from holdfast.watch.health.report import Health, Level, Measure
from holdfast.watch.health.texts import text_in, time_text

__all__ = ["STYLES", "health_view"]

STYLES = {Level.OK: "green", Level.UNKNOWN: "dim", Level.WARNING: "yellow", Level.CRITICAL: "bold red"}
_COVERED = {
    "state_bytes": {"state_explosion"},
    "checkpoint_ms": {"slow_checkpoint"},
    "update_ms": {"slow_state_access"},
    "batch_ratio": {"slow_checkpoint", "slow_micro_batch"},
    "source_lag": {"falling_behind"},
    "watermark_lag_ms": {"idle_watermark"},
    "skew": {"skew"},
    "hot_key_share": {"skew"},
    "failures": {"reprocessing", "failed", "gone"},
}
"""Symptoms that say what to do about a measure."""
_COLUMNS = ("measure", "value", "warning", "critical", "level", "where")


def health_view(health: Health) -> RenderableType:
    """All of it."""
    return _Wrapped(Group(*_parts(health)))


class _Wrapped:
    """Long lines go on in the next one, which our consoles otherwise leave to the terminal."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self._content, options.update(no_wrap=False, overflow="fold"))


def _parts(health: Health) -> Iterator[RenderableType]:
    yield _heading(health)
    if health.batch is not None:
        measures = table("", _COLUMNS, [_row(measure) for measure in health.measures])
        for column in measures.columns[:-1]:
            column.no_wrap = True
        yield measures
    for symptom in health.symptoms:
        yield from _symptom(symptom.level, symptom.title, symptom.evidence, symptom.todo)
    told = {symptom.name for symptom in health.symptoms}
    for measure in health.measures:
        if measure.todo and not told & _COVERED.get(measure.name, set()):
            yield from _symptom(measure.level, measure.title, f"{measure.text} {measure.of}".strip(), measure.todo)
    for note in health.notes:
        yield text(f"note: {note}", "dim")


def _heading(health: Health) -> Text:
    state = {True: "running", False: "not running", None: ""}[health.running]
    batch = "no micro-batch yet" if health.batch is None else f"micro-batch {health.batch}"
    rest = ", ".join(part for part in (batch, state, time_text(health.at_ms)) if part)
    level = text(health.level.word, STYLES[health.level])
    return Text.assemble(text(health.job or "job", "bold"), ": ", level, text(f"  {rest}", "dim"))


def _row(measure: Measure) -> tuple[Text, ...]:
    style = STYLES[measure.level]
    return (
        text(measure.title),
        text(measure.text, style),
        text("" if measure.warning is None else text_in(measure.unit, measure.warning), "dim"),
        text("" if measure.critical is None else text_in(measure.unit, measure.critical), "dim"),
        text(measure.level.word, style),
        text(measure.of, "dim"),
    )


def _symptom(level: Level, title: str, evidence: str, todo: str) -> Iterator[RenderableType]:
    yield Text.assemble(text(f"{level.word}: ", STYLES[level]), text(title, "bold"))
    yield Padding(text(evidence), (0, 0, 0, 2))
    yield Padding(text(f"what to do: {todo}"), (0, 0, 1, 2))
