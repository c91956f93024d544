"""The runner of a grouping that keeps whole windows: all keys of a window give their results together.

A bundle is: the watermark that lateness is judged by passes the existing windows; elements are assigned to windows; those
for a window that has already given its result, within the allowed lateness, make it give another; then the watermark
advances, if it has moved. No timers, no calls for single keys: a window is a table, and a result is a column of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.columns import result_column
from holdfast.engine.run.grouping_runner import GroupingRunner
from holdfast.engine.run.intake import Elements, assign, grouped
from holdfast.engine.run.outputs import Output
from holdfast.engine.run.runner import PaneBlock, PartialBlock, Receiver
from holdfast.engine.state.key_group import KeyGroupState, Layout, WindowState
from holdfast.engine.state.keys import key_of, sort_slots
from holdfast.engine.tables import Slot
from holdfast.model.functions.step import MAIN_TAG, Step
from holdfast.model.time.timestamps import MAX_TIMESTAMP
from holdfast.model.windows.ready import FixedWindows, GlobalWindow, GlobalWindows, IntervalWindow, SlidingWindows
from holdfast.model.windows.values import PaneInfo, PaneInfoTiming

__all__ = ["WholeWindowRunner"]


class WholeWindowRunner(GroupingRunner[PaneBlock]):
    """Runs one grouping."""

    def __init__(self, step: Step, layout: Layout, *, in_order: bool = False) -> None:
        super().__init__(step, layout)
        self._columns = [result_column(column, spec) for column, spec in zip(self.grouping.columns, step.cells, strict=True)]
        self._in_order = in_order
        self._may_give_again = step.windowing.allowed_lateness.micros > 0
        self._window_fn: Any = step.windowing.window_fn

    def next_event(self, state: KeyGroupState) -> int | None:
        """When the watermark next matters, in microseconds."""
        return min((due for due in (state.next_end(), state.next_expiry()) if due is not None), default=None)

    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        """When the watermark next matters to a window."""
        return expiry if fired else end

    def results(self) -> Iterator[Output]:
        for window, slots, results, panes in self.gathered.blocks:
            time = window.max_timestamp()
            for slot, values, pane in zip(slots, zip(*results, strict=True), panes, strict=True):
                yield Output(self.grouping.shaped((key_of(slot), values)), time, window, MAIN_TAG, pane)

    def hand_over(self, receiver: Receiver) -> None:
        receiver.take_panes(self.gathered.blocks)

    def bundle(self, state: KeyGroupState, block: Elements | PartialBlock, clocks: Clocks) -> None:
        self._pass(state, clocks.late)
        if block.slots:
            if isinstance(block, PartialBlock):
                touched = self._take_partials(state, block, clocks.late)
            else:
                touched = self._take_elements(state, block, clocks.late)
            self._give_late(touched, clocks.late)
        if clocks.final:
            self._pass(state, MAX_TIMESTAMP.micros)
        elif clocks.watermark != clocks.late:
            self._pass(state, clocks.watermark)

    # Time passes.

    def _pass(self, state: KeyGroupState, watermark: int) -> None:
        """Outputs the results of windows that have ended, and drops expired ones."""
        for window in sorted(_ended(state, watermark), key=_order):
            is_last = window.expiry <= watermark
            if not window.fired:
                self._give_in_time(window, is_last=is_last)
                window.fired = True
            if is_last or isinstance(window.window, GlobalWindow):
                state.drop(window)
                self.metrics.windows_expired += 1

    def _give_in_time(self, window: WindowState, *, is_last: bool) -> None:
        slots = list(dict.fromkeys(chain.from_iterable(table.values for table in self._tables(window))))
        given = window.panes.values
        if given:
            # After a restart it is not known whether all keys have given their results, so those that have are counted;
            # also if lateness was allowed then, and is not now.
            slots = [slot for slot in slots if slot not in given]
        if self._may_give_again:
            self._give_counted(window, slots, PaneInfoTiming.ON_TIME)
        else:
            self._give(window, slots, [PaneInfo(True, is_last, PaneInfoTiming.ON_TIME, 0, 0)] * len(slots))

    def _give_late(self, touched: dict[int, tuple[WindowState, list[Slot]]], watermark: int) -> None:
        for window, slots in sorted(touched.values(), key=lambda item: _order(item[0])):
            if window.window.end.micros <= watermark:
                window.fired = True
                self._give_counted(window, list(dict.fromkeys(slots)), PaneInfoTiming.LATE)

    def _give_counted(self, window: WindowState, slots: list[Slot], timing: PaneInfoTiming) -> None:
        counts = window.panes.values
        # Nothing arrives after the end of the global window; for any other window it may.
        is_last = isinstance(window.window, GlobalWindow)
        infos = []
        for slot in slots:
            index = counts.get(slot, 0)
            infos.append(PaneInfo(index == 0, is_last, timing, index, index))
            window.panes.put(slot, index + 1)
        self._give(window, slots, infos)
        if not self.grouping.is_accumulating:
            for column, table in zip(self._columns, window.tables, strict=False):
                column.clear(table, slots)

    def _give(self, window: WindowState, slots: list[Slot], infos: list[PaneInfo]) -> None:
        if not slots:
            return
        if self._in_order:
            info_of = dict(zip(slots, infos, strict=True))
            slots = sort_slots(slots)
            infos = [info_of[slot] for slot in slots]
        results = [column.results(table, slots) for column, table in zip(self._columns, self._tables(window), strict=True)]
        self.gathered.blocks.append(PaneBlock(window.window, slots, results, infos))

    def _tables(self, window: WindowState) -> list[Any]:
        return window.tables[: len(self._columns)]

    # Elements come in.

    def _take_elements(
        self, state: KeyGroupState, elements: Elements, watermark: int
    ) -> dict[int, tuple[WindowState, list[Slot]]]:
        self.metrics.elements = len(elements.slots)
        assigned = assign(state, elements, watermark)
        self.metrics.late += len(assigned.late)
        if self.wants_late:
            self.gathered.late += assigned.late
        together, windows = grouped(assigned.elements, assigned.windows)
        self.metrics.calls = len(together.slots)
        touched: dict[int, tuple[WindowState, list[Slot]]] = {}
        for position, (slot, (_, group)) in enumerate(zip(together.slots, together.pairs, strict=True)):
            window = windows if isinstance(windows, WindowState) else windows[position]
            for column, table in zip(self._columns, self._tables(window), strict=True):
                column.add_values(table, slot, group.values)
            touched.setdefault(id(window), (window, []))[1].append(slot)
        return touched

    def _take_partials(
        self, state: KeyGroupState, block: PartialBlock, watermark: int
    ) -> dict[int, tuple[WindowState, list[Slot]]]:
        self.metrics.elements = sum(block.elements)
        self.metrics.calls = len(block.slots)
        touched: dict[int, tuple[WindowState, list[Slot]]] = {}
        for window, positions in self._windows_of(block):
            if not isinstance(window, GlobalWindow) and state.expiry_of(window) <= watermark:
                counts = block.elements if positions is None else [block.elements[position] for position in positions]
                self.metrics.late += sum(counts)
                continue
            held = state.window(window)
            slots = _taken(block.slots, positions)
            for column, table, accumulators in zip(self._columns, self._tables(held), block.accumulators, strict=True):
                column.add_partials(table, slots, _taken(accumulators, positions))
            touched[id(held)] = (held, slots)
        return touched

    def _windows_of(self, block: PartialBlock) -> Iterator[tuple[Any, list[int] | None]]:
        """The windows of a block, and the rows that belong to each; None: all."""
        if type(self._window_fn) is GlobalWindows:
            yield GlobalWindow(), None
            return
        assert type(self._window_fn) in (FixedWindows, SlidingWindows)
        indexes, starts = self._window_fn.assign_block(np.asarray(block.starts, dtype=np.int64))
        order = np.argsort(starts, kind="stable")
        distinct, firsts = np.unique(starts[order], return_index=True)
        size = self._window_fn.size_micros
        for start, positions in zip(distinct.tolist(), np.split(indexes[order], firsts[1:]), strict=True):
            yield IntervalWindow._of_micros(start, start + size), positions.tolist()


def _ended(state: KeyGroupState, watermark: int) -> list[WindowState]:
    """The windows that have ended and not given their results, and those that expire."""
    ended = {window.data: window for window in state.take_ended(watermark)}
    while (expiry := state.next_expiry()) is not None and expiry <= watermark:
        window = state.take_expired()
        ended[window.data] = window
    if watermark >= MAX_TIMESTAMP.micros:
        # The global window ends with the input.
        whole = (window for window in state.windows.values() if isinstance(window.window, GlobalWindow))
        ended |= {window.data: window for window in whole}
    return list(ended.values())


def _order(window: WindowState) -> tuple[int, bytes]:
    """Windows give their results in order of their ends."""
    return window.window.end.micros, window.data


def _taken(column: list[Any], positions: Sequence[int] | None) -> list[Any]:
    return column if positions is None else [column[position] for position in positions]
