"""The metrics that leave a job: their names for Prometheus and for OpenTelemetry, their units, and what they mean.

Labels are bounded: job, step, source, phase, symptom, and the names that a function gave its own counters; never a key.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["METRICS", "Metric", "Reading"]


class Metric(NamedTuple):
    """One metric. In Prometheus a counter has `_total` after its name."""

    name: str
    kind: Literal["gauge", "counter"]
    otel_name: str
    otel_unit: str
    """As UCUM has it."""
    help: str
    labels: tuple[str, ...] = ("job",)


class Reading(NamedTuple):
    """The value of a metric for some labels, in the order in which the metric has them."""

    metric: str
    labels: tuple[str, ...]
    value: float


_STEP = ("job", "step")

_ALL = (
    Metric("holdfast_health_level", "gauge", "holdfast.health.level", "1", "0 ok, 1 unknown, 2 warning, 3 critical."),
    Metric(
        "holdfast_symptom_level",
        "gauge",
        "holdfast.symptom.level",
        "1",
        "A symptom that the job has now, 2 a warning, 3 critical.",
        ("job", "symptom", "step"),
    ),
    Metric("holdfast_batch_id", "gauge", "holdfast.batch.id", "1", "The last committed micro-batch."),
    Metric("holdfast_batch_duration_seconds", "gauge", "holdfast.batch.duration", "s", "Duration of the last micro-batch."),
    Metric(
        "holdfast_batch_phase_seconds",
        "gauge",
        "holdfast.batch.phase.duration",
        "s",
        "Duration of a phase of the last micro-batch, by Spark's names.",
        ("job", "phase"),
    ),
    Metric("holdfast_batch_interval_seconds", "gauge", "holdfast.batch.interval", "s", "Interval of the job's trigger."),
    Metric("holdfast_batch_rows", "gauge", "holdfast.batch.rows", "{row}", "Rows of the last micro-batch."),
    Metric(
        "holdfast_batch_timestamp_seconds",
        "gauge",
        "holdfast.batch.time",
        "s",
        "When the last micro-batch began, in seconds since 1970.",
    ),
    Metric(
        "holdfast_checkpoint_duration_seconds",
        "gauge",
        "holdfast.checkpoint.duration",
        "s",
        "Making the last micro-batch durable.",
    ),
    Metric(
        "holdfast_cleanup_duration_seconds",
        "gauge",
        "holdfast.cleanup.duration",
        "s",
        "Removing what expired in the last one.",
    ),
    Metric(
        "holdfast_watermark_timestamp_seconds",
        "gauge",
        "holdfast.watermark.time",
        "s",
        "The watermark, in seconds since 1970.",
    ),
    Metric(
        "holdfast_watermark_lag_seconds",
        "gauge",
        "holdfast.watermark.lag",
        "s",
        "How far the watermark is behind the latest event time.",
    ),
    Metric(
        "holdfast_source_lag_records",
        "gauge",
        "holdfast.source.lag",
        "{record}",
        "Records that are there and not read yet.",
        ("job", "source"),
    ),
    Metric("holdfast_workers", "gauge", "holdfast.workers", "{process}", "Python processes of the last micro-batch."),
    Metric("holdfast_worker_memory_bytes", "gauge", "holdfast.worker.memory", "By", "Memory of the largest worker."),
    Metric("holdfast_state_bytes", "gauge", "holdfast.state.size", "By", "Size of the stored state.", _STEP),
    Metric("holdfast_state_keys", "gauge", "holdfast.state.keys", "{key}", "Keys that have state.", _STEP),
    Metric("holdfast_timers", "gauge", "holdfast.timers", "{timer}", "Timers that are set.", _STEP),
    Metric(
        "holdfast_state_update_seconds",
        "gauge",
        "holdfast.state.update.duration",
        "s",
        "What a bundle takes to open and store its state.",
        _STEP,
    ),
    Metric("holdfast_batches", "counter", "holdfast.batches", "{batch}", "Micro-batches."),
    Metric("holdfast_batch_busy_seconds", "counter", "holdfast.batch.busy", "s", "Durations of all micro-batches."),
    Metric("holdfast_rows", "counter", "holdfast.rows", "{row}", "Rows that were read."),
    Metric("holdfast_starts", "counter", "holdfast.starts", "1", "Starts of the query."),
    Metric("holdfast_failures", "counter", "holdfast.failures", "1", "Failures of the query."),
    Metric("holdfast_elements", "counter", "holdfast.elements", "{element}", "Elements of a step.", _STEP),
    Metric("holdfast_late_elements", "counter", "holdfast.elements.late", "{element}", "Elements that were late.", _STEP),
    Metric("holdfast_dead_letters", "counter", "holdfast.dead_letters", "{element}", "Elements whose call raised.", _STEP),
    Metric(
        "holdfast_over_limit_elements",
        "counter",
        "holdfast.elements.over_limit",
        "{element}",
        "Elements that were diverted because of a limit.",
        _STEP,
    ),
    Metric("holdfast_keys_evicted", "counter", "holdfast.keys.evicted", "{key}", "Keys removed because of a limit.", _STEP),
    Metric("holdfast_timers_fired", "counter", "holdfast.timers.fired", "{timer}", "Timers that fired.", _STEP),
    Metric(
        "holdfast_user_counts",
        "counter",
        "holdfast.user.counts",
        "1",
        "What a function counts itself.",
        ("job", "step", "name"),
    ),
)

METRICS = {metric.name: metric for metric in _ALL}
"""By name."""
