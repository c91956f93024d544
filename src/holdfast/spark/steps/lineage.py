"""Lineage: which steps a DataFrame depends on, found in the text of its plan.

A DataFrame forgets where it came from as soon as it is transformed, but its plan does not: the pack stage of a step is a
function whose name contains the step's number. The public `explain` only prints the plan, and printed text can only be
captured for the whole process; so this module asks the plan itself.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["doubled_steps", "plan_text", "register", "steps_above", "steps_in"]

_MARK = re.compile(r"holdfast_step_(\d+)")
_numbers = itertools.count(1)
_plans: dict[int, Any] = {}


def register(plan: Any) -> str:
    """Remembers the plan of a step; returns the name by which it is found again."""
    number = next(_numbers)
    _plans[number] = plan
    return f"holdfast_step_{number}"


def plan_text(frame: DataFrame) -> str:
    """The logical plan of a DataFrame, as text."""
    return str(frame._jdf.queryExecution().analyzed().toString())


def steps_above(frame: DataFrame) -> list[Any]:
    """The plans of the steps that a DataFrame depends on."""
    return steps_in(plan_text(frame))


def doubled_steps(frame: DataFrame) -> list[Any]:
    """The plans of steps that appear more than once in a DataFrame's plan, and would run that often."""
    numbers = [int(number) for number in _MARK.findall(plan_text(frame))]
    return [_plans[number] for number in dict.fromkeys(numbers) if numbers.count(number) > 1 and number in _plans]


def steps_in(text: str) -> list[Any]:
    """The plans of the steps in the text of a logical plan."""
    numbers = dict.fromkeys(int(number) for number in _MARK.findall(text))
    return [_plans[number] for number in numbers if number in _plans]
