"""Clears cells of keys in the blobs of a key group, as if its function had done so.

What a mark names goes with all that the engine keeps for it: the time to live of a cell, what is held back of a key, that a
window has seen it, its age. What is left is written as one snapshot; its log goes on with the next number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import ormsgpack

from holdfast.engine.state.ages import AGE
from holdfast.engine.state.key_group import WindowState
from holdfast.engine.state.keys import slot_from_bytes
from holdfast.engine.stored.evolution import MANIFEST
from holdfast.engine.stored.reading import Blobs, StoredGroup, read_group, write_group
from holdfast.engine.tables import Slot, Table
from holdfast.engine.tables.expiring import stamp_name
from holdfast.errors import CorruptState

__all__ = ["Mark", "cleared", "packed_marks", "unpacked_marks"]

_OURS = "~"
"""Names of blobs that are not the log's begin so."""


class Mark(NamedTuple):
    """Something of a key in a window that is to go."""

    slot: bytes
    window: bytes
    table: str | None = None
    """The name of a cell as it is stored; None: everything that the key has there."""
    tag: str | None = None
    """Of a timer with tags, the one that goes."""


def packed_marks(marks: Iterable[Mark]) -> bytes:
    return ormsgpack.packb([list(mark) for mark in marks])


def unpacked_marks(data: bytes) -> list[Mark]:
    return [Mark(*mark) for mark in ormsgpack.unpackb(data)]


def cleared(blobs: Blobs, marks: Iterable[Mark], origin: bytes) -> Blobs:
    """The blobs of a key group without what the marks name. `origin` must differ for every operation."""
    manifest = blobs.get(MANIFEST)
    if manifest is None:
        raise CorruptState("A key group has no manifest beside its state.")
    group = read_group(blobs)
    for window, places in _by_window(marks).items():
        if window in group.state.windows:
            _clear_window(group, group.state.windows[window], places)
    made = write_group(group.state, manifest, group.head.last, origin)
    for name, blob in blobs.items():
        if name.startswith(_OURS):
            made.put(name, blob)
    return made


def _by_window(marks: Iterable[Mark]) -> dict[bytes, list[tuple[Slot, Mark]]]:
    found: dict[bytes, list[tuple[Slot, Mark]]] = defaultdict(list)
    for mark in marks:
        found[mark.window].append((slot_from_bytes(mark.slot), mark))
    return found


def _clear_window(group: StoredGroup, window: WindowState, places: Iterable[tuple[Slot, Mark]]) -> None:
    tables = {table.spec.name: table for table in window.tables}
    for slot, mark in places:
        if mark.table is None:
            window.forget([slot])
        else:
            _clear_cell(tables, slot, mark.table, mark.tag)
            _forget_age(tables, slot)


def _clear_cell(tables: Mapping[str, Table], slot: Slot, name: str, tag: str | None) -> None:
    if tag is not None:
        times = tables[name].values.get(slot, {})
        left = {other: time for other, time in times.items() if other != tag}
        if left:
            tables[name].values[slot] = left
            return
    tables[name].values.pop(slot, None)
    stamps = tables.get(stamp_name(name))
    if stamps is not None:
        stamps.values.pop(slot, None)


def _forget_age(tables: Mapping[str, Table], slot: Slot) -> None:
    """A key that has nothing in a window has no age there."""
    if not any(slot in table.values for name, table in tables.items() if name != AGE):
        tables[AGE].values.pop(slot, None)
