"""The manifest of a job, beside Spark's own files in the checkpoint: what tools know of the state without the code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.engine.manifest import MANIFEST_VERSION, manifest_bytes, read_manifest, reconcile
from holdfast.errors import CorruptState, StateConflict
from holdfast.spark.files import files_of, read_file, write_file
from holdfast.spark.replacement import MANIFEST_FILE, finish_replacing
from holdfast.spark.start_check import check_start

__all__ = ["MANIFEST_FILE", "check_job_manifest"]


def check_job_manifest(spark: SparkSession, checkpoint: str, job: str, steps: Sequence[Any]) -> list[str]:
    """Writes the manifest of a new checkpoint; refuses steps that do not agree with that of an old one.

    Whoever calls this has the lock: an operation on the checkpoint that was interrupted is finished or taken back first.
    Then the state must be there, and in its place. Gives what was done, and what is different from before and goes together
    all the same, in sentences.
    """
    files = files_of(spark, checkpoint)
    finished = finish_replacing(files, checkpoint)
    check_start(files, checkpoint, len(steps))
    path = f"{checkpoint.rstrip('/')}/{MANIFEST_FILE}"
    present = {step.name: step.manifest for step in steps}
    stored = read_file(spark, path)
    notes = [] if finished is None else [f"{finished}."]
    if stored is not None:
        recorded = _read(stored, path)
        _check_names(recorded, present)
        for step in steps:
            agreed = reconcile(read_manifest(manifest_bytes(recorded[step.name])), step.manifest, step.evolution)
            present[step.name] = agreed.manifest
            notes += [f"{step.name}: {note}" for note in agreed.notes]
    content = {"manifest_version": MANIFEST_VERSION, "job": job, "steps": present}
    wanted = json.dumps(content, indent=2, sort_keys=True).encode()
    if wanted != stored:
        write_file(spark, path, wanted)
    return notes


def _read(stored: bytes, path: str) -> dict[str, Any]:
    try:
        recorded: dict[str, Any] = json.loads(stored)["steps"]
    except (ValueError, KeyError, TypeError):
        raise CorruptState(
            f"The manifest {path!r} is damaged: it is not a manifest at all.", todo="restore it from a copy"
        ) from None
    return recorded


def _check_names(recorded: dict[str, Any], present: dict[str, Any]) -> None:
    if recorded.keys() != present.keys():
        was = ", ".join(sorted(recorded)) or "none"
        raise StateConflict(
            f"The job's steps are not those that the checkpoint belongs to: there were {was}, "
            f"and there are {', '.join(sorted(present)) or 'none'}.",
            todo="give the steps their old names (name='...'), or start with a new checkpoint",
        )
