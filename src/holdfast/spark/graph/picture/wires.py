"""Wires between two layers: curves that begin and end upright, and labels on them that do not cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["GapWire", "gap_height", "spread"]

_EMPTY_GAP = 40.0
_ROW = 20.0
_ROWS_MAX = 8
_BETWEEN_LABELS = 8.0
_PORTS_APART = 22.0
_PORTS_SHARE = 0.5


@dataclass(eq=False)
class GapWire:
    """A wire on its way through a gap, from left to right and from top to bottom in coordinates."""

    start: float
    end: float
    label: float
    """The width of its label; 0 if it has none here."""
    top: float = 0.0
    bottom: float = 0.0
    label_x: float = 0.0
    label_y: float = 0.0

    def x_at(self, y: float) -> float:
        """Where the curve is at a height."""
        low, high = 0.0, 1.0
        for _ in range(24):
            middle = (low + high) / 2
            if self.top + (self.bottom - self.top) * _rise(middle) < y:
                low = middle
            else:
                high = middle
        return self.start + (self.end - self.start) * (3 * (1 - low) * low**2 + low**3)


def _rise(t: float) -> float:
    """How far down a curve is, whose two inner points are half way."""
    return 1.5 * (1 - t) ** 2 * t + 1.5 * (1 - t) * t**2 + t**3


def spread(middle: float, width: float, count: int) -> list[float]:
    """So many places around the middle of a box."""
    apart = 0.0 if count == 1 else min(_PORTS_APART, width * _PORTS_SHARE / (count - 1))
    return [middle + apart * (number - (count - 1) / 2) for number in range(count)]


def gap_height(wires: Sequence[GapWire], top: float) -> float:
    """How high a gap must be that begins there. The labels are placed."""
    labelled = sorted((wire for wire in wires if wire.label), key=lambda wire: wire.start + wire.end)
    for rows in range(1 if labelled else 0, _ROWS_MAX + 1):
        height = _EMPTY_GAP + _ROW * rows
        for wire in wires:
            wire.top, wire.bottom = top, top + height
        if _place(labelled, top, rows) or rows == _ROWS_MAX:
            return height
    return _EMPTY_GAP


def _place(wires: Sequence[GapWire], top: float, rows: int) -> bool:
    """Places labels in rows; whether there is room for all."""
    ends = [float("-inf")] * rows
    fits = True
    for wire in wires:
        for row in range(rows):
            wire.label_y = top + _EMPTY_GAP / 2 + _ROW * (row + 0.5)
            # At the left edge of the picture, a label moves off its wire rather than out of sight.
            wire.label_x = max(wire.x_at(wire.label_y), wire.label / 2 + _BETWEEN_LABELS)
            if wire.label_x - wire.label / 2 >= ends[row]:
                ends[row] = wire.label_x + wire.label / 2 + _BETWEEN_LABELS
                break
        else:
            fits = False
    return fits
