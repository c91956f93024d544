"""What a job keeps, described: its steps with their cells and timers, from the manifests that are stored with the state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.engine.stored.words import coder_words, combiner_words, domain_words, ttl_words, window_words
from holdfast.ops.reading.sources import StateSource, from_state
from holdfast.ops.reading.steps import StepRef, choose_step, newest_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CellSchema", "StepSchema", "TimerSchema", "state_schema"]


@dataclass(frozen=True)
class CellSchema:
    """A cell that a step keeps for each key and window."""

    name: str
    kind: str
    """With its combiner, if it has one."""
    coder: str
    """Of its values; of a map, "key to value"."""
    ttl: str | None
    """How long it lives, in words."""
    doc: str | None
    """What it holds, as its author says."""
    is_kept: bool
    """Whether the code no longer declares it, and its state is only kept."""


@dataclass(frozen=True)
class TimerSchema:
    """A timer of a step."""

    name: str
    domain: str
    doc: str | None


@dataclass(frozen=True)
class StepSchema:
    """What a step keeps."""

    step: str
    operator: int
    """The stateful operator of the query that it is in."""
    key: str
    """The columns of its key with their types."""
    windows: str
    """Its window function with the allowed lateness, in words; "global" for the one window without an end."""
    aggregation: str | None
    """What kind of aggregation it is, with its trigger; None if it runs a function."""
    is_time_sorted: bool
    """Whether elements are held back until the watermark has passed them."""
    key_groups: int
    parallel_over: str
    backend: str
    parameters: dict[str, object]
    """What the function's `state_parameters` gave."""
    cells: list[CellSchema]
    timers: list[TimerSchema]


def state_schema(spark: SparkSession | None, checkpoint: str, *, step: str | None = None) -> list[StepSchema]:
    """What each step keeps that has state, by name. Without a session, raises NeedsSpark if only Spark
    can read the state."""
    return from_state(spark, checkpoint, lambda source: _schemas(source, step))


def _schemas(source: StateSource, step: str | None) -> list[StepSchema]:
    steps = source.steps(source.place.check_batch(None))
    return [_schema(ref, newest_manifest(source.place, ref)) for ref in choose_step(steps, step, source.place.path)]


def _schema(ref: StepRef, manifest: Mapping[str, Any]) -> StepSchema:
    return StepSchema(
        step=ref.name,
        operator=ref.operator,
        key=", ".join(f"{column['name']} {column['type']}" for column in manifest["key"]),
        windows=window_words(manifest["windowing"]) or "global",
        aggregation=_aggregation(manifest.get("grouping")),
        is_time_sorted=bool(manifest["time_sorted"]),
        key_groups=int(manifest["key_groups"]),
        parallel_over=str(manifest["parallel_over"]),
        backend=str(manifest["backend"]),
        parameters=dict(manifest.get("parameters", {})),
        cells=[_cell(cell) for cell in manifest["cells"]],
        timers=[TimerSchema(t["name"], domain_words(t["time_domain"]), t.get("doc")) for t in manifest["timers"]],
    )


def _aggregation(grouping: Mapping[str, Any] | None) -> str | None:
    if grouping is None:
        return None
    trigger = str(grouping.get("trigger", {}).get("id", "default"))
    return str(grouping["transform"]) + ("" if trigger == "default" else f", {trigger}, {grouping['accumulation_mode']}")


def _cell(cell: Mapping[str, Any]) -> CellSchema:
    coder = coder_words(cell["coder"])
    if "key_coder" in cell:
        coder = f"{coder_words(cell['key_coder'])} to {coder}"
    kind = str(cell["kind"]).replace("_", " ")
    if "combine_fn" in cell:
        kind = f"{kind} ({combiner_words(str(cell['combine_fn']))})"
    ttl = ttl_words(cell["ttl"]) if cell.get("ttl") else None
    return CellSchema(cell["name"], kind, coder, ttl, cell.get("doc"), bool(cell.get("kept")))
