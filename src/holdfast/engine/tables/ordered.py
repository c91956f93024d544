"""Ordered-list cells: for each key, stored values sorted by a time in microseconds, then by the order they were added."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from holdfast.engine.tables.base import MERGE, MISSING, REPLACE, Cell, Rows, Slot, Table, collection_bytes
from holdfast.engine.tables.counts import decode_counts, encode_counts, split
from holdfast.errors import CoderError, InputError
from holdfast.model.coders import Coder, VarIntCoder
from holdfast.model.state.specs import OrderedListState
from holdfast.model.time.timestamps import Timestamp

__all__ = ["OrderedListCell", "OrderedListTable", "Series"]

_TIMES = VarIntCoder()


class Series:
    """Times in ascending order and their values. Methods that change it return what is needed to undo the change."""

    __slots__ = ("times", "values")

    def __init__(self, times: list[int] | None = None, values: list[Any] | None = None) -> None:
        self.times: list[int] = [] if times is None else times
        self.values: list[Any] = [] if values is None else values

    def add(self, time: int, value: Any) -> int:
        """Returns the position of the new entry, for `take_out`."""
        times = self.times
        if not times or times[-1] <= time:
            times.append(time)
            self.values.append(value)
            return len(times) - 1
        position = bisect_right(times, time)
        times.insert(position, time)
        self.values.insert(position, value)
        return position

    def take_out(self, position: int) -> None:
        del self.times[position], self.values[position]

    def bounds(self, minimum: int, limit: int) -> slice:
        start = bisect_left(self.times, minimum)
        return slice(start, max(start, bisect_left(self.times, limit)))

    def cut(self, minimum: int, limit: int) -> tuple[int, list[int], list[Any]]:
        """Returns what it removed and from which position, for `put_back`."""
        bounds = self.bounds(minimum, limit)
        gone = bounds.start, self.times[bounds], self.values[bounds]
        del self.times[bounds], self.values[bounds]
        return gone

    def put_back(self, position: int, times: list[int], values: list[Any]) -> None:
        self.times[position:position] = times
        self.values[position:position] = values


_TIMES_OF, _VALUES = attrgetter("times"), attrgetter("values")
_SERIES_BYTES = sys.getsizeof(Series())


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
        times = list(chain.from_iterable(s.times for s in series))
        values = list(chain.from_iterable(s.values for s in series))
        return [
            encode_counts(len(s.times) for s in series),
            _encode_times(times),
            self.spec.coder.encode_block(values),
        ]

    def apply(self, rows: Rows) -> None:
        columns = rows.columns
        ranges: list[list[int]] = []
        if rows.operation == MERGE:
            ranges = split(_decode_times(columns[1]), decode_counts(columns[0]))
            columns = columns[2:]
        counts = decode_counts(columns[0])
        times = split(_decode_times(columns[1]), counts)
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
            if series.times:
                self.values[key] = series
            else:
                self.values.pop(key, None)

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        return Series(list(entry.times), [change(stored) for stored in entry.values])

    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        return [(_TIMES, entry.times), (self.spec.coder, entry.values)]

    def items(self) -> int:
        return 2 * sum(map(len, map(_VALUES, self.values.values())))

    def containers(self) -> int:
        series = self.values.values()
        lists = (list(map(part, series)) for part in (_TIMES_OF, _VALUES))
        return sum(collection_bytes(list, some) for some in lists) + _SERIES_BYTES * len(series)

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
        return self._pairs(slice(None))

    def read_range(self, min_timestamp: Any, limit_timestamp: Any) -> list[tuple[Timestamp, Any]]:
        series = self._values.get(self._focus.key)
        if series is None:
            return []
        return self._pairs(series.bounds(_micros(min_timestamp), _micros(limit_timestamp)))

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
            self._values[key] = Series([time], [stored])
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
        times = series.times
        start = bisect_left(times, minimum)
        stop = bisect_left(times, limit, start)
        if start == stop:
            return []
        return list(zip(times[start:stop], map(self._coder.thaw, series.values[start:stop]), strict=True))

    def keep(self, time: int, value: Any) -> None:
        """As `add`, with the time in microseconds."""
        self.insert(time, value if type(value) in self._direct else self._freeze(value))

    def first_time(self) -> int | None:
        """The earliest time, in microseconds."""
        series = self._values.get(self._focus.key)
        return None if series is None else series.times[0]

    def clear_range(self, min_timestamp: Any, limit_timestamp: Any) -> None:
        self.cut(_micros(min_timestamp), _micros(limit_timestamp))

    def cut(self, minimum: int, limit: int) -> None:
        """As `clear_range`, with times in microseconds."""
        key = self._focus.key
        series = self._values.get(key)
        if series is None:
            return
        times = series.times
        if times[0] >= limit or times[-1] < minimum or not _has_any(times, minimum, limit):
            return
        change = self._change(key)
        if change is not None:
            change.ranges.append((minimum, limit))
            if self._undo is not None:
                self._undo.add(change.ranges.pop)
            if change.added.times:
                self._cut(change.added, minimum, limit)
        self._cut(series, minimum, limit)
        if not series.times:
            if self._undo is not None:
                self._undo.restore(self._values, key)
                self._undo.restore(self._changes, key)
            del self._values[key]
            self._changes[key] = None

    def _pairs(self, bounds: slice) -> list[tuple[Timestamp, Any]]:
        series = self._values.get(self._focus.key)
        if series is None:
            return []
        times = map(Timestamp._of_micros, series.times[bounds])
        return list(zip(times, map(self._coder.thaw, series.values[bounds]), strict=True))

    def _add(self, series: Series, time: int, stored: Any) -> None:
        position = series.add(time, stored)
        if self._undo is not None:
            self._undo.add(series.take_out, position)

    def _cut(self, series: Series, minimum: int, limit: int) -> None:
        if self._undo is None:
            bounds = series.bounds(minimum, limit)
            del series.times[bounds], series.values[bounds]
        else:
            self._undo.add(series.put_back, *series.cut(minimum, limit))

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


def _has_any(times: list[int], minimum: int, limit: int) -> bool:
    """Whether any of these times, in order, is in the range."""
    start = bisect_left(times, minimum)
    return start < len(times) and times[start] < limit


def _encode_times(times: list[int]) -> bytes:
    return np.array(times, dtype="<i8").tobytes()


def _decode_times(data: bytes) -> list[int]:
    if len(data) % 8:
        raise CoderError(f"A column of times has {len(data)} bytes, which is not a multiple of eight.")
    times: list[int] = np.frombuffer(data, dtype="<i8").tolist()
    return times
