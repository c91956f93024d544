"""Advice from measurements: how large the state is and will be, how often to run, and which settings follow, and why.

It rests on two formulas:

    state size           keys x (bytes of a key + bytes of its values) x versions kept
    checkpoint interval  cost of a checkpoint / (duration of a micro-batch x tolerance), in micro-batches; the tolerance is
                         how many micro-batches may be repeated after a failure

Spark makes a checkpoint with every micro-batch. So the second formula says whether that is affordable (it is if the result
is 1 or less). How often to run follows from two bounds: not so often that checkpoints take too large a share of the time,
and not so rarely that repeating work after a failure takes too long.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from holdfast.engine.backends.heap import memory_estimate
from holdfast.ops.upkeep.measure import Measured, StepMeasured, measure

__all__ = ["Advice", "Goals", "Interval", "Recommendation", "StateSize", "advise", "advise_from"]

_DAY = 86400.0
_DELTAS = 10
"""Spark's default: it writes a snapshot after this many changelogs."""
_GROUP_BYTES = 16 << 20
_GROUPS_A_WORKER = 4
_GROUPS = 32
_FEW_KEYS = 50


@dataclass(frozen=True)
class Goals:
    """What the job should achieve."""

    interval_seconds: float | None = None
    """How often you want results; None means as often as now."""
    recovery_seconds: float = 60.0
    """How long repeating uncommitted work may take after a failure, not counting Spark's start."""
    overhead: float = 0.1
    """What share of the time checkpoints may take."""
    history_seconds: float = 3600.0
    """How far back you want to be able to go."""
    workers: int | None = None
    """The number of Python workers; None means one per core of this machine."""
    worker_bytes: int = 2 << 30
    """How much state a worker may keep in memory."""


@dataclass(frozen=True)
class StateSize:
    """The first formula, for a step."""

    step: str
    keys: int
    bytes_per_key: float
    versions: float
    """How many copies of the state there are, since older versions are kept. Less than one if it compresses well."""
    bytes: int
    bytes_in_a_day: int | None
    """If it keeps growing at this rate."""


@dataclass(frozen=True)
class Interval:
    """The second formula, and the resulting bounds."""

    cost_seconds: float
    duration_seconds: float
    tolerance: float
    """How many micro-batches may be repeated."""
    interval_batches: float
    shortest_seconds: float
    """With a shorter one, checkpoints take more than their share."""
    longest_seconds: float | None
    """With a longer one, recovery from a failure takes too long; None if any length will do, 0 if none."""


@dataclass(frozen=True)
class Recommendation:
    """A setting: its present value and the recommended one."""

    setting: str
    step: str | None
    now: str
    recommended: str
    why: str

    @property
    def is_a_change(self) -> bool:
        return self.now != self.recommended


@dataclass(frozen=True)
class Advice:
    """All that `holdfast advise` shows."""

    measured: Measured
    sizes: list[StateSize]
    interval: Interval | None
    """None if no micro-batch could be timed."""
    recommendations: list[Recommendation]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def advise(spark: SparkSession, checkpoint: str, goals: Goals | None = None) -> Advice:
    """Measures a checkpoint and recommends settings; read-only."""
    return advise_from(measure(spark, checkpoint), goals)


def advise_from(measured: Measured, goals: Goals | None = None) -> Advice:
    """Advice from known measurements."""
    goals = goals or Goals()
    interval = _interval(measured, goals)
    recommendations = [
        *_trigger(measured, interval, goals),
        *_retained(measured, interval, goals),
        *_deltas(measured, goals),
        *_partitions(measured, goals),
    ]
    for step in measured.steps:
        recommendations += [*_key_groups(step, measured, goals), *_backend(step, measured, goals), *_ttl(step, measured)]
    return Advice(measured, [_size(step, measured) for step in measured.steps], interval, recommendations)


def _size(step: StepMeasured, measured: Measured) -> StateSize:
    each = step.live_bytes / step.keys if step.keys else 0.0
    versions = step.file_bytes / step.live_bytes if step.live_bytes else 0.0
    grown = _keys_a_day(step, measured)
    later = None if grown is None else round(max(step.keys + grown, 0) * each * versions)
    return StateSize(step.step, step.keys, each, versions, round(step.keys * each * versions), later)


def _interval(measured: Measured, goals: Goals) -> Interval | None:
    cost, duration, every = measured.cost_seconds, measured.duration_seconds, measured.interval_seconds
    if cost is None or duration is None:
        return None
    tolerance = goals.recovery_seconds / duration
    work = _work(duration - cost, every or duration)
    left = goals.recovery_seconds - measured.restore_seconds - cost
    longest = None if not work else max(left / work, 0.0)
    return Interval(cost, duration, tolerance, cost / (duration * tolerance), cost / goals.overhead, longest)


def _work(seconds: float, every: float) -> float:
    """Seconds of work per second of input, besides the fixed cost of a micro-batch."""
    return max(seconds, 0.0) / every if every > 0 else 0.0


def _best(measured: Measured, interval: Interval | None, goals: Goals) -> float | None:
    """How often to run: as often as wanted, if the bounds allow it. If the bounds conflict, cost decides."""
    wanted = goals.interval_seconds or measured.interval_seconds
    if interval is None or wanted is None:
        return wanted
    longest = interval.longest_seconds
    best = max(wanted if longest is None else min(wanted, longest), interval.shortest_seconds)
    if 0.9 * wanted <= best <= 1.1 * wanted:
        return wanted
    return float(math.ceil(best)) if best > 10 else best


def _trigger(measured: Measured, interval: Interval | None, goals: Goals) -> Iterator[Recommendation]:
    every = measured.interval_seconds
    if interval is None or every is None:
        return
    wanted = goals.interval_seconds or every
    shortest, longest = interval.shortest_seconds, interval.longest_seconds
    share = interval.cost_seconds / max(wanted, interval.duration_seconds)
    why = (
        f"a micro-batch costs at least {_seconds(interval.cost_seconds)}, {share:.0%} of the time at an interval of "
        f"{_seconds(wanted)}; {goals.overhead:.0%} allows one every {_seconds(shortest)}"
    )
    if longest is not None and longest < shortest:
        why += (
            f". Recovery within {_seconds(goals.recovery_seconds)} would need one every {_seconds(longest)}: allow more "
            "time for recovery or for checkpoints, or add workers"
        )
    elif longest is not None:
        why += f"; recovery within {_seconds(goals.recovery_seconds)} allows up to {_seconds(longest)}"
    if interval.duration_seconds > 0.9 * every and wanted <= every:
        why += ". The job is busy nearly all the time: it runs as fast as it can, or it is falling behind"
    best = _best(measured, interval, goals) or wanted
    yield Recommendation("trigger=", None, f"about every {_seconds(every)}", f"about every {_seconds(best)}", why)


def _retained(measured: Measured, interval: Interval | None, goals: Goals) -> Iterator[Recommendation]:
    every = _best(measured, interval, goals)
    if not every:
        return
    count = max(math.ceil(goals.history_seconds / every), 10)
    each = sum(step.changelog_bytes for step in measured.steps)
    why = (
        f"to go back {_seconds(goals.history_seconds)} at one every {_seconds(every)}; a micro-batch takes {_bytes(each)}, "
        f"so they take {_bytes(count * each)}"
    )
    yield Recommendation("retained_batches=", None, f"{measured.batches} kept", str(count), why)


def _deltas(measured: Measured, goals: Goals) -> Iterator[Recommendation]:
    """How many changelogs to write between snapshots."""
    if not measured.restore_bytes or not measured.restore_seconds:
        return
    speed = measured.restore_bytes / measured.restore_seconds
    each = sum(step.changelog_bytes for step in measured.steps) / speed
    fits = int(goals.recovery_seconds / 4 / each) if each else _DELTAS
    count = min(max(fits, 2), _DELTAS)
    why = (
        f"recovery reads {_bytes(measured.restore_bytes)} in {_seconds(measured.restore_seconds)}; each changelog takes "
        f"{_seconds(each)} of it, and up to this many follow a snapshot"
    )
    yield Recommendation("spark.sql.streaming.stateStore.minDeltasForSnapshot", None, str(_DELTAS), str(count), why)


def _partitions(measured: Measured, goals: Goals) -> Iterator[Recommendation]:
    now, workers = measured.partitions, _workers(goals)
    groups, of = min(_groups_by_operator(measured), default=(now, "a step has"))
    best, why = now, f"{workers} workers share {now} partitions"
    if now > groups:
        best, why = groups, f"{of} {groups} key groups, so {now - groups} of {now} partitions have nothing to do"
    elif now < workers:
        best, why = min(workers, groups), f"only {now} of {workers} workers have a partition"
    elif now > 4 * workers:
        best, why = 2 * workers, f"{now} partitions for {workers} workers: each costs time in every micro-batch"
    uneven = max((step.largest_share for step in measured.steps), default=1.0)
    if uneven > 2:
        why += f". The largest partition has {uneven:.1f} times an even share: a few keys have most of the state"
    if best != now:
        why += ". On this checkpoint: holdfast rescale --partitions"
    yield Recommendation("spark.sql.shuffle.partitions", None, str(now), str(best), why)


def _groups_by_operator(measured: Measured) -> Iterator[tuple[int, str]]:
    """How many key groups each operator has, and who has them: those of all its steps share its partitions."""
    for operator in {step.operator for step in measured.steps}:
        groups = [step.key_groups for step in measured.steps if step.operator == operator]
        yield sum(groups), "a step has" if len(groups) == 1 else "steps that share an operator have"


def _key_groups(step: StepMeasured, measured: Measured, goals: Goals) -> Iterator[Recommendation]:
    now, workers = step.key_groups, _workers(goals)
    each = step.stored_bytes / now
    wanted = max(_GROUPS_A_WORKER * workers, math.ceil(step.stored_bytes / _GROUP_BYTES))
    best = _multiple(wanted, measured.partitions)
    why = f"{_bytes(each)} and {step.keys / now:,.0f} keys each, for {workers} workers"
    if each > 4 * _GROUP_BYTES:
        why += f"; a key group is read as a whole, and about {_bytes(_GROUP_BYTES)} is a good size"
    elif now < 2 * workers:
        why += "; a few times as many as workers spread the work evenly"
    elif now > _GROUPS and step.keys / now < _FEW_KEYS and now > 2 * best:
        why += "; each costs a little in every micro-batch, and they are nearly empty"
    else:
        best = now
    if best != now:
        why += ". On this checkpoint: holdfast rescale --key-groups"
    yield Recommendation("key_groups=", step.step, str(now), str(best), why)


def _backend(step: StepMeasured, measured: Measured, goals: Goals) -> Iterator[Recommendation]:
    if step.backend not in ("heap", "disk"):
        return
    share = min(_workers(goals), measured.partitions)
    each = memory_estimate(step.stored_bytes, step.entries) / share
    grown = _keys_a_day(step, measured)
    later = each if not step.keys or grown is None else each * max(1 + grown / step.keys, 0)
    worst = max(each, later)
    best = "disk" if worst > 0.75 * goals.worker_bytes else "heap" if worst < 0.25 * goals.worker_bytes else step.backend
    why = f"in memory it takes about {_bytes(each)} per worker, of {_bytes(goals.worker_bytes)}"
    if later > each * 1.5:
        why += f", and {_bytes(later)} in a day at the present growth"
    yield Recommendation("backend=", step.step, step.backend, best, why)


def _ttl(step: StepMeasured, measured: Measured) -> Iterator[Recommendation]:
    grown = _keys_a_day(step, measured)
    if step.is_windowed or not step.lasting_cells or not step.keys_per_batch or step.keys_per_batch < 0 or grown is None:
        return
    why = (
        f"every micro-batch adds {step.keys_per_batch:,.1f} keys, {grown:,.0f} a day, and nothing removes them; with a TTL "
        f"of a day there would be about {grown:,.0f} at most"
    )
    yield Recommendation("ttl=", step.step, "none", f"on {', '.join(step.lasting_cells)}", why)


def _keys_a_day(step: StepMeasured, measured: Measured) -> float | None:
    if step.keys_per_batch is None or not measured.interval_seconds:
        return None
    return step.keys_per_batch * _DAY / measured.interval_seconds


def _workers(goals: Goals) -> int:
    return goals.workers or os.cpu_count() or 1


def _multiple(number: int, of: int) -> int:
    return math.ceil(number / of) * of


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bytes(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
