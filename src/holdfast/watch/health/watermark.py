"""A watermark that stands still while rows come: timers, windows and event-time TTLs wait for it, and state stays."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.watch.health.recent import Recent, has_input
from holdfast.watch.health.report import Level, Symptom
from holdfast.watch.health.texts import cut, ms_text, time_text
from holdfast.watch.records import BatchRecord

__all__ = ["idle_watermark"]

_BATCHES_MIN = 8
_CRITICAL = 10
"""So many times the threshold is critical."""


def idle_watermark(recent: Recent) -> Iterator[Symptom]:
    standing = _standing(recent)
    if len(standing) < _BATCHES_MIN:
        return
    span = standing[-1].at_ms - standing[0].at_ms
    threshold = recent.thresholds.idle_ms
    if span < threshold:
        return
    reason, todo = _reason(recent, standing)
    if not reason:
        return
    watermark = standing[-1].watermark_ms or 0
    since = f"at {time_text(watermark)}" if watermark else "at its beginning"
    yield Symptom(
        name="idle_watermark",
        title="The watermark stands still",
        level=Level.CRITICAL if span >= _CRITICAL * threshold else Level.WARNING,
        evidence=f"It stands {since} for {ms_text(span)} and {len(standing)} micro-batches with rows. {reason}",
        todo=todo,
        figures={"ms": span, "micro_batches": len(standing), "watermark_ms": watermark},
    )


def _standing(recent: Recent) -> list[BatchRecord]:
    """The newest micro-batches with input that all have one and the same watermark."""
    found: list[BatchRecord] = []
    for batch in reversed(recent.history.batches):
        if not has_input(batch):
            continue
        if not _has_watermark(batch) or (found and (batch.watermark_ms or 0) != (found[-1].watermark_ms or 0)):
            break
        found.append(batch)
    return found[::-1]


def _has_watermark(batch: BatchRecord) -> bool:
    """Also one that has not moved yet: then there are event times, but no watermark is told."""
    return batch.watermark_ms is not None or batch.event_ms_max is not None


def _reason(recent: Recent, standing: list[BatchRecord]) -> tuple[str, str]:
    """Why it stands, and what to do; nothing if time itself stands still, as in data with one time for a whole day."""
    idle = _idle_sources(standing)
    if idle:
        named = ", ".join(cut(name) for name in idle[:3])
        return (
            f"No rows came from {named}, and Spark's watermark is that of the slowest source.",
            "let that source send something now and then, or set spark.sql.streaming.multipleWatermarkPolicy to max if rows "
            "of the others may then be late (docs/health.md#the-watermark-stands-still)",
        )
    events = [batch.event_ms_max for batch in standing if batch.event_ms_max is not None]
    if not events:
        return (
            "Which event times came is not known.",
            "check the column of event times, and that each source has a watermark (docs/spark.md)",
        )
    ahead = max((b.event_ms_max for b in recent.history.batches if b.event_ms_max is not None), default=0)
    if max(events) < ahead:
        return (
            f"An event of {time_text(ahead)} moved it ahead of all others, the latest of {time_text(max(events))}.",
            "drop rows with times in the future before the watermark is taken: df.where('time < now()') "
            "(docs/health.md#the-watermark-stands-still)",
        )
    if max(events) > min(events):
        return (
            f"Event times moved on, from {time_text(min(events))} to {time_text(max(events))}.",
            "check the delay of the watermark, and that no other source holds it back "
            "(docs/health.md#the-watermark-stands-still)",
        )
    return "", ""


def _idle_sources(standing: list[BatchRecord]) -> list[str]:
    """Sources that gave nothing all the time, while another did."""
    rows: dict[str, int] = {}
    for batch in standing:
        for number, source in enumerate(batch.sources):
            # Two sources may have the same description.
            name = f"{source.name} (source {number})"
            rows[name] = rows.get(name, 0) + max(source.rows, 0)
    return [name for name, count in rows.items() if not count] if any(rows.values()) else []
