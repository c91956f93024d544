"""Triggers of a job: when its micro-batches run. Spark commits state with each, so this is also how often it checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import InvalidStep
from holdfast.model.time.timestamps import Duration

__all__ = ["AvailableNow", "Batches", "Every", "JobTrigger", "TriggerLike", "read_trigger"]


@dataclass(frozen=True)
class JobTrigger:
    """The base class of a job's triggers."""


@dataclass(frozen=True)
class Every(JobTrigger):
    """A micro-batch at each interval; 0 means as soon as the last one is done."""

    interval: Duration | int | float | str = 0


@dataclass(frozen=True)
class AvailableNow(JobTrigger):
    """Processes everything available now, in as many micro-batches as the source makes of it; then the job ends.

    This is not the end of the input: state and timers stay for the next run.
    """


@dataclass(frozen=True)
class Batches(JobTrigger):
    """A fixed number of micro-batches, then the job ends: for tests."""

    count: int
    interval: Duration | int | float | str = 0


TriggerLike = JobTrigger | Duration | int | float | str | None
"""A trigger, or what stands for one: a duration, or None for as fast as possible."""


def _positive(interval: Duration) -> Duration:
    if interval.micros < 0:
        raise ValueError(interval)
    return interval


def read_trigger(given: TriggerLike) -> JobTrigger:
    """The trigger for what a user gave."""
    if given is None:
        return Every(0)
    if isinstance(given, Batches) and (type(given.count) is not int or given.count < 1):
        raise InvalidStep.of("trigger", [f"The trigger {given!r} has no micro-batches; give a count of at least 1."])
    if isinstance(given, JobTrigger):
        return given
    if isinstance(given, str) and given.replace("_", " ").lower() in (
        "available now",
        "once available",
        "availablenow",
    ):
        return AvailableNow()
    try:
        return Every(_positive(Duration.of(given)))
    except Exception:
        raise InvalidStep.of(
            "trigger", [f"{given!r} is not a valid trigger; use '10 seconds', 'available now' or hf.Batches(3)."]
        ) from None
