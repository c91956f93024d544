"""A plain function on its way past all state: it runs where its rows are, without key groups, shuffle and state store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from holdfast.engine.run.clocks import Clocks, collection_paused
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.model.time.timestamps import MIN_TIMESTAMP
from holdfast.spark.errors.transport import carried
from holdfast.spark.stages.plan import Loaded, StepPlan
from holdfast.spark.stages.processor import whereabouts
from holdfast.spark.stages.worker import WORKER

__all__ = ["direct_run"]

_QUERY = "direct"
"""Stands for the id of a query: such a function leaves nothing behind that one query must not see of another."""


def direct_run(plan: StepPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: its input has the time, keys and values of elements, its output is that of the step."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            loaded = WORKER.step(plan, _QUERY)
        for batch in batches:
            if batch.num_rows:
                with carried(), collection_paused():
                    found = _run(loaded, batch)
                yield from found

    return run


def _run(loaded: Loaded, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """What the function gives for these rows, which are a bundle."""
    now = time.time_ns() // 1000
    elements = loaded.plan.reader.intake(loaded.runner, [batch], (), now)
    # The watermark does not matter: nothing is late for what keeps nothing.
    clocks = Clocks(late=MIN_TIMESTAMP.micros, watermark=MIN_TIMESTAMP.micros, now=now)
    loaded.runner.run(KeyGroupState(loaded.layout), elements, clocks, max(whereabouts()[1], 0))
    return [rows for _, rows in loaded.outputs()]
