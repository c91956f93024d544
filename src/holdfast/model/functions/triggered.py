"""A grouping with any windows and any trigger, as a function with cells and timers.

All state of a key lives in the global window: the cell `panes` maps each of its windows to a `Pane`, and each column has a
map cell with the accumulators (or, where values are listed, chunks of them). Each window has an event timer for when the
watermark next matters to it, and a clock timer for when its trigger must next be checked.

What a bundle does for a key: first the watermark that lateness is judged by passes the existing windows; then all elements
are assigned to windows, and windows are merged; then each window that received something is offered to its trigger, once. So
the order of elements within a bundle does not matter, nor whether some were combined beforehand.

An element is late when its window, after merging, has ended and the allowed lateness has passed. That is found before
anything is added, and stays so if the call fails: what is late is no part of what failed.

A result that a clock makes due, and that cannot be given, becomes a dead letter, if these are wanted, and counts as given.
Were its window left as it is, it would fail the key's every later call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.aggregate.partials import Partial
from holdfast.model.aggregate.triggers import Moment
from holdfast.model.functions.dofn import Grouped, GroupedDoFn
from holdfast.model.present import current_clocks
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.bounded import BoundedWindow, GlobalWindow, IntervalWindow
from holdfast.model.windows.functions import WindowFn
from holdfast.model.windows.values import PaneInfo, PaneInfoTiming, WindowedValue

if TYPE_CHECKING:
    from holdfast.model.functions.grouping import Column, Grouping

__all__ = ["TriggeredGrouping", "merged_windows"]

Ranges = tuple[tuple[int, int], ...]
"""Numbers of chunks, as (first, last) pairs in ascending order."""


class Pane(NamedTuple):
    """The bookkeeping for one window of a key."""

    trigger: Any
    """The state of the trigger."""
    given: int = 0
    """How many panes the window has given."""
    on_time: int = 0
    """How many of them were not early."""
    pending: int = 0
    """How many elements are in no pane yet."""
    finished: bool = False
    chunks: Ranges = ()


class _Arrival:
    """What a bundle brought for one window."""

    __slots__ = ("count", "partials", "positions", "times", "values")

    def __init__(self) -> None:
        self.count = 0
        self.positions: list[int] = []
        """The positions of the values in the bundle."""
        self.values: list[Any] = []
        self.times: list[int] = []
        self.partials: list[Partial] = []


class TriggeredGrouping(GroupedDoFn):
    """Runs one `Grouping`. Its runner sets `on_late`: (element or None, time, window, count); and, if dead letters are
    wanted, `result_or_letter`: (makes the output, key, time), which gives the output or a dead letter."""

    on_late: Callable[[Any, int, Any, int], None]
    result_or_letter: Callable[[Callable[[], Any], Any, int], Any] | None = None

    def __init__(self, grouping: Grouping) -> None:
        self.grouping = grouping

    def setup(self) -> None:
        for combine_fn in self._combine_fns():
            combine_fn.setup()

    def teardown(self) -> None:
        for combine_fn in self._combine_fns():
            combine_fn.teardown()

    def _combine_fns(self) -> Iterable[CombineFn[Any, Any, Any]]:
        return (column.combine_fn for column in self.grouping.columns if column.combine_fn is not None)

    def process(self, element: Any, *handles: Any) -> list[Any]:
        key, group = element
        clocks = _clocks()
        windows = _Windows(self, key, handles, clocks.now)
        windows.pass_watermark(clocks.late)
        windows.take_in(group, clocks.late)
        return windows.outputs

    def on_event(self, key: Any, at: Timestamp, tag: str, *handles: Any) -> list[Any]:
        windows = _Windows(self, key, handles, _clocks().now, at)
        windows.look(bytes.fromhex(tag), at.micros, in_time=True)
        return windows.outputs

    def on_clock(self, key: Any, at: Timestamp, tag: str, *handles: Any) -> list[Any]:
        clocks = _clocks()
        windows = _Windows(self, key, handles, clocks.now, at)
        windows.look(bytes.fromhex(tag), clocks.watermark, in_time=True)
        return windows.outputs


def _clocks() -> Any:
    clocks = current_clocks()
    assert clocks is not None
    return clocks


class _Windows:
    """The windows of one key during one call."""

    def __init__(
        self, fn: TriggeredGrouping, key: Any, handles: Sequence[Any], now: int, at: Timestamp | None = None
    ) -> None:
        """`at`: the time of the timer whose call it is."""
        grouping = fn.grouping
        self._timer_at = at
        self._fn = fn
        self._grouping = grouping
        self._key = key
        self._now = now
        self._window_fn = grouping.windowing.window_fn
        self._cell = handles[0]
        self._columns = list(zip(grouping.columns, handles[1:], strict=False))
        timers = handles[1 + len(grouping.columns) :]
        self._event = timers[0]
        self._clock = timers[1] if len(timers) > 1 else None
        self._panes = {data: Pane(*stored) for data, stored in self._cell.items()}
        self.outputs: list[Any] = []

    # Advancing windows.

    def pass_watermark(self, watermark: int) -> None:
        """Does everything that is due at a watermark, before anything is added."""
        for data in sorted(self._panes, key=lambda data: (self._end(data), data)):
            if self._end(data) <= watermark:
                self.look(data, watermark, in_time=True)

    def take_in(self, group: Grouped, watermark: int) -> None:
        """Adds the elements to their windows. Those that are late for all of theirs are taken out of the group."""
        merged = self._merged(self._assigned(group.values, group.times))
        late = [(window, parts) for window, _, parts in merged if self._expiry(window) <= watermark]
        if late:
            for window, parts in late:
                self._report_late(window, parts)
            merged = [item for item in merged if self._expiry(item[0]) > watermark]
            _keep_only(group, {position for _, _, parts in merged for part in parts for position in part.positions})
        for window, sources, parts in merged:
            self._add(window, sources, parts, watermark)

    def look(self, data: bytes, watermark: int, *, in_time: bool) -> None:
        """Fires a window if its trigger says so, and ends it if it has expired.

        `in_time`: the check is due to a clock, not to elements that just arrived.
        """
        pane = self._panes.get(data)
        if pane is None:
            return
        window = self._window_fn.decode_window(data)
        at = Moment(watermark, self._now, window.end.micros)
        trigger = self._grouping.trigger
        expired = self._expiry(window) <= watermark
        state, fires = pane.trigger, False
        finished = pane.finished
        if not finished and trigger.should_fire(state, at):
            fires = True
            state, finished = trigger.on_fire(state, at)
        passes = watermark >= at.end and pane.on_time == 0
        if fires or (expired and pane.pending):
            # A result with nothing new is only given to confirm an early one.
            wanted = pane.pending > 0 or (passes and self._grouping.is_accumulating)
            pane = pane._replace(trigger=state, finished=finished)
            if wanted:
                pane = self._give(window, data, pane, at, in_time=in_time, is_last=expired or finished)
        if expired:
            self._forget(data)
            return
        self._keep(window, data, pane, at)

    # Adding elements.

    def _assigned(self, values: list[Any], times: list[int]) -> dict[BoundedWindow, _Arrival]:
        arrivals: dict[BoundedWindow, _Arrival] = {}
        for position, (value, time) in enumerate(zip(values, times, strict=True)):
            if isinstance(value, Partial):
                for window in self._windows_of(value):
                    arrival = arrivals.setdefault(window, _Arrival())
                    arrival.partials.append(value)
                    arrival.count += value.elements
                continue
            for window in self._window_fn.assign(WindowFn.AssignContext(Timestamp(micros=time), (self._key, value))):
                arrival = arrivals.setdefault(window, _Arrival())
                arrival.positions.append(position)
                arrival.values.append(value)
                arrival.times.append(time)
                arrival.count += 1
        return arrivals

    def _windows_of(self, partial: Partial) -> Iterable[BoundedWindow]:
        if self._window_fn.is_merging():
            return [IntervalWindow._of_micros(partial.start, partial.end)]
        return self._window_fn.assign(WindowFn.AssignContext(Timestamp(micros=partial.start)))

    def _merged(self, arrivals: dict[BoundedWindow, _Arrival]) -> list[tuple[BoundedWindow, list[bytes], list[_Arrival]]]:
        """Each window that receives something, the stored windows that merge into it, and what it receives; in order."""
        encode = self._window_fn.encode_window
        if not self._window_fn.is_merging():
            made = [(window, [encode(window)], [arrival]) for window, arrival in arrivals.items()]
        else:
            present = {self._window_fn.decode_window(data): data for data in self._panes}
            made = []
            for window, parts in merged_windows(self._window_fn, [*present, *arrivals]):
                new = [arrivals[part] for part in parts if part in arrivals]
                if new:
                    made.append((window, [present[part] for part in parts if part in present], new))
        return sorted(made, key=lambda item: (item[0].end.micros, encode(item[0])))

    def _report_late(self, window: BoundedWindow, parts: list[_Arrival]) -> None:
        for part in parts:
            for value, time in zip(part.values, part.times, strict=True):
                self._fn.on_late((self._key, value), time, window, 1)
            for partial in part.partials:
                self._fn.on_late(None, partial.start, window, partial.elements)

    def _add(self, window: BoundedWindow, sources: list[bytes], parts: list[_Arrival], watermark: int) -> None:
        data = self._window_fn.encode_window(window)
        at = Moment(watermark, self._now, window.end.micros)
        known = [self._panes[source] for source in sources if source in self._panes]
        trigger = self._grouping.trigger
        pane = known[0] if len(known) == 1 else self._one_of(known)
        if watermark < at.end:
            # The windows it was merged from may have been on time; the merged window has yet to end.
            pane = pane._replace(on_time=0)
        for column, cell in self._columns:
            if column.combine_fn is not None:
                self._combine(column, cell, data, sources, parts)
            else:
                pane = pane._replace(chunks=self._append(cell, pane.chunks, parts))
        for source in sources:
            if source != data and source in self._panes:
                del self._panes[source]
                self._cell.remove(source)
                self._clear_timers(source)
        count = sum(part.count for part in parts)
        if not pane.finished:
            pane = pane._replace(trigger=trigger.on_elements(pane.trigger, count, at), pending=pane.pending + count)
        self._panes[data] = pane
        self.look(data, watermark, in_time=False)

    def _one_of(self, panes: list[Pane]) -> Pane:
        if not panes:
            return Pane(self._grouping.trigger.start())
        states = [pane.trigger for pane in panes if not pane.finished]
        return Pane(
            trigger=self._grouping.trigger.merge(states) if states else panes[0].trigger,
            given=max(pane.given for pane in panes),
            on_time=max(pane.on_time for pane in panes),
            pending=sum(pane.pending for pane in panes),
            finished=not states,
            chunks=_joined(chunk for pane in panes for chunk in pane.chunks),
        )

    def _combine(self, column: Column, cell: Any, data: bytes, sources: list[bytes], parts: list[_Arrival]) -> None:
        combine_fn = column.combine_fn
        assert combine_fn is not None
        position = self._grouping.columns.index(column)
        held = [cell.get(source) for source in sources if cell.contains(source)]
        # Merging may change the first accumulator; partial ones may belong to other windows too, so they never come first.
        held = held or [combine_fn.create_accumulator()]
        held += [partial.accumulators[position] for part in parts for partial in part.partials]
        values = _as_they_came(parts)
        accumulator = held[0] if len(held) == 1 else combine_fn.merge_accumulators(held)
        if values:
            accumulator = combine_fn.add_inputs(accumulator, values)
        for source in sources:
            if source != data:
                cell.remove(source)
        cell.put(data, combine_fn.compact(accumulator))

    def _append(self, cell: Any, chunks: Ranges, parts: list[_Arrival]) -> Ranges:
        number = 1 + max((pane.chunks[-1][1] for pane in self._panes.values() if pane.chunks), default=-1)
        cell.put(number, _as_they_came(parts))
        return _joined([*chunks, (number, number)])

    # Giving results.

    def _give(self, window: BoundedWindow, data: bytes, pane: Pane, at: Moment, *, in_time: bool, is_last: bool) -> Pane:
        if at.watermark < at.end:
            timing = PaneInfoTiming.EARLY
        else:
            timing = PaneInfoTiming.ON_TIME if in_time and pane.on_time == 0 else PaneInfoTiming.LATE
        info = PaneInfo(pane.given == 0, is_last, timing, pane.given, pane.on_time)

        def made() -> WindowedValue:
            results = tuple(self._result(column, cell, data, pane) for column, cell in self._columns)
            return WindowedValue((self._key, results), window.max_timestamp(), (window,), info)

        result_or_letter = self._fn.result_or_letter
        if in_time and result_or_letter is not None:
            due = window.end if self._timer_at is None else self._timer_at
            self.outputs.append(result_or_letter(made, self._key, due.micros))
        else:
            self.outputs.append(made())
        not_early = timing is not PaneInfoTiming.EARLY
        pane = pane._replace(given=pane.given + 1, on_time=pane.on_time + not_early, pending=0)
        if not self._grouping.is_accumulating:
            self._clear_columns(data, pane)
            pane = pane._replace(chunks=())
        return pane

    def _result(self, column: Column, cell: Any, data: bytes, pane: Pane) -> Any:
        if column.combine_fn is None:
            return [value for number in _numbers(pane.chunks) for value in cell.get(number)]
        held = cell.get(data) if cell.contains(data) else column.combine_fn.create_accumulator()
        return column.combine_fn.extract_output(held)

    def _clear_columns(self, data: bytes, pane: Pane) -> None:
        for column, cell in self._columns:
            for name in [data] if column.combine_fn is not None else list(_numbers(pane.chunks)):
                cell.remove(name)

    # Storing panes and timers.

    def _keep(self, window: BoundedWindow, data: bytes, pane: Pane, at: Moment) -> None:
        self._panes[data] = pane
        self._cell.put(data, tuple(pane))
        wake = self._grouping.trigger.wake(pane.trigger, at)
        expiry = self._expiry(window)
        event = expiry if pane.finished or wake.event is None or wake.event <= at.watermark else min(wake.event, expiry)
        self._event.set(Timestamp(micros=event), dynamic_timer_tag=data.hex())
        if self._clock is not None:
            # A trigger that is due but has not fired is waiting for something else: for elements, or for the watermark.
            if wake.real is None or wake.real <= at.now or pane.finished:
                self._clock.clear(dynamic_timer_tag=data.hex())
            else:
                self._clock.set(Timestamp(micros=wake.real), dynamic_timer_tag=data.hex())

    def _forget(self, data: bytes) -> None:
        self._clear_columns(data, self._panes.pop(data))
        self._cell.remove(data)
        self._clear_timers(data)

    def _clear_timers(self, data: bytes) -> None:
        self._event.clear(dynamic_timer_tag=data.hex())
        if self._clock is not None:
            self._clock.clear(dynamic_timer_tag=data.hex())

    def _end(self, data: bytes) -> int:
        return int(self._window_fn.decode_window(data).end.micros)

    def _expiry(self, window: BoundedWindow) -> int:
        end = int(window.end.micros)
        return end if isinstance(window, GlobalWindow) else self._grouping.windowing.expiry(end)


class _Noted(WindowFn.MergeContext):
    """Records what a window function merges."""

    def __init__(self, windows: Iterable[BoundedWindow]) -> None:
        super().__init__(windows)
        self.groups: list[tuple[BoundedWindow, list[BoundedWindow]]] = []

    def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
        self.groups.append((merge_result, list(to_be_merged)))


def merged_windows(window_fn: WindowFn, windows: Iterable[BoundedWindow]) -> list[tuple[BoundedWindow, list[BoundedWindow]]]:
    """What the windows of one key become: each resulting window, with those it was merged from."""
    distinct = list(dict.fromkeys(windows))
    noted = _Noted(distinct)
    window_fn.merge(noted)
    taken = {part for _, parts in noted.groups for part in parts}
    return [*noted.groups, *((window, [window]) for window in distinct if window not in taken)]


def _keep_only(group: Grouped, positions: set[int]) -> None:
    """Leaves the elements at these positions, and those that were combined beforehand."""
    kept = [place for place, value in enumerate(group.values) if place in positions or isinstance(value, Partial)]
    group.values[:] = [group.values[place] for place in kept]
    group.times[:] = [group.times[place] for place in kept]


def _as_they_came(parts: list[_Arrival]) -> list[Any]:
    """The values of merged windows, in the order of the bundle."""
    if len(parts) == 1:
        return parts[0].values
    placed = [item for part in parts for item in zip(part.positions, part.values, strict=True)]
    return [value for _, value in sorted(placed, key=itemgetter(0))]


def _joined(chunks: Iterable[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(chunks):
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(joined)


def _numbers(chunks: Ranges) -> Iterable[int]:
    return (number for first, last in chunks for number in range(first, last + 1))
