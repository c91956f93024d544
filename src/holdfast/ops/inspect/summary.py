"""How much state there is: counted where it is read, without rendering a single value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.engine.state.keys import encode_slots
from holdfast.engine.stored.reading import Blobs, StoredGroup, read_group
from holdfast.ops.inspect.html import summary_html
from holdfast.ops.reading.sources import StateSource, from_state
from holdfast.ops.reading.steps import StepRef, by_step, choose_step, docs_of, fullest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CellSummary", "StepSummary", "state_ls", "timers_of"]


@dataclass(frozen=True)
class CellSummary:
    """One cell of a step, over all keys and windows."""

    name: str
    kind: str
    coder: str
    ttl: str | None
    keys: int
    """How many (key, window) pairs have a value in it."""
    bytes: int
    """Size of its stored values, before compression."""
    doc: str | None = None
    """What it holds, as its author says."""


@dataclass(frozen=True)
class StepSummary:
    """The state of a step after a micro-batch."""

    step: str
    operator: int
    key_groups: int
    backend: str
    keys: int
    cells: list[CellSummary]
    timers: int
    blob_bytes: int
    """Size of everything in the state store, compressed."""
    windows: int = 0
    window_fn: str = ""
    key: str = ""

    def _repr_html_(self) -> str:
        return summary_html(self)


def state_ls(spark: SparkSession | None, checkpoint: str, batch: int | None = None) -> list[StepSummary]:
    """How much state each step has after a micro-batch. Without a session, raises NeedsSpark if only Spark can read it."""
    return from_state(spark, checkpoint, lambda source: _listed(source, source.place.check_batch(batch)))


def _listed(source: StateSource, batch: int) -> list[StepSummary]:
    summaries = []
    for operator in source.place.operators():
        if operator.is_a_step:
            counts = [json.loads(text) for (text,) in source.mapped(operator.number, batch, _counted, "summary string")]
            for name, manifests in by_step(count["manifest"] for count in counts).items():
                own = [count for count in counts if count["manifest"]["name"] == name]
                step = StepRef(name, operator.number, fullest(manifests))
                summaries.append(_summary(step, own, docs_of(source.place, step)))
    if not summaries:
        choose_step([], None, source.place.path)
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


def _summary(ref: StepRef, counts: list[dict[str, Any]], docs: Mapping[str, str]) -> StepSummary:
    manifest = ref.manifest
    cells = []
    for cell in manifest["cells"]:
        found = [count["cells"].get(cell["name"], [0, 0]) for count in counts]
        keys, size = sum(pair[0] for pair in found), sum(pair[1] for pair in found)
        kind = f"{cell['kind']} (kept)" if cell.get("kept") else cell["kind"]
        cells.append(CellSummary(cell["name"], kind, _coder_text(cell), _ttl_text(cell), keys, size, docs.get(cell["name"])))
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
