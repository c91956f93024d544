"""Sweeping: removes cells whose time to live is up, also of keys that are never seen again.

So many in a bundle that none pays for all of them: at least 1,000, and two for each of its elements.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.engine.expiry import Expiring
from holdfast.engine.state import KeyGroupState
from holdfast.engine.tables.expiring import NEVER_TOUCHED
from holdfast.model.ttl import lump

if TYPE_CHECKING:
    from holdfast.engine.runner import Clocks, StepRunner

__all__ = ["SWEEP_MIN", "Sweeping", "sweep_budget"]

SWEEP_MIN = 1_000
_PER_ELEMENT = 2


def sweep_budget(elements: int) -> int:
    """How many cells a bundle of so many elements removes at most."""
    return SWEEP_MIN + _PER_ELEMENT * elements


class Sweeping:
    """Removes what has expired, on behalf of a runner."""

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner
        self._stamps = runner.layout.stamps

    def sweep(self, state: KeyGroupState, clocks: Clocks, budget: int) -> None:
        runner = self._runner
        began = time.perf_counter_ns()
        for in_event_time, index in state.expiring.items():
            now = clocks.watermark if in_event_time else clocks.now
            if in_event_time and now == NEVER_TOUCHED:
                continue
            later: list[tuple[Expiring, int]] = []
            due = index.due(now)
            while budget > 0 and (found := next(due, None)):
                budget -= self._look(state, *found, now, later)
            for entry, lumped in later:
                index.enter(*entry, lumped)
        runner.metrics.cells_expired += runner.ttl_clock.expired
        runner.metrics.sweep_micros += (time.perf_counter_ns() - began) // 1000

    def _look(self, state: KeyGroupState, due: int, entry: Expiring, now: int, later: list[tuple[Expiring, int]]) -> int:
        """Looks at one cell whose time may be up; 1 if that changed anything. What must wait for another sweep goes to
        `later`."""
        runner = self._runner
        window = state.windows.get(entry.window)
        if window is None or entry.slot not in window.tables[entry.cell].values:
            return 0
        cell = runner.cells[entry.cell]
        index, micros = state.expiring[cell.ttl.in_event_time], cell.ttl.micros
        stamp = window.tables[self._stamps[entry.cell]].values.get(entry.slot, NEVER_TOUCHED)
        if stamp != NEVER_TOUCHED:
            lumped = lump(stamp + micros, micros)
            if lumped > due:
                # It was touched since: it is its turn later, among those of that time.
                index.enter(*entry, lumped)
                return 0
            if stamp + micros > now:
                later.append((entry, lumped))
                return 0
        if runner.window is not window:
            runner.bind(window)
        runner.focus.key = entry.slot
        if stamp == NEVER_TOUCHED:
            # From before there was a watermark, or before the cell had a time to live: this begins now.
            cell.stamp(now)
            index.enter(*entry, lump(now + micros, micros))
        else:
            cell.expire()
        return 1
