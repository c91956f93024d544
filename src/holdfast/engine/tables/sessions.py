"""Tables of sessions: the open sessions of each key, and which keys are due next.

`values`: key → the stored form of its sessions, see `model.coders.sessions`; a key without sessions is not there.

Invariants
- The sessions of a key are in order, and do not overlap.
- Once the index has been made, each key has an entry at the time when its first session is due, or earlier. Entries that are
  too early, or of keys that are gone, are found when their time comes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from holdfast.engine.tables.base import DROP, Cell, Rows, Slot, collection_bytes
from holdfast.engine.tables.due import DueIndex
from holdfast.engine.tables.value import ValueTable, pack_value, unpack_value
from holdfast.model.coders import Coder, VarIntCoder
from holdfast.model.coders.sessions import FIELDS
from holdfast.model.state.sessions import SessionsStateSpec
from holdfast.model.state.specs import State, StateSpec
from holdfast.model.time.units import MAX_MICROS

__all__ = ["SessionsCell", "SessionsTable"]

_NUMBERS = VarIntCoder()
_STALE_MIN = 100


class SessionsTable(ValueTable):
    """The sessions of every key."""

    __slots__ = ("_coder", "_index", "_lateness", "_width")

    spec: SessionsStateSpec

    def __init__(self, spec: StateSpec[State]) -> None:
        super().__init__(spec)
        self._coder = self.spec.coder
        self._width = self._coder.width
        self._lateness = self.spec.lateness_micros
        self._index: DueIndex | None = None

    def due_of(self, entry: tuple[Any, ...]) -> int:
        """When the first of a key's sessions is due: to give its result, or to be forgotten."""
        width = self._width
        if len(entry) == width and not entry[3]:
            return entry[1]  # type: ignore[no-any-return]
        ends = zip(entry[1::width], entry[3::width], strict=True)
        due: int = min(min(end + self._lateness, MAX_MICROS) if on_time else end for end, on_time in ends)
        return due

    @property
    def index(self) -> DueIndex:
        """Which keys are due when."""
        index = self._index
        if index is None or len(index) > 2 * len(self.values) + _STALE_MIN:
            index = self._index = DueIndex(list(map(self.due_of, self.values.values())), list(self.values))
        return index

    def enter(self, slots: Sequence[Slot], times: Sequence[int]) -> None:
        """Has keys looked at when they are due."""
        if self._index is not None:
            self._index.enter(times, slots)

    def forget_index(self) -> None:
        """Called when `values` was changed from outside."""
        self._index = None

    def apply(self, rows: Rows) -> None:
        super().apply(rows)
        if self._index is not None and rows.operation != DROP:
            self.enter(rows.keys, [self.due_of(self.values[key]) for key in rows.keys])

    def pack(self, entry: Any) -> Any:
        coders = self._coders() * (len(entry) // self._width)
        return [pack_value(coder, item) for coder, item in zip(coders, entry, strict=True)]

    def unpack(self, packed: Any) -> Any:
        coders = self._coders()
        if not packed or len(packed) % len(coders):
            raise ValueError(f"{len(packed)} parts are no sessions of {len(coders)} each")
        return tuple(
            [unpack_value(coder, item) for coder, item in zip(coders * (len(packed) // len(coders)), packed, strict=True)]
        )

    def _coders(self) -> list[Coder[Any]]:
        """Of the parts of one session."""
        return [*[_NUMBERS] * FIELDS, *self._coder.components]

    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        width = self._width
        numbers = [item for place in range(FIELDS) for item in entry[place::width]]
        accumulators = [(coder, entry[FIELDS + place :: width]) for place, coder in enumerate(self._coder.components)]
        return [(_NUMBERS, numbers), *accumulators]

    def items(self) -> int:
        return sum(map(len, self.values.values()))

    def containers(self) -> int:
        index = 0 if self._index is None else self._index.memory_bytes
        return index + collection_bytes(tuple, self.values.values())


class SessionsCell(Cell[SessionsTable]):
    """Sessions are kept by their own runner, not by a function: nobody has a live cell of them."""

    __slots__ = ()
