"""Ordered-list cells: for each key, stored values sorted by a time in microseconds, then by the order they were added."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy as np

from holdfast.engine.tables.base import MERGE, MISSING, REPLACE, Cell, Rows, Slot, Table
from holdfast.engine.tables.counts import decode_counts, encode_counts, split
from holdfast.engine.tables.series import Series
from holdfast.errors import CoderError, InputError
from holdfast.model.coders import Coder, VarIntCoder
from holdfast.model.state.specs import OrderedListState
from holdfast.model.time.timestamps import Timestamp

__all__ = ["OrderedListCell", "OrderedListTable"]

_TIMES = VarIntCoder()
_OWN_BYTES = attrgetter("own_bytes")


class Change:
    """How to change a committed series: cut these ranges, then add these entries. Entries added and then cut are omitted."""

    __slots__ = ("added", "ranges")

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.added = Series()


class OrderedListTable(Table):
    """`values`: key → Series, never empty; `changes`: key → Change, or None if the whole series is new."""

    __slots__ = ()

    def delta(self) -> Iterator[Rows]:
        merged = [key for key, change in self.changes.items() if change is not None]
        replaced = [key for key, change in self.changes.items() if change is None]
        if merged:
            ranges = [self.changes[key].ranges for key in merged]
            flat = [bound for pairs in ranges for pair in pairs for bound in pair]
            columns = [encode_counts(len(pairs) * 2 for pairs in ranges), _encode_times(flat)]
            yield Rows(MERGE, merged, columns + self._columns([self.changes[key].added for key in merged]))
        if replaced:
            yield Rows(REPLACE, replaced, self._columns([self.values.get(key, Series()) for key in replaced]))

    def rows(self, keys: list[Slot], entries: list[Any]) -> Rows:
        return Rows(REPLACE, keys, self._columns(entries))

    def _columns(self, series: list[Series]) -> list[bytes]:
        times = array("q")
        for one in series:
            times.extend(one.times)
        values = list(chain.from_iterable(one.values for one in series))
        return [
            encode_counts(map(len, series)),
            _encode_times(times),
            self.spec.coder.encode_block(values),
        ]

    def apply(self, rows: Rows) -> None:
        columns = rows.columns
        ranges: list[list[int]] = []
        if rows.operation == MERGE:
            ranges = split(_decode_times(columns[1]).tolist(), decode_counts(columns[0]))
            columns = columns[2:]
        counts = decode_counts(columns[0])
        times = _parts(_decode_times(columns[1]), counts)
        values = split(self.spec.coder.decode_block(columns[2]), counts)
        for position, key in enumerate(rows.keys):
            if rows.operation == MERGE:
                series = self.values.get(key, Series())
                for minimum, limit in zip(ranges[position][::2], ranges[position][1::2], strict=True):
                    series.cut(minimum, limit)
                for time, value in zip(times[position], values[position], strict=True):
                    series.add(time, value)
            else:
                series = Series(times[position], values[position])
            if series:
                self.values[key] = series
            else:
                self.values.pop(key, None)

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        return Series(array("q", entry.times), [change(stored) for stored in entry.values])

    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        return [(_TIMES, entry.times), (self.spec.coder, entry.values)]

    def objects(self, entry: Any) -> list[Collection[Any]]:
        return [entry.values]

    def items(self) -> int:
        return sum(map(len, self.values.values()))

    def containers(self) -> int:
        return sum(map(_OWN_BYTES, self.values.values()))

    def reveal(self, key: Slot) -> list[tuple[Timestamp, Any]]:
        series = self.values[key]
        return [(Timestamp(micros=t), self.spec.coder.thaw(v)) for t, v in zip(series.times, series.values, strict=True)]

    def conceal(self, value: Any) -> Series:
        series = Series()
        for time, item in value:
            series.add(Timestamp.of(time).micros, self.spec.coder.freeze(item))
        return series


class OrderedListCell(Cell[OrderedListTable], OrderedListState[Any]):
    __slots__ = ()

    def read(self) -> list[tuple[Timestamp, Any]]:
        series = self._values.get(self._focus.key)
        return [] if series is None else self._pairs(series.times, series.values)

    def read_range(self, min_timestamp: Any, limit_timestamp: Any) -> list[tuple[Timestamp, Any]]:
        series = self._values.get(self._focus.key)
        if series is None:
            return []
        return self._pairs(*series.between(_micros(min_timestamp), _micros(limit_timestamp)))

    def add(self, pair: tuple[Any, Any]) -> None:
        try:
            timestamp, value = pair
        except (TypeError, ValueError):
            raise InputError(
                f"An ordered list takes (timestamp, value) pairs; it was given {pair!r}.",
                todo=f"write {self._spec.name}.add((timestamp, value))",
                context={"cell": self._spec.name},
            ) from None
        self.insert(_micros(timestamp), value if type(value) in self._direct else self._freeze(value))

    def insert(self, time: int, stored: Any) -> None:
        key = self._focus.key
        series = self._values.get(key)
        if series is None:
            if self._undo is not None:
                self._undo.restore(self._values, key)
                self._undo.restore(self._changes, key)
            self._values[key] = Series((time,), [stored])
            self._changes[key] = None
            return
        change = self._change(key)
        if self._undo is None:
            series.add(time, stored)
            if change is not None:
                change.added.add(time, stored)
            return
        if change is not None:
            self._add(change.added, time, stored)
        self._add(series, time, stored)

    def between(self, minimum: int, limit: int) -> list[tuple[int, Any]]:
        """As `read_range`, with times in microseconds."""
        series = self._values.get(self._focus.key)
        if series is None:
            return []
        times, values = series.between(minimum, limit)
        return list(zip(times, map(self._coder.thaw, values), strict=True))

    def keep(self, time: int, value: Any) -> None:
        """As `add`, with the time in microseconds."""
        self.insert(time, value if type(value) in self._direct else self._freeze(value))

    def first_time(self) -> int | None:
        """The earliest time, in microseconds."""
        series = self._values.get(self._focus.key)
        return None if series is None else series.first

    def clear_range(self, min_timestamp: Any, limit_timestamp: Any) -> None:
        self.cut(_micros(min_timestamp), _micros(limit_timestamp))

    def cut(self, minimum: int, limit: int) -> None:
        """As `clear_range`, with times in microseconds."""
        key = self._focus.key
        series = self._values.get(key)
        if series is None:
            return
        if not series.has_any(minimum, limit):
            return
        change = self._change(key)
        if change is not None:
            change.ranges.append((minimum, limit))
            if self._undo is not None:
                self._undo.add(change.ranges.pop)
            if change.added:
                self._cut(change.added, minimum, limit)
        self._cut(series, minimum, limit)
        if not series:
            if self._undo is not None:
                self._undo.restore(self._values, key)
                self._undo.restore(self._changes, key)
            del self._values[key]
            self._changes[key] = None

    def _pairs(self, times: Collection[int], values: Collection[Any]) -> list[tuple[Timestamp, Any]]:
        return list(zip(map(Timestamp._of_micros, times), map(self._coder.thaw, values), strict=True))

    def _add(self, series: Series, time: int, stored: Any) -> None:
        series.add(time, stored)
        if self._undo is not None:
            self._undo.add(series.take_out, time)

    def _cut(self, series: Series, minimum: int, limit: int) -> None:
        gone = series.cut(minimum, limit)
        if self._undo is not None:
            self._undo.add(series.put_back, *gone)

    def _change(self, key: Slot) -> Change | None:
        """The record of what changed in this entry, created if needed."""
        change: Change | None = self._changes.get(key, MISSING)
        if change is MISSING:
            if self._undo is not None:
                self._undo.restore(self._changes, key)
            change = self._changes[key] = Change()
        return change


def _micros(time: Any) -> int:
    return time.micros if type(time) is Timestamp else Timestamp.of(time).micros


def _encode_times(times: Sequence[int]) -> bytes:
    return np.array(times, dtype="<i8").tobytes()


def _decode_times(data: bytes) -> array[int]:
    if len(data) % 8:
        raise CoderError(f"A column of times has {len(data)} bytes, which is not a multiple of eight.")
    return array("q", np.frombuffer(data, dtype="<i8").astype("=i8", copy=False).tobytes())


def _parts(times: array[int], counts: list[int]) -> list[array[int]]:
    """Cuts times into parts of these lengths."""
    if sum(counts) != len(times):
        raise CoderError(f"A block holds {len(times)} times, but its counts add up to {sum(counts)}.")
    ends = list(accumulate(counts))
    return [times[end - count : end] for end, count in zip(ends, counts, strict=True)]
