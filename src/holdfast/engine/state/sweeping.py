"""Sweeping: removes expired cells, even those of keys that are never seen again.

The work is spread over bundles: each removes at most 1,000 cells, plus two per element. Many keys are checked together; no
function is called for them, so there is nothing to roll back.
"""

from __future__ import annotations

from holdfast.engine.state.expiry import ExpiryIndex, Piece
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.tables import Slot
from holdfast.engine.tables.expiring import NEVER_TOUCHED
from holdfast.model.present import BundleClocks
from holdfast.model.state.ttl import lump, lump_width

__all__ = ["SWEEP_MIN", "Sweeping", "sweep_budget"]

SWEEP_MIN = 1_000
_PER_ELEMENT = 2


def sweep_budget(elements: int) -> int:
    """The most cells that a bundle with this many elements removes."""
    return SWEEP_MIN + _PER_ELEMENT * elements


class Sweeping:
    """Removes expired cells."""

    def __init__(self, layout: Layout) -> None:
        self._micros = {position: ttl.micros for position, cell in enumerate(layout.cells) if (ttl := cell.ttl) is not None}

    def sweep(self, state: KeyGroupState, clocks: BundleClocks, budget: int) -> int:
        """Removes at most `budget` cells; returns how many it removed."""
        expired = 0
        for in_event_time, index in state.expiring.items():
            now = clocks.watermark if in_event_time else clocks.now
            if in_event_time and now == NEVER_TOUCHED:
                continue
            waiting: list[Piece] = []
            while budget > 0 and (piece := index.take(now)) is not None:
                if len(piece.slots) > budget:
                    # Checking this many cannot remove more.
                    piece, rest = piece.split(budget)
                    index.put_back(rest)
                gone, begun = self._look(state, index, piece, now, waiting)
                budget -= gone + begun
                expired += gone
            for time, window, cell, slots in waiting:
                for slot in slots:
                    index.enter(window, cell, slot, time)
        return expired

    def _look(
        self, state: KeyGroupState, index: ExpiryIndex, piece: Piece, now: int, waiting: list[Piece]
    ) -> tuple[int, int]:
        """Checks cells that may have expired: returns how many were removed, and for how many the time to live starts now.
        What must wait for another sweep is added to `waiting`."""
        due, data, cell, slots = piece
        window = state.windows.get(data)
        if window is None:
            return 0, 0
        window.activate()
        table, stamps = window.tables[cell], window.stamps(cell)
        held, stamp_of = table.values, stamps.values.get
        micros = self._micros[cell]
        # A cell touched at `later` or after belongs to a later lump; one touched at `alive` or after is not due yet.
        later = lump(due, micros) + lump_width(micros) - micros
        alive = now - micros + 1
        gone: list[Slot] = []
        begun: list[Slot] = []
        soon: list[Slot] = []
        for slot in slots:
            if slot not in held:
                continue
            stamp = stamp_of(slot, NEVER_TOUCHED)
            if stamp == NEVER_TOUCHED:
                begun.append(slot)
            elif stamp >= later:
                # It was touched since, so its turn comes later.
                index.enter(data, cell, slot, lump(stamp + micros, micros))
            elif stamp >= alive:
                soon.append(slot)
            else:
                gone.append(slot)
        table.clear(gone)
        stamps.clear(gone)
        for slot in begun:
            # From before there was a watermark, or before the cell had a time to live: that starts now.
            stamps.put(slot, now)
            index.enter(data, cell, slot, lump(now + micros, micros))
        if soon:
            waiting.append(piece._replace(slots=soon))
        return len(gone), len(begun)
