"""The options of a step as keyword arguments, for type checkers; `model.functions.options` documents them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from holdfast.engine.backends.choice import Backend
from holdfast.model.functions.options import OnError, ParallelOver, SideInputs
from holdfast.model.state.limits import Limits

__all__ = ["AggregationOptions", "DoFnOptions", "SharedOptions"]


class SharedOptions(TypedDict, total=False):
    """Options of every kind of step."""

    name: str | None
    key_groups: int
    backend: Backend | None
    parallel_over: ParallelOver
    on_error: OnError
    drop_cells: Sequence[str]
    limits: Limits | None


class AggregationOptions(SharedOptions, total=False):
    """The further options of an aggregation."""

    panes: bool


class DoFnOptions(SharedOptions, total=False):
    """The further options of a DoFn's step."""

    side_inputs: SideInputs
    requires_time_sorted_input: bool
