"""Sessions with their accumulators, as an aggregation works on them.

A session is a tuple of start, end, given, on_time and one stored accumulator for each result; see `model.coders.sessions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from holdfast.engine.run.columns import CombinedColumn
from holdfast.engine.run.runner import PartialBlock
from holdfast.model.coders.sessions import FIELDS
from holdfast.model.functions.grouping import Grouping

__all__ = ["Session", "SessionColumns", "flat", "overlapping"]

Session = tuple[Any, ...]


class SessionColumns:
    """The results of a grouping over sessions."""

    def __init__(self, grouping: Grouping) -> None:
        self._columns = [CombinedColumn(column) for column in grouping.columns]
        self._is_accumulating = grouping.is_accumulating
        self.width = FIELDS + len(self._columns)
        self.joined: Callable[[Session, Session], Session] = (
            self._joined_one if len(self._columns) == 1 else self._joined_all
        )
        """Two sessions that overlap, neither of which the watermark has passed, as one."""

    def of_partials(self, block: PartialBlock) -> Iterator[Session]:
        """What was combined beforehand, as sessions."""
        stored = [column.stored(partials) for column, partials in zip(self._columns, block.accumulators, strict=True)]
        return zip(block.starts, block.ends, repeat(0), repeat(0), *stored, strict=False)

    def cut(self, entry: Session) -> list[Session]:
        """The sessions of a key."""
        width = self.width
        return [entry] if len(entry) == width else [entry[first : first + width] for first in range(0, len(entry), width)]

    def merged(self, held: Iterable[Session], partials: Sequence[Session], values: Sequence[Any]) -> tuple[Any, ...]:
        """The accumulators of kept sessions, of partial ones and of values, as one for each result."""
        kept = [session for session in held if self._is_accumulating or not session[3]]
        sessions = [*kept, *partials]
        return tuple(
            column.merged([session[place] for session in sessions], values)
            for place, column in enumerate(self._columns, FIELDS)
        )

    def results(self, sessions: Sequence[Session]) -> list[list[Any]]:
        """For each result, those of these sessions."""
        accumulators = zip(*sessions, strict=True)
        columns = list(map(list, accumulators))[FIELDS:]
        return [column.extracted(stored) for column, stored in zip(self._columns, columns, strict=True)]

    def after_result(self, session: Session) -> Session:
        """A session that has given a result which was not early."""
        start, end, given, on_time, *stored = session
        left = stored if self._is_accumulating else [column.empty() for column in self._columns]
        return start, end, given + 1, on_time + 1, *left

    def _joined_one(self, one: Session, other: Session) -> Session:
        start, end, given, _, held = one
        return (
            start if start < other[0] else other[0],
            end if end > other[1] else other[1],
            given or other[2],
            0,
            self._columns[0].joined(held, other[4]),
        )

    def _joined_all(self, one: Session, other: Session) -> Session:
        joined = [column.joined(*pair) for column, *pair in zip(self._columns, one[FIELDS:], other[FIELDS:], strict=True)]
        return min(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]), 0, *joined


def overlapping(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """What (start, end) pairs become if those that overlap are merged: start, end, and the positions of the parts."""
    together: list[int] = []
    first = last = 0
    for position in sorted(range(len(spans)), key=spans.__getitem__):
        start, end = spans[position]
        if together and start >= last:
            yield first, last, together
            together = []
        first, last = (first, max(last, end)) if together else (start, end)
        together.append(position)
    if together:
        yield first, last, together


def flat(sessions: Iterable[Session]) -> Session:
    """Sessions of a key as one entry."""
    return tuple(chain.from_iterable(sessions))
