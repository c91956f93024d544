"""Some of the state as text: a few keys, or one, for which only its key group is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.stored.readable import time_text, to_json, to_text
from holdfast.engine.stored.reading import HIDDEN, StoredCell, read_group
from holdfast.errors import CheckpointError, InputError
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.bounded import GlobalWindow
from holdfast.ops.inspect.html import view_html
from holdfast.ops.reading.keys import key_text
from holdfast.ops.reading.naming import named_values, window_text
from holdfast.ops.reading.sources import StateSource, from_state
from holdfast.ops.reading.steps import StepRef, choose_step, docs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ShownCell", "StateView", "WantedWindow", "shown_cells", "state_show", "steps_with_cell"]

_WINDOWS_TOLD = 10


@dataclass(frozen=True)
class ShownCell:
    """One cell or timer of one key and window."""

    step: str
    key: str
    window: str
    cell: str
    kind: str
    value: str
    """As JSON."""
    text: str
    """Readable text."""
    expires_at: str | None


@dataclass(frozen=True)
class StateView:
    """Some of the state after a micro-batch."""

    batch: int
    cells: list[ShownCell]
    more: bool
    """Whether there is more than the limit."""
    step_names: list[str] = field(default_factory=list)
    docs: dict[str, dict[str, str]] = field(default_factory=dict)
    """By step, what the authors of its cells and timers say of them."""

    def _repr_html_(self) -> str:
        return view_html(self)


def state_show(
    spark: SparkSession | None,
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

    `window` is a time in the window, or the beginning of its text. If there is no such cell or window, raises InputError
    that lists the existing ones. Without a session, raises NeedsSpark if only Spark can read the state.
    """
    wanted = Wanted(step, key, cell, WantedWindow(window), limit, trust_pickle)
    return from_state(spark, checkpoint, lambda source: _view(source, source.place.check_batch(batch), wanted))


class Wanted(NamedTuple):
    """What to show."""

    step: str | None
    key: str | None
    cell: str | None
    window: WantedWindow
    limit: int
    trust_pickle: bool


def _view(source: StateSource, batch: int, wanted: Wanted) -> StateView:
    steps = steps_with_cell(choose_step(source.steps(batch), wanted.step, source.place.path), wanted.cell)
    shown: list[ShownCell] = []
    more = False
    for ref in steps:
        found, is_more = _shown(source, ref, batch, wanted)
        shown += found
        more = more or is_more
    if not shown:
        wanted.window.check(wanted.key)
    if wanted.key is not None and not shown:
        cell = "" if wanted.cell is None else f" in the cell {wanted.cell!r}"
        raise CheckpointError(
            f"The key {wanted.key!r:.200} has no state{cell} after micro-batch {batch}.",
            todo="list the state without --key, or see other micro-batches: holdfast state history",
        )
    docs = {ref.name: docs_of(source.place, ref) for ref in steps}
    return StateView(batch, shown, more, [*docs], {name: found for name, found in docs.items() if found})


def _shown(source: StateSource, ref: StepRef, batch: int, wanted: Wanted) -> tuple[list[ShownCell], bool]:
    key = None if wanted.key is None else source.find_key(ref, wanted.key)
    columns: dict[tuple[Any, bytes], list[ShownCell]] = {}
    more = False
    for _, blobs in source.groups(ref, batch, None if key is None else key.label):
        group = read_group(blobs, trust_pickle=wanted.trust_pickle)
        for found in group.cells(None if key is None else [key.slot]):
            if found.kind == HIDDEN or not wanted.window.has(found):
                continue
            column = (found.slot, found.window.data)
            cells = list(shown_cells(ref.name, found, wanted.cell))
            if cells and column not in columns and len(columns) >= wanted.limit:
                more = True
            elif cells:
                columns.setdefault(column, []).extend(cells)
        if more:
            break
    return [shown for cells in columns.values() for shown in cells], more


def shown_cells(step: str, found: StoredCell, only: str | None = None) -> Iterator[ShownCell]:
    """A stored cell, or only one of its names, as it is shown; a timer with tags has several."""
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


def steps_with_cell(steps: list[StepRef], cell: str | None) -> list[StepRef]:
    """The steps that have a cell or timer of this name. If none has, raises InputError with the existing names."""
    if cell is None:
        return steps
    names = {step.name: _names(step) for step in steps}
    found = [step for step in steps if cell in names[step.name] or cell.partition("[")[0] in names[step.name]]
    if not found:
        there = "; ".join(f"{step} has {', '.join(map(repr, cells)) or 'none'}" for step, cells in names.items())
        raise InputError(f"There is no cell or timer {cell!r}.", todo=f"choose an existing one: {there}")
    return found


def _names(step: StepRef) -> list[str]:
    return [described["name"] for kind in ("cells", "timers") for described in step.manifest[kind]]


class WantedWindow:
    """The window asked for, if any, and the windows seen."""

    def __init__(self, text: str | None) -> None:
        self._text = text
        self._there: dict[str, None] = {}
        self._micros: int | None = None
        if text is not None:
            with contextlib.suppress(ValueError, TypeError):
                self._micros = Timestamp.from_rfc3339(text).micros

    def has(self, cell: StoredCell) -> bool:
        """Whether a cell is in the window."""
        if self._text is None:
            return True
        window = cell.window.window
        if isinstance(window, GlobalWindow):
            self._there["global"] = None
            return self._text in ("", "global")
        shown = window_text(window)
        self._there[shown] = None
        if self._text and shown.startswith(self._text):
            return True
        return self._micros is not None and bool(window.start.micros <= self._micros < window.end.micros)

    def check(self, key: str | None) -> None:
        """Raises InputError if nothing was found because there is no such window."""
        if self._text is None or not self._there:
            return
        of = "" if key is None else f" of the key {key!r}"
        windows = sorted(self._there)
        more = f", and {len(windows) - _WINDOWS_TOLD} more" if len(windows) > _WINDOWS_TOLD else ""
        raise InputError(
            f"There is no window {self._text!r}{of}: it is neither a time in a window with state nor the beginning of a "
            "window's text.",
            detail=f"There are: {'; '.join(windows[:_WINDOWS_TOLD])}{more}.",
            todo="give a time in the window, such as 2026-03-01T10:00:00Z",
        )
