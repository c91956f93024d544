"""Value cells: one stored value per key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from holdfast.engine.tables.base import DROP, MISSING, PUT, Cell, Focus, Rows, Slot, Table, Undo
from holdfast.model.coders import BooleanCoder, BytesCoder, Coder, Encoded, FloatCoder, StrUtf8Coder, VarIntCoder
from holdfast.model.state.specs import State, StateSpec, ValueState

__all__ = ["ValueCell", "ValueTable", "pack_value", "unpack_value", "value_cell"]


# The types that MessagePack gives back unchanged.
_NATIVE = frozenset({bool, float, int, str, type(None)})
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1

_DIRECT_CODERS = (BooleanCoder, BytesCoder, FloatCoder, StrUtf8Coder, VarIntCoder)


class ValueTable(Table):
    """`values`: key → stored; `changes`: key → stored, or MISSING for a key that was cleared."""

    __slots__ = ("any_dropped",)

    emptied = MISSING

    def __init__(self, spec: StateSpec[State]) -> None:
        super().__init__(spec)
        self.any_dropped = False

    def put(self, key: Slot, stored: Any) -> None:
        self.values[key] = stored
        self.changes[key] = stored

    def drop(self, key: Slot) -> None:
        if self.values.pop(key, MISSING) is not MISSING or key in self.changes:
            self.changes[key] = MISSING
            self.any_dropped = True

    def clear(self, keys: Iterable[Slot]) -> None:
        super().clear(keys)
        self.any_dropped = True

    def delta(self) -> Iterator[Rows]:
        changes = self.changes
        if self.any_dropped:
            dropped = [key for key, stored in changes.items() if stored is MISSING]
            if dropped:
                yield Rows(DROP, dropped, [])
                changes = {key: stored for key, stored in changes.items() if stored is not MISSING}
        if changes:
            yield Rows(PUT, list(changes), [self.spec.coder.encode_block(list(changes.values()))])

    def rows(self, keys: list[Slot], entries: list[Any]) -> Rows:
        return Rows(PUT, keys, [self.spec.coder.encode_block(entries)])

    def apply(self, rows: Rows) -> None:
        if rows.operation == DROP:
            for key in rows.keys:
                self.values.pop(key, None)
        else:
            self.values.update(zip(rows.keys, self.spec.coder.decode_block(rows.columns[0]), strict=True))

    def pack(self, entry: Any) -> Any:
        return pack_value(self.spec.coder, entry)

    def unpack(self, packed: Any) -> Any:
        return unpack_value(self.spec.coder, packed)

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        return change(entry)

    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        return [(self.spec.coder, (entry,))]

    def reveal(self, key: Slot) -> Any:
        return self.spec.coder.thaw(self.values[key])

    def conceal(self, value: Any) -> Any:
        return self.spec.coder.freeze(value)

    def settle(self) -> None:
        super().settle()
        self.any_dropped = False


def pack_value(coder: Coder[Any], stored: Any) -> Any:
    """A stored value in types that MessagePack has."""
    kind = type(stored)
    if kind in _NATIVE and (kind is not int or _INT_MIN <= stored <= _INT_MAX):
        return stored
    if kind is Encoded:
        return [True, bytes(stored)]
    return [False, coder.encode(stored)]


def unpack_value(coder: Coder[Any], packed: Any) -> Any:
    """The inverse of `pack_value`."""
    if type(packed) is not list:
        return packed
    is_encoded, data = packed
    return Encoded(data) if is_encoded else coder.decode(data)


class ValueCell(Cell[ValueTable], ValueState[Any]):
    """The hot path: one dict lookup per read, two dict stores per write."""

    __slots__ = ()

    def read(self) -> Any:
        stored = self._values.get(self._focus.key)
        if type(stored) is Encoded:
            return self._coder.thaw(stored)
        return stored

    def write(self, value: Any) -> None:
        if type(value) not in self._direct:
            value = self._freeze(value)
        key = self._focus.key
        self._values[key] = value
        self._changes[key] = value

    def clear(self) -> None:
        self._table.drop(self._focus.key)


class DirectValueCell(ValueCell):
    """The same for a coder of one immutable type, whose values are never kept as bytes: two checks fewer per call."""

    __slots__ = ("_type",)

    def __init__(self, spec: StateSpec[State], focus: Focus, undo: Undo | None) -> None:
        super().__init__(spec, focus, undo)
        (self._type,) = spec.coder.direct_types

    def read(self) -> Any:
        return self._values.get(self._focus.key)

    def write(self, value: Any) -> None:
        if type(value) is not self._type:
            value = self._freeze(value)
        key = self._focus.key
        self._values[key] = value
        self._changes[key] = value


class GuardedValueCell(ValueCell):
    """The same where a call may have to be rolled back."""

    __slots__ = ()

    def write(self, value: Any) -> None:
        self._remember()
        super().write(value)

    def clear(self) -> None:
        self._remember()
        super().clear()

    def _remember(self) -> None:
        assert self._undo is not None
        self._undo.restore(self._values, self._focus.key)
        self._undo.restore(self._changes, self._focus.key)


def value_cell(spec: StateSpec[State], focus: Focus, undo: Undo | None) -> ValueCell:
    """A value cell; it records what it changes only if `undo` is given."""
    if undo is not None:
        return GuardedValueCell(spec, focus, undo)
    is_direct = isinstance(spec.coder, _DIRECT_CODERS)
    return DirectValueCell(spec, focus, None) if is_direct else ValueCell(spec, focus, None)
