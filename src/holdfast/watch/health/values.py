"""What a micro-batch has that can be measured, and how a value stands to its limit."""

from __future__ import annotations

from holdfast.watch.health.report import Level
from holdfast.watch.health.thresholds import Limit
from holdfast.watch.records import BatchRecord, StepRecord

__all__ = ["checkpoint_ms", "cleanup_ms", "level_of", "source_lag", "state_bytes", "state_share", "update_ms"]

_COMMITTING = ("walCommit", "commitOffsets", "commitBatch")


def level_of(value: float, limit: Limit) -> Level:
    if limit.critical is not None and value > limit.critical:
        return Level.CRITICAL
    return Level.WARNING if limit.warning is not None and value >= limit.warning else Level.OK


def state_bytes(batch: BatchRecord) -> int | None:
    """As the steps tell it; or, without steps, as Spark does."""
    if any(step.state_bytes or step.keys for step in batch.steps.values()):
        return sum(step.state_bytes for step in batch.steps.values())
    operators = batch.operators
    return sum(operator.disk_bytes or operator.memory_bytes for operator in operators) if operators else None


def checkpoint_ms(batch: BatchRecord) -> float | None:
    """What it took to store the state in the workers, to commit Spark's state stores, and to write Spark's logs. What is
    summed over tasks that run at the same time counts once."""
    if not batch.phases_ms and not batch.operators:
        return None
    logs = sum(batch.phases_ms.get(phase, 0) for phase in _COMMITTING)
    stores = sum(operator.commit_ms / max(operator.partitions, 1) for operator in batch.operators)
    return logs + stores + _in_workers(batch, "commit_micros")


def cleanup_ms(batch: BatchRecord) -> float | None:
    """What it took to find and remove what has expired."""
    if not batch.operators and not batch.steps:
        return None
    stores = sum(operator.remove_ms / max(operator.partitions, 1) for operator in batch.operators)
    return stores + _in_workers(batch, "sweep_micros")


def _in_workers(batch: BatchRecord, counter: str) -> float:
    """Milliseconds of a counter of all steps, shared by the workers, which run at the same time."""
    micros = sum(step.counters.get(counter, 0) for step in batch.steps.values())
    return micros / 1000 / max(len(batch.workers), 1)


def update_ms(step: StepRecord) -> float | None:
    """What a bundle of a step took, on average, to open its state and to store what changed."""
    bundles = step.counters.get("bundles", 0)
    if bundles <= 0:
        return None
    return (step.counters.get("open_micros", 0) + step.counters.get("commit_micros", 0)) / 1000 / bundles


def state_share(batch: BatchRecord) -> float | None:
    """How much of a micro-batch its workers spend on opening and storing state; None if its duration is not known."""
    if batch.duration_ms <= 0:
        return None
    return (_in_workers(batch, "open_micros") + _in_workers(batch, "commit_micros")) / batch.duration_ms


def source_lag(batch: BatchRecord) -> int | None:
    lags = [source.lag for source in batch.sources if source.lag is not None]
    return sum(lags) if lags else None
