"""Finding a running job: by its name, among those of this user on this machine, or by its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.checkpoint.files.choice import files_of, is_local
from holdfast.checkpoint.files.paths import local_path
from holdfast.checkpoint.lock import current_lock
from holdfast.checkpoint.registry import RegisteredJob, forget, registered
from holdfast.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["checkpoint_of", "find_running", "is_running", "running_jobs"]


def find_running(spark: SparkSession | None, job: str) -> str:
    """The checkpoint of a running job, given by name or path. Raises CheckpointError if no such job is running.

    Only names of jobs that run on this machine as this user are known.
    """
    running = [entry.checkpoint for entry in registered(job) if _still_runs(spark, entry)]
    if len(running) > 1:
        raise CheckpointError(
            f"{len(running)} jobs named {job!r} are running.",
            detail="\n".join(f"on {checkpoint}" for checkpoint in running),
            todo="give the checkpoint of the one you mean",
        )
    if running:
        return running[0]
    if is_local(job) and files_of(spark, job).info(job) is None:
        raise CheckpointError(
            f"No job {job!r} is running: no job of this name is known here, and there is no checkpoint at that path.",
            todo="give the path of the job's checkpoint, if it runs elsewhere or as another user",
        )
    return job.rstrip("/") or job


def checkpoint_of(spark: SparkSession | None, given: str) -> str:
    """The checkpoint at a path, or of the running job of this name. Raises CheckpointError if it may be either."""
    named = [entry.checkpoint for entry in registered(given) if _still_runs(spark, entry)]
    if not named and ("/" in given or not is_local(given)):
        return given
    local = local_path(given)
    if named and local is not None and local.exists() and not _is_one_of(local, named):
        raise CheckpointError(
            f"{given!r} is a running job, whose checkpoint is {named[0]!r}, and something else in this directory.",
            todo=f"give a path: {named[0]} or ./{given}",
        )
    return find_running(spark, given)


def _is_one_of(path: Path, checkpoints: list[str]) -> bool:
    places = [place for checkpoint in checkpoints if (place := local_path(checkpoint)) is not None]
    return any(place.exists() and place.samefile(path) for place in places)


def running_jobs(spark: SparkSession | None = None) -> list[RegisteredJob]:
    """The running jobs of this user on this machine."""
    return [entry for entry in registered() if _still_runs(spark, entry)]


def is_running(spark: SparkSession | None, checkpoint: str) -> bool:
    """Whether a job, not a tool, is using a checkpoint now."""
    lock = current_lock(spark, checkpoint)
    return lock is not None and lock.owner.startswith("job ")


def _still_runs(spark: SparkSession | None, entry: RegisteredJob) -> bool:
    if spark is None and not is_local(entry.checkpoint):
        # Only someone who can read it can tell.
        return True
    lock = current_lock(spark, entry.checkpoint)
    if lock is not None and lock.token == entry.token:
        return True
    forget(entry)
    return False
