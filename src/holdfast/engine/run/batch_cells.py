"""Value cells as columns: those of all keys of a batch are read and written together. The tables are those of any step."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import compress, repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.engine.run.batch_columns import items_of
from holdfast.engine.state.key_group import WindowState
from holdfast.engine.tables import Slot
from holdfast.engine.tables.base import MISSING, freeze
from holdfast.engine.tables.expiring import NEVER_TOUCHED
from holdfast.engine.tables.value import ValueTable
from holdfast.errors import OutputError
from holdfast.model.coders import BooleanCoder, Encoded, FloatCoder, VarIntCoder
from holdfast.model.functions.batches import ColumnState, Mask
from holdfast.model.state.specs import State, StateSpec
from holdfast.model.state.ttl import Ttl

__all__ = ["CellTimes", "ColumnCell"]

_ITEMS: dict[type, tuple[type, Any]] = {
    VarIntCoder: (int, np.int64),
    FloatCoder: (float, np.float64),
    BooleanCoder: (bool, np.bool_),
}
"""What coders of numbers and booleans give, as Python's type and as NumPy's."""

_IMMUTABLE = frozenset({bool, bytes, float, int, str, type(None)})


class CellTimes:
    """When the cells of a batch are touched, and what has expired by now, in microseconds."""

    def __init__(self, real: int, watermark: int) -> None:
        self.real = real
        self.watermark = watermark
        self.of_key: list[int] = []
        """The latest event time of each key of the batch."""
        self.expired = 0
        """How many cells have been found expired."""

    def now(self, ttl: Ttl) -> int:
        return self.watermark if ttl.in_event_time else self.real

    def touches(self, ttl: Ttl) -> list[int]:
        """The time of a touch now, for each key of the batch."""
        times = [max(self.watermark, time) for time in self.of_key] if ttl.in_event_time else [self.real] * len(self.of_key)
        grain = ttl.grain
        return [time if time == NEVER_TOUCHED else time + -time % grain for time in times]


class ColumnCell(ColumnState):
    """The cells that one spec declares. `attach` binds it to the keys of a batch."""

    def __init__(self, spec: StateSpec[State], position: int) -> None:
        self._spec = spec
        self._position = position
        self._coder = spec.coder
        self._item = _ITEMS.get(type(spec.coder))

    def attach(self, window: WindowState, slots: list[Slot], times: CellTimes) -> None:
        table = window.tables[self._position]
        assert isinstance(table, ValueTable)
        self._window = window
        self._table = table
        self._slots = slots
        self._times = times

    def read(self, default: object) -> NDArray[Any]:
        self._expire(self._slots, reading=True)
        held = self._held()
        types = set(map(type, held))
        if Encoded in types:
            held = [self._coder.thaw(stored) if type(stored) is Encoded else stored for stored in held]
        if type(MISSING) in types:
            if type(default) in _IMMUTABLE:
                held = [default if stored is MISSING else stored for stored in held]
            else:
                # The function may change what it is given: no two keys share it.
                held = [copy.deepcopy(default) if stored is MISSING else stored for stored in held]
        self._touch(None, self._spec.ttl is not None and self._spec.ttl.refresh == "read")
        return self._array(held)

    def known(self) -> Mask:
        self._expire(self._slots, reading=True)
        return np.fromiter((stored is not MISSING for stored in self._held()), dtype=bool, count=len(self._slots))

    def write(self, values: ArrayLike | Sequence[object], where: Mask | None = None) -> None:
        slots = self._chosen(self._slots, where)
        self._expire(slots, reading=False)
        stored = self._stored(self._chosen(self._by_key(values), where))
        self._table.values.update(zip(slots, stored, strict=True))
        self._table.changes.update(zip(slots, stored, strict=True))
        self._touch(where, self._spec.ttl is not None)

    def clear(self, where: Mask | None = None) -> None:
        self._drop(self._chosen(self._slots, where))

    # Values.

    def _held(self) -> list[Any]:
        """The stored values, or MISSING."""
        return list(map(self._table.values.get, self._slots, repeat(MISSING)))

    def _array(self, items: list[Any]) -> NDArray[Any]:
        # Python's own type decides: NumPy would make an integer of a boolean, and a boolean of anything.
        if self._item is not None and set(map(type, items)) <= {self._item[0]}:
            try:
                return np.array(items, dtype=self._item[1])
            except OverflowError:
                pass  # More than 64 bits.
        objects = np.empty(len(items), dtype=object)
        objects[:] = items
        return objects

    def _by_key(self, values: ArrayLike | Sequence[object]) -> list[Any]:
        """One value for each key, as Python objects."""
        if hasattr(values, "to_pylist"):
            found = values.to_pylist()
        elif isinstance(values, (np.ndarray, np.generic)):
            found = self._items(values)
        elif isinstance(values, (list, tuple)):
            found = list(values)
        else:
            found = values
        if not isinstance(found, list):
            return [found] * len(self._slots)
        if len(found) != len(self._slots):
            raise OutputError(
                f"The cell {self._spec.name!r} was given {len(found)} values for {len(self._slots)} keys.",
                todo="write an item for each of batch.keys; batch.reduce(...) makes an array by key of one by row",
            )
        return found

    def _items(self, values: NDArray[Any] | np.generic) -> Any:
        try:
            return items_of(values)
        except OutputError as error:
            raise error.within(cell=self._spec.name) from None

    def _stored(self, values: list[Any]) -> list[Any]:
        if self._coder.direct_types.issuperset(map(type, values)):
            return values
        return [freeze(self._coder, value, self._spec.name) for value in values]

    def _chosen(self, items: list[Any], where: Mask | None) -> list[Any]:
        if where is None:
            return items
        chosen = np.asarray(where)
        if chosen.dtype != bool or len(chosen) != len(self._slots):
            raise OutputError(
                f"where= of the cell {self._spec.name!r} is {chosen.dtype} with {len(chosen)} items.",
                todo=f"give a boolean for each of the {len(self._slots)} keys",
            )
        return list(compress(items, chosen.tolist()))

    # Time to live.

    def _expire(self, slots: list[Slot], *, reading: bool) -> None:
        """Empties cells that have expired; before a read only if expired values are never returned."""
        ttl = self._spec.ttl
        if ttl is None or (reading and ttl.expired != "never"):
            return
        stamps, micros, now = self._window.stamps(self._position).values, ttl.micros, self._times.now(ttl)
        gone = [
            slot for slot in slots if (stamp := stamps.get(slot, NEVER_TOUCHED)) != NEVER_TOUCHED and stamp + micros <= now
        ]
        self._drop(gone)
        self._times.expired += len(gone)

    def _touch(self, where: Mask | None, counts: bool) -> None:
        """Notes when cells that hold something were touched. What has expired is past that, even if it is still there."""
        ttl = self._spec.ttl
        if ttl is None or not counts:
            return
        table, stamps = self._table.values, self._window.stamps(self._position)
        new: dict[Slot, int] = {}
        times, expired = self._times.touches(ttl), self._times.now(ttl) - ttl.micros
        for slot, time in zip(self._chosen(self._slots, where), self._chosen(times, where), strict=True):
            if slot not in table:
                continue
            stamp = stamps.values.get(slot)
            if stamp is None:
                new[slot] = time
            if stamp is None or (stamp < time and (stamp > expired or stamp == NEVER_TOUCHED)):
                stamps.put(slot, time)
        if new:
            self._window.expiring[ttl.in_event_time].enter_all(self._window.data, self._position, new, ttl.micros)

    def _drop(self, slots: list[Slot]) -> None:
        tables = [self._table]
        if self._spec.ttl is not None:
            tables.append(self._window.stamps(self._position))
        for table in tables:
            for slot in slots:
                table.drop(slot)

    def __repr__(self) -> str:
        return f"<the value cells {self._spec.name!r} of a batch>"
