"""Series: the entries of an ordered list, by time, then in the order they were added.

The times are an array and the values a list beside it. A long series is cut into blocks, so that an entry that comes or goes
moves only what is in its block.

Invariants
- Times ascend within each block and from one block to the next.
- No block is empty but the last one, and that only if the series is.
- No block is longer than twice `_BLOCK`.
- `_before` is how many entries there are in all blocks but the last.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

__all__ = ["Series"]

_BLOCK = 1_000


class _Block(NamedTuple):
    times: array[int]
    values: list[Any]


class _All(Collection[Any]):
    """All times of a long series, or all values, without copying them."""

    __slots__ = ("_part", "_series")

    def __init__(self, series: Series, part: int) -> None:
        self._series = series
        self._part = part

    def __len__(self) -> int:
        return len(self._series)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(block[self._part] for block in self._series.blocks())

    def __contains__(self, item: object) -> bool:
        return any(item in block[self._part] for block in self._series.blocks())


class Series:
    """Times in ascending order and their values. What changes it can be undone, in the reverse order, by its opposite:
    `add` by `take_out`, `cut` by `put_back`."""

    __slots__ = ("_before", "_earlier", "_times", "_values")

    def __init__(self, times: Iterable[int] = (), values: list[Any] | None = None) -> None:
        self._times = times if isinstance(times, array) else array("q", times)
        """The last block; in a short series the only one."""
        self._values: list[Any] = [] if values is None else values
        self._earlier: list[_Block] | None = None
        """The blocks before it."""
        self._before = 0
        """How many entries they have."""
        if len(self._times) >= 2 * _BLOCK:
            self._split_last()

    def __len__(self) -> int:
        return self._before + len(self._times)

    def __bool__(self) -> bool:
        return bool(self._times)

    @property
    def first(self) -> int:
        """The earliest time; the series must have one."""
        return self._times[0] if self._earlier is None else self._earlier[0].times[0]

    @property
    def last(self) -> int:
        """The latest time; the series must have one."""
        return self._times[-1]

    @property
    def times(self) -> Collection[int]:
        """All times; to be read before the series changes."""
        return self._times if self._earlier is None else _All(self, 0)

    @property
    def values(self) -> Collection[Any]:
        """All values; to be read before the series changes."""
        return self._values if self._earlier is None else _All(self, 1)

    def between(self, minimum: int, limit: int) -> tuple[Sequence[int], list[Any]]:
        """The entries of times from `minimum` to before `limit`."""
        times, values = self._times, self._values
        if self._earlier is None or times[0] < minimum:
            start = bisect_left(times, minimum)
            stop = bisect_left(times, limit, start)
            return times[start:stop], values[start:stop]
        some: array[int] = array("q")
        found: list[Any] = []
        for block in self.blocks(self._place(minimum)):
            if block.times[0] >= limit:
                break
            start = bisect_left(block.times, minimum)
            stop = bisect_left(block.times, limit, start)
            some.extend(block.times[start:stop])
            found.extend(block.values[start:stop])
        return some, found

    def has_any(self, minimum: int, limit: int) -> bool:
        """Whether there is an entry in the range."""
        times = self._times
        if not times or times[-1] < minimum:
            return False
        if self._earlier is not None and times[0] >= minimum:
            place = self._place(minimum)
            times = times if place == len(self._earlier) else self._earlier[place].times
        if times[0] >= limit:
            return False
        # The block has one that is not before the range, so this is in it.
        return times[bisect_left(times, minimum)] < limit

    def add(self, time: int, value: Any) -> None:
        times = self._times
        if not times or times[-1] <= time:
            times.append(time)
            self._values.append(value)
            if len(times) >= 2 * _BLOCK:
                self._split_last()
            return
        place = 0 if self._earlier is None else bisect_right(self._earlier, time, key=_last_of)
        if self._earlier is not None and place < len(self._earlier):
            block = self._earlier[place]
            position = bisect_right(block.times, time)
            block.times.insert(position, time)
            block.values.insert(position, value)
            self._before += 1
            if len(block.times) >= 2 * _BLOCK:
                self._earlier[place : place + 1] = _cut_up(block)
            return
        position = bisect_right(times, time)
        times.insert(position, time)
        self._values.insert(position, value)
        if len(times) >= 2 * _BLOCK:
            self._split_last()

    def take_out(self, time: int) -> None:
        """Removes the entry of this time that was added last."""
        if self._earlier is None or self._times[0] <= time:
            position = bisect_right(self._times, time) - 1
            del self._times[position], self._values[position]
            if not self._times:
                self._promote()
            return
        # The last one that begins at this time or earlier.
        place = bisect_right(self._earlier, time, key=_first_of) - 1
        block = self._earlier[place]
        position = bisect_right(block.times, time) - 1
        del block.times[position], block.values[position]
        self._before -= 1
        if not block.times:
            del self._earlier[place]
            self._tidy()

    def cut(self, minimum: int, limit: int) -> tuple[Sequence[int], list[Any]]:
        """Removes the entries in the range and returns them."""
        times = self._times
        if self._earlier is not None:
            return self._cut_blocks(minimum, limit)
        start = bisect_left(times, minimum)
        stop = bisect_left(times, limit, start)
        gone = times[start:stop], self._values[start:stop]
        del times[start:stop], self._values[start:stop]
        return gone

    def put_back(self, times: Sequence[int], values: list[Any]) -> None:
        """The inverse of `cut`: nothing may be in the range that was cut."""
        if not len(times):
            return
        if self._earlier is None and len(times) + len(self._times) < 2 * _BLOCK:
            position = bisect_left(self._times, times[0])
            self._times[position:position] = array("q", times)
            self._values[position:position] = values
            return
        blocks = [block for block in self.blocks() if block.times]
        place = bisect_left(blocks, times[0], key=_last_of)
        coming = _Block(array("q", times), values)
        if place < len(blocks) and blocks[place].times[0] < times[0]:
            before, after = _parted(blocks[place], bisect_left(blocks[place].times, times[0]))
            blocks[place : place + 1] = [before, *_cut_up(coming), after]
        else:
            blocks[place:place] = _cut_up(coming)
        self._be(blocks)

    @property
    def own_bytes(self) -> int:
        """The size of all that it consists of, without the values."""
        parts: Iterable[object] = chain((self, self._times, self._values), (self._earlier,) if self._earlier else ())
        return sum(map(sys.getsizeof, chain(parts, *(((block, *block)) for block in self._earlier or ()))))

    def blocks(self, first: int = 0) -> Iterator[_Block]:
        """Its blocks from one of them on; to be read before the series changes."""
        if self._earlier is not None:
            yield from self._earlier[first:] if first else self._earlier
        yield _Block(self._times, self._values)

    def _place(self, time: int) -> int:
        """Which block is the first that has this time or a later one; the last if none has."""
        return 0 if self._earlier is None else bisect_left(self._earlier, time, key=_last_of)

    def _cut_blocks(self, minimum: int, limit: int) -> tuple[Sequence[int], list[Any]]:
        assert self._earlier is not None
        gone: array[int] = array("q")
        values: list[Any] = []
        place = first = self._place(minimum)
        while place < len(self._earlier) and self._earlier[place].times[0] < limit:
            _move(self._earlier[place], minimum, limit, gone, values)
            place += 1
        kept = [block for block in self._earlier[first:place] if block.times]
        self._before -= len(gone)
        if place == len(self._earlier) and self._times[0] < limit:
            _move(_Block(self._times, self._values), minimum, limit, gone, values)
        self._earlier[first:place] = kept
        self._join(max(first - 1, 0), first + len(kept) + 1)
        self._tidy()
        return gone, values

    def _join(self, first: int, stop: int) -> None:
        """Joins short neighbours, or many cuts would leave many blocks of few entries."""
        assert self._earlier is not None
        for place in range(min(stop, len(self._earlier)) - 1, first, -1):
            before, after = self._earlier[place - 1 : place + 1]
            if len(before.times) + len(after.times) <= _BLOCK:
                before.times.extend(after.times)
                before.values.extend(after.values)
                del self._earlier[place]

    def _tidy(self) -> None:
        """Restores the invariants after something was removed."""
        if not self._times:
            self._promote()
        if self._earlier is not None and not self._earlier:
            self._earlier = None

    def _promote(self) -> None:
        """Makes the block before the last one the last, if there is one."""
        if self._earlier:
            self._times, self._values = self._earlier.pop()
            self._before -= len(self._times)
        if not self._earlier:
            self._earlier = None

    def _split_last(self) -> None:
        *earlier, last = _cut_up(_Block(self._times, self._values))
        self._times, self._values = last
        self._before += sum(len(block.times) for block in earlier)
        if self._earlier is None:
            self._earlier = earlier
        else:
            self._earlier.extend(earlier)

    def _be(self, blocks: list[_Block]) -> None:
        *earlier, last = blocks
        self._times, self._values = last
        self._earlier = earlier or None
        self._before = sum(len(block.times) for block in earlier)


def _last_of(block: _Block) -> int:
    return block.times[-1]


def _first_of(block: _Block) -> int:
    return block.times[0]


def _cut_up(block: _Block) -> list[_Block]:
    """A long block as several."""
    times, values = block
    return [_Block(times[at : at + _BLOCK], values[at : at + _BLOCK]) for at in range(0, len(times), _BLOCK)]


def _parted(block: _Block, position: int) -> tuple[_Block, _Block]:
    times, values = block
    return _Block(times[:position], values[:position]), _Block(times[position:], values[position:])


def _move(block: _Block, minimum: int, limit: int, times: array[int], values: list[Any]) -> None:
    """Moves the entries of a range out of a block."""
    start = bisect_left(block.times, minimum)
    stop = bisect_left(block.times, limit, start)
    times.extend(block.times[start:stop])
    values.extend(block.values[start:stop])
    del block.times[start:stop], block.values[start:stop]
