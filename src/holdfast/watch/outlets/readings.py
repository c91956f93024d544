"""What the metrics of a job are now: from its records, one after the other."""

from __future__ import annotations

import hashlib
import math
import sys
import threading
from collections import Counter
from collections.abc import Iterator

from holdfast.engine.stored.readable import visible
from holdfast.watch.health.report import Health
from holdfast.watch.health.texts import cut
from holdfast.watch.health.values import checkpoint_ms, cleanup_ms, update_ms
from holdfast.watch.outlets.names import Reading
from holdfast.watch.records import BatchRecord, EventRecord

__all__ = ["Readings"]

_LABELS_MAX = 100
"""So many steps, sources, phases and symptoms at most, and so many names of a function's own counters for each step."""
_LABEL_MAX = 80
_COUNTED = {
    "elements": "holdfast_elements",
    "late": "holdfast_late_elements",
    "dead_letters": "holdfast_dead_letters",
    "over_limit": "holdfast_over_limit_elements",
    "keys_evicted": "holdfast_keys_evicted",
    "timers_fired": "holdfast_timers_fired",
}

Labels = tuple[str, ...]


class Readings:
    """The metrics of one job. Counters count from when this was made; gauges are those of the last micro-batch.

    Records come from one thread; others may read at any time, and see those of one record, whole.
    """

    def __init__(self, job: str = "") -> None:
        self._job = job
        self._totals: dict[tuple[str, Labels], float] = {}
        self._sizes: Counter[str] = Counter()
        self._gauges: list[Reading] = []
        self._latest: tuple[Reading, ...] = ()
        self._event_ms_max: int | None = None
        self._turn = threading.Lock()

    @property
    def latest(self) -> tuple[Reading, ...]:
        """All readings, gauges first."""
        return self._latest

    def batch(self, record: BatchRecord, health: Health) -> None:
        with self._turn:
            self._job = health.job or self._job
            if record.event_ms_max is not None:
                self._event_ms_max = max(record.event_ms_max, self._event_ms_max or record.event_ms_max)
            self._gauges = [
                Reading(name, (self._job, *labels), value)
                for name, labels, value in self._found(record, health)
                if value is not None and math.isfinite(value)
            ]
            self._count(record)
            self._publish()

    def event(self, record: EventRecord) -> None:
        with self._turn:
            self._job = cut(record.job) or self._job
            if record.event == "started":
                self._add("holdfast_starts", (), 1)
                self._add("holdfast_failures", (), 0)
            elif record.event == "failed":
                self._add("holdfast_failures", (), 1)
            self._publish()

    def _publish(self) -> None:
        totals = [Reading(name, (self._job, *labels), value) for (name, labels), value in self._totals.items()]
        self._latest = (*self._gauges, *totals)

    def _add(self, name: str, labels: Labels, count: float) -> None:
        if (name, labels) not in self._totals:
            if self._sizes[name] >= _LABELS_MAX:
                return
            self._sizes[name] += 1
        # A counter never goes down, whatever a record says.
        self._totals[name, labels] = self._totals.get((name, labels), 0) + max(count, 0)

    def _count(self, record: BatchRecord) -> None:
        self._add("holdfast_batches", (), 1)
        self._add("holdfast_batch_busy_seconds", (), record.duration_ms / 1000)
        self._add("holdfast_rows", (), record.rows)
        for name, step in record.steps.items():
            label = _label(name)
            for counter, metric in _COUNTED.items():
                self._add(metric, (label,), step.counters.get(counter, 0))
            for own, count in step.user.items():
                if abs(count) <= sys.float_info.max:
                    self._add("holdfast_user_counts", (label, _label(own)), count)

    def _found(self, record: BatchRecord, health: Health) -> Iterator[tuple[str, Labels, float | None]]:
        yield "holdfast_health_level", (), health.level
        seen = {(symptom.name, symptom.step or ""): symptom.level for symptom in reversed(health.symptoms)}
        for labels, level in list(seen.items())[:_LABELS_MAX]:
            yield "holdfast_symptom_level", labels, level
        yield "holdfast_batch_id", (), record.batch
        yield "holdfast_batch_duration_seconds", (), record.duration_ms / 1000
        for phase, ms in list(record.phases_ms.items())[:_LABELS_MAX]:
            yield "holdfast_batch_phase_seconds", (_label(phase),), ms / 1000
        yield "holdfast_batch_interval_seconds", (), _seconds(record.interval_ms)
        yield "holdfast_batch_rows", (), record.rows
        yield "holdfast_batch_timestamp_seconds", (), record.at_ms / 1000
        yield "holdfast_checkpoint_duration_seconds", (), _seconds(checkpoint_ms(record))
        yield "holdfast_cleanup_duration_seconds", (), _seconds(cleanup_ms(record))
        yield from self._watermark(record)
        yield from _sources(record)
        if record.workers:
            yield "holdfast_workers", (), len(record.workers)
            yield "holdfast_worker_memory_bytes", (), max(worker.memory_bytes for worker in record.workers)
        for name, step in list(record.steps.items())[:_LABELS_MAX]:
            label = (_label(name),)
            yield "holdfast_state_bytes", label, step.state_bytes
            yield "holdfast_state_keys", label, step.keys
            yield "holdfast_timers", label, step.timers
            yield "holdfast_state_update_seconds", label, _seconds(update_ms(step))

    def _watermark(self, record: BatchRecord) -> Iterator[tuple[str, Labels, float | None]]:
        # Spark's watermark begins at 1970, which says nothing.
        if record.watermark_ms:
            yield "holdfast_watermark_timestamp_seconds", (), record.watermark_ms / 1000
            if self._event_ms_max is not None:
                yield "holdfast_watermark_lag_seconds", (), max(self._event_ms_max - record.watermark_ms, 0) / 1000


def _sources(record: BatchRecord) -> Iterator[tuple[str, Labels, float | None]]:
    """Sources of one description are one."""
    lags: dict[str, int] = {}
    for source in record.sources[:_LABELS_MAX]:
        if source.lag is not None:
            lags[_label(source.name)] = lags.get(_label(source.name), 0) + source.lag
    for name, lag in lags.items():
        yield "holdfast_source_lag_records", (name,), lag


def _label(name: str) -> str:
    """A name of bounded length. Two names never give the same one: a scrape with one label twice is refused."""
    shown = cut(name, _LABEL_MAX)
    if shown == visible(name):
        return shown
    return f"{shown[: _LABEL_MAX - 12]}...{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:9]}"


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000
