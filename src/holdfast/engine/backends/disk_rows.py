"""Moves keys between the rows of a disk backend's file and the tables of a state."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

import ormsgpack

from holdfast.engine.backends.disk_file import DamagedFile, WorkingFile
from holdfast.engine.backends.disk_windows import KnownWindows
from holdfast.engine.state.key_group import KeyGroupState, Layout, WindowState
from holdfast.engine.state.keys import slot_from_bytes, slot_to_bytes
from holdfast.engine.tables import Slot
from holdfast.errors import CoderError

__all__ = ["KeyRows"]

_IN_WINDOW = "SELECT slot FROM cells WHERE window = ? AND slot > ? ORDER BY slot LIMIT ?"
_ALL = "SELECT DISTINCT slot FROM cells WHERE slot > ? ORDER BY slot LIMIT ?"
_HEAVIEST = "SELECT slot FROM cells GROUP BY slot ORDER BY sum(length(data)) DESC LIMIT ?"
_WANTED = "SELECT cells.slot, cells.window, cells.data FROM temp.wanted CROSS JOIN cells ON cells.slot = wanted.slot"


class KeyRows:
    """The table `cells`. Keys are bytes, at most `part_keys` at a time."""

    def __init__(self, file: WorkingFile, layout: Layout, part_keys: int, *, is_windowed: bool) -> None:
        self._file = file
        self._layout = layout
        self._part_keys = part_keys
        self._is_windowed = is_windowed
        self.windows = KnownWindows(file, layout)

    def count(self) -> int:
        """How many (key, window) pairs there are."""
        if self._is_windowed:
            return sum(window.rows for window in self.windows.known.values())
        count: int = self._file.sql("SELECT count(*) FROM cells").fetchone()[0]
        return count

    def load(self, names: list[bytes]) -> tuple[KeyGroupState, dict[tuple[bytes, Slot], None]]:
        """The state of some keys, and its (window, slot) pairs, in the order of their bytes."""
        state = KeyGroupState(self._layout)
        self._file.sql("DELETE FROM temp.wanted")
        self._file.many("INSERT OR IGNORE INTO temp.wanted VALUES (?)", ((name,) for name in names))
        before: dict[tuple[bytes, Slot], None] = {}
        try:
            for name, window, data in self._file.sql(_WANTED):
                slot = slot_from_bytes(name)
                tables = state.window_of(window).tables
                for position, packed in ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS).items():
                    tables[position].values[slot] = tables[position].unpack(packed)
                before[window, slot] = None
        except (CoderError, ValueError, TypeError, AttributeError, LookupError) as error:
            raise DamagedFile(f"one of its rows makes no sense: {error}") from error
        for data, window_state in state.windows.items():
            window_state.fired = self.windows.has_fired(data)
        return state, before

    def save(self, state: KeyGroupState, touched: Iterable[tuple[bytes, Slot]]) -> None:
        """Writes what these keys have in these windows."""
        written, gone = [], []
        for data, slot in touched:
            window = state.windows.get(data)
            packed = {} if window is None else _packed(window, slot)
            if packed:
                written.append((slot_to_bytes(slot), data, ormsgpack.packb(packed, option=ormsgpack.OPT_NON_STR_KEYS)))
            else:
                gone.append((slot_to_bytes(slot), data))
        counts = self._counts(written, gone) if self._is_windowed else {}
        self._file.many("INSERT OR REPLACE INTO cells VALUES (?, ?, ?)", written)
        self._file.many("DELETE FROM cells WHERE slot = ? AND window = ?", gone)
        for data, change in counts.items():
            self.windows.count(data, change)

    def _counts(self, written: list[Any], gone: list[Any]) -> dict[bytes, int]:
        """How much the number of keys in each window changes."""
        changes: dict[bytes, int] = {}
        exists = "SELECT 1 FROM cells WHERE slot = ? AND window = ?"
        for name, data, _ in written:
            if self._file.sql(exists, name, data).fetchone() is None:
                changes[data] = changes.get(data, 0) + 1
        for name, data in gone:
            if self._file.sql(exists, name, data).fetchone() is not None:
                changes[data] = changes.get(data, 0) - 1
        return changes

    def all_keys(self, besides: Container[bytes] = ()) -> Iterator[list[bytes]]:
        """All keys, in the order of their bytes."""
        return self._cursor(_ALL, (), besides)

    def keys_of(self, window: bytes, besides: Container[bytes] = ()) -> Iterator[list[bytes]]:
        """The keys that have something in a window, in the order of their bytes. They may be removed meanwhile."""
        return self._cursor(_IN_WINDOW, (window,), besides)

    def _cursor(self, select: str, values: tuple[Any, ...], besides: Container[bytes]) -> Iterator[list[bytes]]:
        last = b""
        while True:
            names = [name for (name,) in self._file.sql(select, *values, last, self._part_keys)]
            if not names:
                return
            last = names[-1]
            chunk = [name for name in names if name not in besides]
            if chunk:
                yield chunk

    def heaviest(self, count: int) -> list[bytes]:
        """The keys with the most data."""
        return [name for (name,) in self._file.sql(_HEAVIEST, count)]

    def forget(self, window: bytes, names: Iterable[bytes]) -> None:
        """Removes what keys have in a window that is ending."""
        self._file.many("DELETE FROM cells WHERE slot = ? AND window = ?", ((name, window) for name in names))


def _packed(window: WindowState, slot: Slot) -> dict[int, Any]:
    return {position: table.pack(table.values[slot]) for position, table in enumerate(window.tables) if slot in table.values}
