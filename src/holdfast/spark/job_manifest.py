"""The manifest of a job, beside Spark's own files in the checkpoint: what tools know of the state without the code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import CorruptState, StateConflict
from holdfast.spark.files import read_file, write_file
from holdfast.spark.manifest import MANIFEST_VERSION, check_manifest, manifest_bytes

__all__ = ["MANIFEST_FILE", "check_job_manifest"]

MANIFEST_FILE = "holdfast/manifest.json"


def check_job_manifest(spark: SparkSession, checkpoint: str, job: str, steps: Sequence[Any]) -> None:
    """Writes the manifest of a new checkpoint; refuses steps that do not agree with that of an old one."""
    path = f"{checkpoint.rstrip('/')}/{MANIFEST_FILE}"
    present = {step.name: step.manifest for step in steps}
    stored = read_file(spark, path)
    if stored is not None:
        _compare(stored, present, path)
        return
    content = {"manifest_version": MANIFEST_VERSION, "job": job, "steps": present}
    write_file(spark, path, json.dumps(content, indent=2, sort_keys=True).encode())


def _compare(stored: bytes, present: dict[str, Any], path: str) -> None:
    try:
        recorded = json.loads(stored)["steps"]
    except (ValueError, KeyError, TypeError):
        raise CorruptState(
            f"The manifest {path!r} is damaged: it is not a manifest at all.", todo="restore it from a copy"
        ) from None
    missing = sorted(recorded.keys() - present.keys())
    added = sorted(present.keys() - recorded.keys())
    if missing or added:
        was = ", ".join(sorted(recorded)) or "none"
        raise StateConflict(
            f"The job's steps are not those that the checkpoint belongs to: there were {was}, "
            f"and there are {', '.join(sorted(present)) or 'none'}.",
            todo="give the steps their old names (name='...'), or start with a new checkpoint",
        )
    for name, manifest in present.items():
        check_manifest(manifest_bytes(recorded[name]), manifest)
