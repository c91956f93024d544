"""The columns of a grouping that keeps whole windows: adds to a table and extracts results, many keys at a time."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from holdfast.engine.tables import Slot
from holdfast.engine.tables.bag import BagCell, BagTable
from holdfast.engine.tables.base import MISSING, Focus, freeze
from holdfast.engine.tables.combining import CombiningTable
from holdfast.model.aggregate.combine import BuiltinSum, CombineFn
from holdfast.model.aggregate.combiners import Count, Sum
from holdfast.model.coders import Encoded
from holdfast.model.functions.grouping import Column
from holdfast.model.state.specs import State, StateSpec

__all__ = ["CombinedColumn", "ListedColumn", "ResultColumn", "result_column"]

# Combiners whose accumulator is the result, and which merge by addition.
_ADDING = (Sum, Count, BuiltinSum)


class CombinedColumn:
    """Accumulators of a CombineFn."""

    def __init__(self, column: Column) -> None:
        assert column.combine_fn is not None
        self._fn: CombineFn[Any, Any, Any] = column.combine_fn
        self._coder = column.coder
        self._direct = column.coder.direct_types
        self._name = column.name
        self._adds = type(self._fn) in _ADDING

    def add_values(self, table: CombiningTable, slot: Slot, values: Sequence[Any]) -> None:
        """Adds elements."""
        held = table.values.get(slot, MISSING)
        accumulator = self._fn.create_accumulator() if held is MISSING else self._coder.thaw(held)
        table.put(slot, freeze(self._coder, self._fn.add_inputs(accumulator, values), self._name))

    def add_partials(self, table: CombiningTable, slots: Sequence[Slot], accumulators: Sequence[Any]) -> None:
        """Merges accumulators made elsewhere, without changing them."""
        add: Any = operator.add if self._adds else self._merged
        values, changes, direct = table.values, table.changes, self._direct
        for slot, accumulator in zip(slots, accumulators, strict=True):
            held = values.get(slot, MISSING)
            if held is not MISSING:
                accumulator = add(held, accumulator)
            if type(accumulator) not in direct:
                accumulator = freeze(self._coder, accumulator, self._name)
            values[slot] = accumulator
            changes[slot] = accumulator

    # The same for accumulators in stored form, wherever they are kept.

    def stored(self, accumulators: list[Any]) -> list[Any]:
        """The stored form of accumulators made elsewhere."""
        if self._direct.issuperset(map(type, accumulators)):
            return accumulators
        return [freeze(self._coder, accumulator, self._name) for accumulator in accumulators]

    def empty(self) -> Any:
        """The stored form of a new accumulator."""
        return freeze(self._coder, self._fn.create_accumulator(), self._name)

    def joined(self, held: Any, coming: Any) -> Any:
        """Two stored accumulators as one."""
        if self._adds and type(held) is not Encoded and type(coming) is not Encoded:
            total = held + coming
            return total if type(total) in self._direct else freeze(self._coder, total, self._name)
        return self.merged([held, coming])

    def merged(self, held: Sequence[Any], values: Sequence[Any] = ()) -> Any:
        """Stored accumulators and values as one accumulator."""
        fn, thaw = self._fn, self._coder.thaw
        accumulators = [thaw(stored) for stored in held] or [fn.create_accumulator()]
        accumulator = accumulators[0] if len(accumulators) == 1 else fn.merge_accumulators(accumulators)
        if values:
            accumulator = fn.add_inputs(accumulator, values)
        return freeze(self._coder, fn.compact(accumulator), self._name)

    def extracted(self, stored: list[Any]) -> list[Any]:
        """The results of stored accumulators."""
        if self._adds and Encoded not in set(map(type, stored)):
            return stored
        return list(map(self._fn.extract_output, map(self._coder.thaw, stored)))

    def _merged(self, held: Any, accumulator: Any) -> Any:
        return self._fn.merge_accumulators([self._coder.thaw(held), accumulator])

    def results(self, table: CombiningTable, slots: Sequence[Slot]) -> list[Any]:
        """The result for each of these keys; without an accumulator, the result of an empty one."""
        stored = list(map(table.values.get, slots, repeat(MISSING)))
        if self._adds and not {Encoded, type(MISSING)} & set(map(type, stored)):
            return stored
        extract, thaw, create = self._fn.extract_output, self._coder.thaw, self._fn.create_accumulator
        return [extract(create() if held is MISSING else thaw(held)) for held in stored]

    def clear(self, table: CombiningTable, slots: Sequence[Slot]) -> None:
        for slot in slots:
            table.drop(slot)


class ListedColumn:
    """All values, in order of arrival."""

    def __init__(self, column: Column, spec: StateSpec[State]) -> None:
        self._coder = column.coder
        self._focus = Focus()
        self._cell = BagCell(spec, self._focus, None)

    def add_values(self, table: BagTable, slot: Slot, values: Sequence[Any]) -> None:
        self._cell.attach(table)
        self._focus.key = slot
        for value in values:
            self._cell.add(value)

    def add_partials(self, table: BagTable, slots: Sequence[Slot], accumulators: Sequence[Any]) -> None:
        for slot, values in zip(slots, accumulators, strict=True):
            self.add_values(table, slot, values)

    def results(self, table: BagTable, slots: Sequence[Slot]) -> list[Any]:
        thaw = self._coder.thaw
        return [[thaw(stored) for stored in table.values.get(slot, ())] for slot in slots]

    def clear(self, table: BagTable, slots: Sequence[Slot]) -> None:
        self._cell.attach(table)
        for slot in slots:
            self._focus.key = slot
            self._cell.clear()


ResultColumn = CombinedColumn | ListedColumn


def result_column(column: Column, spec: StateSpec[State]) -> Any:
    """The object that works on the table of a column."""
    return ListedColumn(column, spec) if column.combine_fn is None else CombinedColumn(column)
