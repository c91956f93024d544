"""Some of the state, for people: a few keys, or one, for which only its key group is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.engine.readable import time_text, to_json, to_text
from holdfast.engine.stored import HIDDEN, Blobs, StoredCell, read_group
from holdfast.errors import CheckpointError, InputError
from holdfast.model.bounded_windows import GlobalWindow
from holdfast.model.timestamps import Timestamp
from holdfast.ops.keys import find_key, key_text
from holdfast.ops.layout import Checkpoint, open_checkpoint
from holdfast.ops.naming import named_values, window_text
from holdfast.ops.reading import StepRef, blobs_frame, choose_step, collected_groups, find_steps, group_blobs, rows_of

__all__ = ["ShownCell", "StateView", "show_state"]

_AT_ONCE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class ShownCell:
    """What one key has in one cell or timer of one window."""

    step: str
    key: str
    window: str
    cell: str
    kind: str
    value: str
    """As JSON."""
    text: str
    """For people."""
    expires_at: str | None


@dataclass(frozen=True)
class StateView:
    """Some of the state at a micro-batch."""

    batch: int
    cells: list[ShownCell]
    more: bool
    """Whether there is more than was asked for."""
    step_names: list[str] = field(default_factory=list)


def show_state(
    spark: SparkSession,
    checkpoint: str,
    *,
    step: str | None = None,
    key: str | None = None,
    cell: str | None = None,
    window: str | None = None,
    batch: int | None = None,
    limit: int = 20,
    trust_pickle: bool = False,
) -> StateView:
    """Some of the state after a micro-batch: of one key, or of the first `limit` keys and windows.

    `window` is a time that lies in the window, or the beginning of its text.
    """
    place = open_checkpoint(spark, checkpoint)
    batch = place.check_batch(batch)
    steps = choose_step(find_steps(spark, place, batch), step, place.path)
    shown: list[ShownCell] = []
    more = False
    for ref in steps:
        found, is_more = _shown(spark, place, ref, batch, key, window, cell, limit, trust_pickle)
        shown += found
        more = more or is_more
    if key is not None and not shown:
        raise CheckpointError(
            f"The key {key!r} has no state{'' if cell is None else f' in the cell {cell!r}'} after micro-batch {batch}.",
            todo="see what there is without --key, or at another micro-batch: holdfast state history",
        )
    return StateView(batch, shown, more, [ref.name for ref in steps])


def _shown(
    spark: SparkSession,
    place: Checkpoint,
    ref: StepRef,
    batch: int,
    key: str | None,
    window: str | None,
    cell: str | None,
    limit: int,
    trust_pickle: bool,
) -> tuple[list[ShownCell], bool]:
    wanted = None if key is None else find_key(spark, ref, key)
    label = None if wanted is None else wanted.label
    columns: dict[tuple[Any, bytes], list[ShownCell]] = {}
    more = False
    for _, blobs in _groups(spark, place, ref, batch, label):
        group = read_group(blobs, trust_pickle=trust_pickle)
        for found in group.cells(None if wanted is None else [wanted.slot]):
            if found.kind == HIDDEN or not _in_window(found, window):
                continue
            column = (found.slot, found.window.data)
            cells = list(_shown_cells(ref.name, found, cell))
            if cells and column not in columns and len(columns) >= limit:
                more = True
            elif cells:
                columns.setdefault(column, []).extend(cells)
        if more:
            break
    return [shown for cells in columns.values() for shown in cells], more


def _groups(
    spark: SparkSession, place: Checkpoint, ref: StepRef, batch: int, label: int | None
) -> Iterator[tuple[int, Blobs]]:
    """Key groups read by the driver: one, or all, some at a time."""
    if label is not None:
        blobs = group_blobs(spark, place, ref.operator, batch, label)
        if blobs is not None:
            yield label, blobs
        return
    frame = blobs_frame(spark, place, ref.operator, batch)
    sizes = frame.groupBy("label").agg(F.sum(F.length("blob")).alias("size")).orderBy("label")
    waiting: list[int] = []
    size = 0
    rows = rows_of(sizes, place.path)
    for row in rows:
        waiting.append(row.label)
        size += row.size
        if size >= _AT_ONCE_BYTES or row is rows[-1]:
            yield from sorted(collected_groups(frame.where(F.col("label").isin(waiting)), place.path).items())
            waiting, size = [], 0


def _shown_cells(step: str, found: StoredCell, only: str | None) -> Iterator[ShownCell]:
    for name, value in named_values(found.table, found.slot):
        if only is not None and only not in (name, name.partition("[")[0]):
            continue
        expires = None if found.expires_micros is None else time_text(Timestamp(micros=found.expires_micros))
        yield ShownCell(
            step,
            key_text(found.slot),
            window_text(found.window.window),
            name,
            found.kind,
            to_json(value),
            to_text(value),
            expires,
        )


def _in_window(cell: StoredCell, text: str | None) -> bool:
    if text is None:
        return True
    window = cell.window.window
    if isinstance(window, GlobalWindow):
        return text in ("", "global")
    if window_text(window).startswith(text):
        return True
    try:
        micros = Timestamp.from_rfc3339(text).micros
    except (ValueError, TypeError):
        raise InputError(
            f"{text!r} is not a window: it is neither a time nor the beginning of a window as it is shown.",
            todo="give a time that lies in the window, such as 2026-03-01T10:00:00Z",
        ) from None
    return bool(window.start.micros <= micros < window.end.micros)
