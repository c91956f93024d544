"""In which stateful operators the steps of a job are, judging by the manifests that the job has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.checkpoint.labels import slot_of_manifest

__all__ = ["operator_count", "step_operators"]


def step_operators(steps: Mapping[str, Mapping[str, Any]]) -> set[int]:
    """The numbers of the operators that the steps with these manifests are in.

    If they do not say so, the fewest that there can be: one for each step, unless the steps have slots and may share one.
    """
    numbers = [step.get("operator") for step in steps.values()]
    known = {number for number in numbers if number is not None}
    if None not in numbers:
        return known
    share = any(slot_of_manifest(step) for step in steps.values())
    return set(range(1 if share else len(steps)))


def operator_count(steps: Mapping[str, Mapping[str, Any]]) -> int:
    """How many stateful operators the query with these steps has at least. Spark numbers them from 0."""
    return max(step_operators(steps), default=-1) + 1
