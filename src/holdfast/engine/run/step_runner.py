"""The runner of a step: calls the user's function for one bundle at a time, against the state of its key group.

A bundle is: `start_bundle`, the elements in order of arrival, then the clocks advance: due timers fire and windows
expire; then `finish_bundle`. If there is nothing to do, the function is not called at all.

One runner serves all key groups of a worker: the function, the live cells and the compiled loop are made once, and
bound to the tables of a window when it is that window's turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from holdfast.engine.metrics.hot_keys import sample_of
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.calling import FunctionCalls
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.failures import DeadLetter, user_error, user_traceback
from holdfast.engine.run.firing import Firing
from holdfast.engine.run.intake import Elements, assign, grouped
from holdfast.engine.run.limiting import Limiter
from holdfast.engine.run.loop import compile_loop
from holdfast.engine.run.outputs import Collector, Output, check_finish_bundle
from holdfast.engine.run.runner import PartialBlock, Receiver
from holdfast.engine.state.key_group import KeyGroupState, Layout, WindowState
from holdfast.engine.state.keys import key_of, slot_of
from holdfast.engine.state.sweeping import Sweeping
from holdfast.engine.state.timers import TimerHandle
from holdfast.engine.tables import Focus, Undo, make_cell
from holdfast.engine.tables.bag import LimitedBagCell, OverLimit
from holdfast.engine.tables.combining import combine_fn_of
from holdfast.engine.tables.expiring import TtlClock, expiring_cell
from holdfast.engine.tables.ordered import OrderedListCell
from holdfast.errors import HoldfastError, OutputError
from holdfast.model.aggregate.partials import Partial
from holdfast.model.functions.dofn import GroupedDoFn, TaggedOutput
from holdfast.model.functions.lookup import Lookup
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.signature import MethodSignature
from holdfast.model.functions.step import DEAD_LETTER_TAG, LATE_TAG, MAIN_TAG, OVER_LIMIT_TAG, Step
from holdfast.model.functions.triggered import TriggeredGrouping
from holdfast.model.present import bundle_present
from holdfast.model.state.specs import CombiningStateSpec, State, StateSpec
from holdfast.model.time.timers import TimeDomain
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import GlobalWindow, GlobalWindows

__all__ = ["StepRunner"]


class StepRunner:
    """Runs one step. `setup` before the first bundle, `teardown` after the last; then `run` for each bundle."""

    def __init__(
        self,
        step: Step,
        layout: Layout,
        side_inputs: dict[str, Any],
        extra: Sequence[Any] = (),
        *,
        origins: bool,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        """`check` raises for an output that cannot be written. It is only used where that makes a dead letter."""
        self.step = step
        self._check = check if step.dead_letters else None
        self.layout = layout
        self.focus = Focus()
        limits = step.limits
        self.limiter = None if limits is None else Limiter(step)
        self._bag_limit = limits.max_bag_size if limits is not None and limits.diverts else None
        self.undo = Undo() if step.dead_letters or self._bag_limit is not None else None
        self.window: WindowState | None = None
        self._nowhere = KeyGroupState(layout).nowhere()
        self._method = "process"
        self._late: list[tuple[tuple[Any, Any] | None, int, Any, int]] = []
        """What calls have found late; it stays late if they fail."""
        self._unkeyed: list[tuple[tuple[Any, Any], int, HoldfastError]] = []
        self.collector = Collector(origins)
        self.metrics = StepMetrics()
        self._origins = origins
        self._side_inputs = side_inputs
        self.ttl_clock = TtlClock()
        self.cells = [self._make_cell(spec) for spec in layout.cells]
        self.timers = [
            TimerHandle(position, spec, layout.timers[position], self.focus, self.undo)
            for position, spec in enumerate(step.timers)
        ]
        self._held = None
        if layout.held is not None:
            self._held = OrderedListCell(layout.specs[layout.held], self.focus, None)
        self._handles = dict(zip(map(id, step.cells), self.cells, strict=True)) | dict(
            zip(map(id, step.timers), self.timers, strict=True)
        )
        windowed = type(step.windowing.window_fn) is not GlobalWindows
        self._loop = compile_loop(
            step.process,
            step.process.function,
            self.fixed_arguments(step.process),
            self.focus,
            windowed=windowed,
            origins=origins,
            marks_seen=layout.seen is not None,
            undo=self.undo,
            caught=self._caught(),
            extra=tuple(extra),
            clock=self.ttl_clock if any(cell.ttl and cell.ttl.in_event_time for cell in layout.cells) else None,
            check=None if self._check is None else self._check_outputs,
        )
        self._is_grouped = isinstance(step.fn, GroupedDoFn)
        if isinstance(step.fn, TriggeredGrouping):
            step.fn.on_late = self._late_in_call
            step.fn.result_or_letter = self._result_or_letter if step.dead_letters else None
        self._looks_up = isinstance(step.fn, Lookup)
        if isinstance(step.fn, Lookup):
            assert step.calls is not None
            step.fn.calls = FunctionCalls(self, step.calls, side_inputs)
        self._firing = Firing(self)
        self._sweeping = Sweeping(layout)

    def _make_cell(self, spec: StateSpec[State]) -> Any:
        cell: Any
        if self._bag_limit is not None and spec.kind == "bag":
            cell = LimitedBagCell(spec, self.focus, self.undo, self._bag_limit)
        else:
            cell = make_cell(spec, self.focus, self.undo)
        if spec.ttl is None:
            return cell
        return expiring_cell(spec, cell, self.focus, self.undo, self.ttl_clock)

    def _caught(self) -> tuple[type[BaseException], ...]:
        """What a call may raise without failing the bundle."""
        letters: tuple[type[BaseException], ...] = (Exception,) if self.step.dead_letters else ()
        return letters if self._bag_limit is None else (*letters, OverLimit)

    def setup(self) -> None:
        """Prepares the function and the CombineFns of its cells."""
        for spec in self.layout.cells:
            if isinstance(spec, CombiningStateSpec):
                combine_fn_of(spec).setup()
        self._call_plain(self.step.fn.setup, "setup")

    def teardown(self) -> None:
        self._call_plain(self.step.fn.teardown, "teardown")
        for spec in self.layout.cells:
            if isinstance(spec, CombiningStateSpec):
                combine_fn_of(spec).teardown()

    def elements(self, pairs: Sequence[tuple[Any, Any]], times: Sequence[int]) -> Elements:
        """The elements of the next bundle. An invalid key is an error, or makes the element a dead letter."""
        try:
            return Elements.of(pairs, times)
        except HoldfastError as error:
            if not self.step.dead_letters:
                raise error.within(step=self.step.name) from None
        kept: list[int] = []
        for position, (key, _) in enumerate(pairs):
            try:
                slot_of(key)
                kept.append(position)
            except HoldfastError as error:
                self._unkeyed.append((pairs[position], times[position], error))
        return Elements.of([pairs[position] for position in kept], [times[position] for position in kept])

    def partials(self, block: PartialBlock) -> Elements:
        """Elements that were combined beforehand, each as a `Partial` for its key."""
        rows = zip(block.starts, block.ends, block.elements, zip(*block.accumulators, strict=True), strict=True)
        pairs = list(zip(map(key_of, block.slots), map(Partial._make, rows), strict=True))
        return Elements(block.slots, pairs, block.starts)

    def deliver(self, receiver: Receiver) -> None:
        """Hands the outputs of the bundle that has run to the receiver."""
        plain = self.collector.plain()
        if plain is not None:
            receiver.take_values(MAIN_TAG, plain)
            return
        by_tag: dict[str, list[Any]] = {}
        for tag, value in self.collector.tagged(self.step, whole=self.step.grouping is not None):
            by_tag.setdefault(tag, []).append(value)
        for tag, values in by_tag.items():
            receiver.take_values(tag, values)

    def next_event(self, state: KeyGroupState) -> int | None:
        """When the watermark next matters, in microseconds."""
        due = [state.indexes[TimeDomain.WATERMARK].next_time, state.next_expiry(), state.expiring[True].next_time]
        return min((time for time in due if time is not None), default=None)

    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        """When the watermark next matters to a window."""
        return expiry

    def outputs(self) -> Iterator[Output]:
        """The outputs of the bundle that has run, with their times and windows."""
        try:
            yield from self.collector.outputs(self.step)
        except HoldfastError:
            raise
        except Exception as error:
            raise user_error(error, method="the window function", step=self.step.name) from error

    def run(self, state: KeyGroupState, elements: Elements, clocks: Clocks, batch: int) -> Collector:
        """Runs one bundle and returns its outputs. If it raises, the state must be abandoned."""
        self.collector = Collector(self._origins)
        self.metrics = StepMetrics()
        for pair, time, error in self._unkeyed:
            self._letter(*pair, time, "process", error, None)
        self._unkeyed.clear()
        self.ttl_clock.real, self.ttl_clock.watermark, self.ttl_clock.expired = clocks.now, clocks.watermark, 0
        if not elements.slots and not self._firing.is_due(state, clocks):
            return self.collector
        self.metrics.bundles = 1
        self.metrics.elements = self._number(elements)
        if self.limiter is not None:
            self.limiter.look(state)
        self.window = None
        self._late.clear()
        self.focus.key = None
        with bundle_present(clocks, self.metrics.user):
            try:
                self._bundle(state, elements, clocks)
            except Exception as error:
                failure = user_error(error, method=self._method, step=self.step.name, **self._where(), micro_batch=batch)
                if failure is error:
                    raise
                raise failure from error
            finally:
                self._unbind()
        self.metrics.outputs = len(self.collector.items)
        self.metrics.cells_expired = self.ttl_clock.expired
        if elements.slots:
            sample = sample_of(elements.slots)
            self.metrics.hot.give(sample.counts)
            self.metrics.heavy.give(sample.sizes(state))
        return self.collector

    def sweep(self, state: KeyGroupState, clocks: Clocks, budget: int) -> None:
        """Removes expired cells after a bundle, at most `budget` of them."""
        if self.layout.stamps:
            began = perf_counter_ns()
            self.metrics.cells_expired += self._sweeping.sweep(state, clocks, budget)
            self.metrics.sweep_micros += (perf_counter_ns() - began) // 1000

    def _number(self, elements: Elements) -> int:
        """The number of elements; in an aggregation, including those that were combined beforehand."""
        if not isinstance(self.step.fn, TriggeredGrouping):
            return len(elements.slots)
        return sum(value.elements if isinstance(value, Partial) else 1 for _, value in elements.pairs)

    def _where(self) -> dict[str, Any]:
        """The key and window of the current call, if any."""
        where: dict[str, Any] = {}
        if self.focus.key is not None:
            where["key"] = key_of(self.focus.key)
            if self.window is not None and not isinstance(self.window.window, GlobalWindow):
                where["window"] = self.window.window
        return where

    def _bundle(self, state: KeyGroupState, elements: Elements, clocks: Clocks) -> None:
        self._method = "start_bundle"
        self._start_bundle()
        if elements.slots:
            self._take_in(state, elements, clocks.late)
        self._firing.advance(state, clocks)
        self.focus.key = None
        self._method = "finish_bundle"
        result = self.step.fn.finish_bundle()
        if result is not None:
            self.collector.collect(check_finish_bundle(result), 0, None, "finish_bundle")

    def _start_bundle(self) -> None:
        result: Any = self.step.fn.start_bundle()  # type: ignore[func-returns-value]
        if result is not None:
            raise OutputError(
                "start_bundle gave an output; it cannot.",
                todo="give it from process or finish_bundle instead",
            )

    def _take_in(self, state: KeyGroupState, elements: Elements, watermark: int) -> None:
        self._method = "the window function"
        assigned = assign(state, elements, watermark)
        for element, time, window in assigned.late:
            self.late(element, time, window)
        if self.limiter is not None:
            assigned = self.limiter.admit(self, state, assigned)
        if not assigned.elements.slots:
            return
        if self._held is not None:
            self._firing.hold(state, assigned, watermark)
        else:
            self.process(assigned.elements, assigned.windows)

    def process(self, elements: Elements, windows: list[WindowState] | WindowState) -> None:
        """Calls `process` for each element, in this order."""
        self._method = "process"
        if self._is_grouped:
            elements, windows = grouped(elements, windows)
        self.metrics.calls += len(elements.slots)
        columns: list[Iterable[Any]] = [elements.slots, elements.pairs]
        if self._loop.needs_time:
            columns.append(elements.times)
        first = None
        if isinstance(windows, WindowState):
            first = windows
            self.bind(first)
            if self._loop.needs_window:
                columns.append(repeat(first, len(elements.slots)))
        else:
            columns.append(windows)
        rows = zip(*columns, strict=False)
        self._loop.run(rows, self.collector.items, self.collector.marks, first, self.bind, self._failed)
        for late in self._late:
            self.late(*late)
        self._late.clear()

    def bind(self, window: WindowState) -> None:
        """Points all cells and timers at the tables of a window."""
        self.window = window
        window.activate()
        tables = window.tables
        for cell, table in zip(self.cells, tables, strict=False):
            cell.attach(table)
        position = self.layout.first_timer
        for timer in self.timers:
            timer.attach(window, tables[position], tables[position + 1])
            position += 2
        for cell_position, stamps in self.layout.stamps.items():
            cell = self.cells[cell_position]
            index = window.expiring[cell.ttl.in_event_time]
            cell.attach_stamps(tables[stamps], partial(index.enter, window.data, cell_position))

    def _unbind(self) -> None:
        """Lets go of a key group's state: it may be dropped or released before the next bundle."""
        if self.undo is not None:
            self.undo.begin()
        if self.window is not None:
            self.bind(self._nowhere)
            self.window = None
        if self._held is not None:
            self.held_cell(self._nowhere)

    def held_cell(self, window: WindowState) -> OrderedListCell:
        assert self._held is not None
        window.activate()
        self._held.attach(window.held)
        return self._held

    def fixed_arguments(self, signature: MethodSignature) -> dict[int, Any]:
        """The arguments of a method that are the same for every call, by position."""
        fixed: dict[int, Any] = {}
        for position, argument in enumerate(signature.arguments):
            if argument.kind in (ParamKind.STATE, ParamKind.TIMER):
                fixed[position] = self._handles[id(argument.spec)]
            elif argument.kind is ParamKind.SIDE_INPUT:
                missing = argument.default is inspect.Parameter.empty
                default = None if missing else argument.default
                fixed[position] = self._side_inputs.get(argument.name, default)
        return fixed

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], time: int, method: str) -> None:
        """Calls a callback for the key and window in focus; rolls it back if it raises and dead letters are wanted."""
        assert self.window is not None
        self._method = method
        self.ttl_clock.present = time
        window = self.window.window
        if self.undo is None:
            self.collector.collect(function(*arguments), time, window, method)
            return
        self.undo.begin()
        start = len(self.collector.items)
        try:
            self.collector.collect(function(*arguments), time, window, method)
            if self._check is not None:
                self._check_outputs(self.collector.items, start)
        except OverLimit as over:
            assert self.limiter is not None
            raise self.limiter.in_a_callback(method, str(over)) from None
        except Exception as error:
            if not self.step.dead_letters:
                raise
            self.undo.rollback()
            del self.collector.items[start:]
            self._dead_letter(None, time, method, error)

    def _check_outputs(self, items: list[Any], start: int) -> None:
        assert self._check is not None
        for item in items[start:]:
            self._check(item)

    def late(self, element: tuple[Any, Any] | None, time: int, window: Any, count: int = 1) -> None:
        """Counts a late element, or several that were combined; sends it to the output `late` if there is one."""
        self.metrics.late += count
        if self._looks_up and element is not None:
            key, (origin, value) = element
            element = (key, value) if origin == 0 else None
        if element is not None and self.step.tags is not None and LATE_TAG in self.step.tags:
            self.collector.collect([TaggedOutput(LATE_TAG, element)], time, window, "late")

    def _late_in_call(self, element: tuple[Any, Any] | None, time: int, window: Any, count: int) -> None:
        self._late.append((element, time, window, count))

    def _result_or_letter(self, make: Callable[[], Any], key: Any, time: int) -> Any:
        """What a call makes, or a dead letter if that fails; as part of the call's outputs."""
        try:
            made = make()
            if self._check is not None:
                self._check(made)
        except Exception as error:
            assert self.undo is not None
            self._count_letters(1)
            self.undo.add(self._count_letters, -1)
            return TaggedOutput(DEAD_LETTER_TAG, _letter_of(key, None, time, "extract_output", error))
        return made

    def _count_letters(self, by: int) -> None:
        self.metrics.dead_letters += by

    def over_limit(self, element: tuple[Any, Any], time: int, window: Any) -> None:
        """Counts an element that is over the limit, and sends it to the output `over_limit`."""
        self.metrics.over_limit += 1
        self.collector.collect([TaggedOutput(OVER_LIMIT_TAG, element)], time, window, "over_limit")

    def _failed(self, element: tuple[Any, Any], time: int, error: BaseException) -> None:
        values = [(element[1], time)]
        if self._is_grouped:
            values = list(zip(*element[1], strict=True))
        for value, each_time in values:
            if isinstance(error, Exception):
                self._dead_letter(self._own_value(value), each_time, "process", error)
            else:
                assert self.window is not None
                self.over_limit((element[0], value), each_time, self.window.window)

    def _own_value(self, value: Any) -> Any:
        """The value of an element. A row of a side input has none."""
        if not self._looks_up:
            return value
        return value[1] if value[0] == 0 else None

    def _dead_letter(self, value: Any, time: int, method: str, error: Exception) -> None:
        assert self.window is not None
        self._letter(key_of(self.focus.key), value, time, method, error, self.window.window)

    def _letter(self, key: Any, value: Any, time: int, method: str, error: Exception, window: Any) -> None:
        self._count_letters(1)
        letter = _letter_of(key, value, time, method, error)
        self.collector.collect([TaggedOutput(DEAD_LETTER_TAG, letter)], time, window, method)

    def calling(self) -> None:
        """The user's function is about to be called, by the function of the step."""
        self._method = "process"

    def check_from(self, start: int) -> None:
        """Raises for an output from this position on that cannot be written, if it is known what can."""
        if self._check is not None:
            self._check_outputs(self.collector.items, start)

    def dead_letter_of(self, key: Any, value: Any, time: int, error: Exception, window: Any) -> None:
        """Diverts an element for which the user's function raised."""
        self._letter(key, value, time, "process", error, window)

    def _call_plain(self, function: Callable[[], Any], method: str) -> None:
        try:
            function()
        except Exception as error:
            raise user_error(error, method=method, step=self.step.name) from error


def _letter_of(key: Any, value: Any, time: int, method: str, error: Exception) -> DeadLetter:
    return DeadLetter(
        key=key,
        value=value,
        timestamp=Timestamp(micros=time),
        method=method,
        error=f"{type(error).__name__}: {error}",
        traceback=user_traceback(error),
    )
