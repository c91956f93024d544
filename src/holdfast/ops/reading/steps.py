"""The steps in a checkpoint: which there are, and in which operator the state of each is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint.labels import labels_of_manifest, slot_of_manifest
from holdfast.checkpoint.layout import Checkpoint
from holdfast.errors import CheckpointError

__all__ = ["StepRef", "by_step", "choose_step", "docs_of", "fullest", "newest_manifest", "only_step"]


@dataclass(frozen=True)
class StepRef:
    """A step in a checkpoint."""

    name: str
    operator: int
    manifest: dict[str, Any]
    """The manifest with the most cells; some key groups may still have an older one."""

    @property
    def slot(self) -> int:
        """Tells its key groups from those of other steps in its operator."""
        return slot_of_manifest(self.manifest)

    @property
    def labels(self) -> tuple[int, ...]:
        """The label of each of its key groups."""
        return labels_of_manifest(self.manifest)


def by_step(manifests: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The manifests of the key groups of an operator, by the name of the step."""
    found: dict[str, list[dict[str, Any]]] = {}
    for manifest in manifests:
        found.setdefault(str(manifest["name"]), []).append(manifest)
    return found


def fullest(manifests: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The manifest of a step with the most cells. After a change of code, each key group gets the new manifest when it is
    next opened; the state of all of them fits that one."""
    return max(manifests, key=lambda manifest: len(manifest["cells"]))


def only_step(checkpoint: Checkpoint) -> StepRef | None:
    """The step of a job that has only one, by the job's manifest; None for any other job."""
    operators = [operator for operator in checkpoint.operators() if operator.is_a_step]
    described = checkpoint.manifest.get("steps", {})
    if len(operators) != 1 or len(described) != 1:
        return None
    ((name, manifest),) = described.items()
    return StepRef(name, operators[0].number, manifest)


def newest_manifest(checkpoint: Checkpoint, step: StepRef) -> dict[str, Any]:
    """The manifest that the job wrote at its last start, if it did: key groups get theirs when they are next opened."""
    newest: dict[str, Any] = checkpoint.manifest.get("steps", {}).get(step.name, step.manifest)
    return newest


def docs_of(checkpoint: Checkpoint, step: StepRef) -> dict[str, str]:
    """What the authors of a step's cells and timers say of them, by name; a cell's, if a timer has the same name."""
    manifest = newest_manifest(checkpoint, step)
    described = [each for kind in ("timers", "cells") for each in manifest[kind]]
    return {str(each["name"]): str(each["doc"]) for each in described if each.get("doc") is not None}


def choose_step(steps: Sequence[StepRef], name: str | None, path: str) -> list[StepRef]:
    """The step of this name, or all. Raises CheckpointError if there is none."""
    known = ", ".join(repr(step.name) for step in steps) or "none"
    if not steps:
        raise CheckpointError(f"There is no Holdfast state in {path!r}.", todo="let the job process something first")
    if name is None:
        return list(steps)
    chosen = [step for step in steps if step.name == name]
    if not chosen:
        raise CheckpointError(f"{path!r} has no step {name!r}.", todo=f"choose one of: {known}")
    return chosen
