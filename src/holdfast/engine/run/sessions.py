"""The runner of a grouping that keeps sessions: those of a key together, and the results of all keys as columns.

A bundle is: the watermark that lateness is judged by passes the sessions; what came is merged into them, and those that have
given a result already, and are still kept, give another; then the watermark advances, if it has moved. The table knows which
keys are due, so a bundle looks at those and at those for which something came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from typing import Any

from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.grouping_runner import GroupingRunner
from holdfast.engine.run.intake import Elements
from holdfast.engine.run.outputs import Output
from holdfast.engine.run.runner import PartialBlock, Receiver, SessionBlock
from holdfast.engine.run.session_columns import Session, SessionColumns, flat
from holdfast.engine.run.session_intake import Part, SessionIntake
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.keys import key_of, sort_slots
from holdfast.engine.tables import Slot
from holdfast.engine.tables.due import in_order_of
from holdfast.engine.tables.sessions import SessionsTable
from holdfast.model.functions.step import MAIN_TAG, Step
from holdfast.model.time.timestamps import MAX_TIMESTAMP
from holdfast.model.windows.ready import GlobalWindow, IntervalWindow
from holdfast.model.windows.values import PaneInfo, PaneInfoTiming

__all__ = ["SessionRunner"]

_ONLY = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
Ended = list[tuple[Slot, Session]]


class SessionRunner(GroupingRunner[SessionBlock]):
    """Runs one grouping."""

    def __init__(self, step: Step, layout: Layout) -> None:
        super().__init__(step, layout)
        self._columns = SessionColumns(self.grouping)
        windowing = self.grouping.windowing
        self._lateness = windowing.allowed_lateness.micros
        self._expiry = windowing.expiry
        self._intake = SessionIntake(self._columns, windowing, self._note_late, self._note_result)
        self._elements: Elements | None = None
        self._again: Ended = []
        """Sessions that give a result after the first, because of something that came after their end."""

    def bundle(self, state: KeyGroupState, block: Elements | PartialBlock, clocks: Clocks) -> None:
        table = state.window(GlobalWindow()).sessions
        self._intake.begin()
        self._pass(table, clocks.late, set(block.slots) if self._lateness else ())
        if block.slots:
            self._take(table, block, clocks.late)
        if clocks.final:
            self._pass(table, MAX_TIMESTAMP.micros)
        elif clocks.watermark != clocks.late:
            self._pass(table, clocks.watermark)

    def where(self) -> dict[str, Any]:
        return {} if self._intake.at is None else {"key": key_of(self._intake.at)}

    def next_event(self, state: KeyGroupState) -> int | None:
        window = state.windows.get(b"")
        return None if window is None else window.sessions.index.next_time

    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        return expiry

    def results(self) -> Iterator[Output]:
        for starts, ends, slots, results, panes in self.gathered.blocks:
            for start, end, slot, values, pane in zip(starts, ends, slots, zip(*results, strict=True), panes, strict=True):
                window = IntervalWindow._of_micros(start, end)
                value = self.grouping.shaped((key_of(slot), values))
                yield Output(value, window.max_timestamp(), window, MAIN_TAG, pane)

    def hand_over(self, receiver: Receiver) -> None:
        for block in self.gathered.blocks:
            receiver.take_sessions(block)

    # Something comes.

    def _take(self, table: SessionsTable, block: Elements | PartialBlock, watermark: int) -> None:
        self._again = []
        if isinstance(block, PartialBlock):
            self.metrics.elements = sum(block.elements)
            self.metrics.calls = len(block.slots)
            self._elements = None
            self._intake.take_partials(table, block, watermark)
        else:
            self.metrics.elements = len(block.slots)
            self._elements = block
            self.metrics.calls = self._intake.take_elements(table, block, watermark)
        if self._again:
            panes = [PaneInfo(not s[2], False, PaneInfoTiming.LATE, s[2], s[3]) for _, s in self._again]
            self._give(self._again, panes)

    def _note_late(self, parts: Sequence[Part], start: int, end: int) -> None:
        self.metrics.late += sum(part.elements for part in parts)
        if self.wants_late and self._elements is not None:
            window = IntervalWindow._of_micros(start, end)
            pairs = self._elements.pairs
            self.gathered.late += [(pairs[part.position], part.start, window) for part in parts]

    def _note_result(self, slot: Slot, session: Session) -> None:
        self._again.append((slot, session))

    # Time passes.

    def _pass(self, table: SessionsTable, watermark: int, present: Collection[Slot] = ()) -> None:
        """Gives the results of sessions that have ended, and forgets those that have expired. `present`: the keys for which
        something has come; for them the watermark moves in one step, so a result that is given after the expiry is the
        last."""
        left: dict[Slot, Session] = {}
        ended = self._in_order(self._ended(table, watermark, left))
        if not ended:
            return
        giving = [(slot, session) for slot, session in ended if not session[3]]
        if giving:
            self._give(giving, self._panes_in_time(giving, watermark, present))
        if self._lateness:
            self._keep(ended, left, watermark)
        self.metrics.windows_expired += sum(self._expiry(session[1]) <= watermark for _, session in ended)
        self._store(table, ended, left)

    def _ended(self, table: SessionsTable, watermark: int, left: dict[Slot, Session]) -> Ended:
        """The sessions that are due. `left` is given what else their keys have."""
        values, width = table.values, self._columns.width
        ended: Ended = []
        early: list[Slot] = []
        for slot in table.index.take(watermark):
            entry = values.get(slot)
            if entry is None:
                continue
            if len(entry) == width and not entry[3]:
                if entry[1] <= watermark:
                    ended.append((slot, entry))
                else:
                    early.append(slot)
            else:
                rest: list[Session] = []
                for session in self._columns.cut(entry):
                    if self._due_of(session) <= watermark:
                        ended.append((slot, session))
                    else:
                        rest.append(session)
                if self._columns.width * len(rest) == len(entry):
                    early.append(slot)
                elif rest:
                    left[slot] = flat(rest)
        # They have grown since they were entered.
        table.enter(early, [table.due_of(values[slot]) for slot in early])
        return ended

    def _due_of(self, session: Session) -> int:
        end: int = session[1]
        return self._expiry(end) if session[3] else end

    def _in_order(self, ended: Ended) -> Ended:
        """By their ends; the history of this process must not show in the order of equal ones."""
        if len(ended) < 2:
            return ended
        slots = [slot for slot, _ in ended]

        def ranks() -> list[int]:
            rank = {slot: number for number, slot in enumerate(sort_slots(set(slots)))}
            return [rank[slot] for slot in slots]

        return [ended[position] for position in in_order_of([session[1] for _, session in ended], ranks)]

    def _panes_in_time(self, giving: Ended, watermark: int, present: Collection[Slot]) -> list[PaneInfo]:
        if not self._lateness and not any(session[2] for _, session in giving):
            return list(repeat(_ONLY, len(giving)))
        return [
            PaneInfo(not session[2], self._is_last(slot, session, watermark, present), PaneInfoTiming.ON_TIME, session[2], 0)
            for slot, session in giving
        ]

    def _is_last(self, slot: Slot, session: Session, watermark: int, present: Collection[Slot]) -> bool:
        return not self._lateness or (slot in present and bool(self._expiry(session[1]) <= watermark))

    def _give(self, giving: Ended, panes: list[PaneInfo]) -> None:
        slots, sessions = map(list, zip(*giving, strict=True))
        starts, ends = ([session[place] for session in sessions] for place in (0, 1))
        self.gathered.blocks.append(SessionBlock(starts, ends, slots, self._columns.results(sessions), panes))

    def _keep(self, ended: Ended, left: dict[Slot, Session], watermark: int) -> None:
        """Leaves sessions that have given their results and may be asked for more."""
        for slot, session in ended:
            if self._expiry(session[1]) > watermark:
                kept = [*self._columns.cut(left.get(slot, ())), self._columns.after_result(session)]
                left[slot] = flat(sorted(kept, key=_start))

    def _store(self, table: SessionsTable, ended: Ended, left: dict[Slot, Session]) -> None:
        slots = dict.fromkeys(slot for slot, _ in ended)
        table.clear([slot for slot in slots if slot not in left] if left else slots)
        if left:
            for slot in slots:
                if slot in left:
                    table.put(slot, left[slot])
            table.enter(list(left), list(map(table.due_of, left.values())))


def _start(session: Session) -> Any:
    return session[0]
