"""Bag cells: a list of stored values per key; only what was added since the last commit goes into a delta."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from holdfast.engine.tables.base import APPEND, REPLACE, Cell, Focus, Rows, Slot, Table, Undo, collection_bytes
from holdfast.engine.tables.counts import decode_counts, encode_counts, split
from holdfast.model.coders import Coder
from holdfast.model.state.specs import BagState, State, StateSpec

__all__ = ["BagCell", "BagTable", "BagView", "LimitedBagCell", "OverLimit"]

_REPLACED = -1


class BagTable(Table):
    """`values`: key → list of stored values, never empty; `changes`: key → how many of them are committed, or -1 if the
    list was cleared or is new."""

    __slots__ = ()

    emptied = _REPLACED

    def delta(self) -> Iterator[Rows]:
        appended = [key for key, committed in self.changes.items() if committed != _REPLACED]
        replaced = [key for key, committed in self.changes.items() if committed == _REPLACED]
        if appended:
            tails = [self.values[key][self.changes[key] :] for key in appended]
            yield self._rows(APPEND, appended, tails)
        if replaced:
            yield self._rows(REPLACE, replaced, [self.values.get(key, []) for key in replaced])

    def rows(self, keys: list[Slot], entries: list[Any]) -> Rows:
        return self._rows(REPLACE, keys, entries)

    def _rows(self, operation: int, keys: list[Slot], lists: list[list[Any]]) -> Rows:
        block = self.spec.coder.encode_block(list(chain.from_iterable(lists)))
        return Rows(operation, keys, [encode_counts(map(len, lists)), block])

    def apply(self, rows: Rows) -> None:
        counts = decode_counts(rows.columns[0])
        lists = split(self.spec.coder.decode_block(rows.columns[1]), counts)
        for key, values in zip(rows.keys, lists, strict=True):
            if rows.operation == APPEND:
                self.values[key].extend(values)
            elif values:
                self.values[key] = values
            else:
                self.values.pop(key, None)

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        return [change(stored) for stored in entry]

    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        return [(self.spec.coder, entry)]

    def shorten(self, key: Slot, most: int) -> int:
        """Removes the oldest values of a key until it has at most `most`; returns how many were removed."""
        values = self.values.get(key, ())
        surplus = len(values) - most
        if surplus <= 0:
            return 0
        # A new list: a `BagView` of the old one relies on its length.
        self.values[key] = values[surplus:]
        self.changes[key] = _REPLACED
        return surplus

    def items(self) -> int:
        return sum(map(len, self.values.values()))

    def containers(self) -> int:
        return collection_bytes(list, self.values.values())

    def reveal(self, key: Slot) -> list[Any]:
        return [self.spec.coder.thaw(stored) for stored in self.values[key]]

    def conceal(self, value: Any) -> list[Any]:
        return [self.spec.coder.freeze(item) for item in value]


class BagView(Iterable[Any]):
    """What a bag held when it was read.

    Lists in a bag only grow at the end (a clear makes a new one), so remembering the length is enough.
    """

    __slots__ = ("_coder", "_length", "_values")

    def __init__(self, values: list[Any], coder: Coder[Any]) -> None:
        self._values = values
        self._length = len(values)
        self._coder = coder

    def __iter__(self) -> Iterator[Any]:
        return map(self._coder.thaw, islice(self._values, self._length))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return repr(list(self))


class BagCell(Cell[BagTable], BagState[Any]):
    __slots__ = ()

    def read(self) -> BagView:
        return BagView(self._values.get(self._focus.key, []), self._coder)

    def add(self, value: Any) -> None:
        if type(value) not in self._direct:
            value = self._freeze(value)
        key = self._focus.key
        values = self._values.get(key)
        if self._undo is not None:
            self._undo.restore(self._changes, key)
        if values is None:
            if self._undo is not None:
                self._undo.restore(self._values, key)
            self._values[key] = values = []
            self._changes[key] = _REPLACED
        elif key not in self._changes:
            self._changes[key] = len(values)
        if self._undo is not None:
            self._undo.add(_truncate, values, len(values))
        values.append(value)


class OverLimit(BaseException):
    """A call would have made a bag too large, and is rolled back. A BaseException, so that no user function catches it."""


class LimitedBagCell(BagCell):
    """A bag that refuses to grow beyond a limit."""

    __slots__ = ("_most",)

    def __init__(self, spec: StateSpec[State], focus: Focus, undo: Undo | None, most: int) -> None:
        super().__init__(spec, focus, undo)
        self._most = most

    def add(self, value: Any) -> None:
        if len(self._values.get(self._focus.key, ())) >= self._most:
            raise OverLimit(self._spec.name)
        super().add(value)


def _truncate(values: list[Any], length: int) -> None:
    del values[length:]
