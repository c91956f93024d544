"""Sizes: roughly how many bytes the cells of a key take.

The measure, for limits and metrics: every stored value counts 8 bytes plus its content, which is 8 for a number, the length
for text or bytes, and the length of the encoded form for anything else. Keys of a map and times of an ordered list count as
values too. A size depends only on the values, not on the form in which a worker happens to hold them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from holdfast.engine.state.key_group import KeyGroupState, WindowState
from holdfast.engine.tables import Slot, Table
from holdfast.engine.tables.value import ValueTable
from holdfast.model.coders import BooleanCoder, BytesCoder, Coder, Encoded, FloatCoder, PlainCoder, StrUtf8Coder, VarIntCoder

__all__ = ["key_size", "size_of", "sizes_of", "sizes_of_window"]

_EACH = 8
_NUMBER = 8
_WINDOWS_MAX = 32
_NUMBERS = frozenset({bool, float, int, type(None)})
_TEXTS = frozenset({bytes, str})

# Blocks of these give back what went in. Blocks of others may give back the encoded form.
_PLAIN_CODERS = (BooleanCoder, BytesCoder, FloatCoder, PlainCoder, StrUtf8Coder, VarIntCoder)


def size_of(table: Table, entry: Any, most: int | None = None) -> int:
    """The size of one cell. With `most`, a larger collection is estimated from that many of its values."""
    return sum(_size(coder, values, most) for coder, values in table.stored(entry))


def _size(coder: Coder[Any], values: Collection[Any], most: int | None) -> int:
    count = len(values)
    if most is not None and count > most:
        return _size(coder, list(islice(values, most)), None) * count // most
    kinds = set(map(type, values))
    if isinstance(coder, _PLAIN_CODERS):
        if kinds <= _NUMBERS:
            return (_EACH + _NUMBER) * count
        if kinds <= _TEXTS:
            return _EACH * count + sum(map(len, values))
        return _EACH * count + sum(_plain_size(coder, value) for value in values)
    return _EACH * count + sum(len(value) if type(value) is Encoded else len(coder.encode(value)) for value in values)


def _plain_size(coder: Coder[Any], value: Any) -> int:
    kind = type(value)
    if kind in _NUMBERS:
        return _NUMBER
    return len(value) if kind in _TEXTS or kind is Encoded else len(coder.encode(value))


def sizes_of_window(window: WindowState, slots: Collection[Slot] | None = None) -> dict[Slot, int]:
    """The sizes of the keys that have something in a window, all of them or only these."""
    sizes: dict[Slot, int] = {}
    for position, table in enumerate(window.tables):
        if position == window.layout.age:
            continue
        values = table.values
        found = list(values) if slots is None else [slot for slot in slots if slot in values]
        if isinstance(table, ValueTable) and isinstance(table.spec.coder, _PLAIN_CODERS):
            coder = table.spec.coder
            for slot in found:
                entry = values[slot]
                size = _EACH + (_NUMBER if type(entry) in _NUMBERS else _plain_size(coder, entry))
                sizes[slot] = sizes.get(slot, 0) + size
        else:
            for slot in found:
                sizes[slot] = sizes.get(slot, 0) + size_of(table, values[slot])
    return sizes


def sizes_of(state: KeyGroupState) -> Iterator[tuple[bytes, dict[Slot, int]]]:
    """The sizes of all keys, window by window."""
    for data, window in state.windows.items():
        yield data, sizes_of_window(window)


def key_size(state: KeyGroupState, slot: Slot, most: int) -> int:
    """A quick estimate of the size of a key, from its newest windows and, in large collections, some of the values."""
    return sum(
        size_of(table, table.values[slot], most)
        for window in islice(reversed(state.windows.values()), _WINDOWS_MAX)
        for position, table in enumerate(window.tables)
        if slot in table.values and position != window.layout.age
    )
