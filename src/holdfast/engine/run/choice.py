"""Which runner serves a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.engine.run.batch_runner import BatchRunner
from holdfast.engine.run.runner import Runner
from holdfast.engine.run.sessions import SessionRunner
from holdfast.engine.run.step_runner import StepRunner
from holdfast.engine.run.whole_windows import WholeWindowRunner
from holdfast.engine.state.key_group import Layout
from holdfast.model.functions.batches import BatchDoFn
from holdfast.model.functions.step import Step

__all__ = ["make_runner"]


def make_runner(
    step: Step,
    layout: Layout,
    side_inputs: dict[str, Any],
    extra: Sequence[Any],
    *,
    origins: bool,
    check: Callable[[Any], None] | None = None,
) -> Runner[Any]:
    """The runner of a step. `origins`: whether the time and window of each output are needed, as in tests. `check` raises
    for an output that cannot be written."""
    if step.grouping is not None and step.grouping.keeps_whole_windows:
        return WholeWindowRunner(step, layout, in_order=origins)
    if layout.sessions is not None:
        return SessionRunner(step, layout)
    if isinstance(step.fn, BatchDoFn):
        return BatchRunner(step, layout, side_inputs, extra)
    return StepRunner(step, layout, side_inputs, extra, origins=origins, check=check)
