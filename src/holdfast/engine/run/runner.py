"""Runs a step of any kind: the protocol that runtimes and backends use.

Order of calls: `setup` once. For each bundle `elements` or `partials` with its input, then `run` for each part of it, and
after each part `deliver` or `outputs`; `sweep` where the backend allows it. `teardown` at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.limiting import Limiter
from holdfast.engine.run.outputs import Output
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.engine.tables import Slot
from holdfast.model.functions.step import Step
from holdfast.model.windows.values import PaneInfo

__all__ = ["Intake", "PaneBlock", "PartialBlock", "Receiver", "Runner", "SessionBlock"]


class PartialBlock(NamedTuple):
    """Accumulators of elements that were combined before they crossed the network, as columns."""

    slots: list[Slot]
    starts: list[int]
    ends: list[int]
    """For windows that merge; otherwise equal to the starts."""
    elements: list[int]
    accumulators: list[list[Any]]
    """For each column of the grouping, one for each slot."""

    def take(self, positions: Sequence[int]) -> PartialBlock:
        return PartialBlock(
            [self.slots[position] for position in positions],
            [self.starts[position] for position in positions],
            [self.ends[position] for position in positions],
            [self.elements[position] for position in positions],
            [[column[position] for position in positions] for column in self.accumulators],
        )


class PaneBlock(NamedTuple):
    """The results of some keys of a window, as columns."""

    window: Any
    slots: list[Slot]
    results: list[list[Any]]
    """For each column of the grouping, one for each slot."""
    panes: list[PaneInfo]


class SessionBlock(NamedTuple):
    """Results that have each a window of their own, as columns."""

    starts: list[int]
    ends: list[int]
    """Of the windows, in microseconds."""
    slots: list[Slot]
    results: list[list[Any]]
    """For each column of the grouping, one for each slot."""
    panes: list[PaneInfo]


class Intake(Protocol):
    """The input of a bundle, in the runner's own form."""

    @property
    def slots(self) -> list[Slot]: ...

    def take(self, positions: Sequence[int]) -> Any:
        """The same for some of its elements."""


class Receiver(Protocol):
    """Takes the outputs of a bundle in order to write them."""

    def take_values(self, tag: str, values: list[Any]) -> None:
        """Outputs with a tag. Those of `late` and `over_limit` are elements, those of `dead_letter` may be `DeadLetter`s."""

    def take_columns(self, tag: str, columns: Mapping[str, Any]) -> None:
        """Outputs with a tag, as columns of one length: arrays or lists, by name."""

    def take_panes(self, blocks: list[PaneBlock]) -> None:
        """Results of an aggregation, window by window."""

    def take_sessions(self, block: SessionBlock) -> None:
        """Results of an aggregation, session by session."""


I = TypeVar("I", bound=Intake)  # noqa: E741  # of what a runner takes in


class Runner(Protocol[I]):
    """Runs one step for all key groups of a worker. If `run` raises, the state must be abandoned."""

    step: Step
    limiter: Limiter | None
    metrics: StepMetrics
    """For the part that has run."""

    def setup(self) -> None: ...

    def teardown(self) -> None: ...

    def elements(self, pairs: Sequence[tuple[Any, Any]], times: Sequence[int]) -> I:
        """The elements of the next bundle."""

    def partials(self, block: PartialBlock) -> I:
        """The same for elements that were combined beforehand."""

    def run(self, state: KeyGroupState, intake: I, clocks: Clocks, batch: int) -> object:
        """Runs one bundle, or a part of one."""

    def sweep(self, state: KeyGroupState, clocks: Clocks, budget: int) -> None:
        """Removes expired cells after a bundle, at most `budget` of them."""

    def deliver(self, receiver: Receiver) -> None:
        """Hands the outputs of the part that has run to the receiver."""

    def outputs(self) -> Iterator[Output]:
        """The same outputs one by one, with their times and windows, for inspection."""

    def next_event(self, state: KeyGroupState) -> int | None:
        """When the watermark next matters, in microseconds."""

    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        """When the watermark next matters to a window."""
