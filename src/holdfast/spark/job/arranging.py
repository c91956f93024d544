"""Arranging: how the steps of a job are run, so that each finds its stored state.

The query is as the user built it, or a line of all steps. Which one is decided when a checkpoint is new; from then on, steps
may be added, removed and renamed, if the job is a line or can become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.checkpoint.files.choice import Files, files_of, join
from holdfast.checkpoint.labels import slot_of_manifest
from holdfast.checkpoint.layout import find_checkpoint
from holdfast.checkpoint.leftovers import has_begun, remove_leftovers
from holdfast.checkpoint.start_check import check_start
from holdfast.errors import InvalidStep, StateConflict
from holdfast.spark.graph.converting import convert
from holdfast.spark.graph.placing import Place, Placement, Stored, placed
from holdfast.spark.graph.rearranging import rearrange, stored_steps, time_modes
from holdfast.spark.graph.sources import are_told_apart, check_sources
from holdfast.spark.job.manifest import JobManifest, open_manifest
from holdfast.spark.job.root import Outline, Root

__all__ = ["GraphChanges", "arranged"]


@dataclass(frozen=True)
class GraphChanges:
    """What the job says about steps that its checkpoint has and its code has not."""

    drop: frozenset[str] = frozenset()
    """Removed steps whose state should be deleted."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """From the old name of a step to its new one."""


def arranged(outline: Outline, job: str, checkpoint: str, changes: GraphChanges) -> tuple[Root, list[str]]:
    """The query of a job on a checkpoint, and sentences that say what has changed. Writes the manifest, and rearranges
    stored state if it must. The caller must hold the lock."""
    manifest = open_manifest(outline.spark, checkpoint, job)
    manifest.backend = outline.backend
    files = files_of(outline.spark, checkpoint)
    if not has_begun(files, checkpoint):
        # What was recorded is of a job that has kept nothing yet.
        manifest.recorded = None
    if manifest.recorded is None and outline.steps and _has_commits(manifest):
        _check_has_state(files, checkpoint)
    check_start(files, checkpoint, _operators_wanted(manifest, outline))
    remove_leftovers(files, checkpoint)
    names = {step.plan.name for step in outline.steps}
    if manifest.recorded is None and (outline.as_built is None or changes.rename or changes.drop) and _has_commits(manifest):
        # No job has written this checkpoint, but a query of Spark's own `writeStream`: the state itself knows its steps.
        manifest.recorded = stored_steps(outline.spark, checkpoint) or None
    _check_changes(job, names, manifest.recorded, changes)
    if outline.as_built is not None and _is_as_built(manifest, names):
        root = outline.as_built
        check_sources(manifest.sources, root.sources)
        steps = manifest.agree([step.plan for step in outline.steps], manifest.recorded or {})
        content = manifest.content(steps, root.sources)
        _convert(manifest, content)
        manifest.write(content)
        return root, manifest.notes
    if outline.line_problems or not manifest.recorded:
        manifest.check_names(names)
    outline.check_line()
    return _in_line(outline, manifest, changes), manifest.notes


def _check_has_state(files: Files, checkpoint: str) -> None:
    if files.info(join(checkpoint, "state")) is None:
        raise StateConflict(
            f"The checkpoint {checkpoint!r} has no state: it is of a query without steps, or its state has been removed.",
            todo="start with a new checkpoint",
        )


def _operators_wanted(manifest: JobManifest, outline: Outline) -> int:
    """How many operators there must be at least, if there is state. What no job has recorded may have fewer steps."""
    if manifest.recorded is not None:
        return manifest.operators
    return len(outline.steps) if outline.as_built is not None else min(1, len(outline.steps))


def _is_as_built(manifest: JobManifest, names: set[str]) -> bool:
    """Whether the checkpoint is new, or of a job with the same steps that ran as it was built."""
    return manifest.recorded is None or (not manifest.is_of_a_graph and manifest.recorded.keys() == names)


def _check_changes(job: str, names: set[str], recorded: Mapping[str, Any] | None, changes: GraphChanges) -> None:
    problems = [f"drop_steps names {name!r}, which is a step of the job." for name in sorted(changes.drop & names)]
    for old, new in changes.rename.items():
        if new not in names:
            problems.append(f"rename_steps gives {old!r} the name {new!r}, but the job has no such step.")
        elif recorded is not None and old in recorded and new in recorded:
            problems.append(f"rename_steps gives {old!r} the name {new!r}, but the checkpoint has state of both; drop one.")
        elif recorded is not None and old not in recorded and new not in recorded:
            known = ", ".join(map(repr, sorted(recorded))) or "none"
            problems.append(f"rename_steps names {old!r}, but the checkpoint has no such step; it has {known}.")
    if problems:
        raise InvalidStep.of_job(job, problems)


def _in_line(outline: Outline, manifest: JobManifest, changes: GraphChanges) -> Root:
    recorded = manifest.recorded or {}
    new_names = {old: new for old, new in changes.rename.items() if old in recorded}
    dropped = changes.drop & recorded.keys()
    kept = {new_names.get(name, name): known for name, known in recorded.items() if name not in dropped}
    stored = _stored(manifest, new_names, dropped)
    if stored is not None:
        _check_not_renamed({step.plan.name for step in outline.steps}, kept)
    placement = placed(outline.graph, stored, anew=bool(stored is not None and (new_names or dropped)))
    _check_initial(outline, placement, stored)
    manifest.notes += _changed(outline, placement, stored, new_names, dropped)
    root = outline.line(placement, manifest.sources)
    _check_sources(manifest, root, {step.plan.name for step in outline.steps}, stored)
    content = manifest.content(_recorded_places(outline, manifest, placement, kept), root.sources)
    if placement.is_rearranged:
        assert stored is not None
        renamed = set(new_names.values())
        rearrange(outline.spark, manifest.checkpoint, stored, placement, renamed, manifest.conversions, content)
        manifest.notes.append("the stored state was rearranged; earlier micro-batches can no longer be looked at.")
    else:
        _convert(manifest, content)
    manifest.write(content)
    return root


def _convert(manifest: JobManifest, content: bytes) -> None:
    """Rewrites the state of steps whose cells have changed, together with the manifest of the job."""
    if manifest.conversions and _has_commits(manifest):
        convert(manifest.spark, manifest.checkpoint, manifest.conversions, content)
        manifest.notes.append("the stored state was converted; earlier micro-batches can no longer be looked at.")


def _stored(manifest: JobManifest, new_names: Mapping[str, str], dropped: frozenset[str]) -> Stored | None:
    """Where there is state; None if nothing has been committed."""
    if not manifest.recorded or not _has_commits(manifest):
        return None
    known = manifest.recorded if manifest.is_of_a_graph else stored_steps(manifest.spark, manifest.checkpoint)
    named = {
        new_names.get(name, name): Place(step["operator"], slot_of_manifest(step))
        for name, step in known.items()
        if name not in dropped
    }
    return Stored(named, time_modes(manifest.spark, manifest.checkpoint))


def _has_commits(manifest: JobManifest) -> bool:
    files = files_of(manifest.spark, manifest.checkpoint)
    if files.info(f"{manifest.checkpoint.rstrip('/')}/metadata") is None:
        return False
    return bool(find_checkpoint(manifest.spark, manifest.checkpoint).committed())


def _check_not_renamed(names: set[str], kept: Mapping[str, Any]) -> None:
    """A step that is gone and one that is new may be one step with another name, which must not begin with no state."""
    gone = sorted(name for name, known in kept.items() if name not in names and not known.get("removed"))
    new = sorted(names - kept.keys())
    if gone and new:
        raise StateConflict(
            f"The checkpoint has state of the step {gone[0]!r}, which the job has not, and the job has a new step "
            f"{new[0]!r}: it may be the same one under another name.",
            todo=f"say so: hf.Job(rename_steps={{{gone[0]!r}: {new[0]!r}}}); or that it is not: hf.Job(drop_steps="
            f"[{gone[0]!r}]); to keep the old state, remove the one and add the other in two starts",
        )


def _check_initial(outline: Outline, placement: Placement, stored: Stored | None) -> None:
    """Spark reads initial state with the first micro-batch of a checkpoint only."""
    late = [s.plan.name for s in outline.steps if s.initial is not None and stored and s.plan.name not in stored.places]
    if late:
        raise StateConflict(
            f"The step {late[0]!r} is new in this checkpoint, which is not: its initial_state would not be read.",
            todo="start with a new checkpoint; or leave out initial_state, and import the state: holdfast state import",
        )


def _check_sources(manifest: JobManifest, root: Root, names: set[str], stored: Stored | None) -> None:
    check_sources(manifest.sources, root.sources)
    if stored is None or len(root.sources) < 2:
        return
    is_same = manifest.is_of_a_graph and names == (manifest.recorded or {}).keys()
    if manifest.sources is not None and not is_same and not are_told_apart(manifest.sources, root.sources):
        raise StateConflict(
            "The job's steps have changed, and it is not certain which of its sources is which: each might begin where "
            "another one was.",
            todo="change the sources alone, with the steps as they were; or start with a new checkpoint",
        )
    if manifest.sources is None:
        raise StateConflict(
            "The order of the job's sources is not recorded in its checkpoint, so its steps must stay as they are.",
            todo="start the job once with the steps that it had, which records the order; then change it",
        )


def _changed(
    outline: Outline, placement: Placement, stored: Stored | None, new_names: Mapping[str, str], dropped: frozenset[str]
) -> Iterator[str]:
    """Sentences about what is different in this graph."""
    if stored is None:
        return
    for step in outline.graph.steps:
        if step.plan.name not in stored.places:
            yield f"the step {step.plan.name!r} is new, and begins with no state."
    for old, new in new_names.items():
        yield f"the step {new!r} was called {old!r}."
    for name in sorted(placement.idle):
        yield f"the step {name!r} is no longer in the job; its state is kept. Drop it: hf.Job(drop_steps=[{name!r}])."
    for name in sorted(dropped):
        yield f"the step {name!r} is dropped, as asked."


def _recorded_places(
    outline: Outline, manifest: JobManifest, placement: Placement, recorded: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifests of all steps with state, each with its place."""
    plans = [step.plan.in_slot(placement.slots[step]) for step in outline.graph.steps]
    known = {name: {**step, "name": name} for name, step in recorded.items()}
    steps = manifest.agree(plans, known)
    steps |= {name: {**known[name], "removed": True} for name in placement.idle if name in known}
    places = placement.places
    return {name: {**step, "operator": places[name].operator, "slot": places[name].slot} for name, step in steps.items()}
