"""Firing: what happens when the clocks of a key group move.

Event time passes in order, however far the watermark jumps: at each time first the elements held back for sorting, then
the timers, then the windows that expire. When a window expires, timers still set in it fire once, `on_window_expiration`
is called for each key that had an element there, and its state is dropped. Once nothing is due in event time, processing
time follows. All of this repeats until nothing is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.engine.run.intake import Assigned, Elements
from holdfast.engine.state.key_group import KeyGroupState, WindowState
from holdfast.engine.state.keys import key_of, sort_slots
from holdfast.engine.state.timers import DOMAINS, HELD, Entry
from holdfast.errors import TimeError
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.signature import MethodSignature
from holdfast.model.time.timers import TimeDomain
from holdfast.model.time.timestamps import MAX_TIMESTAMP, Timestamp
from holdfast.model.windows.ready import GlobalWindow

if TYPE_CHECKING:
    from holdfast.engine.run.clocks import Clocks
    from holdfast.engine.run.step_runner import StepRunner

__all__ = ["Firing"]

_FIRINGS_AT_END_MAX = 10_000
_FIRINGS_STUCK_MAX = 1_000


class _Callback:
    """A method with the arguments known beforehand filled in."""

    def __init__(self, runner: StepRunner, signature: MethodSignature) -> None:
        self.method = signature.method
        self.function = signature.function
        self._arguments: list[Any] = [None] * len(signature.arguments)
        self._varying: list[tuple[int, ParamKind]] = []
        fixed = runner.fixed_arguments(signature)
        for position, argument in enumerate(signature.arguments):
            if position in fixed:
                self._arguments[position] = fixed[position]
            else:
                self._varying.append((position, argument.kind))

    def arguments(self, slot: Any, time: int, window: Any, tag: str) -> Sequence[Any]:
        for position, kind in self._varying:
            self._arguments[position] = _give(kind, slot, time, window, tag)
        return self._arguments


def _give(kind: ParamKind, slot: Any, time: int, window: Any, tag: str) -> Any:
    if kind is ParamKind.KEY:
        return key_of(slot)
    if kind is ParamKind.TIMESTAMP:
        return Timestamp(micros=time)
    if kind is ParamKind.WINDOW:
        return window
    return tag


class Firing:
    """Moves the clocks of a key group, on behalf of a runner."""

    def __init__(self, runner: StepRunner) -> None:
        step = runner.step
        self._runner = runner
        self._callbacks = [_Callback(runner, step.callbacks[spec.name]) for spec in step.timers]
        self._on_expiration = _Callback(runner, step.on_expiration) if step.on_expiration else None
        self._domains = runner.layout.domains
        self._lateness = step.windowing.allowed_lateness.micros
        self._fired: dict[Entry, tuple[int, int, int]] = {}

    def is_due(self, state: KeyGroupState, clocks: Clocks) -> bool:
        """Whether advancing the clocks would do anything."""
        if clocks.final:
            return bool(state.windows)
        times = {TimeDomain.WATERMARK: clocks.watermark, TimeDomain.REAL_TIME: clocks.now}
        for domain, limit in times.items():
            next_time = state.indexes[domain].next_time
            if next_time is not None and next_time <= limit:
                return True
        expiry = state.next_expiry()
        return expiry is not None and expiry <= clocks.watermark

    def hold(self, state: KeyGroupState, assigned: Assigned, watermark: int) -> None:
        """Keeps elements until the watermark has passed them; those that arrive after that are late."""
        elements = assigned.elements
        windows = assigned.windows
        for position, (slot, pair, time) in enumerate(zip(*elements, strict=True)):
            window = windows if isinstance(windows, WindowState) else windows[position]
            if time + self._lateness < watermark:
                self._runner.late(pair, time, window.window)
                continue
            self._runner.focus.key = slot
            self._runner.held_cell(window).add((Timestamp(micros=time), pair[1]))
            state.indexes[TimeDomain.WATERMARK].enter(Entry(HELD, window.data, slot, ""), time + self._lateness)

    def advance(self, state: KeyGroupState, clocks: Clocks) -> None:
        """Fires everything that is due, then expires windows."""
        self._fired.clear()
        end = MAX_TIMESTAMP.micros
        watermark, now = (end, end) if clocks.final else (clocks.watermark, clocks.now)
        event, real = (state.indexes[domain] for domain in DOMAINS)
        while True:
            expiry = state.next_expiry()
            if expiry is not None and expiry <= watermark and (event.next_time is None or expiry < event.next_time):
                self._expire(state, state.take_expired(), expiry, clocks.final)
                continue
            taken = event.take(watermark) or real.take(now)
            if taken is None:
                break
            self._fire_all(state, *taken, clocks.final)
        if clocks.final:
            # The global window has no end, and its state stays. Elements held back must still be processed.
            for window in list(state.windows.values()):
                if isinstance(window.window, GlobalWindow):
                    self._call_on_expiration(window)
        self._fired.clear()

    def _fire_all(self, state: KeyGroupState, time: int, entries: list[Entry], final: bool) -> None:
        for entry in [entry for entry in entries if self._is_set(state, entry, time)]:
            window = state.windows.get(entry.window)
            if window is None:
                continue
            if entry.timer == HELD:
                self._release(state, window, entry, time)
            else:
                self._fire(state, window, entry, time, final)

    def _is_set(self, state: KeyGroupState, entry: Entry, limit: int) -> bool:
        """Whether it is the entry's turn. If it is not yet, none of the others may make it so: the order would then depend
        on the index, and thus on the history of this process."""
        window = state.windows.get(entry.window)
        if entry.timer == HELD or window is None:
            return window is not None
        time = window.time_of(entry)
        if time is not None and time > limit:
            state.indexes[self._domains[entry.timer]].enter(entry, time)
        return time is not None and time <= limit

    def _fire(self, state: KeyGroupState, window: WindowState, entry: Entry, limit: int, final: bool) -> None:
        runner = self._runner
        runner.focus.key = entry.slot
        if runner.window is not window:
            runner.bind(window)
        timer = runner.timers[entry.timer]
        time = timer.time(entry.tag)
        if time is None:
            return
        if time > limit:
            state.indexes[self._domains[entry.timer]].enter(entry, time)
            return
        self._check_endless(entry, time, final)
        # Before the call, and not part of it: a callback that raises must not be called again forever.
        timer.clear(entry.tag)
        callback = self._callbacks[entry.timer]
        runner.metrics.timers_fired += 1
        arguments = callback.arguments(entry.slot, time, window.window, entry.tag)
        runner.call(callback.function, arguments, time, callback.method)

    def _check_endless(self, entry: Entry, time: int, final: bool) -> None:
        last, stuck, total = self._fired.get(entry, (None, 0, 0))
        stuck = stuck + 1 if last is not None and time <= last else 0
        self._fired[entry] = (time, stuck, total + 1)
        if stuck > _FIRINGS_STUCK_MAX or (final and total > _FIRINGS_AT_END_MAX):
            spec = self._runner.step.timers[entry.timer]
            what = "at the end of the input" if final else "to a time that is not later"
            raise TimeError(
                f"The timer {spec.name!r} keeps setting itself again, {what}.",
                detail=f"Its callback ran {total} times in one bundle, the last time for {Timestamp(micros=time)}.",
                todo="set a timer again only to a later time, and only while there is something left to do",
            )

    def _release(self, state: KeyGroupState, window: WindowState, entry: Entry, limit: int) -> None:
        """Processes the held-back elements of a key that are due."""
        series = window.held.values.get(entry.slot)
        if series is None:
            return
        runner = self._runner
        runner.focus.key = entry.slot
        cell = runner.held_cell(window)
        until = Timestamp(micros=limit - self._lateness + 1)
        due = cell.read_range(Timestamp(micros=series.first), until)
        cell.clear_range(Timestamp(micros=series.first), until)
        if due:
            key = key_of(entry.slot)
            elements = Elements([entry.slot] * len(due), [(key, value) for _, value in due], [t.micros for t, _ in due])
            runner.process(elements, window)
        left = window.held.values.get(entry.slot)
        if left is not None:
            state.indexes[TimeDomain.WATERMARK].enter(entry, left.first + self._lateness)

    def _expire(self, state: KeyGroupState, window: WindowState, expiry: int, final: bool) -> None:
        for entry, time in self._in_order(window):
            self._fire_if_still(state, window, entry, time, final)
        while taken := state.indexes[TimeDomain.WATERMARK].take(expiry):
            self._fire_all(state, *taken, final)
        self._runner.metrics.timers_dropped += sum(1 for _ in window.pending())
        self._call_on_expiration(window)
        state.drop(window)
        self._runner.metrics.windows_expired += 1

    def _fire_if_still(self, state: KeyGroupState, window: WindowState, entry: Entry, time: int, final: bool) -> None:
        self._runner.focus.key = entry.slot
        if self._runner.window is not window:
            self._runner.bind(window)
        if self._runner.timers[entry.timer].time(entry.tag) == time:
            self._fire(state, window, entry, time, final)

    def _in_order(self, window: WindowState) -> list[tuple[Entry, int]]:
        pending = list(window.pending())
        rank = {slot: position for position, slot in enumerate(sort_slots({e.slot for e, _ in pending}))}
        order = {domain: position for position, domain in enumerate(DOMAINS)}
        return sorted(
            pending,
            key=lambda p: (order[self._domains[p[0].timer]], p[1], rank[p[0].slot], p[0].timer, p[0].tag),
        )

    def _call_on_expiration(self, window: WindowState) -> None:
        if self._on_expiration is None:
            return
        runner = self._runner
        runner.bind(window)
        callback = self._on_expiration
        time = window.window.max_timestamp().micros
        for slot in sort_slots(window.seen.values):
            runner.focus.key = slot
            arguments = callback.arguments(slot, time, window.window, "")
            runner.call(callback.function, arguments, time, callback.method)
