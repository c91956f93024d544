"""What the runners of groupings have in common: they take elements or partial accumulators as columns, and call no function
for a single key. A subclass says what a bundle does, and in what form its results leave."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from holdfast.engine.metrics.hot_keys import sample_of
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.failures import user_error
from holdfast.engine.run.intake import Elements
from holdfast.engine.run.limiting import Limiter
from holdfast.engine.run.outputs import Output
from holdfast.engine.run.runner import PaneBlock, PartialBlock, Receiver, SessionBlock
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.errors import HoldfastError
from holdfast.model.functions.step import LATE_TAG, Step
from holdfast.model.present import bundle_present
from holdfast.model.time.timestamps import Timestamp

__all__ = ["Gathered", "GroupingRunner"]

BlockT = TypeVar("BlockT", PaneBlock, SessionBlock)


class Gathered(Generic[BlockT]):
    """The results of one bundle."""

    def __init__(self) -> None:
        self.blocks: list[BlockT] = []
        self.late: list[tuple[tuple[Any, Any], int, Any]] = []
        """Late elements, if they are wanted: (element, time, window)."""


class GroupingRunner(abc.ABC, Generic[BlockT]):
    """Runs one grouping."""

    def __init__(self, step: Step, layout: Layout) -> None:
        assert step.grouping is not None
        self.step = step
        self.layout = layout
        self.limiter: Limiter | None = None
        """A grouping with limits runs call by call instead."""
        self.metrics = StepMetrics()
        self.gathered: Gathered[BlockT] = Gathered()
        self.grouping = step.grouping
        self.wants_late = step.tags is not None and LATE_TAG in step.tags

    @abc.abstractmethod
    def bundle(self, state: KeyGroupState, block: Elements | PartialBlock, clocks: Clocks) -> None:
        """Takes in what came, moves the clocks, and gathers the results."""

    @abc.abstractmethod
    def results(self) -> Iterator[Output]:
        """The results of the bundle that has run, with their times and windows."""

    @abc.abstractmethod
    def hand_over(self, receiver: Receiver) -> None:
        """Gives the same results to the receiver, as columns; there are some."""

    @abc.abstractmethod
    def next_event(self, state: KeyGroupState) -> int | None:
        """When the watermark next matters, in microseconds."""

    @abc.abstractmethod
    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        """When the watermark next matters to a window."""

    def where(self) -> dict[str, Any]:
        """The key that the bundle was at when it failed, if that is known."""
        return {}

    def setup(self) -> None:
        self._call(self.step.fn.setup, "setup")

    def teardown(self) -> None:
        self._call(self.step.fn.teardown, "teardown")

    def _call(self, function: Any, method: str) -> None:
        try:
            function()
        except Exception as error:
            raise user_error(error, method=method, step=self.step.name) from error

    def elements(self, pairs: Sequence[tuple[Any, Any]], times: Sequence[int]) -> Elements:
        """The elements of the next bundle."""
        try:
            return Elements.of(pairs, times)
        except HoldfastError as error:
            raise error.within(step=self.step.name) from None

    def partials(self, block: PartialBlock) -> PartialBlock:
        """Used as they are, column by column."""
        return block

    def run(self, state: KeyGroupState, block: Elements | PartialBlock, clocks: Clocks, batch: int) -> Gathered[BlockT]:
        """Runs one bundle and returns its results. If it raises, the state must be abandoned."""
        self.gathered = Gathered()
        self.metrics = StepMetrics()
        with bundle_present(clocks, self.metrics.user):
            try:
                self.bundle(state, block, clocks)
            except Exception as error:
                where = {**self.where(), "micro_batch": batch}
                failure = user_error(error, method="the CombineFn", step=self.step.name, **where)
                if failure is error:
                    raise
                raise failure from error
        if block.slots:
            sample = sample_of(block.slots, block.elements if isinstance(block, PartialBlock) else None)
            self.metrics.hot.give(sample.counts)
            self.metrics.heavy.give(sample.sizes(state))
        self.metrics.outputs = sum(len(block.slots) for block in self.gathered.blocks)
        if block.slots or self.gathered.blocks:
            self.metrics.bundles = 1
        return self.gathered

    def sweep(self, state: KeyGroupState, clocks: Clocks, budget: int) -> None:
        """Nothing to do: an aggregation's state ends with its windows and has no time to live."""

    def deliver(self, receiver: Receiver) -> None:
        """Hands the results of the bundle that has run to the receiver."""
        if self.gathered.blocks:
            self.hand_over(receiver)
        if self.gathered.late:
            receiver.take_values(LATE_TAG, [element for element, _, _ in self.gathered.late])

    def outputs(self) -> Iterator[Output]:
        """The results of the bundle that has run, with their times and windows."""
        for element, time, window in self.gathered.late:
            yield Output(element, Timestamp(micros=time), window, LATE_TAG)
        yield from self.results()
