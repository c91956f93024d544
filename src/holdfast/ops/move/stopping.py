"""Stops a running job from outside, at a micro-batch boundary, optionally with a savepoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from holdfast.checkpoint.destination import check_apart
from holdfast.checkpoint.files.choice import files_of, is_local
from holdfast.checkpoint.host import this_process
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.lock import LockInfo, current_lock
from holdfast.checkpoint.presence import ask_to_stop, take_back
from holdfast.checkpoint.registry import copied_from
from holdfast.checkpoint.running import find_running
from holdfast.errors import CheckpointError, HoldfastError, JobFailed
from holdfast.ops.move.savepoint import savepoint_create

__all__ = ["Stopped", "stop"]

_LOCAL_POLL_SECONDS = 0.2
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Stopped:
    """A job that ended on request."""

    job: str
    checkpoint: str
    seconds: float
    """How long it took."""
    batch: int | None
    """The last committed micro-batch; None if there is none."""
    savepoint: Any
    """The result of `savepoint_create`, if a savepoint was asked for."""


def stop(
    spark: SparkSession | None,
    job: str,
    *,
    savepoint: str | None = None,
    timeout_seconds: float = 300.0,
    report: Callable[[float, float], None] | None = None,
) -> Stopped:
    """Asks a running job, given by name or checkpoint, to stop at the end of its micro-batch, and waits until it has.

    With `savepoint`, its state is then saved there. Raises CheckpointError if no such job is running, and JobFailed if it
    has not ended in time; the request then stays, and the job ends when it can. `report` is called with the seconds passed
    and the timeout.
    """
    checkpoint = find_running(spark, job)
    holder = _holder(spark, checkpoint)
    if savepoint is not None:
        check_apart(checkpoint, savepoint)
        _check_free(spark, savepoint)
    files = files_of(spark, checkpoint)
    begun = time.monotonic()
    ask_to_stop(files, checkpoint, holder, f"process {this_process().number} on {this_process().host}")
    poll = _LOCAL_POLL_SECONDS if is_local(checkpoint) else _POLL_SECONDS
    while _still_held(spark, checkpoint, holder):
        passed = time.monotonic() - begun
        if passed > timeout_seconds:
            raise JobFailed(
                f"{_sentence(holder)} has not stopped within {timeout_seconds:g} seconds.",
                todo="wait: the request stays, and it stops when its micro-batch has ended; if it hangs, kill its process",
                context={"checkpoint": checkpoint},
            )
        if report is not None:
            report(passed, timeout_seconds)
        time.sleep(poll)
    # A job that was killed meanwhile has left the request.
    take_back(files, checkpoint, holder.token)
    seconds = time.monotonic() - begun
    batch = next(iter(reversed(Checkpoint(files, checkpoint).committed())), None)
    saved = None if savepoint is None else _save(spark, checkpoint, savepoint, holder)
    return Stopped(holder.owner.removeprefix("job "), checkpoint, seconds, batch, saved)


def _holder(spark: SparkSession | None, checkpoint: str) -> LockInfo:
    holder = current_lock(spark, checkpoint)
    if holder is None:
        raise CheckpointError(f"No job is running on {checkpoint!r}.")
    original = copied_from(checkpoint, holder.token)
    if original is not None:
        raise CheckpointError(
            f"No job is running on {checkpoint!r}: it is a copy of {original!r}, made while that was in use.",
            todo=f"to stop that job: holdfast stop {original}",
        )
    if not holder.owner.startswith("job "):
        raise CheckpointError(
            f"No job is running on {checkpoint!r}: it is in use by {holder}.", todo="wait until it is done"
        )
    return holder


def _check_free(spark: SparkSession | None, savepoint: str) -> None:
    """Checked first, so that no job is stopped for a savepoint that cannot be written."""
    if files_of(spark, savepoint).info(savepoint) is not None:
        raise CheckpointError(
            f"There is something at {savepoint!r} already; the job was not stopped.", todo="give a path where nothing exists"
        )


def _still_held(spark: SparkSession | None, checkpoint: str, holder: LockInfo) -> bool:
    lock = current_lock(spark, checkpoint)
    return lock is not None and lock.token == holder.token


def _save(spark: SparkSession | None, checkpoint: str, savepoint: str, holder: LockInfo) -> Any:
    try:
        return savepoint_create(spark, checkpoint, savepoint)
    except HoldfastError as error:
        raise error.within(after=f"{_sentence(holder)} had been stopped") from None


def _sentence(holder: LockInfo) -> str:
    return f"The {holder.owner} on {holder.process.host}, process {holder.process.number},"
