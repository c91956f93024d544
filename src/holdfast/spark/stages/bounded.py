"""A step over bounded input: each key group runs once, without earlier state, and at its end everything is due."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from holdfast.engine.run.clocks import Clocks, collection_paused
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP
from holdfast.spark.errors.transport import carried
from holdfast.spark.stages.plan import StepPlan
from holdfast.spark.stages.worker import WORKER

__all__ = ["bounded_run"]

_OUTPUT = pa.schema([("tag", pa.string()), ("payload", pa.binary())])
_PACKED = ("source", "part", "payload")


def bounded_run(plan: StepPlan) -> Callable[[pa.Table], pa.Table]:
    """A function for `applyInArrow`: takes the packed rows of a key group, returns its packed outputs."""

    def run(table: pa.Table) -> pa.Table:
        with carried(), collection_paused():
            rows = _run(plan, table)
        return pa.table([[tag for tag, _ in rows], [payload for _, payload in rows]], schema=_OUTPUT)

    return run


def _run(plan: StepPlan, table: pa.Table) -> list[tuple[str, bytes]]:
    loaded = WORKER.step(plan, "")
    packed = zip(*(table.column(name).to_pylist() for name in _PACKED), strict=True)
    now = time.time_ns() // 1000
    intake = loaded.intake(packed, now)
    clocks = Clocks(late=MIN_TIMESTAMP.micros, watermark=MAX_TIMESTAMP.micros, now=now, final=True)
    state = KeyGroupState(loaded.layout)
    limiter = loaded.runner.limiter
    if limiter is not None:
        limiter.begin()
    loaded.runner.run(state, intake, clocks, batch=0)
    if limiter is not None:
        limiter.note_uses(state, intake.slots)
        limiter.account(state)
        limiter.trim(state)
        limiter.evict(state)
    return loaded.payloads()
