"""A job that is too slow for its interval, and state that is slow to reach."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.watch.health.measuring import waits_for_state
from holdfast.watch.health.phases import phase_text
from holdfast.watch.health.recent import Recent, median
from holdfast.watch.health.report import Level, Symptom
from holdfast.watch.health.texts import cut, ms_text
from holdfast.watch.health.values import checkpoint_ms, level_of, update_ms
from holdfast.watch.records import BatchRecord

__all__ = ["slow_micro_batches", "slow_state_access"]

_CHECKPOINT_FLOOR_MS = 200
_BATCH_FLOOR_MS = 1_000


def slow_micro_batches(recent: Recent) -> Iterator[Symptom]:
    """Checkpoints that take longer than the interval; or, if they do not, micro-batches that do."""
    last = recent.history.last
    interval = last.interval_ms if last is not None else None
    if not recent.is_enough or not interval or interval <= 0:
        return
    limit = recent.thresholds.batch_ratio
    checkpoint, duration = recent.typical(checkpoint_ms), recent.typical(lambda batch: batch.duration_ms)
    if checkpoint is not None and checkpoint - interval >= _CHECKPOINT_FLOOR_MS:
        yield Symptom(
            name="slow_checkpoint",
            title="Checkpoint slower than the interval",
            level=max(level_of(checkpoint / interval, limit), Level.WARNING),
            evidence=(
                f"A checkpoint takes {ms_text(checkpoint)}, and a micro-batch is due every {ms_text(interval)} "
                f"(medians of {len(recent.window)} micro-batches). {_parts(recent)}"
            ),
            todo=(
                f"an interval of {ms_text(2 * checkpoint)} or more: trigger=hf.Every(...); faster storage for the "
                "checkpoint; holdfast advise says what an interval costs (docs/running-jobs.md#advise)"
            ),
            figures={"checkpoint_ms": checkpoint, "interval_ms": interval},
        )
        return
    level = Level.OK if duration is None else level_of(duration / interval, limit)
    if duration is not None and duration - interval >= _BATCH_FLOOR_MS and level >= Level.WARNING:
        yield Symptom(
            name="slow_micro_batch",
            title="Micro-batches slower than the interval",
            level=level,
            evidence=(
                f"A micro-batch takes {ms_text(duration)}, and one is due every {ms_text(interval)} "
                f"(medians of {len(recent.window)} micro-batches). {_parts(recent)}"
            ),
            todo=(
                "a longer interval (trigger=hf.Every(...)), more cores and partitions, or less work for each element "
                "(docs/running-jobs.md#advise)"
            ),
            figures={"duration_ms": duration, "interval_ms": interval},
        )


def _parts(recent: Recent) -> str:
    """What takes the most time of a micro-batch."""
    names = {name for batch in recent.window for name in batch.phases_ms}
    typical = {name: recent.typical(lambda batch, name=name: batch.phases_ms.get(name)) or 0 for name in names}  # type: ignore[misc]
    longest = sorted(typical, key=lambda name: -typical[name])[:2]
    told = ", ".join(f"{phase_text(name)} {ms_text(typical[name])}" for name in longest if typical[name] > 0)
    return f"Most of it: {told}." if told else ""


def slow_state_access(recent: Recent) -> Iterator[Symptom]:
    """Steps whose bundles wait for their state."""
    if not recent.is_enough or not waits_for_state(recent):
        return
    for step in recent.steps:
        records = recent.step_records(step)
        typical = median(ms for record in records if (ms := update_ms(record)) is not None)
        if typical is None or level_of(typical, recent.thresholds.update_ms) < Level.WARNING:
            continue
        opening = _of_a_bundle(recent.window, step, "open_micros")
        storing = _of_a_bundle(recent.window, step, "commit_micros")
        bundles = sum(record.counters.get("bundles", 0) for record in records)
        loads = sum(record.counters.get("loads", 0) + record.counters.get("catch_ups", 0) for record in records)
        reads = loads / bundles if bundles > 0 else 0.0
        yield Symptom(
            name="slow_state_access",
            title="Slow state access",
            level=level_of(typical, recent.thresholds.update_ms),
            evidence=(
                f"A bundle of {cut(step)} takes {ms_text(typical)} for its state: {ms_text(opening)} to open it and "
                f"{ms_text(storing)} to store what changed (medians of {len(records)} micro-batches). "
                f"{min(max(reads, 0), 1):.0%} of all bundles had to read state that their worker did not have."
            ),
            todo=_what_helps(opening, storing, reads),
            step=cut(step),
            figures={"update_ms": typical, "open_ms": opening, "commit_ms": storing, "read_share": reads},
        )


def _of_a_bundle(batches: list[BatchRecord], step: str, counter: str) -> float:
    found = []
    for batch in batches:
        counters = batch.steps[step].counters if step in batch.steps else {}
        if counters.get("bundles", 0) > 0:
            found.append(counters.get(counter, 0) / 1000 / counters["bundles"])
    return median(found) or 0.0


def _what_helps(opening: float, storing: float, reads: float) -> str:
    if opening > storing and reads > 0.1:
        return (
            "workers let go of state that they need again: raise the memory budget (spark.holdfast.memoryBudgetBytes, "
            "docs/spark.md#memory), or use backend='disk' (docs/backends.md)"
        )
    if opening > storing:
        return "more and so smaller key groups: key_groups=, holdfast rescale --key-groups (docs/operations.md#rescaling)"
    return (
        "less change in each micro-batch: smaller values, a combining cell instead of a bag (docs/state.md), more and so "
        "smaller key groups (holdfast rescale --key-groups), a faster disk for spark.local.dir"
    )
