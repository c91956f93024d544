"""A job in numbers: its summary, its health, its key groups and keys, from its history alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from holdfast.engine.stored.readable import visible
from holdfast.ui.api.responses import (
    Event,
    GroupHeat,
    HealthView,
    HotKey,
    JobView,
    Keys,
    MeasureView,
    Summary,
    SymptomView,
)
from holdfast.ui.reading.jobs import WatchedJob
from holdfast.ui.reading.texts import cut
from holdfast.watch.health.report import Health
from holdfast.watch.history import History
from holdfast.watch.records import BatchRecord, EventRecord, GroupsRecord, KeyCount, StepRecord

__all__ = ["Doctor", "Judge", "keys_view"]

Judge = Callable[[WatchedJob], Health]

GROUPS_MAX = 1_024
_RECENT = 60
_RATE_OVER = 10
_EVENTS_MAX = 50
_LISTED_MAX = 100
_TEXT_MAX = 2_000
_STEPS_MAX = 50
_FRESH_SECONDS = 2.0


class Doctor:
    """Judges the health of jobs, again when there is news or a moment has passed."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: dict[str, tuple[int, float, Health]] = {}
        self._turn = threading.Lock()

    def health(self, job: WatchedJob) -> Health:
        with self._turn:
            version, now = job.tail.version, time.monotonic()
            known = self._known.get(job.id)
            if known is None or known[0] != version or now - known[1] > _FRESH_SECONDS:
                known = (version, now, self._judge(job))
                self._known[job.id] = known
            return known[2]

    def summary(self, job: WatchedJob) -> Summary:
        history, last = job.tail.history, job.tail.history.last
        health = self.health(job)
        return Summary(
            id=job.id,
            name=job.name,
            checkpoint=visible(job.checkpoint),
            is_running=job.is_running,
            version=job.tail.version,
            level=health.level.word,
            symptoms=_symptoms(health),
            batch=None if last is None else last.batch,
            at_ms=None if last is None else last.at_ms,
            duration_ms=None if last is None else last.duration_ms,
            rows_per_second=_rate(history),
            keys=None if last is None else sum(step.keys for step in last.steps.values()),
            state_bytes=None if last is None else sum(step.state_bytes for step in last.steps.values()),
            steps=[] if last is None else [_cut(name) for name in last.steps][:_STEPS_MAX],
            recent_rows=[record.rows for record in history.batches[-_RECENT:]],
        )

    def view(self, job: WatchedJob) -> JobView:
        holder = job.holder()
        health = self.health(job)
        return JobView(
            now_ms=int(time.time() * 1000),
            summary=self.summary(job),
            health=_health(health),
            events=[_event(event) for event in reversed(job.tail.history.events[-_EVENTS_MAX:])],
            used_by=None if holder is None else _cut(str(holder)),
            unreadable=job.tail.history.unreadable,
        )


def _health(health: Health) -> HealthView:
    return HealthView(
        level=health.level.word,
        measures=_measures(health),
        symptoms=_symptoms(health),
        notes=[_cut(note) for note in health.notes[:_LISTED_MAX]],
    )


def _measures(health: Health) -> list[MeasureView]:
    return [
        MeasureView(
            name=measure.name,
            title=_cut(measure.title),
            text=_cut(measure.text),
            value=measure.value,
            level=measure.level.word,
            warning=measure.warning,
            critical=measure.critical,
            unit=measure.unit,
            of=_cut(measure.of),
            todo=_cut(measure.todo),
        )
        for measure in health.measures[:_LISTED_MAX]
    ]


def _symptoms(health: Health) -> list[SymptomView]:
    worst_first = sorted(health.symptoms, key=lambda symptom: -symptom.level)
    return [
        SymptomView(
            name=symptom.name,
            title=_cut(symptom.title),
            level=symptom.level.word,
            evidence=_cut(symptom.evidence),
            todo=_cut(symptom.todo),
            step=None if symptom.step is None else _cut(symptom.step),
            key=None if symptom.key is None else _cut(symptom.key),
        )
        for symptom in worst_first[:_LISTED_MAX]
    ]


def _event(event: EventRecord) -> Event:
    return Event(event=event.event, at_ms=event.at_ms, batch=event.batch, text=_cut(event.text, keep="\n"))


def _rate(history: History) -> float | None:
    """Rows per second over the last micro-batches of a run."""
    last = history.last
    if last is None:
        return None
    run = [record for record in history.batches[-_RATE_OVER:] if record.run == last.run]
    millis = last.at_ms + last.duration_ms - run[0].at_ms
    return round(sum(record.rows for record in run) * 1000 / millis, 3) if millis > 0 else None


def keys_view(history: History, step: str | None, batch: int | None) -> Keys:
    """Key groups and keys of a step, after a micro-batch; of the first step and the last micro-batch if none is given."""
    detailed = [record for record in history.batches if any(each.groups.labels for each in record.steps.values())]
    chosen = _chosen(detailed, batch)
    names = {} if chosen is None else {_cut(name): each for name, each in chosen.steps.items()}
    name = step if step in names else next(iter(names), None)
    record = StepRecord() if name is None else names[name]
    return Keys(
        step=name,
        steps=list(names)[:_STEPS_MAX],
        batch=None if chosen is None else chosen.batch,
        batches=[each.batch for each in detailed],
        groups=heat_of(record.groups),
        hot=_counts(record.hot),
        heavy=_counts(record.heavy),
    )


def _chosen(records: Sequence[BatchRecord], batch: int | None) -> BatchRecord | None:
    if batch is not None:
        return next((record for record in records if record.batch == batch), None)
    return records[-1] if records else None


def heat_of(groups: GroupsRecord) -> GroupHeat:
    """Key groups, neighbours together if there are too many. Columns of unequal length are shown as far as all go."""
    rows = list(zip(groups.labels, groups.elements, groups.keys, groups.bytes, strict=False))
    count = 1 + max((row[0] for row in rows), default=0)
    each = -(-count // GROUPS_MAX)
    merged: dict[int, list[int]] = {}
    for label, *numbers in rows:
        place = merged.setdefault(label // each, [0, 0, 0])
        for number, value in enumerate(numbers):
            place[number] += value
    labels = sorted(merged)
    columns = [[merged[label][number] for label in labels] for number in range(3)]
    return GroupHeat(
        labels_each=each, labels=[label * each for label in labels], elements=columns[0], keys=columns[1], bytes=columns[2]
    )


def _counts(keys: Sequence[KeyCount]) -> list[HotKey]:
    return [HotKey(key=_cut(each.key), count=each.count) for each in keys[:_LISTED_MAX]]


def _cut(text: str, keep: str = "") -> str:
    return cut(text, _TEXT_MAX, keep)
