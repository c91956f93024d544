"""Makes the record of a micro-batch from Spark's report of it and from what the key groups told."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.engine.metrics.holding import Holding
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.stored.readable import key_to_text, visible
from holdfast.spark.job.lag import source_lags
from holdfast.spark.stages.metrics import BundleReport
from holdfast.watch.records import (
    BatchRecord,
    GroupsRecord,
    KeyCount,
    OperatorRecord,
    SourceRecord,
    StepRecord,
    WorkerRecord,
)

__all__ = ["StepHolding", "batch_record", "event_ms", "without_pause"]

_KEYS_MAX = 20
_KEY_LETTERS_MAX = 200
_NAMES_MAX = 100
"""Of a function's own metrics of each kind."""
_GROUPS_MAX = 4096
"""A step with more key groups tells their sums only."""
_NOTHING = Holding()


@dataclass
class StepHolding:
    """What the key groups of a step hold, as far as they have told."""

    key_groups: int
    groups: dict[int, Holding | None] = field(default_factory=dict)
    """By label; None if the backend does not say."""
    began_empty: bool = True
    """Whether there was no state when the job began, or all of it was known."""

    @property
    def partial(self) -> bool:
        return None in self.groups.values() or (not self.began_empty and len(self.groups) < self.key_groups)

    def take(self, report: BundleReport) -> None:
        self.groups[report.label] = report.holding

    def resume(self, recorded: StepRecord) -> None:
        """Goes on from what was recorded of the micro-batch before."""
        columns = recorded.groups
        rows = zip(columns.labels, columns.keys, columns.bytes, columns.timers, columns.windows, strict=False)
        self.groups = {label: Holding(*values) for label, *values in rows}
        held = list(self.groups.values())
        told = (sum(group.keys for group in held if group), sum(group.bytes for group in held if group))
        # Of very many key groups only their sums are recorded.
        self.began_empty = not recorded.partial and told == (recorded.keys, recorded.state_bytes)
        if recorded.partial:
            # One that did not say was recorded as if it had nothing.
            self.groups = {label: None if group == _NOTHING else group for label, group in self.groups.items()}


def batch_record(
    progress: Any, reports: Iterable[BundleReport], holdings: Mapping[str, StepHolding], interval_ms: int | None
) -> tuple[BatchRecord, dict[str, StepMetrics]]:
    """The record of a micro-batch that Spark reports as committed, and what each step did in it. `holdings` takes in what
    the reports say."""
    by_step: dict[str, list[BundleReport]] = {name: [] for name in holdings}
    workers: dict[tuple[str, int], WorkerRecord] = {}
    for report in reports:
        by_step.setdefault(report.step, []).append(report)
        workers[report.host, report.pid] = WorkerRecord(report.host, report.pid, report.memory_bytes, report.kept_bytes)
    metrics = {name: _summed(told) for name, told in by_step.items()}
    steps = {name: _step(holdings.get(name), told, metrics[name]) for name, told in sorted(by_step.items())}
    times = progress.eventTime or {}
    phases = {name: int(taken) for name, taken in (progress.durationMs or {}).items()}
    record = BatchRecord(
        batch=progress.batchId,
        at_ms=event_ms(progress.timestamp) or 0,
        run=str(progress.runId),
        duration_ms=int(progress.batchDuration or 0),
        phases_ms={name: taken for name, taken in phases.items() if name != "triggerExecution"},
        interval_ms=interval_ms,
        rows=int(progress.numInputRows or 0),
        watermark_ms=event_ms(times.get("watermark")) or None,
        event_ms_max=event_ms(times.get("max")),
        sources=_sources(progress),
        operators=[_operator(operator) for operator in progress.stateOperators],
        workers=[workers[name] for name in sorted(workers)],
        steps=steps,
    )
    return record, metrics


def without_pause(record: BatchRecord, paused_ms: int) -> BatchRecord:
    """The record with the time apart for which the job itself let the micro-batch wait."""
    if not paused_ms:
        return record
    phases = {**record.phases_ms, "pause": paused_ms}
    phases["addBatch"] = max(0, phases.get("addBatch", 0) - paused_ms)
    return msgspec.structs.replace(record, duration_ms=max(0, record.duration_ms - paused_ms), phases_ms=phases)


def event_ms(text: Any) -> int | None:
    """A time in one of Spark's reports, in milliseconds since 1970."""
    try:
        moment = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _sources(progress: Any) -> list[SourceRecord]:
    lags = source_lags(progress)
    return [
        SourceRecord(visible(name)[:_KEY_LETTERS_MAX], int(source.numInputRows or 0), lags.get(name))
        for source in progress.sources
        for name in [source.description]
    ]


def _operator(operator: Any) -> OperatorRecord:
    custom = operator.customMetrics or {}
    return OperatorRecord(
        rows=int(operator.numRowsTotal),
        memory_bytes=int(operator.memoryUsedBytes),
        disk_bytes=int(custom.get("rocksdbSstFileSize", 0)),
        update_ms=int(operator.allUpdatesTimeMs),
        remove_ms=int(operator.allRemovalsTimeMs),
        commit_ms=int(operator.commitTimeMs),
        partitions=int(operator.numShufflePartitions),
    )


def _summed(reports: Iterable[BundleReport]) -> StepMetrics:
    metrics = StepMetrics()
    for report in reports:
        metrics.add(report.metrics)
    return metrics


def _step(holding: StepHolding | None, reports: list[BundleReport], metrics: StepMetrics) -> StepRecord:
    holding = holding or StepHolding(0, began_empty=False)
    for report in reports:
        holding.take(report)
    held = [group or _NOTHING for group in holding.groups.values()]
    user = metrics.user
    return StepRecord(
        key_groups=holding.key_groups,
        partial=holding.partial,
        counters={name: count for name in metrics.names() if (count := getattr(metrics, name))},
        user=_finite(user.counters),
        gauges=_finite(user.gauges),
        distributions={
            name: (found.count, found.sum, found.min, found.max)
            for name, found in sorted(user.distributions.items())[:_NAMES_MAX]
            if all(map(math.isfinite, (found.sum, found.min, found.max)))
        },
        keys=sum(group.keys for group in held),
        state_bytes=sum(group.bytes for group in held),
        timers=sum(group.timers for group in held),
        windows=max((group.windows for group in held), default=0),
        groups=_groups(holding, {report.label: report for report in reports}),
        hot=[_key_count(*found) for found in metrics.hot.top(_KEYS_MAX)],
        heavy=[_key_count(*found) for found in metrics.heavy.top(_KEYS_MAX)],
    )


def _groups(holding: StepHolding, reports: Mapping[int, BundleReport]) -> GroupsRecord:
    if len(holding.groups) > _GROUPS_MAX:
        return GroupsRecord()
    labels = sorted(holding.groups)
    held = [holding.groups[label] or _NOTHING for label in labels]
    return GroupsRecord(
        labels=labels,
        elements=[reports[label].elements if label in reports else 0 for label in labels],
        keys=[group.keys for group in held],
        bytes=[group.bytes for group in held],
        timers=[group.timers for group in held],
        windows=[group.windows for group in held],
    )


def _key_count(key: Any, count: int) -> KeyCount:
    text = visible(key_to_text(key))
    return KeyCount(text if len(text) <= _KEY_LETTERS_MAX else f"{text[:_KEY_LETTERS_MAX]}…", count)


def _finite(numbers: Mapping[str, int | float]) -> dict[str, int | float]:
    """Numbers that JSON has, by names in order, as many as there is room for."""
    return {name: number for name, number in sorted(numbers.items())[:_NAMES_MAX] if math.isfinite(number)}
