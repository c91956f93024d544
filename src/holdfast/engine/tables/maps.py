"""Map cells: a dict of stored keys and values a key. Iteration order is that of a Python dict, and survives storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any

from holdfast.engine.tables.base import (
    MERGE,
    MISSING,
    REPLACE,
    Cell,
    Focus,
    Rows,
    Slot,
    Table,
    Undo,
    as_members,
    freeze,
)
from holdfast.engine.tables.counts import decode_counts, encode_counts, split
from holdfast.engine.tables.sets import check_hashable
from holdfast.model.coders import Coder, Encoded
from holdfast.model.state import MapState, MapStateSpec

__all__ = ["MapCell", "MapTable"]


class MapTable(Table):
    """`values`: key → {map key: stored}, never empty; `changes`: key → {map key: whether it was removed in between}
    in the order in which the live dict would have new entries, or None if the whole dict is new."""

    __slots__ = ()

    spec: MapStateSpec

    def delta(self) -> Iterator[Rows]:
        merged = [key for key, touched in self.changes.items() if touched is not None]
        replaced = [key for key, touched in self.changes.items() if touched is None]
        if merged:
            gone, come = [], []
            for key in merged:
                present = self.values.get(key, {})
                touched = self.changes[key]
                gone.append([name for name, removed in touched.items() if removed])
                come.append({name: present[name] for name in touched if name in present})
            yield Rows(MERGE, merged, [*self._key_columns(gone), *self._columns(come)])
        if replaced:
            yield Rows(REPLACE, replaced, self._columns([self.values.get(key, {}) for key in replaced]))

    def rows(self, keys: list[Slot], entries: list[Any]) -> Rows:
        return Rows(REPLACE, keys, self._columns(entries))

    def _key_columns(self, lists: list[Any]) -> list[bytes]:
        return [
            encode_counts(map(len, lists)),
            self.spec.key_coder.encode_block(list(chain.from_iterable(lists))),
        ]

    def _columns(self, dicts: list[dict[Any, Any]]) -> list[bytes]:
        values = list(chain.from_iterable(d.values() for d in dicts))
        return [*self._key_columns(dicts), self.spec.coder.encode_block(values)]

    def apply(self, rows: Rows) -> None:
        columns = rows.columns
        gone: list[list[Any]] = []
        if rows.operation == MERGE:
            gone = split(self._names(columns[1]), decode_counts(columns[0]))
            columns = columns[2:]
        counts = decode_counts(columns[0])
        names = split(self._names(columns[1]), counts)
        stored = split(self.spec.coder.decode_block(columns[2]), counts)
        for position, key in enumerate(rows.keys):
            entries = self.values.get(key, {}) if gone else {}
            for name in gone[position] if gone else ():
                entries.pop(name, None)
            entries.update(zip(names[position], stored[position], strict=True))
            if entries:
                self.values[key] = entries
            else:
                self.values.pop(key, None)

    def _names(self, block: bytes) -> list[Any]:
        return as_members(self.spec.key_coder, self.spec.key_coder.decode_block(block))

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        return {name: change(stored) for name, stored in entry.items()}

    def stored(self, entry: Any) -> list[tuple[Coder, Collection[Any]]]:
        return [(self.spec.key_coder, entry.keys()), (self.spec.coder, entry.values())]

    def reveal(self, key: Slot) -> dict[Any, Any]:
        name, value = self.spec.key_coder.thaw, self.spec.coder.thaw
        return {name(k): value(v) for k, v in self.values[key].items()}

    def conceal(self, value: Any) -> dict[Any, Any]:
        return {self.spec.key_coder.freeze(k): self.spec.coder.freeze(v) for k, v in value.items()}


class MapCell(Cell[MapTable], MapState[Any, Any]):
    __slots__ = ("_key_coder",)

    def __init__(self, spec: MapStateSpec, focus: Focus, undo: Undo | None) -> None:
        super().__init__(spec, focus, undo)
        self._key_coder = spec.key_coder

    def get(self, key: Any, default: Any = None) -> Any:
        stored = self._entries().get(self._name(key), MISSING)
        if stored is MISSING:
            return default
        return self._coder.thaw(stored) if type(stored) is Encoded else stored

    def contains(self, key: Any) -> bool:
        return self._name(key) in self._entries()

    def keys(self) -> list[Any]:
        return list(map(self._key_coder.thaw, self._entries()))

    def values(self) -> list[Any]:
        return list(map(self._coder.thaw, self._entries().values()))

    def items(self) -> list[tuple[Any, Any]]:
        return list(zip(self.keys(), self.values(), strict=True))

    def read(self) -> dict[Any, Any]:
        return dict(self.items())

    def put(self, key: Any, value: Any) -> None:
        name = self._name(key)
        stored = self._freeze(value)
        slot = self._focus.key
        entries = self._values.get(slot)
        if entries is None:
            if self._undo is not None:
                self._undo.restore(self._values, slot)
                self._undo.restore(self._changes, slot)
            self._values[slot] = {name: stored}
            self._changes[slot] = None
            return
        touched = self._touched(slot)
        if touched is not None and name not in entries:
            # A new entry of the dict stands last in it, so it must come last when the change is replayed.
            removed = touched.pop(name, False)
            touched[name] = removed
        elif touched is not None:
            touched.setdefault(name, False)
        if self._undo is not None:
            self._undo.restore(entries, name)
        entries[name] = stored

    def remove(self, key: Any) -> None:
        name = self._name(key)
        slot = self._focus.key
        entries = self._values.get(slot)
        if entries is None or name not in entries:
            return
        touched = self._touched(slot)
        if touched is not None:
            touched.pop(name, None)
            touched[name] = True
        if self._undo is not None:
            self._undo.add(_reset, entries, dict(entries))
        del entries[name]
        if not entries:
            if self._undo is not None:
                self._undo.restore(self._values, slot)
            del self._values[slot]

    def _entries(self) -> dict[Any, Any]:
        entries: dict[Any, Any] = self._values.get(self._focus.key, {})
        return entries

    def _name(self, key: Any) -> Any:
        check_hashable(key, f"A key of the map cell {self._spec.name!r}")
        return freeze(self._key_coder, key, self._spec.name)

    def _touched(self, slot: Slot) -> dict[Any, bool] | None:
        """The record of what changed in this entry, made ready to be changed itself."""
        if slot not in self._changes:
            if self._undo is not None:
                self._undo.restore(self._changes, slot)
            self._changes[slot] = {}
        touched: dict[Any, bool] | None = self._changes[slot]
        if self._undo is not None and touched is not None:
            self._undo.add(_reset, touched, dict(touched))
        return touched


def _reset(mapping: dict[Any, Any], old: dict[Any, Any]) -> None:
    """Makes a dict what it was, in its old order, without exchanging the object."""
    mapping.clear()
    mapping.update(old)
