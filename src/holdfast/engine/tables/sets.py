"""Set cells: a set of stored values per key. A set of a few members is a tuple, which takes a tenth of the memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from holdfast.engine.tables.base import MERGE, REPLACE, Cell, Rows, Slot, Table, as_members, collection_bytes
from holdfast.engine.tables.counts import decode_counts, encode_counts, split
from holdfast.errors import InputError
from holdfast.model.coders import Coder, Encoded
from holdfast.model.state.specs import SetState

__all__ = ["SetCell", "SetTable", "check_hashable"]


_FEW = 8
"""Up to this many members are kept as a tuple."""


class SetTable(Table):
    """`values`: key → tuple or set of stored values, never empty; a tuple has at most `_FEW`, each once.
    `changes`: key → {value added or removed: (whether it was ever removed, the value as it came last)}, or None if the whole
    set is new. (1 and 1.0 are one member; the one added last is kept.)"""

    __slots__ = ()

    def delta(self) -> Iterator[Rows]:
        merged = [key for key, touched in self.changes.items() if touched is not None]
        replaced = [key for key, touched in self.changes.items() if touched is None]
        if merged:
            gone, come = [], []
            for key in merged:
                present = self.values.get(key, ())
                touched = self.changes[key]
                gone.append(self._sorted(member for member, (went, _) in touched.items() if went))
                # Not those of `present` that were touched: it may have a million others.
                come.append(self._sorted(member for _, member in touched.values() if member in present))
            columns = [column for lists in (gone, come) for column in self._columns(lists)]
            yield Rows(MERGE, merged, columns)
        if replaced:
            lists = [self._sorted(self.values.get(key, ())) for key in replaced]
            yield Rows(REPLACE, replaced, self._columns(lists))

    def rows(self, keys: list[Slot], entries: list[Any]) -> Rows:
        return Rows(REPLACE, keys, self._columns([self._sorted(entry) for entry in entries]))

    def _columns(self, lists: list[list[Any]]) -> list[bytes]:
        return [
            encode_counts(map(len, lists)),
            self.spec.coder.encode_block(list(chain.from_iterable(lists))),
        ]

    def _sorted(self, values: Iterable[Any]) -> list[Any]:
        """In an order that does not depend on hashes, so that the same change has the same bytes in every process."""
        coder = self.spec.coder
        return sorted(values, key=lambda stored: stored if type(stored) is Encoded else coder.encode(stored))

    def apply(self, rows: Rows) -> None:
        lists = [self._lists(rows.columns[i : i + 2]) for i in range(0, len(rows.columns), 2)]
        for position, key in enumerate(rows.keys):
            come = lists[-1][position]
            if rows.operation == MERGE:
                values = self.values.get(key, ())
                if type(values) is tuple:
                    values = set(values)
                values.difference_update(lists[0][position])
                values.update(come)
                come = values
            if come:
                self.values[key] = tuple(dict.fromkeys(come)) if len(come) <= _FEW else _few(come)
            else:
                self.values.pop(key, None)

    def _lists(self, columns: list[bytes]) -> list[list[Any]]:
        coder = self.spec.coder
        return split(as_members(coder, coder.decode_block(columns[1])), decode_counts(columns[0]))

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        return _few([change(stored) for stored in entry])

    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        return [(self.spec.coder, entry)]

    def items(self) -> int:
        return sum(map(len, self.values.values()))

    def containers(self) -> int:
        entries = self.values.values()
        tuples = [entry for entry in entries if type(entry) is tuple]
        if len(tuples) == len(entries):
            return collection_bytes(tuple, tuples)
        return collection_bytes(tuple, tuples) + collection_bytes(set, [e for e in entries if type(e) is not tuple])

    def reveal(self, key: Slot) -> set[Any]:
        return {self.spec.coder.thaw(stored) for stored in self.values[key]}

    def conceal(self, value: Any) -> set[Any] | tuple[Any, ...]:
        return _few([self.spec.coder.freeze(item) for item in value])


def _few(members: Collection[Any]) -> set[Any] | tuple[Any, ...]:
    """Members, some of them perhaps equal, as they are kept."""
    found = members if isinstance(members, set) else dict.fromkeys(members)
    if len(found) <= _FEW:
        return tuple(found)
    return found if isinstance(found, set) else set(found)


class SetCell(Cell[SetTable], SetState[Any]):
    __slots__ = ()

    def read(self) -> set[Any]:
        return set(map(self._coder.thaw, self._values.get(self._focus.key, ())))

    def contains(self, value: Any) -> bool:
        return self._member(value) in self._values.get(self._focus.key, ())

    def add(self, value: Any) -> None:
        stored = self._member(value)
        key = self._focus.key
        values = self._values.get(key)
        if values is None:
            if self._undo is not None:
                self._undo.restore(self._values, key)
                self._undo.restore(self._changes, key)
            self._values[key] = (stored,)
            self._changes[key] = None
        elif stored not in values:
            self._touch(key, stored, went=False)
            if type(values) is tuple:
                if self._undo is not None:
                    self._undo.restore(self._values, key)
                self._values[key] = (*values, stored) if len(values) < _FEW else {*values, stored}
                return
            values.add(stored)
            if self._undo is not None:
                self._undo.add(values.discard, stored)

    def remove(self, value: Any) -> None:
        stored = self._member(value)
        key = self._focus.key
        values = self._values.get(key)
        if values is None or stored not in values:
            return
        self._touch(key, stored, went=True)
        if type(values) is tuple:
            if self._undo is not None:
                self._undo.restore(self._values, key)
            if len(values) > 1:
                place = values.index(stored)
                self._values[key] = values[:place] + values[place + 1 :]
            else:
                del self._values[key]
            return
        if self._undo is not None:
            self._undo.add(values.add, _kept(values, stored))
        values.discard(stored)
        if not values:
            if self._undo is not None:
                self._undo.restore(self._values, key)
            del self._values[key]

    def _member(self, value: Any) -> Any:
        check_hashable(value, f"A member of the set cell {self._spec.name!r}")
        return value if type(value) in self._direct else self._freeze(value)

    def _touch(self, key: Slot, stored: Any, went: bool) -> None:
        if key not in self._changes:
            if self._undo is not None:
                self._undo.restore(self._changes, key)
            self._changes[key] = {}
        touched = self._changes[key]
        if touched is not None:
            if self._undo is not None:
                self._undo.restore(touched, stored)
            before, _ = touched.get(stored, (False, None))
            touched[stored] = (went or before, stored)


class _Seeker:
    """Equal to a member of a set, and remembers which object it was compared with."""

    def __init__(self, member: Any) -> None:
        self.member = self.found = member

    def __hash__(self) -> int:
        return hash(self.member)

    def __eq__(self, other: object) -> bool:
        if self.member != other:
            return False
        self.found = other
        return True


def _kept(values: set[Any], member: Any) -> Any:
    """The member of a set as the set has it: 1.0, say, if 1 is asked for."""
    seeker = _Seeker(member)
    return seeker.found if seeker in values else member


def check_hashable(value: Any, owner: str) -> None:
    """Refuses what a Python set or dict would refuse."""
    try:
        hash(value)
    except TypeError:
        raise InputError(
            f"{owner} must be hashable; {value!r} (a {type(value).__name__}) is not.",
            todo="use a tuple for a list, a frozenset for a set",
        ) from None
    if _is_unequal_to_itself(value):
        raise InputError(
            f"{owner} must be equal to itself; {value!r} (a {type(value).__name__}) is not: it would not be found again.",
            todo="use None or a string instead of NaN",
        )


def _is_unequal_to_itself(value: Any) -> bool:
    # Python considers two tuples equal if they hold the very same NaN object, so their items are checked too.
    if type(value) in (tuple, frozenset):
        return any(map(_is_unequal_to_itself, value))
    return bool(value != value)
