"""Flink's words for a job's options, and what they are here. Each function adds what is wrong to `problems`."""

from __future__ import annotations

import os
from datetime import timedelta

from holdfast.checkpoint.files.paths import local_path
from holdfast.engine.backends.choice import BACKENDS, BackendName, own_backend
from holdfast.errors import HoldfastError
from holdfast.model.time.timestamps import Duration
from holdfast.spark.job.triggers import Every, JobTrigger, TriggerLike, read_trigger

__all__ = ["Span", "backend_of_job", "failures_of", "pause_seconds", "state_dir_of", "trigger_of"]

Span = Duration | timedelta | str
"""A span of time with its unit: numbers are milliseconds in Flink and seconds here, so a bare one is refused."""


def trigger_of(trigger: TriggerLike, checkpoint_interval: Span | None, problems: list[str]) -> JobTrigger:
    """The trigger, which a checkpoint interval is another word for."""
    if checkpoint_interval is None:
        return read_trigger(trigger)
    if trigger is not None:
        problems.append(_twice("trigger", trigger, "checkpoint_interval", checkpoint_interval))
    interval = _span("checkpoint_interval", checkpoint_interval, problems)
    return Every(0 if interval is None else interval)


def failures_of(tolerated_failures: int | None, tolerable_failures: int | None, problems: list[str]) -> int:
    """How many failures in a row are tolerated. What they are is checked with the other options."""
    if tolerated_failures is not None and tolerable_failures is not None:
        problems.append(_twice("tolerated_failures", tolerated_failures, "tolerable_failures", tolerable_failures))
    given = tolerated_failures if tolerable_failures is None else tolerable_failures
    return 0 if given is None else given


def pause_seconds(min_pause: Span | None, problems: list[str]) -> float:
    """The shortest pause between two micro-batches."""
    pause = None if min_pause is None else _span("min_pause", min_pause, problems)
    return 0.0 if pause is None else float(pause)


def backend_of_job(backend: object, problems: list[str]) -> BackendName | None:
    """The backend of steps that have not named one."""
    found = own_backend(backend) if isinstance(backend, str) else None
    if backend is not None and found is None:
        problems.append(
            f"backend is {backend!r}; that of a job can be {' or '.join(map(repr, BACKENDS))}. Give a backend of your own "
            "to the steps that are to have it: par_do(..., backend=...)."
        )
    return found


def state_dir_of(state_dir: object, problems: list[str]) -> str | None:
    """The directory for the disk backend's working files."""
    if state_dir is None:
        return None
    if not isinstance(state_dir, (str, os.PathLike)) or not str(state_dir):
        problems.append(f"state_dir is {state_dir!r}; give the path of a directory.")
        return None
    path = local_path(str(state_dir))
    if path is None:
        problems.append(
            f"state_dir is {str(state_dir)!r}, which is no local path: working files are on the workers' own disks. What is "
            "to last is in the checkpoint."
        )
        return None
    if not path.is_absolute():
        problems.append(f"state_dir is {str(state_dir)!r}; give an absolute path, which every worker understands.")
    return str(path)


def _twice(ours: str, our_value: object, flinks: str, flinks_value: object) -> str:
    return f"{ours}={our_value!r} and {flinks}={flinks_value!r} are two words for one thing: give one of them."


def _span(name: str, given: object, problems: list[str]) -> Duration | None:
    if not isinstance(given, (str, timedelta, Duration)):
        problems.append(
            f"{name} is {given!r}; give the unit with it, such as '30 seconds' or hf.Duration.of_millis(30_000): a bare "
            "number is milliseconds in Flink, and seconds here."
        )
        return None
    try:
        span = Duration.of(given)
    except HoldfastError:
        span = Duration(-1)
    if span.micros < 0:
        problems.append(f"{name} is {given!r}, which is no span of time; give one such as '30 seconds'.")
    return span
