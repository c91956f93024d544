"""One bundle of a key group: the backend gives the state, in one part or several, and the runner works on each."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.engine.backends.protocol import BlobStore, StateBackend
from holdfast.engine.intake import Elements
from holdfast.engine.metrics import StepMetrics
from holdfast.engine.runner import Clocks, StepRunner
from holdfast.engine.whole_windows import PartialBlock, WholeWindowRunner

__all__ = ["run_bundle"]


def run_bundle(
    backend: StateBackend,
    store: BlobStore,
    runner: StepRunner | WholeWindowRunner,
    intake: Elements | PartialBlock,
    clocks: Clocks,
    batch: int,
    collect: Callable[[], None],
) -> StepMetrics:
    """Runs a bundle on a backend that was opened, and commits it. `collect` takes the outputs after each part.

    If it raises, the backend must be abandoned.
    """
    metrics = StepMetrics()
    for state, places, sweep in backend.parts(intake.slots, clocks, runner):
        taken = intake if places is None else intake.take(places)
        runner.run(state, taken, clocks, batch)  # type: ignore[arg-type]  # a runner gets what it made
        collect()
        if sweep:
            runner.sweep(state, clocks, sweep)
        metrics.add(runner.metrics)
    metrics.add(backend.commit(store).metrics())
    return metrics
