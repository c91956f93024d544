"""Memory: about how many bytes a key group takes in memory, between bundles.

Python says what an object takes. Asking all objects would take too long, so: the dicts and collections are all asked, by
the fast way, and what is in them is judged by some of their values. Even that is done only when the state has changed by
a fifth since the last time; in between, what was written tells how much it may have grown.

What is counted is what the objects ask for; what the allocator needs besides is not.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from holdfast.engine.state.key_group import KeyGroupState, WindowState
from holdfast.engine.tables import Table

__all__ = ["MemoryMeter", "deep_size", "measured"]

_CHANGE = 5
"""Measured again when a fifth of it may be different."""
_WINDOWS = 8
"""So many windows are looked into, from either end."""
_KEYS = 24
"""So many of their keys, from either end."""
_ITEMS = 8
"""So many values of a collection."""

_OBJECTS_MAX = 1_000
"""A value that refers to more than about so many objects refers to what is not its own, for all that is known."""

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_ATOMS = frozenset({bytes, float, str})


class MemoryMeter:
    """Follows the size of one key group."""

    def __init__(self) -> None:
        self._bytes = 0
        self._entries = 0
        self._stored = 0
        self._written = 0
        self._is_known = False

    def wrote(self, size: int) -> None:
        """A delta of so many bytes was written."""
        self._written += size

    def estimate(self, state: KeyGroupState, stored: int) -> int:
        """About how much memory the state takes. `stored` is about how many bytes it has without compression."""
        entries = sum(len(table.values) for window in state.windows.values() for table in window.tables)
        grown = self._bytes * self._written // max(self._stored, 1)
        if not self._is_known or _CHANGE * grown > self._bytes or _CHANGE * abs(entries - self._entries) > self._entries:
            self._bytes, self._entries, self._stored = measured(state), entries, stored
            self._written, self._is_known = 0, True
            grown = 0
        # Half of what was written is in the place of something else, for all that is known.
        return self._bytes + grown // 2


def measured(state: KeyGroupState) -> int:
    """What a state takes now, with its indexes."""
    size = 0 if state.ledger is None else state.ledger.memory_bytes
    size += sum(index.memory_bytes for index in state.indexes.values())
    size += sum(index.memory_bytes for index in state.expiring.values())
    windows = list(state.windows.values())
    size += sum(_own_size(window) for window in windows)
    counted: set[int] = set()
    for place in range(len(state.layout.specs)):
        size += _tables([window.tables[place] for window in windows], counted)
    return size


def _own_size(window: WindowState) -> int:
    own = sum(map(sys.getsizeof, (window, window.data, window.window, window.tables)))
    return own + sum(sys.getsizeof(table) + sys.getsizeof(table.changes) for table in window.tables)


def _tables(tables: list[Table], counted: set[int]) -> int:
    """What the tables of one cell take in all windows. `counted` has the objects that were met before."""
    keys = sum(len(table.values) for table in tables)
    size = sum(sys.getsizeof(table.values) for table in tables)
    if not keys:
        return size
    some = [
        (table, slot)
        for table in _ends([table for table in tables if table.values], _WINDOWS)
        for slot in _ends(table.values, _KEYS)
    ]
    each_slot = _mean((slot for _, slot in some), counted)
    parts = [values for table, slot in some for _, values in table.stored(table.values[slot])]
    each_item = sum(_mean(islice(values, _ITEMS), counted) * len(values) for values in parts) / sum(map(len, parts))
    containers = sum(table.containers() for table in tables)
    items = sum(table.items() for table in tables)
    return size + containers + int(keys * each_slot + items * each_item)


def _mean(values: Iterable[Any], counted: set[int]) -> float:
    sizes = [deep_size(value, counted) for value in values]
    return sum(sizes) / len(sizes)


def _ends(things: Any, count: int) -> Iterator[Any]:
    """The first so many and the last so many, or all."""
    if len(things) <= 2 * count:
        yield from things
    else:
        yield from islice(things, count)
        yield from islice(reversed(things), count)


def deep_size(value: Any, counted: set[int]) -> int:
    """What an object takes with all that it refers to. What Python has only once anyway, or was counted, takes nothing."""
    kind = type(value)
    if kind is int:
        return 0 if -5 <= value <= 256 else sys.getsizeof(value)
    if kind in _ATOMS:
        return 0 if id(value) in counted else _count(value, counted)
    size = 0
    left: list[Iterable[Any]] = [(value,)]
    most = len(counted) + _OBJECTS_MAX
    while left and len(counted) < most:
        for thing in left.pop():
            if thing is None or isinstance(thing, (bool, *_SHARED)) or id(thing) in counted:
                continue
            size += deep_size(thing, counted) if type(thing) is int else _count(thing, counted)
            left.append(gc.get_referents(thing))
    return size


def _count(value: Any, counted: set[int]) -> int:
    counted.add(id(value))
    return sys.getsizeof(value)
