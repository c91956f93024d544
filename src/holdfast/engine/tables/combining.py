"""Combining cells: the accumulator of a CombineFn for each key, kept like a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.engine.tables.base import MISSING, Cell, Focus, Rows, Slot, Undo, freeze
from holdfast.engine.tables.value import ValueTable
from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.coders import Encoded
from holdfast.model.state.specs import CombiningState, CombiningStateSpec

__all__ = ["CombiningCell", "CombiningTable"]


class CombiningTable(ValueTable):
    """`values`: key → stored accumulator."""

    __slots__ = ()

    spec: CombiningStateSpec[Any, Any]

    def delta(self) -> Iterator[Rows]:
        self.prepare()
        return super().delta()

    def prepare(self) -> None:
        if type(combine_fn_of(self.spec)).compact is not CombineFn.compact:
            self._compact()

    def _compact(self) -> None:
        """Lets the CombineFn compact what is about to be stored."""
        compact = combine_fn_of(self.spec).compact
        coder = self.spec.coder
        for key, stored in self.changes.items():
            if stored is not MISSING:
                self.values[key] = self.changes[key] = freeze(coder, compact(coder.thaw(stored)), self.spec.name)

    def reveal(self, key: Slot) -> Any:
        return combine_fn_of(self.spec).extract_output(super().reveal(key))

    def conceal(self, value: Any) -> Any:
        """A new accumulator with the value added."""
        combine_fn = combine_fn_of(self.spec)
        return super().conceal(combine_fn.add_input(combine_fn.create_accumulator(), value))


class CombiningCell(Cell[CombiningTable], CombiningState[Any, Any]):
    """Adds to and reads from the accumulator.

    `add_input` may change its accumulator in place, so it is given the stored one only if that is immutable, and
    otherwise a copy decoded for this call.
    """

    __slots__ = ("_add_input", "_create", "_extract")

    def __init__(self, spec: CombiningStateSpec[Any, Any], focus: Focus, undo: Undo | None) -> None:
        super().__init__(spec, focus, undo)
        combine_fn = combine_fn_of(spec)
        self._create = combine_fn.create_accumulator
        self._add_input = combine_fn.add_input
        self._extract = combine_fn.extract_output

    def read(self) -> Any:
        return self._extract(self._accumulator())

    def add(self, value: Any) -> None:
        accumulator = self._add_input(self._accumulator(), value)
        if type(accumulator) not in self._direct:
            accumulator = self._freeze(accumulator)
        key = self._focus.key
        if self._undo is not None:
            self._undo.restore(self._values, key)
            self._undo.restore(self._changes, key)
        self._values[key] = accumulator
        self._changes[key] = accumulator

    def clear(self) -> None:
        key = self._focus.key
        if self._undo is not None:
            self._undo.restore(self._values, key)
            self._undo.restore(self._changes, key)
        self._table.drop(key)

    def _accumulator(self) -> Any:
        stored = self._values.get(self._focus.key, MISSING)
        if stored is MISSING:
            return self._create()
        if type(stored) is Encoded:
            return self._coder.thaw(stored)
        return stored


def combine_fn_of(spec: CombiningStateSpec[Any, Any]) -> CombineFn[Any, Any, Any]:
    """The CombineFn of a spec that passed validation."""
    assert spec.combine_fn is not None
    return spec.combine_fn
