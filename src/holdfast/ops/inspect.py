"""Looking inside: state as a DataFrame, as rows for a table, and counted.

`read_state` is for queries: it decodes in the workers, each key group where it is. `show_state` gives a few keys, and reads
one key group if it is told which key. `summarise` counts without rendering a single value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engine.keys import encode_slots
from holdfast.engine.readable import time_text, to_json, to_text
from holdfast.engine.stored import Blobs, OpaqueWindow, StoredCell, StoredGroup, read_group
from holdfast.engine.tables import Slot, Table
from holdfast.errors import CheckpointError, InputError
from holdfast.model.bounded_windows import GlobalWindow
from holdfast.model.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from holdfast.ops.keys import find_key, key_text
from holdfast.ops.layout import Checkpoint, open_checkpoint
from holdfast.ops.reading import (
    StepRef,
    blobs_frame,
    choose_step,
    collected_groups,
    find_steps,
    group_blobs,
    map_groups,
    rows_of,
    steps_of,
)
from holdfast.spark.labels import labels

__all__ = [
    "CellSummary",
    "ShownCell",
    "StateView",
    "StepSummary",
    "named_values",
    "read_state",
    "show_state",
    "summarise",
    "timers_of",
    "window_text",
]

STATE_SCHEMA = (
    "step string, key string, window struct<start:timestamp,end:timestamp>, cell string, kind string, value string, "
    "expires_at timestamp, key_group int"
)
_HIDDEN = "hidden"
_AT_ONCE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class CellSummary:
    """One cell of a step, over all keys and windows."""

    name: str
    kind: str
    coder: str
    ttl: str | None
    keys: int
    """How many (key, window) pairs have something in it."""
    bytes: int
    """Of its values as they are stored, before compression."""


@dataclass(frozen=True)
class StepSummary:
    """The state of a step at a micro-batch."""

    step: str
    operator: int
    key_groups: int
    backend: str
    keys: int
    cells: list[CellSummary]
    timers: int
    blob_bytes: int
    """Of all that is in the state store, compressed as it is."""
    windows: int = 0
    window_fn: str = ""
    key: str = ""


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


def read_state(
    spark: SparkSession,
    checkpoint: str,
    batch: int | None = None,
    *,
    step: str | None = None,
    trust_pickle: bool = False,
    hidden: bool = False,
) -> DataFrame:
    """The state after a micro-batch, the last one by default, as a DataFrame: a row for each cell of a key and window.

    Columns: step, key (a text as it is, else JSON), window (null: global), cell, kind, value (JSON), expires_at (of a cell
    with a time to live), key_group. Timers are rows of the kind "timer", whose value is their time. With `hidden` also what
    the engine keeps for itself. A value whose coder needs code that is not here is {"$opaque": …}; pickles are read only
    with `trust_pickle`.
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
    numbers = {label: number for number, label in enumerate(labels(int(ref.manifest["key_groups"])))}

    def rows(label: int, blobs: Blobs) -> Iterator[tuple[Any, ...]]:
        group = read_group(blobs, trust_pickle=trust_pickle)
        for cell in group.cells():
            if cell.kind == _HIDDEN and not hidden:
                continue
            for name, value in named_values(cell.table, cell.slot):
                times = (_struct(cell), name, cell.kind, to_json(value), _clamped(cell.expires_micros))
                yield (ref.name, key_text(cell.slot), *times, numbers.get(label))

    return map_groups(blobs_frame(spark, place, ref.operator, batch), rows, STATE_SCHEMA)


def named_values(table: Table, slot: Slot) -> Iterator[tuple[str, Any]]:
    """The name and value of a cell of a key; of a timer with tags one for each tag."""
    name, entry = table.spec.name, table.values[slot]
    if name.startswith("~timer:"):
        yield name.removeprefix("~timer:"), Timestamp(micros=entry)
    elif name.startswith("~tags:"):
        for tag, micros in entry.items():
            yield f"{name.removeprefix('~tags:')}[{tag}]", Timestamp(micros=micros)
    else:
        yield name, table.reveal(slot)


def _struct(cell: StoredCell) -> dict[str, int] | None:
    window = cell.window.window
    if isinstance(window, GlobalWindow):
        return None
    return {"start": _clamped(window.start.micros) or 0, "end": _clamped(window.end.micros) or 0}


def _clamped(micros: int | None) -> int | None:
    """A time that Spark can show."""
    return None if micros is None else max(MIN_TIMESTAMP.micros, min(micros, MAX_TIMESTAMP.micros))


def window_text(window: Any) -> str:
    """A window for people; the global one is nothing."""
    if isinstance(window, GlobalWindow):
        return ""
    if isinstance(window, OpaqueWindow):
        return repr(window)
    return f"{time_text(window.start)} to {time_text(window.end)}"


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
            if found.kind == _HIDDEN or not _in_window(found, window):
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


def summarise(spark: SparkSession, checkpoint: str, batch: int | None = None) -> list[StepSummary]:
    """How much state each step has after a micro-batch."""
    place = open_checkpoint(spark, checkpoint)
    batch = place.check_batch(batch)
    summaries = []
    for operator in place.operators():
        if operator.is_a_step:
            frame = map_groups(blobs_frame(spark, place, operator.number, batch), _counted, "summary string")
            counts = [json.loads(row.summary) for row in rows_of(frame, place.path)]
            if counts:
                manifest = counts[0].pop("manifest")
                summaries.append(_summary(StepRef(manifest["name"], operator.number, manifest), counts))
    if not summaries:
        choose_step([], None, place.path)
    return sorted(summaries, key=lambda summary: summary.step)


def _counted(label: int, blobs: Blobs) -> Iterator[tuple[str]]:
    group = read_group(blobs)
    cells: dict[str, list[int]] = {}
    for window in group.state.windows.values():
        for table in window.tables:
            if table.values:
                rows = table.rows(list(table.values), list(table.values.values()))
                count = cells.setdefault(table.spec.name, [0, 0])
                count[0] += len(table.values)
                count[1] += len(encode_slots(rows.keys)) + sum(map(len, rows.columns))
    size = sum(len(blob) for _, blob in blobs.items())
    windows = [data.hex() for data in group.state.windows]
    counted = {
        "manifest": group.manifest,
        "keys": len(group.slots()),
        "cells": cells,
        "timers": timers_of(group),
        "bytes": size,
        "windows": windows,
    }
    yield (json.dumps(counted),)


def timers_of(group: StoredGroup) -> int:
    """How many timers are set."""
    count = 0
    for window in group.state.windows.values():
        for table in window.tables:
            if table.spec.name.startswith("~timer:"):
                count += len(table.values)
            elif table.spec.name.startswith("~tags:"):
                count += sum(map(len, table.values.values()))
    return count


def _summary(ref: StepRef, counts: list[dict[str, Any]]) -> StepSummary:
    manifest = ref.manifest
    cells = []
    for cell in manifest["cells"]:
        found = [count["cells"].get(cell["name"], [0, 0]) for count in counts]
        keys, size = sum(pair[0] for pair in found), sum(pair[1] for pair in found)
        kind = f"{cell['kind']} (kept)" if cell.get("kept") else cell["kind"]
        cells.append(CellSummary(cell["name"], kind, _coder_text(cell), _ttl_text(cell), keys, size))
    return StepSummary(
        step=ref.name,
        operator=ref.operator,
        key_groups=int(manifest["key_groups"]),
        backend=manifest["backend"],
        keys=sum(count["keys"] for count in counts),
        cells=cells,
        timers=sum(count["timers"] for count in counts),
        blob_bytes=sum(count["bytes"] for count in counts),
        windows=len({window for count in counts for window in count["windows"]}),
        window_fn=str(manifest["windowing"]["window_fn"].get("id", "")).removeprefix("holdfast."),
        key=", ".join(f"{column['name']} {column['type']}" for column in manifest["key"]),
    )


def _coder_text(cell: Mapping[str, Any]) -> str:
    value = str(cell["coder"].get("id", "?"))
    return f"{cell['key_coder'].get('id', '?')} to {value}" if "key_coder" in cell else value


def _ttl_text(cell: Mapping[str, Any]) -> str | None:
    ttl = cell.get("ttl")
    if ttl is None:
        return None
    return f"{ttl['micros'] / 1_000_000:g} s after the last {ttl['refresh']}, {ttl['time']} time"
