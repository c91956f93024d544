"""Intake: assigns the elements of a bundle to their windows, and sets late ones aside."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from holdfast.engine.state.key_group import KeyGroupState, WindowState
from holdfast.engine.state.keys import slots_of
from holdfast.engine.tables import Slot
from holdfast.model.functions.dofn import Grouped
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    SlidingWindows,
    WindowFn,
)

__all__ = ["Assigned", "Elements", "assign", "grouped"]


_KEY = itemgetter(0)


class Elements(NamedTuple):
    """The elements of a bundle, as columns in order of arrival."""

    slots: list[Slot]
    pairs: Sequence[tuple[Any, Any]]
    times: Sequence[int]
    """Event times in microseconds."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[Any, Any]], times: Sequence[int]) -> Elements:
        return cls(slots_of(list(map(_KEY, pairs))), pairs, times)

    def take(self, indexes: Sequence[int]) -> Elements:
        slots, pairs, times = self.slots, self.pairs, self.times
        return Elements([slots[i] for i in indexes], [pairs[i] for i in indexes], [times[i] for i in indexes])


NO_ELEMENTS = Elements([], [], [])


def grouped(
    elements: Elements, windows: list[WindowState] | WindowState
) -> tuple[Elements, list[WindowState] | WindowState]:
    """One element per key and window, with all its values, in the order in which the first of each arrived."""
    if isinstance(windows, WindowState):
        return _grouped(elements), windows
    held: dict[tuple[int, Slot], tuple[WindowState, Any, Grouped]] = {}
    for slot, pair, time, window in zip(*elements, windows, strict=True):
        group = held.get((id(window), slot))
        if group is None:
            group = held[id(window), slot] = (window, pair[0], Grouped([], []))
        group[2].values.append(pair[1])
        group[2].times.append(time)
    together = Elements(
        [slot for _, slot in held],
        [(key, group) for _, key, group in held.values()],
        [group.times[-1] for _, _, group in held.values()],
    )
    return together, [window for window, *_ in held.values()]


def _grouped(elements: Elements) -> Elements:
    """The same where all have one window."""
    held: dict[Slot, tuple[Any, Any]] = {}
    for slot, pair, time in zip(*elements, strict=True):
        group = held.get(slot)
        if group is None:
            held[slot] = (pair[0], Grouped([pair[1]], [time]))
        else:
            values, times = group[1]
            values.append(pair[1])
            times.append(time)
    return Elements(list(held), list(held.values()), [group.times[-1] for _, group in held.values()])


class Assigned(NamedTuple):
    """Elements, once for each of their windows, and those that were too late for one."""

    elements: Elements
    windows: list[WindowState] | WindowState
    """One per element, or one for all."""
    late: list[tuple[tuple[Any, Any], int, Any]]
    """(element, time, window)."""


def assign(state: KeyGroupState, elements: Elements, watermark: int) -> Assigned:
    """An element is late for a window when the watermark has reached the window's end plus the allowed lateness."""
    window_fn = state.layout.step.windowing.window_fn
    if type(window_fn) is GlobalWindows:
        return Assigned(elements, state.window(GlobalWindow()), [])
    if type(window_fn) in (FixedWindows, SlidingWindows):
        indexes, windows = _assign_block(window_fn, elements)  # type: ignore[arg-type]
    else:
        indexes, windows = _assign_each(window_fn, elements)
    return _without_late(state, elements, indexes, windows, watermark)


def _assign_block(window_fn: FixedWindows | SlidingWindows, elements: Elements) -> tuple[list[int], list[Any]]:
    indexes, starts = window_fn.assign_block(np.asarray(elements.times, dtype=np.int64))
    distinct, positions = np.unique(starts, return_inverse=True)
    size = window_fn.size_micros
    windows = [IntervalWindow._of_micros(start, start + size) for start in distinct.tolist()]
    return indexes.tolist(), [windows[position] for position in positions.tolist()]


def _assign_each(window_fn: WindowFn, elements: Elements) -> tuple[list[int], list[Any]]:
    indexes, windows = [], []
    for index, (element, time) in enumerate(zip(elements.pairs, elements.times, strict=True)):
        for window in window_fn.assign(WindowFn.AssignContext(Timestamp(micros=time), element)):
            indexes.append(index)
            windows.append(window)
    return indexes, windows


def _without_late(
    state: KeyGroupState, elements: Elements, indexes: list[int], windows: list[Any], watermark: int
) -> Assigned:
    late_windows = {window for window in set(windows) if state.expiry_of(window) <= watermark}
    late = []
    if late_windows:
        late = [
            (elements.pairs[index], elements.times[index], window)
            for index, window in zip(indexes, windows, strict=True)
            if window in late_windows
        ]
        kept = [position for position, window in enumerate(windows) if window not in late_windows]
        indexes, windows = [indexes[position] for position in kept], [windows[position] for position in kept]
    states = {window: state.window(window) for window in dict.fromkeys(windows)}
    if indexes != list(range(len(elements.pairs))):
        elements = elements.take(indexes)
    return Assigned(elements, [states[window] for window in windows], late)
