"""A combiner that estimates with little state, based on the `datasketches` library.

The accumulator is the serialized sketch: empty at first, then a few kilobytes, however many values arrive.
Each call reads and writes the whole sketch, so one `add_inputs` costs less than many `add_input`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ormsgpack

from holdfast.errors import HoldfastError, InputError, InvalidStep
from holdfast.model.aggregate.combine import FieldCombineFn

__all__ = ["ApproximateDistinct"]


class ApproximateDistinct(FieldCombineFn[bytes, int]):
    """The approximate number of distinct values, as an int (a HyperLogLog sketch).

    With `precision` p the standard error is about 1.04 / sqrt(2**p), 1.6 % at the default 12, and the state
    grows to about 2**(p - 1) bytes. Small numbers of values are counted almost exactly. Values may be anything
    MessagePack can hold, such as numbers, strings, bytes, dates, and tuples of these; 1 and 1.0 are the same.
    """

    def __init__(self, precision: int = 12, field: str | None = None) -> None:
        super().__init__(field)
        if not isinstance(precision, int) or not 7 <= precision <= 21:
            raise InvalidStep(type(self).__name__, [f"precision must be a whole number from 7 to 21, but is {precision!r}"])
        self.precision = precision

    def create_accumulator(self) -> bytes:
        return b""

    def _add(self, accumulator: bytes, value: Any) -> bytes:
        return self._updated(accumulator, [value])

    def add_inputs(self, mutable_accumulator: bytes, elements: Iterable[object]) -> bytes:
        values = list(self._values(elements))
        return self._updated(mutable_accumulator, values) if values else mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[bytes]) -> bytes:
        held = [accumulator for accumulator in accumulators if accumulator]
        return self._merged(held) if len(held) > 1 else b"".join(held)

    def extract_output(self, accumulator: bytes) -> int:
        return round(_datasketches().hll_sketch.deserialize(accumulator).get_estimate()) if accumulator else 0

    def _updated(self, accumulator: bytes, values: list[Any]) -> bytes:
        library = _datasketches()
        if accumulator:
            sketch = library.hll_sketch.deserialize(accumulator)
        else:
            sketch = library.hll_sketch(self.precision, library.tgt_hll_type.HLL_4)
        for value in values:
            sketch.update(_distinct_text(value))
        return bytes(sketch.serialize_compact())

    def _merged(self, accumulators: list[bytes]) -> bytes:
        library = _datasketches()
        union = library.hll_union(self.precision)
        for accumulator in accumulators:
            union.update(library.hll_sketch.deserialize(accumulator))
        return bytes(union.get_result(library.tgt_hll_type.HLL_4).serialize_compact())


_OPTIONS = ormsgpack.OPT_SORT_KEYS | ormsgpack.OPT_SERIALIZE_NUMPY


def _distinct_text(value: Any) -> str:
    """A text that is the same for equal values, and never empty: the library skips empty ones."""
    if isinstance(value, (bool, float)) and value == value // 1 and abs(value) < 2**63:
        value = int(value)
    try:
        return ormsgpack.packb(value, option=_OPTIONS).decode("latin-1")
    except (TypeError, ValueError) as error:
        raise InputError(
            f"A value of type {type(value).__name__} cannot be counted as distinct: {error}.",
            detail=f"The value: {value!r:.200}",
            todo="Count a string or a number that stands for it.",
        ) from None


def _datasketches() -> Any:
    try:
        import datasketches
    except ImportError as error:
        raise HoldfastError(
            "Approximate combiners cannot work without the datasketches library.",
            todo="pip install 'holdfast[sketches]'",
        ) from error
    return datasketches
