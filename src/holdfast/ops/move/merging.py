"""Merging two entries of one cell."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

from holdfast.engine.stored.reading import HIDDEN
from holdfast.engine.tables import Table
from holdfast.engine.tables.series import Series
from holdfast.errors import InputError
from holdfast.model.aggregate.combine import CombineFn

__all__ = ["CONFLICTS", "OnConflict", "merged"]

OnConflict = Literal["fail", "keep", "replace", "merge"]

CONFLICTS = get_args(OnConflict)
"""What to do with a cell that differs: refuse the import, keep the present value, replace it, or merge both."""


def merged(table: Table, kind: str, described: Mapping[str, Any] | None, present: Any, coming: Any) -> Any:
    """Two entries of a cell merged. Raises InputError if the cell cannot merge.

    Bags and lists are concatenated; sets and maps united, and for a map key in both the new value wins; a combining cell
    merges its accumulators if its CombineFn is one of Holdfast's own. For a timer the earlier time wins. Of the engine's own
    cells, held-back elements are put together, and of two times or numbers the larger wins.
    """
    if kind == "bag":
        return [*present, *coming]
    if kind == "set":
        return {*present, *coming}
    if kind == "map":
        return {**present, **coming}
    if isinstance(present, Series):
        series = Series(list(present.times), list(present.values))
        for time, value in zip(coming.times, coming.values, strict=True):
            series.add(time, value)
        return series
    if kind == "combining" and described is not None:
        combine_fn = _combine_fn(described.get("combine_fn", ""), table.spec.name)
        coder = table.spec.coder
        together = combine_fn.merge_accumulators([coder.thaw(present), coder.thaw(coming)])
        return coder.freeze(together)
    if kind == "timer":
        if not isinstance(present, dict):
            return min(present, coming)
        both = {tag: min(present[tag], coming[tag]) for tag in present.keys() & coming.keys()}
        return {**present, **coming, **both}
    if kind == HIDDEN:
        return max(present, coming)
    raise InputError(
        f"The {kind} cell {table.spec.name!r} has another value already, and two values cannot be merged.",
        todo="choose keep or replace, or leave the row out",
    )


def _combine_fn(name: str, cell: str) -> CombineFn[Any, Any, Any]:
    """A CombineFn of Holdfast's own, by name. No user code is imported."""
    module, _, qualified = name.rpartition(".")
    if module.startswith("holdfast.model."):
        found = getattr(importlib.import_module(module), qualified, None)
        if isinstance(found, type) and issubclass(found, CombineFn):
            try:
                return found()
            except TypeError:
                pass
    raise InputError(
        f"The combining cell {cell!r} has another accumulator already, and only its own code could merge two.",
        todo="choose keep or replace",
    )
