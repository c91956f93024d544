"""How arrays, maps and structs become columns: their items are columns themselves, made all at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.spark.types.fits import Fit, Leaf, Misfit, leaf_fit
from holdfast.spark.types.records import Records
from holdfast.spark.types.time_fits import time_fit

__all__ = ["FieldFit", "fit_of"]

_NONE = type(None)
_NULL = Misfit("it must not be null")


def fit_of(kind: pa.DataType) -> Fit:
    """The fit of a type."""
    if pa.types.is_struct(kind):
        return StructFit(kind)
    if pa.types.is_map(kind):
        return MapFit(kind)
    if pa.types.is_list(kind):
        return ListFit(kind)
    found: Leaf | None = leaf_fit(kind) or time_fit(kind)
    assert found is not None, kind
    return found


class FieldFit:
    """A type, and whether nulls are allowed."""

    def __init__(self, field: pa.Field) -> None:
        self.field = field
        self.fit = fit_of(field.type)
        self._required = not field.nullable

    def array(self, values: Sequence[Any], absent: int = 0) -> pa.Array:
        """The column. `absent`: how many values are None because their parent is null."""
        column = self.fit.array(values)
        if self._required and column.null_count > absent:
            raise _NULL
        return column

    def explain(self, value: Any) -> Misfit | None:
        if value is None:
            return _NULL if self._required else None
        misfit = self.fit.explain(value)
        return misfit if misfit is None or misfit.path else misfit.of(value)

    def surely(self, value: Any) -> bool:
        return self.fit.surely(value) or (value is None and not self._required)


class ListFit(Fit):
    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._item = FieldFit(kind.value_field)

    def array(self, values: Sequence[Any]) -> pa.Array:
        types = set(map(type, values))
        if not types <= {list, tuple, _NONE}:
            values = [value if value is None else _sequence(value) for value in values]
        items = list(chain.from_iterable(filter(None, values)))
        return pa.ListArray.from_arrays(_offsets(values, _NONE in types), self._item.array(items), type=self.kind)

    def explain(self, value: Any) -> Misfit | None:
        try:
            items = _sequence(value)
        except Misfit as misfit:
            return misfit
        return _first((f"[{place}]", self._item.explain(item)) for place, item in enumerate(items))

    def surely(self, value: Any) -> bool:
        return value.__class__ in (list, tuple) and all(map(self._item.surely, value))


def _sequence(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return list(value)
    named = hasattr(value, "_fields") or hasattr(value, "__fields__")
    if isinstance(value, (list, tuple, set, frozenset, deque)) and not named:
        return value if isinstance(value, (list, tuple)) else list(value)
    raise Misfit("it takes lists, tuples and sets", "yield list(value), or make the column a struct" if named else "")


class MapFit(Fit):
    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._key, self._item = FieldFit(kind.key_field), FieldFit(kind.item_field)

    def array(self, values: Sequence[Any]) -> pa.Array:
        types = set(map(type, values))
        if not types <= {dict, _NONE}:
            values = [value if value is None else _mapping(value) for value in values]
        full: list[dict[Any, Any]] = list(filter(None, values))
        names, contents = list(chain.from_iterable(full)), list(chain.from_iterable(map(dict.values, full)))
        keys, items = self._key.array(names), self._item.array(contents)
        offsets = _offsets(values, _NONE in types)
        if len(set(map(type, names))) > 1 or pa.types.is_float32(self.kind.key_type):
            _check_apart(keys.to_pylist(), list(map(len, full)))
        return pa.MapArray.from_arrays(offsets, keys, items, type=self.kind)

    def explain(self, value: Any) -> Misfit | None:
        try:
            pairs = list(_mapping(value).items())
        except Misfit as misfit:
            return misfit
        found = _first((f", key {key!r:.50}", self._key.explain(key)) for key, _ in pairs)
        found = found or _first((f"[{key!r:.50}]", self._item.explain(item)) for key, item in pairs)
        if found is not None:
            return found
        try:
            self.array([value])
        except Misfit as misfit:
            return misfit
        return None

    def surely(self, value: Any) -> bool:
        if value.__class__ is not dict or not pa.types.is_string(self.kind.key_type):
            return False
        return all(map(self._key.surely, value)) and all(map(self._item.surely, value.values()))


def _mapping(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return value if isinstance(value, dict) else dict(value)
    raise Misfit("it takes dicts", "yield dict(value)" if isinstance(value, (list, tuple)) else "")


def _check_apart(keys: list[Any], lengths: list[int]) -> None:
    """Keys that differ in Python may be equal in the column."""
    start = 0
    for length in lengths:
        if len(set(keys[start : start + length])) < length:
            raise Misfit("two of its keys are the same in a column of this type")
        start += length


class StructFit(Fit):
    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._fields = [FieldFit(kind.field(place)) for place in range(kind.num_fields)]
        self._records = Records([fit.field.name for fit in self._fields])
        self._nothing = (None,) * len(self._fields)

    def array(self, values: Sequence[Any]) -> pa.Array:
        rows, absent = self._present(values)
        columns = [
            fit.array(list(map(itemgetter(place), rows)), 0 if absent is None else absent.true_count)
            for place, fit in enumerate(self._fields)
        ]
        if not columns:
            return pa.array([None if value is None else () for value in values], type=self.kind)
        return pa.StructArray.from_arrays(columns, fields=[fit.field for fit in self._fields], mask=absent)

    def _present(self, values: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        """The values as rows, and which of them are null, if any."""
        if _NONE not in set(map(type, values)):
            return self._records.rows(values), None
        rows = iter(self._records.rows([value for value in values if value is not None]))
        filled = [self._nothing if value is None else next(rows) for value in values]
        return filled, pa.array([value is None for value in values])

    def explain(self, value: Any) -> Misfit | None:
        try:
            row = self._records.row(value)
        except Misfit as misfit:
            return misfit
        return _first((f".{fit.field.name}", fit.explain(item)) for fit, item in zip(self._fields, row, strict=True))

    def surely(self, value: Any) -> bool:
        if value.__class__ is not tuple or len(value) != len(self._fields):
            return False
        return all(fit.surely(item) for fit, item in zip(self._fields, value, strict=True))


def _first(found: Iterator[tuple[str, Misfit | None]]) -> Misfit | None:
    return next((misfit.below(path) for path, misfit in found if misfit is not None), None)


def _offsets(values: Sequence[Any], with_nulls: bool) -> pa.Array:
    """Where each value starts among all items; null for a null value."""
    absent = None
    lengths = map(len, values)
    if with_nulls:
        absent = np.array([value is None for value in values] + [False])
        lengths = (0 if value is None else len(value) for value in values)  # type: ignore[assignment]
    ends = np.fromiter(lengths, dtype=np.int64, count=len(values)).cumsum()
    return pa.array(np.concatenate(([0], ends)), type=pa.int32(), mask=absent)
