"""The manifest of a job, beside Spark's own files in the checkpoint: what tools know about the state without the code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import files_of, read_file, write_file
from holdfast.checkpoint.query_files import COPY, check_query_files, in_form
from holdfast.checkpoint.replacement import MANIFEST_FILE, finish_replacing
from holdfast.checkpoint.start_check import check_start
from holdfast.engine.stored.documents import check_form, parse_json
from holdfast.engine.stored.manifest import MANIFEST_VERSION, checked_manifest, reconcile
from holdfast.engine.stored.manifest_form import JobForm
from holdfast.errors import StateConflict

__all__ = ["MANIFEST_FILE", "check_job_manifest"]


def check_job_manifest(spark: SparkSession, checkpoint: str, job: str, steps: Sequence[Any]) -> list[str]:
    """Writes the manifest of a new checkpoint; refuses steps that do not match that of an existing one.

    The caller must hold the lock: an interrupted operation on the checkpoint is first finished or undone. Then the state
    must exist and be in the right partitions. Compatible changes resume, incompatible ones are refused. Returns sentences
    that say what was done and what has changed.
    """
    files = files_of(spark, checkpoint)
    check_query_files(spark, checkpoint)
    finished = finish_replacing(files, checkpoint)
    path = f"{checkpoint.rstrip('/')}/{MANIFEST_FILE}"
    present = {step.name: step.manifest for step in steps}
    stored = read_file(spark, path)
    notes = [] if finished is None else [f"{finished}."]
    recorded = None if stored is None else _read(stored, path)
    if recorded is not None:
        _check_names(recorded, present)
    check_start(files, checkpoint, len(steps) if recorded is None else len(recorded))
    if recorded is not None:
        for step in steps:
            agreed = reconcile(recorded[step.name], step.manifest, step.evolution)
            present[step.name] = agreed.manifest
            notes += [f"{step.name}: {note}" for note in agreed.notes]
    content = {"manifest_version": MANIFEST_VERSION, "job": job, "steps": present}
    wanted = json.dumps(content, indent=2, sort_keys=True).encode()
    if wanted != stored:
        write_file(spark, path, wanted)
    return notes


def _read(stored: bytes, path: str) -> dict[str, Any]:
    with in_form(path, COPY):
        content = parse_json(stored, infinite=True)
        return {name: checked_manifest(step) for name, step in check_form(content, JobForm).steps.items()}


def _check_names(recorded: dict[str, Any], present: dict[str, Any]) -> None:
    if recorded.keys() != present.keys():
        was, now = (", ".join(map(repr, sorted(steps))) or "none" for steps in (recorded, present))
        raise StateConflict(
            f"The job's steps are not those of the checkpoint: it has {was}, the job has {now}.",
            todo="give the steps their old names (name='...'), or start with a new checkpoint",
        )
