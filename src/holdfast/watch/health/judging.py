"""A job, judged by its history: no Spark, no code of the job, nothing but the records."""

from __future__ import annotations

import time
from collections.abc import Iterator

from holdfast.engine.stored.readable import counted
from holdfast.watch.health.failing import ended_badly, reprocessing
from holdfast.watch.health.growth import falling_behind, state_explosion
from holdfast.watch.health.measuring import measures_of
from holdfast.watch.health.pace import slow_micro_batches, slow_state_access
from holdfast.watch.health.recent import Recent, steady
from holdfast.watch.health.report import Health, Level, Symptom
from holdfast.watch.health.skewing import skew
from holdfast.watch.health.texts import cut, ms_text
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.health.watermark import idle_watermark
from holdfast.watch.history import History

__all__ = ["judge"]

_QUIET_MS = 600_000


def judge(
    history: History,
    thresholds: Thresholds | None = None,
    *,
    now_ms: int | None = None,
    running: bool | None = None,
    job: str = "",
) -> Health:
    """Whether a job is well. Never raises because of what a history says.

    `running`: whether it runs now, if that is known. `now_ms`: the time, by default the clock's; it says only when the job
    was judged, and how long nothing has happened, since everything else is measured by the times in the history. `job`: its
    name, by default the one that the history has.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    recent = Recent(steady(history), thresholds or Thresholds())
    measures = measures_of(recent)
    symptoms = sorted(_symptoms(recent, running), key=lambda symptom: -symptom.level)
    found = [measure.level for measure in measures if measure.level != Level.UNKNOWN]
    level = max([*found, *(symptom.level for symptom in symptoms)], default=Level.UNKNOWN)
    if not history.batches and level == Level.OK:
        level = Level.UNKNOWN
    return Health(
        level=level,
        job=cut(job or next((event.job for event in reversed(history.events) if event.job), "")),
        batch=None if history.last is None else history.last.batch,
        at_ms=now,
        measures=measures,
        symptoms=symptoms,
        notes=list(_notes(recent, now, running)),
        running=running,
    )


def _symptoms(recent: Recent, running: bool | None) -> Iterator[Symptom]:
    yield from ended_badly(recent, running)
    yield from state_explosion(recent)
    yield from slow_micro_batches(recent)
    yield from reprocessing(recent)
    yield from slow_state_access(recent)
    yield from skew(recent)
    yield from idle_watermark(recent)
    yield from falling_behind(recent)


def _notes(recent: Recent, now: int, running: bool | None) -> Iterator[str]:
    history = recent.history
    if not history.batches:
        yield "There is no history of micro-batches yet."
    elif not recent.is_enough:
        seen, needed = len(recent.window), recent.thresholds.batches_min
        yield f"Medians need {needed} micro-batches with input, not counting the first of each run: {seen} so far."
    partial = [] if history.last is None else [step for step, record in history.last.steps.items() if record.partial]
    if partial:
        named = ", ".join(cut(step) for step in partial[:3])
        yield f"Of {named} more state is stored than is told here: not all of it was seen yet."
    if history.unreadable:
        yield f"{counted(history.unreadable, 'line')} of the history could not be read."
    if running and history.batches and now - recent.at_ms >= _QUIET_MS:
        yield f"No micro-batch for {ms_text(now - recent.at_ms)}: nothing came, or one takes that long."
