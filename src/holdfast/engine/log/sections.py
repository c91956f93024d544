"""Sections: the link between the tables of a key group and the blobs of its log."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from holdfast.engine.log.blob import DROP_KEYS, DROP_WINDOW, NOTE, Section
from holdfast.engine.state.following import Follower
from holdfast.engine.state.key_group import KeyGroupState, WindowState, undeclared
from holdfast.engine.state.keys import decode_slots, encode_slots
from holdfast.engine.tables.base import Rows, Slot
from holdfast.errors import CoderError, CorruptState

__all__ = ["KeyBlocks", "apply_sections", "delta_sections", "dropped_keys", "section_bytes", "segments"]

_CHUNK_KEYS = 10_000

_MISFITS = (CoderError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""What decoding and applying raise for sections that do not belong to this state."""


def delta_sections(state: KeyGroupState) -> list[Section]:
    """What changed since the last commit. Windows are in the order of their bytes, so the same change has the same bytes."""
    sections = [Section(data, "", DROP_WINDOW, b"", []) for data in sorted(state.dropped)]
    sections += [dropped_keys(data, state.evicted[data]) for data in sorted(state.evicted)]
    for window in state.active_windows():
        for spec, table in zip(state.layout.specs, window.tables, strict=True):
            if table.changes:
                sections.extend(_section(window, spec.name, rows) for rows in table.delta())
    return sections


def dropped_keys(window: bytes, slots: list[Slot]) -> Section:
    """The section that drops keys from a window."""
    return Section(window, "", DROP_KEYS, encode_slots(slots), [])


def section_bytes(sections: list[Section]) -> int:
    """Roughly the size of sections, without compression."""
    return sum(len(section.keys) + sum(map(len, section.columns)) for section in sections)


def segments(state: KeyGroupState, bytes_max: int) -> Iterator[list[Section]]:
    """The whole state, cut into lists of sections of about `bytes_max` bytes."""
    segment: list[Section] = []
    size = 0
    for section in _all_sections(state):
        length = section_bytes([section])
        if segment and size + length > bytes_max:
            yield segment
            segment, size = [], 0
        segment.append(section)
        size += length
    if segment:
        yield segment


def _all_sections(state: KeyGroupState) -> Iterator[Section]:
    for data in sorted(state.windows):
        window = state.windows[data]
        for spec, table in zip(state.layout.specs, window.tables, strict=True):
            keys, entries = iter(table.values), iter(table.values.values())
            while chunk := list(islice(keys, _CHUNK_KEYS)):
                yield _section(window, spec.name, table.rows(chunk, list(islice(entries, _CHUNK_KEYS))))


def _section(window: WindowState, cell: str, rows: Rows) -> Section:
    return Section(window.data, cell, rows.operation, encode_slots(rows.keys), rows.columns)


class KeyBlocks:
    """The keys of blocks that were decoded before. The tables of a window mostly have the same keys in the same order, which
    are then decoded once, and in memory once."""

    def __init__(self) -> None:
        self._window = b""
        self._known: dict[bytes, list[Slot]] = {}

    def decode(self, window: bytes, block: bytes) -> list[Slot]:
        if window != self._window:
            self._window, self._known = window, {}
        slots = self._known.get(block)
        if slots is None:
            slots = self._known[block] = decode_slots(block)
        return slots


def apply_sections(
    state: KeyGroupState,
    sections: list[Section],
    name: str,
    follower: Follower | None = None,
    blocks: KeyBlocks | None = None,
) -> None:
    """Applies the sections of the blob `name` to a committed state. Without a follower its indexes must be made anew.
    `blocks` is given where several blobs are applied one after the other."""
    blocks = blocks or KeyBlocks()
    for section in sections:
        try:
            _apply(state, section, name, follower, blocks)
        except _MISFITS as error:
            raise CorruptState(
                f"The stored blob {name!r} does not fit the state before it: {error}",
                context={"cell": section.cell},
                todo="check that the cell has the kind and coder it was written with",
            ) from error


def _apply(state: KeyGroupState, section: Section, name: str, follower: Follower | None, blocks: KeyBlocks) -> None:
    if section.operation == DROP_WINDOW:
        if follower is not None:
            follower.window_dropped(section.window)
        state.discard(section.window)
        return
    if section.operation == NOTE:
        return
    if section.operation == DROP_KEYS:
        if section.window in state.windows:
            window, slots = state.window_of(section.window), decode_slots(section.keys)
            if follower is not None:
                follower.keys_dropped(window, slots)
            window.forget(slots)
        return
    position = state.layout.positions.get(section.cell)
    if position is None and section.cell.startswith("~"):
        # It belongs to a timer, a TTL or a callback that the step no longer has.
        return
    if position is None:
        conflict = undeclared(section.cell, state.layout)
        conflict.detail = f"It was found in the blob {name!r}."
        raise conflict
    window, slots = state.window_of(section.window), blocks.decode(section.window, section.keys)
    if follower is not None:
        follower.changing(window, position, slots)
    window.tables[position].apply(Rows(section.operation, slots, section.columns))
