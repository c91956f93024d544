"""The elements of a bundle as columns: what a `BatchDoFn` takes in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.engine.state.keys import key_of, keys_of, slots_of
from holdfast.engine.tables import Slot
from holdfast.errors import OutputError
from holdfast.model.functions.batches import Mask, Positions, ValueColumns

__all__ = ["BatchElements", "PlainColumns", "distinct", "item_array", "items_of"]

_FINER = frozenset({"ns", "ps", "fs", "as"})
"""Units of NumPy's times that Python's are too coarse for."""

_SIMPLE: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


class BatchElements:
    """The elements of a bundle. `slots` has each key once, in order of first appearance."""

    def __init__(self, slots: list[Slot], key_of_row: Positions, times: Positions, values: ValueColumns) -> None:
        self.slots = slots
        self.key_of_row = key_of_row
        self.times = times
        self.values = values

    @classmethod
    def of(cls, pairs: Sequence[tuple[Any, Any]], times: Sequence[int]) -> BatchElements:
        slots, key_of_row = distinct(slots_of([key for key, _ in pairs]))
        return cls(slots, key_of_row, np.asarray(times, dtype=np.int64), PlainColumns([value for _, value in pairs]))

    def take(self, positions: Sequence[int]) -> BatchElements:
        """The elements of some of the keys."""
        wanted = np.zeros(len(self.slots), dtype=bool)
        wanted[np.asarray(positions, dtype=np.int64)] = True
        return self.rows(np.flatnonzero(wanted[self.key_of_row]))

    def rows(self, rows: Positions) -> BatchElements:
        """Some of the elements, in this order."""
        codes, key_of_row = distinct(self.key_of_row[rows].tolist())
        slots = [self.slots[code] for code in codes]
        return BatchElements(slots, key_of_row, self.times[rows], self.values.take(rows))

    def keys(self) -> NDArray[Any]:
        return item_array(keys_of(self.slots))

    def pairs(self, rows: Positions) -> list[tuple[Any, Any]]:
        """Some of the elements as a DoFn gets them."""
        keys = [key_of(self.slots[code]) for code in self.key_of_row[rows].tolist()]
        return list(zip(keys, self.values.values(rows), strict=True))


def distinct(items: Sequence[Any]) -> tuple[list[Any], Positions]:
    """Each item once, in order of first appearance, and the position of each among these."""
    places: dict[Any, int] = {}
    codes = [places.setdefault(item, len(places)) for item in items]
    return list(places), np.asarray(codes, dtype=np.int64)


class PlainColumns:
    """Values as Python objects: bare, or dicts or named tuples."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    @property
    def names(self) -> tuple[str, ...] | None:
        first = self._values[0] if self._values else None
        if isinstance(first, dict):
            return tuple(map(str, first))
        return getattr(first, "_fields", None)

    def column(self, name: str | None) -> tuple[NDArray[Any], Mask | None]:
        if (name is None) != (self.names is None):
            raise KeyError(name)
        items = self._values if name is None else [self._item(value, name) for value in self._values]
        nulls = np.fromiter((item is None for item in items), dtype=bool, count=len(items))
        if not nulls.any():
            return item_array(items), None
        present = [item for item in items if item is not None]
        filled = item_array(present)
        spread: NDArray[Any] = np.zeros(len(items), dtype=filled.dtype)
        spread[~nulls] = filled
        return spread, nulls

    @staticmethod
    def _item(value: Any, name: str) -> Any:
        if isinstance(value, dict):
            return value[name]
        if name not in value._fields:
            raise KeyError(name)
        return getattr(value, name)

    def values(self, rows: Positions | None) -> list[Any]:
        return self._values if rows is None else [self._values[row] for row in rows.tolist()]

    def take(self, rows: Positions) -> PlainColumns:
        return PlainColumns(self.values(rows))


def item_array(items: list[Any]) -> NDArray[Any]:
    """Items as an array of their own type, if all are numbers, booleans or times of one type; else of Python objects."""
    types = set(map(type, items))
    kind = types.pop() if len(types) == 1 else object
    if kind in _SIMPLE:
        try:
            return np.array(items, dtype=_SIMPLE[kind])
        except OverflowError:
            pass  # More than 64 bits.
    if kind is datetime:
        aware = [item.astimezone(timezone.utc).replace(tzinfo=None) if item.tzinfo else item for item in items]
        return np.array(aware, dtype="datetime64[us]")
    if kind is date:
        return np.array(items, dtype="datetime64[D]")
    objects = np.empty(len(items), dtype=object)
    objects[:] = items
    return objects


def items_of(array: NDArray[Any] | np.generic) -> Any:
    """An array as a list of Python objects, or a scalar as one. Of times that Python does not have, NumPy would make bare
    numbers; here they are an error."""
    if array.dtype.kind not in "mM":
        return array.tolist()
    times = np.asarray(array)
    exact = times
    if np.datetime_data(times.dtype)[0] in _FINER:
        exact = times.astype(f"{times.dtype.kind}8[us]")
        if (exact.astype(times.dtype) != times)[~np.isnat(times)].any():
            raise _no_time(times, "finer than microseconds")
    if int in set(map(type, exact.ravel().tolist())):
        raise _no_time(times, "too large, or has no unit")
    return exact.tolist()


def _no_time(times: NDArray[Any], why: str) -> OutputError:
    return OutputError(
        f"An array of {times.dtype} has a time that Python has no equivalent for: it is {why}.",
        todo="round it, array.astype('datetime64[us]'), or give it as numbers, array.astype(np.int64)",
    )
