"""Map cells: a dict of stored map keys and values per key. The iteration order is a Python dict's, and survives storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain, islice
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
    collection_bytes,
    freeze,
)
from holdfast.engine.tables.counts import decode_counts, encode_counts, split
from holdfast.engine.tables.drafts import Draft
from holdfast.engine.tables.sets import check_hashable
from holdfast.model.coders import Coder, Encoded
from holdfast.model.state.specs import MapState, MapStateSpec

__all__ = ["MapCell", "MapTable"]


# What happened to a map key since the last commit.
_UPDATED = 0
"""It has a new value, at its old position."""
_NEW = 1
"""It was added, after all that were there before."""
_REMOVED = 2
"""It was removed at least once. If it is back, it comes after all that were there before."""


class MapTable(Table):
    """`values`: key → {map key: stored}, never empty; `changes`: key → {map key: what happened to it} in the order of the
    first change, or None if the whole dict is new. While a call may still be rolled back, an entry from which it removed
    something is a `Draft` instead of a dict."""

    __slots__ = ()

    spec: MapStateSpec[Any, Any]

    def delta(self) -> Iterator[Rows]:
        merged = [key for key, touched in self.changes.items() if touched is not None]
        replaced = [key for key, touched in self.changes.items() if touched is None]
        if merged:
            gone, come = [], []
            for key in merged:
                touched = self.changes[key]
                gone.append([name for name, became in touched.items() if became == _REMOVED])
                come.append(_come(self.values.get(key, {}), touched))
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
            coming = zip(names[position], stored[position], strict=True)
            if gone:
                entries = self.values.get(key, {})
                for name in gone[position]:
                    entries.pop(name, None)
                entries.update(coming)
            else:
                entries = dict(coming)
            if entries:
                self.values[key] = entries
            else:
                self.values.pop(key, None)

    def _names(self, block: bytes) -> list[Any]:
        names = as_members(self.spec.key_coder, self.spec.key_coder.decode_block(block))
        if set(map(type, names)) == {str}:
            # Many keys have the same map keys: they share them, as they do when a function writes them.
            known: dict[Any, Any] = dict(zip(names, names, strict=True))
            return list(map(known.__getitem__, names))
        return names

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        return {name: change(stored) for name, stored in entry.items()}

    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        return [(self.spec.key_coder, entry.keys()), (self.spec.coder, entry.values())]

    def items(self) -> int:
        return 2 * sum(map(len, self.values.values()))

    def containers(self) -> int:
        return collection_bytes(dict, self.values.values())

    def reveal(self, key: Slot) -> dict[Any, Any]:
        name, value = self.spec.key_coder.thaw, self.spec.coder.thaw
        return {name(k): value(v) for k, v in self.values[key].items()}

    def conceal(self, value: Any) -> dict[Any, Any]:
        return {self.spec.key_coder.freeze(k): self.spec.coder.freeze(v) for k, v in value.items()}


class MapCell(Cell[MapTable], MapState[Any, Any]):
    __slots__ = ("_key_coder",)

    def __init__(self, spec: MapStateSpec[Any, Any], focus: Focus, undo: Undo | None) -> None:
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
        self._touch(slot, name, _UPDATED if name in entries else _NEW)
        if self._undo is not None and type(entries) is dict:
            self._undo.restore(entries, name)
        entries[name] = stored

    def remove(self, key: Any) -> None:
        name = self._name(key)
        slot = self._focus.key
        entries = self._values.get(slot)
        if entries is None or name not in entries:
            return
        self._touch(slot, name, _REMOVED)
        if self._undo is not None:
            if len(entries) > 1:
                entries = self._draft(slot, entries)
            else:
                self._undo.restore(self._values, slot)
        if len(entries) > 1:
            del entries[name]
        else:
            del self._values[slot]

    def _draft(self, slot: Slot, entries: Any) -> Draft:
        """The entry in a form that allows removals to be rolled back."""
        if type(entries) is Draft:
            return entries
        assert self._undo is not None
        draft = Draft(entries)
        self._undo.restore(self._values, slot)
        self._undo.wait(draft.finish, self._values, slot)
        self._values[slot] = draft
        return draft

    def _entries(self) -> Mapping[Any, Any]:
        entries: Mapping[Any, Any] = self._values.get(self._focus.key, {})
        return entries

    def _name(self, key: Any) -> Any:
        check_hashable(key, f"A key of the map cell {self._spec.name!r}")
        return freeze(self._key_coder, key, self._spec.name)

    def _touch(self, slot: Slot, name: Any, became: int) -> None:
        if slot not in self._changes:
            if self._undo is not None:
                self._undo.restore(self._changes, slot)
            self._changes[slot] = {}
        touched = self._changes[slot]
        if touched is None or (became != _REMOVED and name in touched):
            return
        if self._undo is not None:
            self._undo.restore(touched, name)
        touched[name] = became


def _come(present: Any, touched: dict[Any, int]) -> dict[Any, Any]:
    """What is new in an entry: replayed after the removals, it restores the entry in order."""
    come = {name: present[name] for name, became in touched.items() if became == _UPDATED}
    count = sum(name in present for name, became in touched.items() if became != _UPDATED)
    last = list(islice(reversed(present), count))
    come.update((name, present[name]) for name in reversed(last))
    return come
