"""The numbers that Spark gives the operators of a query that runs as it was built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.spark.graph.grafts import keeps_state
from holdfast.spark.steps.lineage import BuiltStep, children, step_at

__all__ = ["numbers_as_built"]


def numbers_as_built(plan: Any) -> dict[BuiltStep, int]:
    """The number of each step's operator, as far as they are known: Spark counts from the root of a plan, and what has state
    in it besides steps may count several times."""
    numbers: dict[BuiltStep, int] = {}
    for found in _stateful(plan):
        if found is None:
            break
        numbers[found] = len(numbers)
    return numbers


def _stateful(node: Any) -> Iterator[BuiltStep | None]:
    """The operators with state, from the root on; None for one of Spark's own."""
    step = step_at(node)
    if step is not None:
        yield step
    elif keeps_state(node):
        yield None
    for child in children(node):
        if child.isStreaming():
            yield from _stateful(child)
