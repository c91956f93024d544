"""Rows for a `BatchDoFn`: Arrow columns in, Arrow columns out, without a Python object for each item where that can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from holdfast.engine.run.batch_columns import BatchElements, distinct
from holdfast.engine.run.batch_outputs import as_list
from holdfast.engine.run.runner import Runner
from holdfast.engine.state.keys import slots_of
from holdfast.errors import OutputError
from holdfast.model.functions.batches import Mask, Positions
from holdfast.model.functions.grouping import Column
from holdfast.spark.types.arrow import to_python
from holdfast.spark.types.fits import ARROW_ERRORS
from holdfast.spark.types.rows import ElementReader, OutputWriter, null_time

__all__ = ["BatchReader", "write_arrays"]

_UTC = pa.timestamp("us", tz="UTC")
_OF_ONE_FORM = (kinds.is_integer, kinds.is_string, kinds.is_boolean, kinds.is_date, kinds.is_timestamp, kinds.is_binary)
"""Types whose values are the same key exactly if Arrow takes them for the same."""


class BatchReader:
    """Reads payloads as columns. They are those of `ElementReader`."""

    def __init__(self, elements: ElementReader) -> None:
        self._elements = elements

    @property
    def elements(self) -> ElementReader:
        return self._elements

    def intake(self, runner: Runner[Any], batches: list[pa.RecordBatch], columns: tuple[Column, ...], now: int) -> Any:
        """The columns of all batches together."""
        if not batches:
            return runner.elements([], [])
        table = pa.Table.from_batches(batches)
        times, keys, values = self._elements.parts([column.combine_chunks() for column in table.columns])
        if times is not None and times.null_count:
            raise null_time()
        micros = np.full(len(table), now, dtype=np.int64) if times is None else np.asarray(times.to_numpy())
        slots, key_of_row = self._slots(keys)
        return BatchElements(slots, key_of_row, micros, ArrowColumns(self._elements, values))

    def _slots(self, columns: Sequence[pa.Array]) -> tuple[list[Any], Positions]:
        """Each key once, as a slot, and the position of each row's key among them."""
        if not all(any(test(column.type) for test in _OF_ONE_FORM) and not column.null_count for column in columns):
            return distinct(slots_of(self._elements.keys(columns)))
        codes, firsts = _encoded(columns)
        found = slots_of(self._elements.keys([column.take(pa.array(firsts)) for column in columns]))
        return found, codes


def _encoded(columns: Sequence[pa.Array]) -> tuple[Positions, Positions]:
    """A number for each row, the same for equal rows, counted by first appearance; and the row where each appears first."""
    codes: NDArray[Any] | None = None
    for column in columns:
        encoded = column.dictionary_encode()
        more = np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
        # Numbered anew after each column, so that the product never overflows.
        codes = more if codes is None else _numbered(codes * len(encoded.dictionary) + more)
    assert codes is not None
    _, firsts = np.unique(codes, return_index=True)
    return codes, firsts


def _numbered(codes: NDArray[Any]) -> NDArray[Any]:
    """The same with numbers from 0, by first appearance."""
    encoded = pa.array(codes).dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)


class ArrowColumns:
    """Values as Arrow columns."""

    def __init__(self, elements: ElementReader, columns: Sequence[pa.Array]) -> None:
        self._elements = elements
        self._columns = columns

    @property
    def names(self) -> tuple[str, ...] | None:
        return self._elements.value_names

    def column(self, name: str | None) -> tuple[NDArray[Any], Mask | None]:
        if (name is None) != (self.names is None) or (self.names is not None and name not in self.names):
            raise KeyError(name)
        column = self._columns[0 if self.names is None else self.names.index(str(name))]
        nulls = None if not column.null_count else np.asarray(column.is_null().to_numpy(zero_copy_only=False))
        return _as_numpy(column), nulls

    def values(self, rows: Positions | None) -> list[Any]:
        columns = self._columns if rows is None else [column.take(pa.array(rows)) for column in self._columns]
        return self._elements.made(columns, len(columns[0]) if columns else 0)

    def take(self, rows: Positions) -> ArrowColumns:
        return ArrowColumns(self._elements, [column.take(pa.array(rows)) for column in self._columns])


def _as_numpy(column: pa.Array) -> NDArray[Any]:
    """A column as an array of the widest type of its kind, so that sums do not overflow early; nulls are something."""
    kind = column.type
    if kinds.is_integer(kind):
        return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    if kinds.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    if kinds.is_boolean(kind):
        return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False))
    if kinds.is_temporal(kind) and not kinds.is_time(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    objects = np.empty(len(column), dtype=object)
    objects[:] = to_python(column)
    return objects


def write_arrays(writer: OutputWriter, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """The batch with these columns, by name; an error says what does not fit."""
    wanted = writer.schema.names
    if set(columns) != set(wanted):
        lacking, unknown = sorted(set(wanted) - set(columns)), sorted(set(columns) - set(wanted))
        told = [f"it lacks {', '.join(map(repr, lacking))}"] if lacking else []
        told += [f"it has no column {', '.join(map(repr, unknown))} in its schema"] if unknown else []
        raise OutputError(
            f"An output of process_batch does not fit its schema: {'; '.join(told)}.",
            todo=f"yield a dict with the columns {', '.join(map(repr, wanted))}, or change the schema",
            context={"output": writer.tag},
        )
    return writer.write_columns([_fitting(field, columns[field.name]) for field in writer.schema])


def _fitting(field: pa.Field, column: Any) -> pa.Array | list[Any]:
    """The column as an Arrow array, if it surely fits as it is; else its items, which have to be looked at."""
    array = _exact(field, column)
    if array is not None and (field.nullable or not array.null_count):
        return array
    try:
        return as_list(column)
    except OutputError as error:
        raise error.within(column=field.name) from None


def _exact(field: pa.Field, column: Any) -> pa.Array | None:
    try:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.Array) and column.type == field.type:
            return column
        return _of_numpy(field.type, column) if isinstance(column, np.ndarray) else None
    except ARROW_ERRORS:
        return None


def _of_numpy(kind: pa.DataType, column: NDArray[Any]) -> pa.Array | None:
    if column.dtype.kind == "i" and kinds.is_signed_integer(kind):
        return pa.array(column).cast(kind)
    if column.dtype == np.float64 and kinds.is_float64(kind):
        return pa.array(column)
    if column.dtype == np.bool_ and kinds.is_boolean(kind):
        return pa.array(column)
    if column.dtype == np.dtype("datetime64[us]") and kinds.is_timestamp(kind):
        return pa.array(column).cast(kind) if kind.tz is None else pa.array(column).cast(_UTC)
    if column.dtype == np.dtype("datetime64[D]") and kinds.is_date32(kind):
        return pa.array(column)
    return None
