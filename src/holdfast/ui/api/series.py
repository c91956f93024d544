"""A history as columns for charts: one point for each micro-batch, or for several that follow each other.

Points that stand for several micro-batches begin at multiples of how many they are, so that a point that is complete never
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise

from pydantic import BaseModel

from holdfast.engine.stored.readable import visible
from holdfast.watch.records import BatchRecord, StepRecord

__all__ = ["POINTS_MAX", "Series", "SourceSeries", "StepSeries", "series_of"]

POINTS_MAX = 2_000
_STEPS_MAX = 50
_SOURCES_MAX = 50
_PHASES_MAX = 20
_NAME_MAX = 200

PHASES = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "commitBatch")
"""In the order in which they happen."""


class StepSeries(BaseModel):
    """What a step did and holds, point by point."""

    elements: list[int]
    outputs: list[int]
    late: list[int]
    dead_letters: list[int]
    timers_fired: list[int]
    timers: list[int]
    keys: list[int]
    state_bytes: list[int]


class SourceSeries(BaseModel):
    """What came of a source, and what was there and not read yet."""

    name: str
    rows: list[int]
    lag: list[int | None]


class Series(BaseModel):
    """Columns of equal length. Rates are rows per second; the other units are in the names."""

    version: int
    """Of the history: if it is the same, so is everything else."""
    rewrites: int
    """Another number if points that were told before do not hold any more: the job went back, or was replaced."""
    merged: int
    """How many micro-batches a point stands for."""
    batch: list[int]
    """The last micro-batch of each point."""
    at_ms: list[int]
    rows: list[int]
    arriving: list[float | None]
    """Rows per second since the micro-batch before began."""
    processed: list[float | None]
    """Rows per second while they were processed."""
    duration_ms: list[float]
    interval_ms: list[int | None]
    phases_ms: dict[str, list[float]]
    watermark_ms: list[int | None]
    event_ms_max: list[int | None]
    lag: list[int | None]
    """Records that were there and not read yet, of all sources that say so."""
    steps: dict[str, StepSeries]
    sources: list[SourceSeries]


def series_of(
    batches: Sequence[BatchRecord], version: int, rewrites: int = 0, *, since: int, points: int, whole: bool
) -> Series:
    """The newest points after a micro-batch; or with `whole` the whole history, merged so that it has at most so many."""
    merged = -(-len(batches) // points) if whole and batches else 1
    merged = max(merged, 1)
    spans = [list(group) for _, group in groupby(batches, lambda record: record.batch // merged)]
    kept = [span for span in spans if span[-1].batch > since][-points:]
    before = _starts(batches)
    records = [record for span in kept for record in span]
    return Series(
        version=version,
        rewrites=rewrites,
        merged=merged,
        batch=[span[-1].batch for span in kept],
        at_ms=[span[-1].at_ms for span in kept],
        rows=[_rows(span) for span in kept],
        arriving=[_rate(_rows(span), sum(before.get(record.batch, 0) for record in span)) for span in kept],
        processed=[_rate(_rows(span), sum(record.duration_ms for record in span)) for span in kept],
        duration_ms=[_mean(record.duration_ms for record in span) for span in kept],
        interval_ms=[span[-1].interval_ms for span in kept],
        phases_ms={
            visible(phase)[:_NAME_MAX]: [_mean(record.phases_ms.get(phase, 0) for record in span) for span in kept]
            for phase in _phases(records)
        },
        watermark_ms=[_watermark(span[-1]) for span in kept],
        event_ms_max=[span[-1].event_ms_max for span in kept],
        lag=[_lag(span[-1]) for span in kept],
        steps={visible(name)[:_NAME_MAX]: _step(kept, name) for name in _step_names(records)},
        sources=[_source(kept, number) for number in range(min(_sources(records), _SOURCES_MAX))],
    )


def _starts(batches: Sequence[BatchRecord]) -> dict[int, int]:
    """By micro-batch, the milliseconds since the one before began, in the same run."""
    return {
        record.batch: record.at_ms - before.at_ms
        for before, record in pairwise(batches)
        if record.run == before.run and record.batch == before.batch + 1
    }


def _rows(span: Iterable[BatchRecord]) -> int:
    return sum(record.rows for record in span)


def _rate(rows: int, millis: int) -> float | None:
    return round(rows * 1000 / millis, 3) if millis > 0 else None


def _mean(values: Iterable[int]) -> float:
    found = list(values)
    return round(sum(found) / len(found), 3) if found else 0.0


def _watermark(record: BatchRecord) -> int | None:
    """Spark's first one is 0: there is none yet."""
    return record.watermark_ms if record.watermark_ms is not None and record.watermark_ms > 0 else None


def _lag(record: BatchRecord) -> int | None:
    told = [source.lag for source in record.sources if source.lag is not None]
    return sum(told) if told else None


def _phases(records: Iterable[BatchRecord]) -> list[str]:
    found = {phase for record in records for phase in record.phases_ms}
    found.discard("triggerExecution")  # All of them together.
    known = [phase for phase in PHASES if phase in found]
    return [*known, *sorted(found - set(PHASES))][:_PHASES_MAX]


def _step_names(records: Iterable[BatchRecord]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record.steps))[:_STEPS_MAX]


def _step(spans: Sequence[Sequence[BatchRecord]], name: str) -> StepSeries:
    empty = StepRecord()

    def counted(counter: str) -> list[int]:
        return [sum(record.steps.get(name, empty).counters.get(counter, 0) for record in span) for span in spans]

    def held(what: Callable[[StepRecord], int]) -> list[int]:
        return [what(span[-1].steps.get(name, empty)) for span in spans]

    return StepSeries(
        elements=counted("elements"),
        outputs=counted("outputs"),
        late=counted("late"),
        dead_letters=counted("dead_letters"),
        timers_fired=counted("timers_fired"),
        timers=held(lambda step: step.timers),
        keys=held(lambda step: step.keys),
        state_bytes=held(lambda step: step.state_bytes),
    )


def _sources(records: Iterable[BatchRecord]) -> int:
    return max((len(record.sources) for record in records), default=0)


def _source(spans: Sequence[Sequence[BatchRecord]], number: int) -> SourceSeries:
    def of(record: BatchRecord) -> tuple[int, int | None]:
        found = record.sources[number] if number < len(record.sources) else None
        return (0, None) if found is None else (found.rows, found.lag)

    newest = next((span[-1].sources[number].name for span in reversed(spans) if number < len(span[-1].sources)), "")
    return SourceSeries(
        name=visible(newest)[:_NAME_MAX],
        rows=[sum(of(record)[0] for record in span) for span in spans],
        lag=[of(span[-1])[1] for span in spans],
    )
