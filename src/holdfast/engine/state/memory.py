"""Memory: roughly how many bytes a key group takes in memory between bundles.

Python can tell the size of an object, but asking every object would take too long. So dicts and collections are all
measured, in a fast way, and their content is estimated from some of their values. Even that happens only when the state
may have changed by a fifth since the last time; in between, the bytes written show how much it may have grown.

Only the sizes of objects are counted, not the overhead of the allocator.
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
"""Measure again when a fifth may have changed."""
_WINDOWS = 8
"""How many windows are sampled, from either end."""
_KEYS = 24
"""How many of their keys, from either end."""
_ITEMS = 8
"""How many values of a collection."""

_OBJECTS_MAX = 1_000
"""A value that refers to more objects than about this many is assumed to refer to some that it does not own."""

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
        """Called when a delta of `size` bytes was written."""
        self._written += size

    def estimate(self, state: KeyGroupState, stored: int) -> int:
        """Roughly how much memory the state takes. `stored` is roughly its stored size without compression."""
        entries = state.entries
        grown = self._bytes * self._written // max(self._stored, 1)
        if not self._is_known or _CHANGE * grown > self._bytes or _CHANGE * abs(entries - self._entries) > self._entries:
            self._bytes, self._entries, self._stored = measured(state), entries, stored
            self._written, self._is_known = 0, True
            grown = 0
        # Assumes that half of what was written replaced something else.
        return self._bytes + grown // 2


def measured(state: KeyGroupState) -> int:
    """The present size of a state, with its indexes."""
    size = 0 if state.ledger is None else state.ledger.memory_bytes
    size += sum(index.memory_bytes for index in state.indexes.values())
    size += sum(index.memory_bytes for index in state.expiring.values())
    windows = list(state.windows.values())
    size += sum(_own_size(window) for window in windows)
    counted: set[int] = set()
    for position in range(len(state.layout.specs)):
        size += _tables([window.tables[position] for window in windows], counted)
    return size


def _own_size(window: WindowState) -> int:
    own = sum(map(sys.getsizeof, (window, window.data, window.window, window.tables)))
    return own + sum(sys.getsizeof(table) + sys.getsizeof(table.changes) for table in window.tables)


def _tables(tables: list[Table], counted: set[int]) -> int:
    """The size of one cell's tables in all windows. `counted` has the objects already counted."""
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
    parts = [values for table, slot in some for values in table.objects(table.values[slot])]
    each_item = sum(_mean(islice(values, _ITEMS), counted) * len(values) for values in parts) / sum(map(len, parts))
    containers = sum(table.containers() for table in tables)
    items = sum(table.items() for table in tables)
    return size + containers + int(keys * each_slot + items * each_item)


def _mean(values: Iterable[Any], counted: set[int]) -> float:
    sizes = [deep_size(value, counted) for value in values]
    return sum(sizes) / len(sizes)


def _ends(things: Any, count: int) -> Iterator[Any]:
    """The first and last `count`, or all."""
    if len(things) <= 2 * count:
        yield from things
    else:
        yield from islice(things, count)
        yield from islice(reversed(things), count)


def deep_size(value: Any, counted: set[int]) -> int:
    """The size of an object with everything it refers to, except objects that Python shares or that were counted before."""
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
