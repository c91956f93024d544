"""How stored sessions continue where the code keeps them in another form.

Up to version 0.1 an aggregation over sessions was a function with cells and timers: the map `panes`, with the windows of a
key, and a map of accumulators for each result. It now has one cell with all of that (`model.coders.sessions`). Its results
may also have changed: one that is new begins empty in the sessions that are open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from holdfast.engine.state.key_group import Layout, WindowState
from holdfast.engine.tables import Slot
from holdfast.engine.tables.base import freeze
from holdfast.model.aggregate.triggers import AfterCount
from holdfast.model.coders import Coder
from holdfast.model.coders.sessions import FIELDS
from holdfast.model.windows.codec import window_from_bytes

__all__ = ["as_sessions", "result_changes", "sessions_of", "was_a_function"]

_PANES = "panes"
_KIND = "sessions"


def was_a_function(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the code keeps sessions in one cell, and what is stored was written by the function."""
    keeps = [cell["kind"] for cell in new["cells"]] == [_KIND]
    kept = {cell["name"]: cell["kind"] for cell in old["cells"]}
    return keeps and kept.get(_PANES) == "map" and _KIND not in kept.values() and _gave_at_the_end(old)


def _gave_at_the_end(old: Mapping[str, Any]) -> bool:
    """Whether a stored aggregation had the default trigger, or one that comes to the same."""
    trigger = (old.get("grouping") or {}).get("trigger") or {}
    is_late_at_once = trigger.get("late") == AfterCount(1).describe()
    is_default = is_late_at_once or old["windowing"]["allowed_lateness_micros"] == 0
    return trigger.get("id") == "AfterWatermark" and trigger.get("early") is None and is_default


def as_sessions(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest that would describe the same state, had the function's sessions been kept in one cell."""
    (cell,) = new["cells"]
    results = [cell for cell in old["cells"] if cell["name"] != _PANES]
    coder = {
        **cell["coder"],
        "names": [result["name"] for result in results],
        "components": [result["coder"] for result in results],
    }
    grouping = {**old["grouping"], "trigger": {"id": "default"}}
    return {**old, "cells": [{**cell, "coder": coder}], "timers": [], "grouping": grouping}


def result_changes(old: Mapping[str, Any], new: Mapping[str, Any], dropped: frozenset[str]) -> tuple[list[str], list[str]]:
    """What stands in the way when the results of a cell of sessions change, and what is worth a note; in sentences."""
    was, now = (dict(zip(cell["coder"]["names"], cell["coder"]["components"], strict=True)) for cell in (old, new))
    problems = [
        f"the coder of the result {name!r} has changed." for name in was.keys() & now.keys() if was[name] != now[name]
    ]
    notes = [f"the result {name!r} is new, and empty in the sessions that are open." for name in now.keys() - was.keys()]
    for name in was.keys() - now.keys():
        if name in dropped:
            notes.append(f"the result {name!r} is dropped, as asked.")
        else:
            problems.append(f"the result {name!r} is gone; if it may be forgotten: drop_cells=[{name!r}].")
    return sorted(problems), notes


def sessions_of(window: WindowState, positions: Mapping[str, int], layout: Layout) -> Iterator[tuple[Slot, tuple[Any, ...]]]:
    """What the keys of a stored window have, in the form of the code's own cell of sessions."""
    assert layout.step.grouping is not None
    columns = layout.step.grouping.columns
    empty = {column.name: freeze(column.coder, _empty(column), column.name) for column in columns}
    stored = _of_the_function(window, positions) if _PANES in positions else _of_the_cell(window, positions)
    for slot, sessions in stored:
        entries = (
            (*numbers, *(accumulators.get(name, stored) for name, stored in empty.items()))
            for numbers, accumulators in sessions
        )
        yield slot, tuple(chain.from_iterable(entries))


def _empty(column: Any) -> Any:
    return column.combine_fn.create_accumulator()


_Sessions = list[tuple[tuple[int, ...], dict[str, Any]]]
"""The numbers of each session, and its accumulators by name, in order of their starts."""


def _of_the_function(window: WindowState, positions: Mapping[str, int]) -> Iterator[tuple[Slot, _Sessions]]:
    panes = window.tables[positions[_PANES]]
    results = {name: window.tables[place].values for name, place in positions.items() if name[0] != "~" and name != _PANES}
    coder: Coder[Any] = panes.spec.coder
    for slot, stored in panes.values.items():
        sessions: _Sessions = []
        for data, pane in stored.items():
            _, given, on_time, *_ = coder.thaw(pane)
            span: Any = window_from_bytes(data)
            found = {name: values[slot][data] for name, values in results.items() if data in values.get(slot, ())}
            sessions.append(((span.start.micros, span.end.micros, given, on_time), found))
        yield slot, sorted(sessions, key=_numbers)


def _of_the_cell(window: WindowState, positions: Mapping[str, int]) -> Iterator[tuple[Slot, _Sessions]]:
    table = window.tables[positions[_KIND]]
    coder: Any = table.spec.coder
    for slot, stored in table.values.items():
        sessions = list(coder.sessions(stored))
        yield slot, [(one[:FIELDS], dict(zip(coder.names, one[FIELDS:], strict=True))) for one in sessions]


def _numbers(session: tuple[tuple[int, ...], dict[str, Any]]) -> tuple[int, ...]:
    return session[0]
