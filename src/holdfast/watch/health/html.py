"""Health as HTML, for notebooks: everything in it is escaped, and it brings its own few styles."""

from __future__ import annotations

from html import escape

from holdfast.watch.health.report import Health, Level
from holdfast.watch.health.texts import text_in, time_text

__all__ = ["health_html"]

_COLOURS = {Level.OK: "#1a7f37", Level.UNKNOWN: "#6e7781", Level.WARNING: "#9a6700", Level.CRITICAL: "#cf222e"}
_CELL = "padding:.15em .8em .15em 0;text-align:left;vertical-align:top"


def health_html(health: Health) -> str:
    """A heading, the symptoms with what to do, and a table of the measures."""
    where = "no micro-batch yet" if health.batch is None else f"micro-batch {health.batch}"
    parts = [
        f"<p><b>{escape(health.job or 'job')}</b> {_badge(health.level)} {where}, {escape(time_text(health.at_ms))}</p>",
        *(f"<p>{escape(note)}</p>" for note in health.notes),
    ]
    for symptom in health.symptoms:
        parts.append(
            f"<p>{_badge(symptom.level)} <b>{escape(symptom.title)}</b><br>{escape(symptom.evidence)}<br>"
            f"<i>What to do:</i> {escape(symptom.todo)}</p>"
        )
    rows = [
        (
            escape(measure.title),
            escape(f"{measure.text} ({measure.of})" if measure.of else measure.text),
            _badge(measure.level),
            escape(_bound(measure.unit, measure.warning)),
            escape(_bound(measure.unit, measure.critical)),
            escape(measure.todo),
        )
        for measure in health.measures
    ]
    if rows:
        head = _row("th", ("measure", "value", "level", "warning", "critical", "what to do"))
        parts.append(f"<table>{head}{''.join(_row('td', row) for row in rows)}</table>")
    return f'<div class="holdfast-health">{"".join(parts)}</div>'


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f'<{tag} style="{_CELL}">{cell}</{tag}>' for cell in cells) + "</tr>"


def _badge(level: Level) -> str:
    return f'<span style="color:{_COLOURS[level]};font-weight:600">{level.word}</span>'


def _bound(unit: str, bound: float | None) -> str:
    return "" if bound is None else text_in(unit, bound)
