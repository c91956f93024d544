"""One table and one live cell for each kind of state."""

from __future__ import annotations

from typing import Any

from holdfast.engine.tables.bag import BagCell, BagTable
from holdfast.engine.tables.base import Cell, Focus, Rows, Slot, Table, Undo
from holdfast.engine.tables.combining import CombiningCell, CombiningTable
from holdfast.engine.tables.maps import MapCell, MapTable
from holdfast.engine.tables.ordered import OrderedListCell, OrderedListTable
from holdfast.engine.tables.sessions import SessionsCell, SessionsTable
from holdfast.engine.tables.sets import SetCell, SetTable
from holdfast.engine.tables.value import ValueCell, ValueTable, value_cell
from holdfast.model.state.specs import State, StateSpec

__all__ = ["Focus", "Rows", "Slot", "Table", "Undo", "make_cell", "make_table"]

_KINDS: dict[str, tuple[type[Any], type[Any]]] = {
    "value": (ValueTable, ValueCell),
    "bag": (BagTable, BagCell),
    "set": (SetTable, SetCell),
    "map": (MapTable, MapCell),
    "ordered_list": (OrderedListTable, OrderedListCell),
    "combining": (CombiningTable, CombiningCell),
    "sessions": (SessionsTable, SessionsCell),
}


def make_table(spec: StateSpec[State]) -> Table:
    """An empty table for a spec's cells."""
    table: Table = _KINDS[spec.kind][0](spec)
    return table


def make_cell(spec: StateSpec[State], focus: Focus, undo: Undo | None) -> Cell[Any]:
    """A live cell. Without `undo` a call cannot be rolled back, which is a little faster."""
    if spec.kind == "value":
        return value_cell(spec, focus, undo)
    cell: Cell[Any] = _KINDS[spec.kind][1](spec, focus, undo)
    return cell
