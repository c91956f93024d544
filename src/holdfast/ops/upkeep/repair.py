"""Removes false commits from a checkpoint, and finishes what was interrupted. Nothing else is touched.

A false commit (see `checkpoint/false_commits.py`) is removed, so that the next start processes its micro-batch by the
existing plan. Later plans are removed first, or they would run instead. No later plan can have run, since the state that it
starts from never existed. If this is interrupted, the first false commit still exists, and running it again completes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from holdfast.checkpoint.false_commits import false_commits
from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.layout import Checkpoint, find_checkpoint
from holdfast.checkpoint.lock import holding
from holdfast.checkpoint.replacement import finish_replacing, interrupted, left_over

__all__ = ["Repair", "checkpoint_repair"]


@dataclass(frozen=True)
class Repair:
    """What to do, or what was done, to repair a checkpoint."""

    checkpoint: str
    interrupted: str | None = None
    """An unfinished operation, which must be finished before anything else can be checked."""
    false_commits: list[int] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """The files to remove, in this order."""
    is_known: bool = True
    """Whether false commits can be recognised; not for a query without state."""

    @property
    def is_needed(self) -> bool:
        return self.interrupted is not None or bool(self.removed)


def checkpoint_repair(spark: SparkSession | None, path: str, *, dry_run: bool = False) -> Repair:
    """Finishes or undoes an interrupted operation, and removes commits of micro-batches that were never processed.

    A true commit is never removed. Raises CheckpointLocked while a job runs on the checkpoint. With `dry_run` it only
    returns what it would do.
    """
    found = find_checkpoint(spark, path)
    if dry_run:
        return _whole_plan(found)
    with holding(spark, path, "holdfast checkpoint repair"):
        checkpoint = find_checkpoint(spark, path)
        done = finish_replacing(checkpoint.files, checkpoint.path)
        plan = _plan(find_checkpoint(spark, path))
        for file in plan.removed:
            checkpoint.files.remove(file)
    return replace(plan, interrupted=done)


def _whole_plan(checkpoint: Checkpoint) -> Repair:
    unfinished = interrupted(checkpoint.files, checkpoint.path)
    if unfinished is not None:
        return Repair(checkpoint.path, unfinished)
    return replace(_plan(checkpoint), interrupted=left_over(checkpoint.files, checkpoint.path))


def _plan(checkpoint: Checkpoint) -> Repair:
    false = false_commits(checkpoint)
    removed: list[str] = []
    if false:
        for number in sorted(set(checkpoint.planned()) | set(false), reverse=True):
            if number >= false[0]:
                removed += _files_of(checkpoint, number, false)
    return Repair(checkpoint.path, None, false, removed, bool(checkpoint.operators()) or not checkpoint.committed())


def _files_of(checkpoint: Checkpoint, number: int, false: list[int]) -> list[str]:
    """The files to remove for a micro-batch: only the commit of the first false one, the plans of later ones too."""
    commit, plan = (join(checkpoint.path, log, str(number)) for log in ("commits", "offsets"))
    later = [join(op.path, "_metadata", "v2", str(number)) for op in checkpoint.operators() if number in op.counts]
    return [*([commit] if number in false else []), *([plan, *later] if number > false[0] else [])]
