"""The open sessions of one key.

A value is a list of sessions in order of their starts, each a dict: `start` and `end`, `given` (how many results it has
given), `on_time` (how many of them since the watermark last passed its end) and `accumulators`, by the names of the results.

Its stored form is one flat tuple, `FIELDS` numbers and then the accumulators for each session, the times in microseconds and
the accumulators in their own stored form. A block has columns: how many sessions each key has; start, length, `given` and
`on_time` of each session; and its accumulators, with a column for each result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from operator import add, sub
from typing import Any

from holdfast.model.coders import blocks
from holdfast.model.coders.base import BuiltinCoder, Coder
from holdfast.model.coders.primitive import VarIntCoder
from holdfast.model.time.timestamps import Timestamp

__all__ = ["FIELDS", "SessionsCoder"]

FIELDS = 4
"""How many numbers a session has before its accumulators: start, end, given, on_time."""

_NUMBERS = VarIntCoder()
_ENTRIES = frozenset({"start", "end", "given", "on_time", "accumulators"})


class SessionsCoder(BuiltinCoder[list[dict[str, Any]]]):
    """Sessions with one accumulator for each of these results."""

    short_name = "sessions"
    direct_types = frozenset({tuple})

    def __init__(self, names: Sequence[str], components: Sequence[Coder[Any]]) -> None:
        self.names = tuple(names)
        self.components = tuple(components)
        self.width = FIELDS + len(self.components)
        """The length of one session in the stored form."""

    def describe(self) -> dict[str, object]:
        components = [component.describe() for component in self.components]
        return {**super().describe(), "names": list(self.names), "components": components}

    def sessions(self, stored: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """The sessions of a key, one by one."""
        return (stored[first : first + self.width] for first in range(0, len(stored), self.width))

    def encode(self, value: list[dict[str, Any]]) -> bytes:
        return self.encode_block([self.freeze(value)])

    def decode(self, data: bytes) -> list[dict[str, Any]]:
        (stored,) = self.decode_block(data)
        return self.thaw(stored)

    def freeze(self, value: list[dict[str, Any]]) -> object:
        """The stored form. Raises a CoderError for anything but sessions in order."""
        if not isinstance(value, list) or not value:
            raise self.misfit(value, "It takes lists of sessions, and at least one.")
        sessions = [self._frozen(session) for session in value]
        ends = [session[1] for session in sessions]
        if any(start < end for end, (start, *_) in zip(ends, sessions[1:], strict=False)):
            todo = "Give sessions in order of their starts, of which no two overlap."
            raise self.misfit(value, "Two of the sessions overlap, or are not in order.", todo)
        return tuple(chain.from_iterable(sessions))

    def thaw(self, stored: object) -> list[dict[str, Any]]:
        if not isinstance(stored, tuple):
            return super().thaw(stored)
        return [self._thawed(session) for session in self.sessions(stored)]

    def _frozen(self, session: Any) -> tuple[Any, ...]:
        if not isinstance(session, Mapping) or session.keys() != _ENTRIES:
            raise self.misfit(session, f"A session has {', '.join(sorted(_ENTRIES))}.")
        start, end, given, on_time = (session[name] for name in ("start", "end", "given", "on_time"))
        if not (isinstance(start, Timestamp) and isinstance(end, Timestamp) and start < end):
            raise self.misfit(session, "It must start before it ends.")
        if type(given) is not int or type(on_time) is not int or not 0 <= on_time <= given:
            raise self.misfit(session, "given and on_time are numbers of results, and no more are on time than given.")
        accumulators = session["accumulators"]
        if not isinstance(accumulators, Mapping) or list(accumulators) != list(self.names):
            raise self.misfit(session, f"It must have an accumulator for each of: {', '.join(self.names)}.")
        frozen = (coder.freeze(accumulators[name]) for name, coder in zip(self.names, self.components, strict=True))
        return start.micros, end.micros, given, on_time, *frozen

    def _thawed(self, session: tuple[Any, ...]) -> dict[str, Any]:
        start, end, given, on_time, *stored = session
        thawed = (coder.thaw(item) for coder, item in zip(self.components, stored, strict=True))
        return {
            "start": Timestamp(micros=start),
            "end": Timestamp(micros=end),
            "given": given,
            "on_time": on_time,
            "accumulators": dict(zip(self.names, thawed, strict=True)),
        }

    def _write_block(self, stored: list[Any]) -> bytes:
        width = self.width
        counts = [len(entry) // width for entry in stored]
        flat = list(chain.from_iterable(stored))
        starts, ends, *others = (flat[place::width] for place in range(width))
        coders = (*repeat(_NUMBERS, FIELDS), *self.components)
        columns = [counts, starts, list(map(sub, ends, starts)), *others]
        written = [coder.encode_block(column) for coder, column in zip((_NUMBERS, *coders), columns, strict=True)]
        return blocks.write_columns(len(stored), written)

    def _read_block(self, block: bytes) -> list[Any]:
        if block[0] != blocks.COLUMNS:
            raise blocks.Damaged(f"unknown layout {block[0]:#04x}")
        count, parts = blocks.read_columns(block)
        if len(parts) != 1 + self.width:
            raise blocks.Damaged(f"{len(parts)} columns for {len(self.components)} results")
        coders = (*repeat(_NUMBERS, 1 + FIELDS), *self.components)
        columns: list[list[Any]] = [coder.decode_block(part) for coder, part in zip(coders, parts, strict=True)]
        counts, starts, lengths, *others = columns
        if len(counts) != count or min(counts, default=1) < 1:
            raise blocks.Damaged("the counts do not fit the keys")
        ends = map(add, starts, lengths)
        if min(lengths, default=1) < 1 or any(len(column) != len(starts) for column in (lengths, *others)):
            raise blocks.Damaged("columns of different length, or a session that ends before it starts")
        return _together(list(zip(starts, ends, *others, strict=True)), counts)


def _together(sessions: list[Any], counts: list[Any]) -> list[Any]:
    """The sessions of each key as one tuple."""
    if sum(counts) != len(sessions):
        raise blocks.Damaged("the counts do not add up to the sessions")
    if len(sessions) == len(counts):
        return sessions
    rest = iter(sessions)
    return [tuple(chain.from_iterable(islice(rest, count))) for count in counts]
