"""The measures of a job: one number each, with its thresholds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.watch.health.recent import Recent, median
from holdfast.watch.health.report import Level, Measure
from holdfast.watch.health.texts import cut, text_in
from holdfast.watch.health.thresholds import Limit
from holdfast.watch.health.values import checkpoint_ms, cleanup_ms, level_of, source_lag, state_bytes, state_share, update_ms
from holdfast.watch.records import BatchRecord

__all__ = ["failures", "measures_of", "waits_for_state"]

_LATEST = 5
_BATCH_FLOOR_MS = 1_000
_STATE_SHARE_MIN = 0.1


@dataclass(frozen=True)
class _Found:
    """A value, and whether it can be judged."""

    value: float | None
    is_judged: bool = True
    of: str = ""


def measures_of(recent: Recent) -> list[Measure]:
    """All measures, in the order in which they are shown."""
    return [_measure(recent, *each) for each in _MEASURES]


def _measure(recent: Recent, name: str, title: str, unit: str, find: Callable[[Recent], _Found], todo: str) -> Measure:
    limit: Limit = getattr(recent.thresholds, name)
    found = find(recent)
    level = Level.UNKNOWN if found.value is None else level_of(found.value, limit) if found.is_judged else Level.OK
    if level != Level.UNKNOWN and found.value is not None and name in _BY_MEDIAN and not recent.is_enough:
        level = Level.UNKNOWN
    text = text_in(unit, found.value)
    return Measure(
        name=name,
        title=title,
        value=found.value,
        text=text,
        level=level,
        warning=limit.warning,
        critical=limit.critical,
        unit=unit,
        todo=todo if level >= Level.WARNING else "",
        of=found.of,
    )


def _state(recent: Recent) -> _Found:
    last = recent.history.last
    return _Found(None if last is None else state_bytes(last))


def _slowest_update(recent: Recent) -> _Found:
    by_step = {}
    for step in recent.steps:
        typical = median(ms for record in recent.step_records(step) if (ms := update_ms(record)) is not None)
        if typical is not None:
            by_step[step] = typical
    if not by_step:
        return _Found(None)
    slowest = max(by_step, key=lambda step: by_step[step])
    return _Found(by_step[slowest], waits_for_state(recent), cut(slowest))


def waits_for_state(recent: Recent) -> bool:
    """Whether state takes a fair share of a micro-batch. On a busy machine everything is slow, which is not the state's
    fault."""
    share = recent.typical(state_share)
    return share is None or share >= _STATE_SHARE_MIN


def _memory(recent: Recent) -> _Found:
    newest = [batch for batch in recent.history.batches if batch.workers][-_LATEST:]
    return _Found(median(max(worker.memory_bytes for worker in batch.workers) for batch in newest))


def _watermark_lag(recent: Recent) -> _Found:
    last = recent.history.last
    events = [batch.event_ms_max for batch in recent.history.batches if batch.event_ms_max is not None]
    # Spark's watermark begins at 1970, which says nothing.
    if last is None or not last.watermark_ms or not events:
        return _Found(None)
    return _Found(max(max(events[-recent.thresholds.window_batches :]) - last.watermark_ms, 0))


def _source_lag(recent: Recent) -> _Found:
    return _Found(median(lag for batch in recent.history.batches[-_LATEST:] if (lag := source_lag(batch)) is not None))


def _share(*counters: str) -> Callable[[Recent], _Found]:
    """The share of elements that these counters count, in the step where it is highest."""

    def find(recent: Recent) -> _Found:
        found: list[tuple[float, bool, str]] = []
        for step in recent.steps:
            records = recent.step_records(step)
            elements = sum(record.counters.get("elements", 0) for record in records)
            counted = sum(record.counters.get(counter, 0) for record in records for counter in counters)
            if elements > 0:
                share = min(max(counted / elements, 0.0), 1.0)
                found.append((share, elements >= recent.thresholds.elements_min, cut(step)))
        if not found:
            return _Found(None)
        share, is_judged, step = max(found)
        return _Found(share, is_judged, step if share else "")

    return find


def _skew(recent: Recent) -> _Found:
    found = max(recent.busiest_groups.values(), key=lambda found: found.ratio, default=None)
    if found is None or not found.groups:
        return _Found(None)
    return _Found(found.ratio, found.is_judged, f"group {found.label} of {cut(found.step)}")


def _hot_key(recent: Recent) -> _Found:
    found = max(recent.hottest_keys.values(), key=lambda found: found.share, default=None)
    if found is None or not found.key:
        return _Found(None)
    return _Found(found.share, found.is_judged, f"{cut(found.key, 40)} in {cut(found.step)}")


def _batch_ratio(recent: Recent) -> _Found:
    last = recent.history.last
    duration = recent.typical(lambda batch: batch.duration_ms)
    if last is None or not last.interval_ms or last.interval_ms < 0 or duration is None:
        return _Found(None)
    return _Found(duration / last.interval_ms, duration - last.interval_ms >= _BATCH_FLOOR_MS)


def failures(recent: Recent) -> Iterator[str]:
    """What each failure of late was, in a line: one that was told, or a start that no end came before."""
    begin = recent.at_ms - recent.thresholds.failures_ms
    before = None
    for event in recent.history.events:
        if event.at_ms >= begin:
            if event.event == "failed":
                yield cut(event.text.strip().partition("\n")[0], 160) or "it failed"
            elif event.event == "started" and before == "started":
                yield "it was killed, or its machine stopped: it started without having ended"
        before = event.event


def _failures(recent: Recent) -> _Found:
    # A history that was cut may begin anywhere, but an empty one tells nothing.
    if not recent.history.events:
        return _Found(0 if recent.history.batches else None)
    return _Found(sum(1 for _ in failures(recent)))


def _typical(of: Callable[[BatchRecord], float | None]) -> Callable[[Recent], _Found]:
    return lambda recent: _Found(recent.typical(of))


_BY_MEDIAN = {"checkpoint_ms", "update_ms", "cleanup_ms", "batch_ratio", "skew", "hot_key_share"}

_MEASURES: tuple[tuple[str, str, str, Callable[[Recent], _Found], str], ...] = (
    (
        "state_bytes",
        "State size",
        "bytes",
        _state,
        "let state end by itself: a TTL on its cells (docs/state.md), windows, timers, limits= (docs/limits.md); "
        "or keep it with backend='disk' (docs/backends.md)",
    ),
    (
        "checkpoint_ms",
        "Checkpoint duration",
        "ms",
        _typical(checkpoint_ms),
        "a longer interval (trigger=hf.Every(...)), faster storage; see holdfast advise (docs/running-jobs.md)",
    ),
    (
        "update_ms",
        "State update latency",
        "ms",
        _slowest_update,
        "more key groups (key_groups=), a larger memory budget (spark.holdfast.memoryBudgetBytes, docs/spark.md)",
    ),
    (
        "cleanup_ms",
        "Clean-up time",
        "ms",
        _typical(cleanup_ms),
        "shorter micro-batches, so that less expires in each; coarser windows or a shorter ttl= (docs/state.md)",
    ),
    (
        "memory_bytes",
        "Memory of a worker",
        "bytes",
        _memory,
        "a smaller memory budget (hf.Job(memory_budget_bytes=...), docs/spark.md), or backend='disk' (docs/backends.md)",
    ),
    (
        "batch_ratio",
        "Duration over interval",
        "ratio",
        _batch_ratio,
        "a longer interval (trigger=hf.Every(...)), or less work in a micro-batch: holdfast advise (docs/running-jobs.md)",
    ),
    (
        "watermark_lag_ms",
        "Watermark lag",
        "ms",
        _watermark_lag,
        "a shorter delay of the watermark, or a look at the source that holds it back (docs/health.md)",
    ),
    (
        "source_lag",
        "Source lag",
        "records",
        _source_lag,
        "more cores or partitions, or fewer records each time so that micro-batches stay short (docs/kafka.md)",
    ),
    (
        "late_share",
        "Late elements",
        "share",
        _share("late"),
        "a longer delay of the watermark or allowed_lateness=; name the output 'late' to keep them (docs/windows.md)",
    ),
    (
        "dropped_share",
        "Dropped elements",
        "share",
        _share("dead_letters", "over_limit"),
        "look at the outputs 'dead_letter' and 'over_limit' (docs/limits.md, docs/errors.md)",
    ),
    (
        "skew",
        "Skew of key groups",
        "ratio",
        _skew,
        "more key groups (holdfast rescale --key-groups), or another key (docs/limits.md#hot-keys)",
    ),
    (
        "hot_key_share",
        "Hottest key",
        "share",
        _hot_key,
        "divide the key, or aggregate before it: combine_per_key combines before the shuffle (docs/aggregations.md)",
    ),
    (
        "failures",
        "Failures, last hour",
        "times",
        _failures,
        "see the error of the last one, in the job's output and in holdfast health (docs/running-jobs.md)",
    ),
)
