"""The manifest of a job, beside Spark's own files in the checkpoint: what tools know about the state without the code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import files_of, read_file, write_file
from holdfast.checkpoint.query_files import COPY, check_query_files, in_form
from holdfast.checkpoint.replacement import MANIFEST_FILE, finish_replacing
from holdfast.checkpoint.step_operators import operator_count
from holdfast.engine.stored.documents import check_form, parse_json
from holdfast.engine.stored.evolution import is_rewritten
from holdfast.engine.stored.manifest import MANIFEST_VERSION, checked_manifest, reconcile
from holdfast.engine.stored.manifest_form import JobForm
from holdfast.engine.stored.session_forms import was_a_function
from holdfast.errors import StateConflict
from holdfast.spark.graph.converting import Conversion

__all__ = ["MANIFEST_FILE", "JobManifest", "open_manifest"]


@dataclass
class JobManifest:
    """What is recorded of a job's steps, and what is to be."""

    spark: SparkSession
    checkpoint: str
    job: str
    stored: bytes | None
    recorded: dict[str, Any] | None
    """The manifests of the steps, by name; None in a new checkpoint."""
    sources: list[str] | None = None
    """The marks of the sources, in order; None if they are not recorded."""
    notes: list[str] = field(default_factory=list)
    """Sentences that say what was done and what has changed."""
    backend: str | None = None
    """The backend of steps that have not named one."""
    conversions: dict[str, Conversion] = field(default_factory=dict)
    """By name, the steps whose state has to be rewritten for the code to read it."""

    @property
    def operators(self) -> int:
        """How many operators there must be, if there is state."""
        return operator_count(self.recorded or {})

    @property
    def is_of_a_graph(self) -> bool:
        return any("operator" in step for step in (self.recorded or {}).values())

    def agree(self, plans: Iterable[Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
        """The manifests of steps from now on. Compatible changes resume; incompatible ones raise StateConflict."""
        present = {}
        for plan in (plan.running_on(self.backend) for plan in plans):
            present[plan.name] = plan.manifest
            if plan.name in recorded:
                before = recorded[plan.name]
                agreed = reconcile(before, plan.manifest, plan.evolution)
                present[plan.name] = agreed.manifest
                if is_rewritten(before, agreed) and not was_a_function(before, plan.manifest):
                    self.conversions[plan.name] = Conversion(plan, before)
                self.notes += [f"{plan.name}: {note}" for note in agreed.notes]
        return present

    def content(self, steps: Mapping[str, Any], sources: Sequence[str]) -> bytes:
        """The manifest of a job with these steps and sources."""
        content = {"manifest_version": MANIFEST_VERSION, "job": self.job, "sources": list(sources), "steps": dict(steps)}
        return json.dumps(content, indent=2, sort_keys=True).encode()

    def write(self, content: bytes) -> None:
        if content != self.stored:
            write_file(self.spark, f"{self.checkpoint.rstrip('/')}/{MANIFEST_FILE}", content)

    def check_names(self, names: Iterable[str]) -> None:
        """Raises StateConflict if the steps are not those that are recorded."""
        recorded, present = sorted(self.recorded or {}), sorted(names)
        if self.recorded == {} and present:
            raise StateConflict(
                f"The checkpoint is of a job without steps, and the job has {present[0]!r}: Spark cannot begin to keep "
                "state in the middle of a query.",
                todo="start with a new checkpoint",
            )
        if self.recorded is not None and recorded != present:
            was, now = (", ".join(map(repr, steps)) or "none" for steps in (recorded, present))
            raise StateConflict(
                f"The job's steps are not those of the checkpoint: it has {was}, the job has {now}.",
                todo="give the steps their old names (name='...'), or start with a new checkpoint",
            )


def open_manifest(spark: SparkSession, checkpoint: str, job: str) -> JobManifest:
    """The manifest of a checkpoint, which may be new. The caller must hold the lock: an interrupted operation on the
    checkpoint is first finished or undone."""
    check_query_files(spark, checkpoint)
    finished = finish_replacing(files_of(spark, checkpoint), checkpoint)
    path = f"{checkpoint.rstrip('/')}/{MANIFEST_FILE}"
    stored = read_file(spark, path)
    notes = [] if finished is None else [f"{finished}."]
    if stored is None:
        return JobManifest(spark, checkpoint, job, None, None, None, notes)
    with in_form(path, COPY):
        form = check_form(parse_json(stored, infinite=True), JobForm)
        recorded = {name: checked_manifest(step) for name, step in form.steps.items()}
    return JobManifest(spark, checkpoint, job, stored, recorded, form.sources, notes)
