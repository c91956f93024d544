"""State as a DataFrame, for queries. Each key group is decoded in the worker that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.engine.stored.readable import to_json
from holdfast.engine.stored.reading import HIDDEN, Blobs, read_group
from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP
from holdfast.model.windows.bounded import GlobalWindow
from holdfast.ops.reading.blobs import StepRef, choose_step, map_groups, step_blobs, steps_of
from holdfast.ops.reading.keys import key_text
from holdfast.ops.reading.naming import named_values

__all__ = ["STATE_SCHEMA", "clamped", "read_state", "window_struct"]

STATE_SCHEMA = (
    "step string, key string, window struct<start:timestamp,end:timestamp>, cell string, kind string, value string, "
    "expires_at timestamp, key_group int"
)


def read_state(
    spark: SparkSession,
    checkpoint: str,
    batch: int | None = None,
    *,
    step: str | None = None,
    trust_pickle: bool = False,
    hidden: bool = False,
) -> DataFrame:
    """The state after a micro-batch, by default the last, as a DataFrame: a row for each cell of a key and window.

    Columns: step, key (a string as is, else JSON), window (null: global), cell, kind, value (JSON), expires_at (for a cell
    with a time to live), key_group. Timers are rows of kind "timer", whose value is their time. `hidden` includes the
    engine's own cells. A value whose coder needs code that is not here is {"$opaque": …}; pickles are decoded only with
    `trust_pickle`.
    """
    place = open_checkpoint(spark, checkpoint)
    batch = place.check_batch(batch)
    steps = choose_step(steps_of(spark, place, batch), step, place.path)
    frames = [_state_frame(spark, place, ref, batch, trust_pickle, hidden) for ref in steps]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _state_frame(
    spark: SparkSession, place: Checkpoint, ref: StepRef, batch: int, trust_pickle: bool, hidden: bool
) -> DataFrame:
    numbers = {label: number for number, label in enumerate(ref.labels)}

    def rows(label: int, blobs: Blobs) -> Iterator[tuple[Any, ...]]:
        group = read_group(blobs, trust_pickle=trust_pickle)
        for cell in group.cells():
            if cell.kind == HIDDEN and not hidden:
                continue
            for name, value in named_values(cell.table, cell.slot):
                times = (window_struct(cell.window.window), name, cell.kind, to_json(value), clamped(cell.expires_micros))
                yield (ref.name, key_text(cell.slot), *times, numbers.get(label))

    return map_groups(step_blobs(spark, place, ref, batch), rows, STATE_SCHEMA)


def window_struct(window: Any) -> dict[str, int] | None:
    """A window as a struct of times; None for the global one."""
    if isinstance(window, GlobalWindow):
        return None
    return {"start": clamped(window.start.micros) or 0, "end": clamped(window.end.micros) or 0}


def clamped(micros: int | None) -> int | None:
    """A time within Spark's range."""
    return None if micros is None else max(MIN_TIMESTAMP.micros, min(micros, MAX_TIMESTAMP.micros))
