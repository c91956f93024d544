"""The options of a step as a user gives them by name, for type checkers: `model.functions.options` says what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from holdfast.engine.backends.choice import Backend
from holdfast.model.functions.options import OnError, ParallelOver, SideInputs
from holdfast.model.state.limits import Limits

__all__ = ["AggregationOptions", "DoFnOptions", "SharedOptions"]


class SharedOptions(TypedDict, total=False):
    """What every kind of step can be told."""

    name: str | None
    key_groups: int
    backend: Backend
    parallel_over: ParallelOver
    on_error: OnError
    drop_cells: Sequence[str]
    limits: Limits | None


class AggregationOptions(SharedOptions, total=False):
    """What an aggregation can be told besides."""

    panes: bool


class DoFnOptions(SharedOptions, total=False):
    """What the step of a function can be told besides."""

    side_inputs: SideInputs
    requires_time_sorted_input: bool
