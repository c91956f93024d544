"""What `holdfast top` shows, as texts with styles: rows of tables, sparklines, bars. Nothing here knows of the screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from holdfast.cli.health_view import STYLES
from holdfast.cli.output import text
from holdfast.cli.top_jobs import Seen
from holdfast.watch.health.phases import phase_text
from holdfast.watch.health.report import Health, Level
from holdfast.watch.health.spread import hottest_keys
from holdfast.watch.health.texts import bytes_text, count_text, cut, ms_text, share_text, text_in
from holdfast.watch.health.values import source_lag, state_bytes, update_ms
from holdfast.watch.history import History
from holdfast.watch.records import BatchRecord

__all__ = [
    "JOB_COLUMNS",
    "STEP_COLUMNS",
    "Columns",
    "detail",
    "fitting",
    "health_lines",
    "job_row",
    "key_lines",
    "rows_per_second",
    "spark_line",
    "step_rows",
]

Columns = dict[str, int]
"""Names of columns, with the widths that they need."""

JOB_COLUMNS: Columns = {
    "job": 12,
    "health": 10,
    "batch": 5,
    "rows/s": 7,
    "time": 6,
    "state": 8,
    "wm lag": 7,
    "src lag": 7,
    "keys": 11,
}
STEP_COLUMNS: Columns = {
    "step": 20,
    "elements/s": 10,
    "keys": 11,
    "state": 8,
    "trend": 10,
    "update": 7,
    "late": 7,
    "timers": 9,
}
_BLOCKS = "▁▂▃▄▅▆▇█"
_RATE_BATCHES = 10
_PHASES = 5
_KEYS = 5
_STEPS_BATCHES = 60
_SHOWN = ("checkpoint_ms", "update_ms", "cleanup_ms", "memory_bytes")
_MARKS = {Level.OK: "●", Level.UNKNOWN: "○", Level.WARNING: "▲", Level.CRITICAL: "✖"}


def fitting(columns: Columns, width: int) -> list[str]:
    """As many of the columns, from the first on, as fit into a width; each has a space on both sides."""
    found: list[str] = []
    left = width
    for name, needed in columns.items():
        left -= needed + 2
        if left < 0 and found:
            break
        found.append(name)
    return found


def spark_line(values: Sequence[float], width: int) -> str:
    """The newest values, one block each, between nothing and the largest of them."""
    newest = [max(value, 0) for value in values[-width:]] if width > 0 else []
    top = max(newest, default=0)
    if top <= 0:
        return _BLOCKS[0] * len(newest)
    return "".join(_BLOCKS[min(int(value / top * len(_BLOCKS)), len(_BLOCKS) - 1)] for value in newest)


def rows_per_second(batches: Sequence[BatchRecord]) -> float:
    """Over the newest micro-batches, from the beginning of the first to the end of the last."""
    return _per_second(batches[-_RATE_BATCHES:], sum(batch.rows for batch in batches[-_RATE_BATCHES:]))


def _per_second(batches: Sequence[BatchRecord], count: int) -> float:
    ms = batches[-1].at_ms + batches[-1].duration_ms - batches[0].at_ms if batches else 0
    return count * 1000 / ms if ms > 0 else 0.0


def job_row(seen: Seen) -> dict[str, Text]:
    """A job in one line, by column."""
    last, health = seen.history.last, seen.health
    found = {
        "job": text(cut(seen.name, JOB_COLUMNS["job"]), "" if health.running else "dim"),
        "health": text(f"{_MARKS[health.level]} {health.level.word}", STYLES[health.level]),
    }
    if last is None:
        return found
    size = state_bytes(last)
    return found | {
        "batch": text(str(last.batch)),
        "rows/s": text(count_text(rows_per_second(seen.history.batches))),
        "time": text(ms_text(last.duration_ms)),
        "state": text("?" if size is None else bytes_text(size)),
        "wm lag": _measured(health, "watermark_lag_ms"),
        "src lag": _measured(health, "source_lag"),
        "keys": text(count_text(sum(step.keys for step in last.steps.values()))),
    }


def _measured(health: Health, name: str) -> Text:
    measure = health.measure(name)
    if measure is None:
        return text("?")
    return text(measure.text, STYLES[measure.level] if measure.level >= Level.WARNING else "")


def detail(seen: Seen, width: int, *, is_short: bool) -> Text:
    """The last micro-batches of a job, as sparklines, and where the time of the last went; with room, some measures."""
    last = seen.history.last
    if last is None:
        return text("No micro-batch yet.", "dim")
    batches = seen.history.batches
    state = {True: "running", False: "not running", None: ""}[seen.health.running]
    due = f"every {ms_text(last.interval_ms)}" if last.interval_ms else ""
    facts = "  ".join(part for part in (f"micro-batch {last.batch}", due, state) if part)
    room = max(width - 25, 8)
    lines = [
        Text.assemble(text(cut(seen.name, 40), "bold"), text(f"  {facts}", "dim")),
        _line("rows/s", [_rate(batch) for batch in batches], count_text(rows_per_second(batches)), room, "cyan"),
        _line("time", [batch.duration_ms for batch in batches], ms_text(last.duration_ms), room, "magenta"),
        _line("state", [state_bytes(batch) or 0 for batch in batches], bytes_text(state_bytes(last) or 0), room, "blue"),
    ]
    lags = [lag for batch in batches if (lag := source_lag(batch)) is not None]
    if any(lags):
        lines.append(_line("source lag", lags, count_text(lags[-1]), room, "yellow"))
    measures = [] if is_short else [_measure_line(seen.health, name) for name in _SHOWN]
    return _lines([*lines, _phases(last, width), *measures])


def _measure_line(health: Health, name: str) -> Text:
    measure = health.measure(name)
    if measure is None:
        return text("")
    bounds = [text_in(measure.unit, bound) for bound in (measure.warning, measure.critical) if bound is not None]
    style = STYLES[measure.level]
    told = text(f"   warning {bounds[0]}, critical {bounds[1]}" if len(bounds) == 2 else "", "dim")
    return Text.assemble(text(f"{measure.title:<23}", "dim"), text(f"{measure.text:>10}", style), told)


def _lines(lines: Sequence[Text]) -> Text:
    return Text("\n", no_wrap=True).join(lines)


def _line(title: str, values: Sequence[float], newest: str, room: int, style: str) -> Text:
    return Text.assemble(text(f"{title:<11}", "dim"), text(f"{newest:>12}  "), text(spark_line(values, room), style))


def _rate(batch: BatchRecord) -> float:
    return batch.rows * 1000 / batch.duration_ms if batch.duration_ms > 0 else 0.0


def _phases(batch: BatchRecord, width: int) -> Text:
    """The longest phases, as many as fit in a line."""
    longest = sorted(batch.phases_ms.items(), key=lambda phase: -phase[1])[:_PHASES]
    parts = [
        Text.assemble(text(f"  {cut(phase_text(name), 24)} "), text(ms_text(ms), "bold")) for name, ms in longest if ms > 0
    ]
    return _in_a_line("phases", parts, width)


def _in_a_line(title: str, parts: Sequence[Text], width: int) -> Text:
    """As many parts as fit."""
    line = [text(f"{title:<11}", "dim")]
    for part in parts:
        if sum(each.cell_len for each in line) + part.cell_len > width:
            break
        line.append(part)
    return Text.assemble(*line)


def step_rows(seen: Seen) -> dict[str, dict[str, Text]]:
    """The steps of a job, by name."""
    last = seen.history.last
    return {} if last is None else {name: _step_row(seen.history, name) for name in sorted(last.steps)}


def _step_row(history: History, name: str) -> dict[str, Text]:
    records = [batch.steps[name] for batch in history.batches[-_STEPS_BATCHES:] if name in batch.steps]
    newest = history.batches[-_RATE_BATCHES:]
    elements = sum(batch.steps[name].counters.get("elements", 0) for batch in newest if name in batch.steps)
    late = sum(record.counters.get("late", 0) for record in records)
    update = next((found for record in reversed(records) if (found := update_ms(record)) is not None), None)
    last = records[-1]
    return {
        "step": text(cut(name, STEP_COLUMNS["step"])),
        "elements/s": text(count_text(_per_second(newest, elements))),
        "keys": text(count_text(last.keys)),
        "state": text(bytes_text(last.state_bytes)),
        "trend": text(_trend([batch.steps[name].keys for batch in history.batches if name in batch.steps]), "blue"),
        "update": text(text_in("ms", update)),
        "late": text(count_text(late), "yellow" if late else ""),
        "timers": text(count_text(last.timers)),
    }


def _trend(values: Sequence[float]) -> str:
    """All that is known, in a few columns."""
    width = min(STEP_COLUMNS["trend"], len(values))
    return spark_line([values[(n + 1) * len(values) // width - 1] for n in range(width)], width)


def key_lines(seen: Seen, step: str | None, width: int, *, is_short: bool) -> Text:
    """The hottest keys of a step: with bars, or in one line."""
    found = [] if step is None else hottest_keys(seen.history, step, _KEYS)
    if not found:
        return text("no keys known", "dim")
    if is_short:
        parts = [Text.assemble(text(f"  {cut(key, 20)} "), text(_share(share), _heat(share))) for key, share in found]
        return _in_a_line("hottest", parts, width)
    room = max(width - 36, 4)
    lines = [text(f"hottest keys of {cut(step or '', 30)}", "dim")]
    for key, share in found:
        bar = text("━" * max(round(share * room), 1), _heat(share))
        lines.append(Text.assemble(text(f"{cut(key, 24):<25}"), text(f"{_share(share):>7}  "), bar))
    return _lines(lines)


def _share(share: float) -> str:
    return share_text(share) if share >= 0.001 else "<0.1%"


def _heat(share: float) -> str:
    return "yellow" if share >= 0.4 else "green"


def health_lines(health: Health) -> Text:
    """The symptoms, or that there are none."""
    found = [(each.level, each.title, each.evidence, each.todo) for each in health.symptoms]
    if not found:
        found = [(each.level, each.title, f"{each.text} {each.of}", each.todo) for each in health.measures if each.todo]
    lines = []
    for level, title, evidence, todo in found:
        lines.append(Text.assemble(text(f"{_MARKS[level]} {title}  ", STYLES[level]), text(evidence)))
        lines.append(text(f"  what to do: {todo}", "dim"))
    if not lines:
        lines.append(text("● no symptoms", "green") if health.level == Level.OK else text("○ nothing is known yet", "dim"))
    return Text("\n").join([*lines, *(text(f"note: {note}", "dim") for note in health.notes)])
