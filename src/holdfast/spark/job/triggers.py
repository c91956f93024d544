"""When a job runs its micro-batches, which is also how often it checkpoints: Spark commits state with every one."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import InvalidStep
from holdfast.model.time.timestamps import Duration

__all__ = ["AvailableNow", "Batches", "Every", "JobTrigger", "read_trigger"]


@dataclass(frozen=True)
class JobTrigger:
    """The base of the triggers."""


@dataclass(frozen=True)
class Every(JobTrigger):
    """A micro-batch every so often; 0: as soon as the last one is done."""

    interval: Duration | int | float | str = 0


@dataclass(frozen=True)
class AvailableNow(JobTrigger):
    """All that is there now, in as many micro-batches as the source makes of it; then the job ends.

    It is not the end of the input: state and timers stay for the next run.
    """


@dataclass(frozen=True)
class Batches(JobTrigger):
    """So many micro-batches, then the job ends: for tests."""

    count: int
    interval: Duration | int | float | str = 0


def _positive(interval: Duration) -> Duration:
    if interval.micros < 0:
        raise ValueError(interval)
    return interval


def read_trigger(given: JobTrigger | Duration | int | float | str | None) -> JobTrigger:
    """The trigger that a user gave: one of the classes, a duration, or None for as fast as possible."""
    if given is None:
        return Every(0)
    if isinstance(given, Batches) and (type(given.count) is not int or given.count < 1):
        raise InvalidStep("job", [f"The trigger {given!r} has no micro-batches: give a number from 1 on."])
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
        raise InvalidStep(
            "job", [f"{given!r} is not a valid trigger; use '10 seconds', 'available now' or hf.Batches(3)."]
        ) from None
