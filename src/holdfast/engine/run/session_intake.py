"""How what came in a bundle is taken into the sessions of its keys.

Sessions are merged first; whether something is late is decided by the session that it has become part of. A part that nobody
waits for any more is late. One whose session has ended, but is still kept, makes it give another result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.engine.run.intake import Elements
from holdfast.engine.run.runner import PartialBlock
from holdfast.engine.run.session_columns import Session, SessionColumns, flat, overlapping
from holdfast.engine.tables import Slot
from holdfast.engine.tables.sessions import SessionsTable
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.time.units import MAX_MICROS
from holdfast.model.windows.functions import WindowFn
from holdfast.model.windows.ready import Sessions
from holdfast.model.windows.windowing import Windowing

__all__ = ["Part", "SessionIntake"]


class Part(NamedTuple):
    """Something that came for a key: an element, or elements that were combined beforehand."""

    start: int
    end: int
    elements: int
    partial: Session | None
    position: int
    """Of the element in the bundle."""


class SessionIntake:
    """Takes bundles into a table.

    `on_late(parts, start, end)` is told of parts that are late for a session, `on_result(slot, session)` of a session that
    gives a result again, in each key by the ends of the sessions.
    """

    def __init__(
        self,
        columns: SessionColumns,
        windowing: Windowing,
        on_late: Callable[[Sequence[Part], int, int], None],
        on_result: Callable[[Slot, Session], None],
    ) -> None:
        self._columns = columns
        window_fn = windowing.window_fn
        assert isinstance(window_fn, Sessions)
        self._window_fn = window_fn
        self._gap = window_fn.gap_size.micros
        self._expiry = windowing.expiry
        self._on_late = on_late
        self._on_result = on_result
        self._new: dict[Slot, int] = {}
        """Keys that may be due earlier than the table knows, and when."""
        self.at: Slot | None = None
        """The key that something is being taken for, as far as it is known; for errors."""

    def begin(self) -> None:
        """Forgets what a bundle left that failed."""
        self._new = {}
        self.at = None

    def take_elements(self, table: SessionsTable, elements: Elements, watermark: int) -> int:
        """Returns the number of keys."""
        latest = max(elements.times)
        # Of all times, only the last can have a window that ends after all timestamps.
        if latest > MAX_MICROS - self._gap:
            self.at = elements.slots[list(elements.times).index(latest)]
            self._window_fn.assign(WindowFn.AssignContext(Timestamp(micros=latest)))
        parts: dict[Slot, list[Part]] = {}
        for position, (slot, time) in enumerate(zip(elements.slots, elements.times, strict=True)):
            parts.setdefault(slot, []).append(Part(time, time + self._gap, 1, None, position))
        for slot, of_key in parts.items():
            self.at = slot
            self._take_key(table, slot, of_key, elements.pairs, watermark)
        self._enter_new(table)
        return len(parts)

    def take_partials(self, table: SessionsTable, block: PartialBlock, watermark: int) -> None:
        rows = zip(block.slots, self._columns.of_partials(block), block.elements, strict=False)
        together = self._take_each(table, rows, _set_apart(block, watermark), watermark)
        for slot, coming in together.items():
            self.at = slot
            self._take_several(table, slot, coming, watermark)
        self._enter_new(table)

    def _take_each(
        self, table: SessionsTable, rows: Iterable[tuple[Slot, Session, int]], apart: Collection[Slot], watermark: int
    ) -> dict[Slot, list[tuple[Session, int]]]:
        """Takes one session for each key, none of which has ended; returns what came for the keys set apart."""
        values, changes, width, joined = table.values, table.changes, self._columns.width, self._columns.joined
        together: dict[Slot, list[tuple[Session, int]]] = {}
        for slot, session, elements in rows:
            if slot in apart:
                together.setdefault(slot, []).append((session, elements))
                continue
            held = values.get(slot)
            if held is None:
                self._new[slot] = session[1]
            elif len(held) == width and not held[3] and session[0] >= held[0]:
                self.at = slot
                session = held + session if session[0] >= held[1] else joined(held, session)
            else:
                self.at = slot
                self._take_several(table, slot, [(session, elements)], watermark)
                continue
            values[slot] = session
            changes[slot] = session
        return together

    def _take_several(self, table: SessionsTable, slot: Slot, coming: list[tuple[Session, int]], watermark: int) -> None:
        """Takes sessions for one key."""
        held = table.values.get(slot)
        sessions = [] if held is None else self._columns.cut(held)
        if len(coming) > 1:
            coming.sort(key=_start)
        if not self._appended(sessions, coming, watermark):
            parts = [_part(session, elements) for session, elements in coming]
            self._take_key(table, slot, parts, (), watermark)
            return
        table.put(slot, flat(sessions))
        if held is None:
            self._new[slot] = sessions[0][1]

    def _appended(self, sessions: list[Session], coming: list[tuple[Session, int]], watermark: int) -> bool:
        """Adds sessions at the end, or says that they do not belong there, or may be late."""
        if sessions and (sessions[-1][3] or coming[0][0][0] < sessions[-1][0]):
            return False
        joined = self._columns.joined
        for session, _ in coming:
            if session[1] <= watermark:
                return False
            if not sessions or session[0] >= sessions[-1][1]:
                sessions.append(session)
            else:
                sessions[-1] = joined(sessions[-1], session)
        return True

    def _enter_new(self, table: SessionsTable) -> None:
        table.enter(list(self._new), list(self._new.values()))
        self._new = {}
        self.at = None

    def _take_key(self, table: SessionsTable, slot: Slot, parts: list[Part], pairs: Sequence[Any], watermark: int) -> None:
        held = table.values.get(slot)
        merged = self._merged(slot, [] if held is None else self._columns.cut(held), parts, pairs, watermark)
        if merged:
            entry = flat(merged)
            table.put(slot, entry)
            self._new[slot] = table.due_of(entry)

    def _merged(
        self, slot: Slot, held: list[Session], parts: list[Part], pairs: Sequence[Any], watermark: int
    ) -> list[Session]:
        """The sessions of a key with these parts in them; none if all parts are late, and nothing changes."""
        spans = [session[:2] for session in held] + [part[:2] for part in parts]
        left: list[Session] = []
        is_changed = False
        for start, end, members in sorted(overlapping(spans), key=_end):
            known = [held[member] for member in members if member < len(held)]
            new = [parts[member - len(held)] for member in members if member >= len(held)]
            if not new:
                left.append(known[0])
            elif self._expiry(end) <= watermark:
                self._on_late(new, start, end)
            else:
                session = self._one(start, end, known, new, pairs, has_ended=end <= watermark)
                left.append(self._given_again(slot, session) if end <= watermark else session)
                is_changed = True
        return sorted(left, key=_first) if is_changed else []

    def _one(
        self, start: int, end: int, held: list[Session], parts: list[Part], pairs: Sequence[Any], *, has_ended: bool
    ) -> Session:
        """One session of sessions that were kept and of what came."""
        values = [pairs[position][1] for position in sorted(part.position for part in parts)] if pairs else ()
        partials = [part.partial for part in parts if part.partial is not None]
        given = max((session[2] for session in held), default=0)
        # A session that has grown beyond the watermark has yet to end.
        on_time = max((session[3] for session in held), default=0) if has_ended else 0
        return start, end, given, on_time, *self._columns.merged(held, partials, values)

    def _given_again(self, slot: Slot, session: Session) -> Session:
        self._on_result(slot, session)
        return self._columns.after_result(session)


def _set_apart(block: PartialBlock, watermark: int) -> set[Slot]:
    """The keys for which more than one session came, or one that may be late."""
    seen: set[Slot] = set()
    apart: set[Slot] = set()
    if len(set(block.slots)) < len(block.slots):
        for slot in block.slots:
            (apart if slot in seen else seen).add(slot)
    if min(block.ends) <= watermark:
        apart.update(slot for slot, end in zip(block.slots, block.ends, strict=True) if end <= watermark)
    return apart


def _part(session: Session, elements: int) -> Part:
    return Part(session[0], session[1], elements, session, 0)


def _start(coming: tuple[Session, int]) -> tuple[int, int]:
    return coming[0][0], coming[0][1]


def _end(span: tuple[int, int, list[int]]) -> tuple[int, int]:
    return span[1], span[0]


def _first(session: Session) -> Any:
    return session[0]
