"""The fields that a stored manifest must have, with their types; readers check any others themselves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from holdfast.engine.stored.documents import Count, Malformed, check_form

__all__ = ["JobForm", "check_manifest"]

_Micros = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Span = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_Slot = Annotated[int, msgspec.Meta(ge=0, lt=2**11)]
"""As many as `checkpoint/labels.py` has labels for."""
_Operator = Annotated[int, msgspec.Meta(ge=0, lt=1000)]
_WINDOWS = {"holdfast.FixedWindows": ("size_micros",), "holdfast.SlidingWindows": ("size_micros", "period_micros")}


class _Column(msgspec.Struct):
    name: str
    type: str


class _Ttl(msgspec.Struct):
    micros: _Span
    refresh: str
    time: str


class _Cell(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    kind: Literal["value", "combining", "bag", "set", "map", "ordered_list", "sessions"]
    coder: dict[str, Any]
    key_coder: dict[str, Any] | None = None
    ttl: _Ttl | None = None
    kept: bool = False
    doc: str | None = None


class _Timer(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    time_domain: Literal["watermark", "real_time"]
    doc: str | None = None


class _Windowing(msgspec.Struct):
    window_fn: dict[str, Any]
    allowed_lateness_micros: _Micros


class _Sizes(msgspec.Struct):
    size_micros: _Span
    offset_micros: _Micros
    period_micros: _Span = 1


class _Manifest(msgspec.Struct):
    manifest_version: int
    name: str
    cells: list[_Cell]
    timers: list[_Timer]
    windowing: _Windowing
    time_sorted: bool
    key: list[_Column]
    key_groups: Count
    parallel_over: str
    backend: str
    parameters: dict[str, Any] = {}
    grouping: dict[str, Any] | None = None
    slot: _Slot = 0
    """Which labels its key groups have, in an operator that several steps may share."""
    operator: _Operator = 0
    """Spark's number of that operator; only in the manifest of a job."""


class JobForm(msgspec.Struct):
    """What a job writes beside Spark's files. Each step is a manifest."""

    manifest_version: Any = None
    job: str | None = None
    steps: dict[str, dict[str, Any]] = {}
    sources: list[str] | None = None


def check_manifest(content: Any) -> None:
    """Raises Malformed if a manifest does not have the expected form."""
    form = check_form(content, _Manifest)
    for names in ([cell.name for cell in form.cells], [timer.name for timer in form.timers]):
        if len(set(names)) < len(names):
            raise Malformed("two of its cells, or of its timers, have the same name")
    if any(cell.name.startswith("~") for cell in form.cells):
        raise Malformed("a cell in it has a name reserved for the engine")
    if any(cell.kind == "map" and cell.key_coder is None for cell in form.cells):
        raise Malformed("a map in it has no coder for its keys")
    if str(form.windowing.window_fn.get("id")) in _WINDOWS:
        check_form(form.windowing.window_fn, _Sizes)
