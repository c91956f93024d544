"""Lineage: which steps a DataFrame depends on, found in its plan.

A DataFrame forgets where it came from as soon as it is transformed, but its plan does not: the pack stage of a step is a
function whose name contains the step's number. The public `explain` only prints the plan, and printed text can only be
captured for the whole process; so this module asks the plan itself.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["BuiltStep", "doubled_steps", "plan_text", "register", "steps_above", "steps_in"]

_MARK = re.compile(r"holdfast_step_(\d+)")
_numbers = itertools.count(1)
_steps: dict[int, BuiltStep] = {}


@dataclass(eq=False)
class BuiltStep:
    """A step of a stream, as it was built."""

    number: int
    plan: Any
    metrics: Any
    """Its accumulator."""
    packed: DataFrame | None = field(default=None, repr=False)
    """All its outputs, as (tag, payload) rows."""

    @property
    def mark(self) -> str:
        """The name of its pack stage, which is found again in the plan of whatever depends on it."""
        return f"holdfast_step_{self.number}"


def register(plan: Any, metrics: Any) -> BuiltStep:
    """Remembers a step, so that it is found again by its mark."""
    step = BuiltStep(next(_numbers), plan, metrics)
    _steps[step.number] = step
    return step


def plan_text(frame: DataFrame) -> str:
    """The logical plan of a DataFrame, as text."""
    return str(frame._jdf.queryExecution().analyzed().toString())


def steps_above(frame: DataFrame) -> list[BuiltStep]:
    """The steps that a DataFrame depends on; those next to it come first."""
    return steps_in(plan_text(frame))


def doubled_steps(frame: DataFrame) -> list[BuiltStep]:
    """The steps that are in the plan of a DataFrame more than once, each of which would run as often."""
    numbers = _marks_in(plan_text(frame))
    return [_steps[number] for number in dict.fromkeys(numbers) if numbers.count(number) > 1 and number in _steps]


def steps_in(text: str) -> list[BuiltStep]:
    """The steps in the text of a logical plan, in its order."""
    return [_steps[number] for number in dict.fromkeys(_marks_in(text)) if number in _steps]


def _marks_in(text: str) -> list[int]:
    """The numbers of the steps in the text of a logical plan, each as often as it is there."""
    return [int(number) for number in _MARK.findall(text)]
