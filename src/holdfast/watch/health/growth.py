"""What grows without end: state, and what a source has left to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.watch.health.recent import Recent, quarters, rises
from holdfast.watch.health.report import Level, Symptom
from holdfast.watch.health.texts import bytes_text, count_text, cut, ms_text
from holdfast.watch.health.values import source_lag, state_bytes
from holdfast.watch.records import BatchRecord, StepRecord

__all__ = ["falling_behind", "state_explosion"]

_KEYS_FACTOR = 1.1
_BYTES_FACTOR = 3.0
"""The stored log of a state that does not grow is up to twice as large as its snapshot, so bytes must grow by more."""
_BYTES_OF_A_KEY = 100
"""A guess, where only keys are told."""
_SOON = 12
"""What comes within this part of the horizon is critical."""
_BATCHES_BEHIND = 10

_TODO = (
    "let keys end: ttl= on the step's cells (docs/state.md#state-that-goes-by-itself), windows instead of the global one "
    "(docs/windows.md), a timer that clears them (docs/timers.md); limits= caps them meanwhile (docs/limits.md)"
)
_TODO_BYTES = (
    "bound what a key keeps: ttl= on bags, maps and lists (docs/state.md#state-that-goes-by-itself), a combining cell "
    "instead of a bag, limits=hf.Limits(max_bag_size=..., max_bytes_per_key=...) (docs/limits.md)"
)


@dataclass(frozen=True)
class _Growth:
    """How a step's state grows: keys or bytes."""

    step: str
    what: str
    first: float
    last: float
    per_ms: float
    bytes_per_ms: float
    span_ms: int
    record: StepRecord


def state_explosion(recent: Recent) -> Iterator[Symptom]:
    """Steps whose state has grown for long, still does, and would soon be too large; the fastest first."""
    growing = [growth for step in recent.steps if (growth := _growth(recent, step)) is not None]
    for growth in sorted(growing, key=lambda growth: -growth.bytes_per_ms):
        symptom = _explosion(recent, growth)
        if symptom is not None:
            yield symptom


def _growth(recent: Recent, step: str) -> _Growth | None:
    thresholds = recent.thresholds
    keys = _rising(recent, step, lambda record: record.keys, _KEYS_FACTOR, thresholds.growth_keys_min)
    if keys is not None:
        of_a_key = keys.record.state_bytes / keys.record.keys if keys.record.keys > 0 else 0
        return _Growth(**{**vars(keys), "what": "keys", "bytes_per_ms": keys.per_ms * (of_a_key or _BYTES_OF_A_KEY)})
    return _rising(recent, step, lambda record: record.state_bytes, _BYTES_FACTOR, thresholds.growth_bytes_min)


def _rising(recent: Recent, step: str, of: Callable[[StepRecord], int], factor: float, at_least: int) -> _Growth | None:
    """The growth of a step, if what it has rises, also when looked at for longer."""
    trend = [batch for batch in recent.trend(recent.thresholds.growth_ms) if step in batch.steps]
    if any(batch.steps[step].partial for batch in trend):
        # It is not the state that grows, but what is known of it.
        return None
    medians = rises(_series(trend, step, of))
    if medians is None or rises(_series(recent.long_trend(), step, of)) is None:
        return None
    first, last = medians[0], medians[-1]
    if last < factor * first or last - first < at_least:
        return None
    span = max(trend[-1].at_ms - trend[0].at_ms, 1)
    per_ms = _per_ms(trend, last - first)
    return _Growth(step, "bytes", first, last, per_ms, per_ms, span, trend[-1].steps[step])


def _per_ms(trend: Sequence[BatchRecord], rise: float) -> float:
    """A rise from the median of the first quarter to that of the last, over the time between them."""
    times = quarters([batch.at_ms for batch in trend])
    return rise / max(times[-1] - times[0], 1)


def _series(batches: Sequence[BatchRecord], step: str, of: Callable[[StepRecord], int]) -> list[float]:
    return [of(batch.steps[step]) for batch in batches if step in batch.steps]


def _explosion(recent: Recent, growth: _Growth) -> Symptom | None:
    limit, horizon = recent.thresholds.state_bytes.critical, recent.thresholds.growth_horizon_ms
    last = recent.history.last
    total = (state_bytes(last) if last is not None else None) or 0
    left_ms = None if limit is None else max(limit - total, 0) / growth.bytes_per_ms
    if left_ms is not None and left_ms > horizon:
        return None
    told = count_text if growth.what == "keys" else bytes_text
    a_minute = f"{told(growth.per_ms * 60_000)}{' keys' if growth.what == 'keys' else ''} a minute"
    evidence = (
        f"{cut(growth.step)} has {told(growth.last)}{' keys' if growth.what == 'keys' else ''}, {a_minute} more for "
        f"{ms_text(growth.span_ms)}, and {bytes_text(growth.record.state_bytes)} of state."
    )
    if left_ms is not None and limit is not None:
        when = f"in {ms_text(left_ms)}" if left_ms > 0 else "already"
        evidence += f" At this rate all state is over {bytes_text(limit)} {when}."
    heaviest = growth.record.heavy[0] if growth.record.heavy else None
    if growth.what == "bytes" and heaviest is not None:
        evidence += f" The largest key that was measured is {cut(heaviest.key, 40)}, with {bytes_text(heaviest.count)}."
    return Symptom(
        name="state_explosion",
        title="State explosion",
        level=Level.CRITICAL if left_ms is not None and left_ms * _SOON <= horizon else Level.WARNING,
        evidence=evidence,
        todo=_TODO if growth.what == "keys" else _TODO_BYTES,
        step=cut(growth.step),
        key=cut(heaviest.key, 40) if growth.what == "bytes" and heaviest is not None else None,
        figures={
            growth.what: growth.last,
            f"{growth.what}_a_minute": growth.per_ms * 60_000,
            "bytes_a_minute": growth.bytes_per_ms * 60_000,
            **({} if left_ms is None else {"ms_left": left_ms}),
        },
    )


def falling_behind(recent: Recent) -> Iterator[Symptom]:
    """What the sources have left to read grows and grows."""
    trend = recent.trend(recent.thresholds.growth_ms)
    medians = rises([lag for batch in trend if (lag := source_lag(batch)) is not None])
    rows = recent.typical(lambda batch: batch.rows)
    if medians is None or not rows:
        return
    rise = medians[-1] - medians[0]
    if rise < max(_BATCHES_BEHIND * rows, 0.1 * medians[0], recent.thresholds.elements_min):
        return
    span = max(trend[-1].at_ms - trend[0].at_ms, 1)
    a_minute = _per_ms(trend, rise) * 60_000
    worst = max(trend[-1].sources, key=lambda source: source.lag or 0, default=None)
    of = f", most of them in {cut(worst.name)}" if worst is not None and worst.lag else ""
    yield Symptom(
        name="falling_behind",
        title="Falling behind its sources",
        level=Level.WARNING,
        evidence=(
            f"{count_text(medians[-1])} records wait to be read{of}, {count_text(a_minute)} a minute more for "
            f"{ms_text(span)}; a micro-batch reads {count_text(rows)}."
        ),
        todo=(
            "more cores, partitions and key groups (holdfast advise, holdfast rescale), or less work for each element; "
            "see which phase takes the time: holdfast top"
        ),
        figures={"source_lag": medians[-1], "records_a_minute": a_minute, "rows": rows},
    )
