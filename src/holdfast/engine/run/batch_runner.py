"""The runner of a `BatchDoFn`: gives it the elements of a bundle as columns, once for each of their windows.

A bundle is: `start_bundle`; elements are assigned to windows, and late ones set aside; `process_batch` for each window, in
the order of their ends; then windows that the watermark has passed expire with their state; then `finish_bundle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from holdfast.engine.metrics.hot_keys import sample_of
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.batch_cells import CellTimes, ColumnCell
from holdfast.engine.run.batch_columns import BatchElements
from holdfast.engine.run.batch_outputs import BatchOutputs
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.failures import user_error
from holdfast.engine.run.limiting import Limiter
from holdfast.engine.run.outputs import Output, checked
from holdfast.engine.run.runner import PartialBlock, Receiver
from holdfast.engine.state.key_group import KeyGroupState, Layout, WindowState
from holdfast.engine.state.sweeping import Sweeping
from holdfast.errors import HoldfastError, OutputError
from holdfast.model.functions.batches import Batch, BatchDoFn
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.step import LATE_TAG, Step
from holdfast.model.present import bundle_present
from holdfast.model.time.timestamps import MAX_TIMESTAMP, Timestamp
from holdfast.model.windows.ready import FixedWindows, GlobalWindow, GlobalWindows, IntervalWindow, SlidingWindows, WindowFn

__all__ = ["BatchRunner"]

Late = list[tuple[tuple[Any, Any], int, Any]]
"""(element, time, window)."""


class BatchRunner:
    """Runs one step."""

    def __init__(self, step: Step, layout: Layout, side_inputs: Mapping[str, Any], extra: Sequence[Any]) -> None:
        assert isinstance(step.fn, BatchDoFn)
        self.step = step
        self.layout = layout
        self.limiter: Limiter | None = None
        """Such a step cannot have limits."""
        self.metrics = StepMetrics()
        self.gathered = BatchOutputs(step)
        self._fn = step.fn
        self._window_fn: Any = step.windowing.window_fn
        self._cells = [ColumnCell(spec, position) for position, spec in enumerate(layout.cells)]
        self._fixed = self._fixed_arguments(side_inputs)
        self._extra = tuple(extra)
        self._sweeping = Sweeping(layout)
        self._wants_late = step.tags is not None and LATE_TAG in step.tags
        self._method = "process_batch"
        self._window: WindowState | None = None

    def _fixed_arguments(self, side_inputs: Mapping[str, Any]) -> dict[int, Any]:
        cells = dict(zip(map(id, self.step.cells), self._cells, strict=False))
        fixed: dict[int, Any] = {}
        for position, argument in enumerate(self.step.process.arguments):
            if argument.kind is ParamKind.STATE:
                fixed[position] = cells[id(argument.spec)]
            elif argument.kind is ParamKind.SIDE_INPUT:
                fixed[position] = side_inputs.get(argument.name, argument.default)
        return fixed

    def setup(self) -> None:
        self._call_plain(self._fn.setup, "setup")

    def teardown(self) -> None:
        self._call_plain(self._fn.teardown, "teardown")

    def _call_plain(self, function: Any, method: str) -> None:
        try:
            function()
        except Exception as error:
            raise user_error(error, method=method, step=self.step.name) from error

    def elements(self, pairs: Sequence[tuple[Any, Any]], times: Sequence[int]) -> BatchElements:
        """The elements of the next bundle."""
        try:
            return BatchElements.of(pairs, times)
        except HoldfastError as error:
            raise error.within(step=self.step.name) from None

    def partials(self, block: PartialBlock) -> BatchElements:
        raise AssertionError("Only an aggregation combines elements beforehand.")

    def run(self, state: KeyGroupState, elements: BatchElements, clocks: Clocks, batch: int) -> BatchOutputs:
        """Runs one bundle and returns its outputs. If it raises, the state must be abandoned."""
        self.gathered = BatchOutputs(self.step)
        self.metrics = StepMetrics()
        if not elements.slots and not self._is_due(state, clocks):
            return self.gathered
        self.metrics.bundles = 1
        self.metrics.elements = len(elements.key_of_row)
        with bundle_present(clocks, self.metrics.user):
            try:
                self._bundle(state, elements, clocks)
            except Exception as error:
                where = {"step": self.step.name, "micro_batch": batch, **self._where()}
                failure = user_error(error, method=self._method, **where)
                if failure is error:
                    raise
                raise failure from error
            finally:
                self._window = None
        self.metrics.outputs = self.gathered.rows
        if elements.slots:
            counts = np.bincount(elements.key_of_row, minlength=len(elements.slots))
            sample = sample_of(elements.slots, counts.tolist())
            self.metrics.hot.give(sample.counts)
            self.metrics.heavy.give(sample.sizes(state))
        return self.gathered

    def sweep(self, state: KeyGroupState, clocks: Clocks, budget: int) -> None:
        """Removes expired cells after a bundle, at most `budget` of them."""
        if self.layout.stamps:
            began = perf_counter_ns()
            self.metrics.cells_expired += self._sweeping.sweep(state, clocks, budget)
            self.metrics.sweep_micros += (perf_counter_ns() - began) // 1000

    def deliver(self, receiver: Receiver) -> None:
        """Hands the outputs of the bundle that has run to the receiver."""
        self.gathered.deliver(receiver)

    def outputs(self) -> Iterator[Output]:
        """The same outputs row by row, as dicts."""
        return self.gathered.outputs()

    def next_event(self, state: KeyGroupState) -> int | None:
        """When the watermark next matters, in microseconds."""
        due = [state.next_expiry(), state.expiring[True].next_time]
        return min((time for time in due if time is not None), default=None)

    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        """When the watermark next matters to a window."""
        return expiry

    def _is_due(self, state: KeyGroupState, clocks: Clocks) -> bool:
        expiry = state.next_expiry()
        return expiry is not None and (clocks.final or expiry <= clocks.watermark)

    def _where(self) -> dict[str, Any]:
        if self._window is None or isinstance(self._window.window, GlobalWindow):
            return {}
        return {"window": self._window.window}

    def _bundle(self, state: KeyGroupState, elements: BatchElements, clocks: Clocks) -> None:
        self._check_silent(self._fn.start_bundle, "start_bundle")
        if elements.slots:
            self._method = "the window function"
            for window, rows in self._by_window(state, elements, clocks.late):
                self._process(window, elements if rows is None else elements.rows(rows), clocks)
        watermark = MAX_TIMESTAMP.micros if clocks.final else clocks.watermark
        while (expiry := state.next_expiry()) is not None and expiry <= watermark:
            state.drop(state.take_expired())
            self.metrics.windows_expired += 1
        self._check_silent(self._fn.finish_bundle, "finish_bundle")

    def _check_silent(self, function: Any, method: str) -> None:
        self._method = method
        if function() is not None:
            raise OutputError(
                f"{method} of a BatchDoFn gave an output; it cannot.", todo="give it from process_batch instead"
            )

    def _process(self, window: WindowState, elements: BatchElements, clocks: Clocks) -> None:
        self._method = "process_batch"
        self._window = window
        self.metrics.calls += 1
        batch = Batch(elements.keys(), elements.key_of_row, elements.times, window.window, elements.values)
        times = CellTimes(clocks.now, clocks.watermark)
        if any(cell.ttl is not None and cell.ttl.in_event_time for cell in self.layout.cells):
            times.of_key = batch.reduce(np.maximum, elements.times).tolist()
        else:
            times.of_key = [clocks.watermark] * len(elements.slots)
        for cell in self._cells:
            cell.attach(window, elements.slots, times)
        result = self._fn.process_batch(*self._arguments(batch), *self._extra)
        if result is not None:
            latest = int(elements.times.max())
            for item in checked(result, "process_batch"):
                self.gathered.take(item, latest, window.window)
        self.metrics.cells_expired += times.expired

    def _arguments(self, batch: Batch) -> list[Any]:
        given = {ParamKind.ELEMENT: batch, ParamKind.WINDOW: batch.window}
        return [
            self._fixed[position] if position in self._fixed else given[argument.kind]
            for position, argument in enumerate(self.step.process.arguments)
        ]

    # Windows.

    def _by_window(self, state: KeyGroupState, elements: BatchElements, watermark: int) -> Iterator[tuple[WindowState, Any]]:
        """The windows of the elements, in the order of their ends, and which rows are in each; None: all. Windows whose time
        is over are left out, and their elements noted as late."""
        if type(self._window_fn) is GlobalWindows:
            yield state.window(GlobalWindow()), None
            return
        found = [(window, rows) for window, rows in self._assigned(elements)]
        for window, rows in sorted(found, key=lambda item: (item[0].end.micros, item[0].start.micros)):
            if state.expiry_of(window) > watermark:
                yield state.window(window), rows
                continue
            self.metrics.late += len(rows)
            if self._wants_late:
                times = elements.times[rows].tolist()
                self.gathered.late += zip(elements.pairs(rows), times, [window] * len(rows), strict=True)

    def _assigned(self, elements: BatchElements) -> Iterator[tuple[Any, Any]]:
        if type(self._window_fn) in (FixedWindows, SlidingWindows):
            indexes, starts = self._window_fn.assign_block(elements.times)
            size = self._window_fn.size_micros
            for start in np.unique(starts).tolist():
                yield IntervalWindow._of_micros(start, start + size), indexes[starts == start]
            return
        rows_of: dict[Any, list[int]] = {}
        every = np.arange(len(elements.times))
        for row, (pair, time) in enumerate(zip(elements.pairs(every), elements.times.tolist(), strict=True)):
            for window in self._window_fn.assign(WindowFn.AssignContext(Timestamp(micros=time), pair)):
                rows_of.setdefault(window, []).append(row)
        for window, rows in rows_of.items():
            yield window, np.asarray(rows, dtype=np.int64)
