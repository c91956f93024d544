"""Combiner lifting: elements of a key and window are combined before the shuffle, in the task that read them.

Only one row for each key, window and task crosses the network, so a key with most of the input costs no more than any other.
Ready combiners of plain numbers are computed by Arrow; any other CombineFn runs in Python, and its accumulators travel
encoded. The columns of a lifted chunk:

    group, start[, end], elements, k0 …, then for the i-th result `i.count`, `i.sum`, `i.total` and `i.mean`, `i.extreme` or
    `i.coded`; none if the number of elements is the result

Lifting never changes a result, except for two things that depend on the order of arrival anyway: the rounding of sums of
floats, and the minimum and maximum of floats with NaN among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engine.run.failures import user_error
from holdfast.engine.run.runner import I, PartialBlock, Runner
from holdfast.engine.state.keys import slots_of
from holdfast.model.aggregate.combine import BuiltinSum, CombineFn
from holdfast.model.aggregate.combiners import Count, Max, Mean, Min, Sum
from holdfast.model.functions.grouping import Column, CombinePerKey
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn
from holdfast.spark.types.arrow import to_python
from holdfast.spark.types.rows import ElementReader, null_time

__all__ = ["LiftedReader", "Lifting", "can_lift"]

_INT64_MAX = 2**63 - 1
_WINDOW_FNS = (GlobalWindows, FixedWindows, SlidingWindows, Sessions)


def can_lift(window_fn: WindowFn, key_types: list[pa.DataType]) -> bool:
    """Whether windows and keys of elements can be found without calling Python for each."""
    flat = not any(pa.types.is_nested(kind) or pa.types.is_null(kind) for kind in key_types)
    return flat and type(window_fn) in _WINDOW_FNS


@dataclass(frozen=True)
class _Groups:
    """The rows of a chunk by key and window."""

    keys: dict[str, Any]
    """Columns group, start, [end,] k0 …, one value for each group."""
    elements: pa.Array
    aggregates: dict[tuple[str, str], pa.Array]
    """By column and aggregation."""
    rows: np.ndarray[Any, Any]
    """The numbers of the rows, group by group, in order of arrival."""
    ends: np.ndarray[Any, Any]
    """Where each group ends in them."""


class Lifting:
    """Combines the rows of chunks. One per step and worker."""

    def __init__(self, transform: CombinePerKey, window_fn: WindowFn, reader: ElementReader, step: str) -> None:
        columns, _ = transform.columns()
        self._columns: list[Column] = columns
        self._window_fn = window_fn
        self._reader = reader
        self._step = step
        for column in self._columns:
            if column.combine_fn is not None:
                column.combine_fn.setup()

    def lift(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Combines a chunk with the columns group, [time,] k0 …, v0 …"""
        table = pa.Table.from_batches([chunk])
        lowered = [self._lowered(column, table) for column in self._columns]
        wanted = list(dict.fromkeys(pair for pairs in lowered if pairs is not None for pair in pairs))
        group = self._sessions if isinstance(self._window_fn, Sessions) else self._windows
        groups = group(table, wanted, needs_rows=None in lowered)
        arrays = {**groups.keys, "elements": groups.elements}
        values: list[Any] | None = None
        for place, (column, pairs) in enumerate(zip(self._columns, lowered, strict=True)):
            if pairs is None:
                values = self._reader.values(chunk.select(list(range(1, chunk.num_columns)))) if values is None else values
                arrays[f"{place}.coded"] = self._combined(column, values, groups)
            else:
                arrays |= {f"{place}.{name}": groups.aggregates[pair] for name, pair in _names(column, pairs)}
        return pa.RecordBatch.from_arrays([_array(array) for array in arrays.values()], names=list(arrays))

    def _lowered(self, column: Column, table: pa.Table) -> list[tuple[str, str]] | None:
        """The (column, aggregation) pairs by which Arrow computes a result; None if it cannot."""
        fn = column.combine_fn
        kind = type(fn)
        if kind is Count and fn.field is None:  # type: ignore[union-attr]
            return []
        if kind not in (Count, Sum, BuiltinSum, Mean, Min, Max):
            return None
        field = getattr(fn, "field", None)
        name = self._reader.column_of(field)
        if name is None:
            return None
        values = table.column(name)
        if field is None and values.null_count:
            return None
        if kind is Count:
            return [(name, "count")]
        if kind in (Min, Max):
            return [(name, "min" if kind is Min else "max")] if _is_ordered(values) else None
        if not _can_be_added(values):
            return None
        return [(name, "sum"), (name, "count")] if kind is Mean else [(name, "sum")]

    def _windows(self, table: pa.Table, wanted: list[tuple[str, str]], *, needs_rows: bool) -> _Groups:
        starts = np.zeros(table.num_rows, dtype=np.int64)
        if not isinstance(self._window_fn, GlobalWindows):
            period, offset = _pane(self._window_fn)
            times = _times(table)
            starts = times - (times % period - offset) % period
            if (starts > times).any():
                # It would begin before all timestamps, and 64 bits are not enough to say so.
                self._window_fn.assign(WindowFn.AssignContext(Timestamp(micros=int(times.min()))))
        keys = ["group", "start", *(name for name in table.column_names if name.startswith("k"))]
        table = table.append_column("start", pa.array(starts))
        aggregations: list[Any] = [([], "count_all"), *wanted]
        if needs_rows:
            table = table.append_column("row", pa.array(np.arange(table.num_rows)))
            aggregations.append(("row", "list"))
        done = table.group_by(keys, use_threads=False).aggregate(aggregations)
        rows, ends = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        if needs_rows:
            lists = done.column("row_list").combine_chunks()
            rows = lists.flatten().to_numpy()
            ends = lists.offsets.to_numpy()[1:] - lists.offsets[0].as_py()
        return _Groups(
            {name: done.column(name) for name in keys},
            done.column("count_all"),
            {(name, how): done.column(f"{name}_{how}") for name, how in wanted},
            rows,
            ends,
        )

    def _sessions(self, table: pa.Table, wanted: list[tuple[str, str]], *, needs_rows: bool) -> _Groups:
        """Elements of a key less than the gap apart are in one session, whatever other tasks have."""
        assert isinstance(self._window_fn, Sessions)
        gap = self._window_fn.gap_size.micros
        keys = [name for name in table.column_names if name.startswith("k")]
        times = _times(table)
        # Of all windows, only that of the last time can end after all timestamps.
        self._window_fn.assign(WindowFn.AssignContext(Timestamp(micros=int(times.max()))))
        numbers = _numbers_of([table.column(name) for name in keys])
        order = _by_key_and_time(numbers, times)
        begins = np.ones(len(order), dtype=bool)
        # Unsigned, since two times may be further apart than a signed number can say.
        begins[1:] = (np.diff(times[order].view(np.uint64)) >= gap) | (np.diff(numbers[order]) != 0)
        firsts = np.flatnonzero(begins)
        ends = np.append(firsts[1:], len(order))
        columns = {name: table.column(name).take(pa.array(order[firsts])) for name in ["group", *keys]}
        values = {name: table.column(name).take(pa.array(order)) for name, _ in wanted}
        done = pa.table({"session": np.cumsum(begins), **values})
        done = done.group_by("session", use_threads=False).aggregate(wanted) if wanted else done
        rows = order
        if needs_rows:
            rows = np.concatenate([np.sort(order[first:end]) for first, end in zip(firsts, ends, strict=True)])
        return _Groups(
            {
                "group": columns.pop("group"),
                "start": pa.array(times[order[firsts]]),
                "end": pa.array(times[order[ends - 1]] + gap),
                **columns,
            },
            pa.array(ends - firsts),
            {(name, how): done.column(f"{name}_{how}") for name, how in wanted},
            rows,
            ends,
        )

    def _combined(self, column: Column, values: list[Any], groups: _Groups) -> pa.Array:
        """The accumulators of a CombineFn that Arrow does not know, encoded."""
        fn = column.combine_fn
        assert fn is not None
        ordered = [values[row] for row in groups.rows.tolist()]
        try:
            return pa.array(list(_accumulators(fn, column, ordered, groups.ends.tolist())), type=pa.binary())
        except Exception as error:
            failure = user_error(error, method=f"add_input of {type(fn).__name__}", step=self._step)
            raise failure from error


def _accumulators(fn: CombineFn[Any, Any, Any], column: Column, values: list[Any], ends: list[int]) -> Iterator[bytes]:
    create, add_input, add_inputs, compact = fn.create_accumulator, fn.add_input, fn.add_inputs, fn.compact
    one_by_one = type(fn).add_inputs is CombineFn.add_inputs
    encode = column.coder.encode
    first = 0
    for end in ends:
        accumulator = create()
        if one_by_one:
            for value in values[first:end]:
                accumulator = add_input(accumulator, value)
        else:
            accumulator = add_inputs(accumulator, values[first:end])
        yield encode(compact(accumulator))
        first = end


def _names(column: Column, pairs: list[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names of a result's columns."""
    if isinstance(column.combine_fn, Mean):
        return zip(("total", "mean"), pairs, strict=True)
    names = {"sum": "sum", "count": "count", "min": "extreme", "max": "extreme"}
    return ((names[pair[1]], pair) for pair in pairs)


def _pane(window_fn: WindowFn) -> tuple[int, int]:
    """The longest spans of time whose elements share all their windows: their length, and where one begins."""
    if isinstance(window_fn, FixedWindows):
        return window_fn.size.micros, window_fn.offset.micros
    assert isinstance(window_fn, SlidingWindows)
    length = math.gcd(window_fn.size.micros, window_fn.period.micros)
    return length, window_fn.offset.micros % length


def _numbers_of(keys: list[pa.ChunkedArray]) -> np.ndarray[Any, Any]:
    """A number for each key, of one column or several: rows with the same key have the same."""
    numbers = np.zeros(len(keys[0]), dtype=np.int64)
    for column in keys:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        numbers = numbers * len(encoded.dictionary) + encoded.indices.to_numpy()
        if len(keys) > 1:
            # So that they stay small, however many columns follow.
            numbers = np.unique(numbers, return_inverse=True)[1]
    return numbers


def _by_key_and_time(numbers: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The order of rows by the numbers of their keys, then by time, then as they came."""
    earliest, latest = int(times.min()), int(times.max())
    length = latest - earliest + 1
    if (int(numbers.max()) + 1) * length > _INT64_MAX:
        return np.lexsort((times, numbers))
    return np.argsort(numbers * length + (times - earliest), kind="stable")


def _times(table: pa.Table) -> np.ndarray[Any, Any]:
    column = table.column("time")
    if column.null_count:
        raise null_time()
    times: np.ndarray[Any, Any] = column.to_numpy()
    return times


def _can_be_added(values: pa.ChunkedArray) -> bool:
    if pa.types.is_floating(values.type):
        return True
    if not pa.types.is_signed_integer(values.type):
        return False
    # Arrow's sums of integers wrap around, Python's do not.
    bounds = pc.min_max(values)
    extremes = [bound.as_py() or 0 for bound in (bounds["min"], bounds["max"])]
    largest: int = max(map(abs, extremes))
    return largest * len(values) <= _INT64_MAX


def _is_ordered(values: pa.ChunkedArray) -> bool:
    kind = values.type
    if pa.types.is_floating(kind):
        return not pc.any(pc.is_nan(values)).as_py()
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _array(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


class LiftedReader:
    """Reads lifted rows in their key group."""

    def __init__(self, reader: ElementReader, *, merging: bool) -> None:
        self._reader = reader
        self._merging = merging

    @property
    def elements(self) -> ElementReader:
        """Reads the elements themselves, as before lifting."""
        return self._reader

    def intake(self, runner: Runner[I], batches: list[pa.RecordBatch], columns: tuple[Column, ...], now: int) -> I:
        """What a runner makes of the partial accumulators."""
        made = PartialBlock([], [], [], [], [[] for _ in columns])
        for batch in batches:
            made.slots.extend(slots_of(self._keys(batch)))
            starts, elements = batch.column("start").to_pylist(), batch.column("elements").to_pylist()
            made.starts.extend(starts)
            made.ends.extend(batch.column("end").to_pylist() if self._merging else starts)
            made.elements.extend(elements)
            for place, column in enumerate(columns):
                made.accumulators[place].extend(_read(batch, place, column, elements))
        return runner.partials(made)

    def _keys(self, batch: pa.RecordBatch) -> list[Any]:
        first = 2 if self._merging else 1
        return self._reader.keys(batch.columns[first:])


def _read(batch: pa.RecordBatch, place: int, column: Column, elements: list[int]) -> list[Any]:
    found = {
        name.partition(".")[2]: batch.column(index)
        for index, name in enumerate(batch.schema.names)
        if name.startswith(f"{place}.")
    }
    if not found:
        return elements
    if "coded" in found:
        decode = column.coder.decode
        return [decode(data) for data in found["coded"].to_pylist()]
    if "extreme" in found:
        return [() if value is None else (value,) for value in to_python(found["extreme"])]
    if "mean" in found:
        totals = [0 if total is None else total for total in found["total"].to_pylist()]
        return list(zip(totals, found["mean"].to_pylist(), strict=True))
    (only,) = found.values()
    return [0 if value is None else value for value in only.to_pylist()]
