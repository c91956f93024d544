"""One bundle of a key group: the backend provides the state in one part or several, and the runner works on each."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.engine.backends.protocol import StateBackend
from holdfast.engine.log.store import BlobStore
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.runner import I, Runner
from holdfast.errors import InvalidStep, LimitExceeded

__all__ = ["run_bundle"]


def run_bundle(
    backend: StateBackend,
    store: BlobStore,
    runner: Runner[I],
    intake: I,
    clocks: Clocks,
    batch: int,
    collect: Callable[[], None],
) -> StepMetrics:
    """Runs a bundle on an open backend and commits it. `collect` takes the outputs after each part.

    If it raises, the backend must be abandoned.
    """
    metrics = StepMetrics()
    began = time.perf_counter_ns()
    limiter = runner.limiter
    if limiter is not None:
        if not hasattr(backend, "limit"):
            problem = f"The backend {type(backend).__name__} has no limit(), so the step cannot have limits."
            raise InvalidStep(runner.step.name, [problem])
        limiter.begin()
    for state, positions, sweep in backend.parts(intake.slots, clocks, runner):
        taken = intake if positions is None else intake.take(positions)
        runner.run(state, taken, clocks, batch)
        collect()
        if limiter is not None:
            limiter.note_uses(state, taken.slots)
        if sweep:
            runner.sweep(state, clocks, sweep)
        metrics.add(runner.metrics)
        if limiter is not None:
            limiter.account(state)
    if limiter is not None:
        try:
            backend.limit(limiter)
        except LimitExceeded as error:
            raise error.within(step=runner.step.name, micro_batch=batch) from None
        metrics.add(limiter.metrics)
    ran = time.perf_counter_ns()
    metrics.add(backend.commit(store).metrics())
    metrics.run_micros = (ran - began) // 1000
    metrics.commit_micros = (time.perf_counter_ns() - ran) // 1000
    return metrics
