"""What a job is judged by: its newest micro-batches with input, and medians over them.

A micro-batch without input says little, and the first of a run is slow because processes start and state is read; both are
left out of medians. A median does not mind some slow micro-batches on a busy machine.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from holdfast.watch.health.spread import BusiestGroup, HottestKey, busiest_group, hottest_key
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.history import History
from holdfast.watch.records import BatchRecord, EventRecord, StepRecord

__all__ = ["Recent", "has_input", "median", "quarters", "rises", "steady"]

_PARTS = 4
_TREND_MIN = 12
"""A trend is not seen in fewer micro-batches than this."""


@dataclass(frozen=True)
class Recent:
    """A history, as it is looked at."""

    history: History
    thresholds: Thresholds

    @cached_property
    def at_ms(self) -> int:
        """When the last record was made: the present of the history."""
        batches = [batch.at_ms + max(batch.duration_ms, 0) for batch in self.history.batches[-1:]]
        return max(batches + [event.at_ms for event in self.history.events[-1:]], default=0)

    @cached_property
    def working(self) -> list[BatchRecord]:
        """All micro-batches with input, but for the first of each run."""
        run = None
        found = []
        for batch in self.history.batches:
            if batch.run == run and has_input(batch):
                found.append(batch)
            run = batch.run
        return found

    @cached_property
    def window(self) -> list[BatchRecord]:
        """The newest of them, over which medians are taken."""
        return self.working[-self.thresholds.window_batches :]

    @property
    def is_enough(self) -> bool:
        """Whether there are enough of them to judge by."""
        return len(self.window) >= self.thresholds.batches_min

    @cached_property
    def steps(self) -> list[str]:
        """The steps of the last micro-batch that has any."""
        return next((sorted(batch.steps) for batch in reversed(self.history.batches) if batch.steps), [])

    def step_records(self, step: str) -> list[StepRecord]:
        """What a step did in the micro-batches of the window."""
        return [batch.steps[step] for batch in self.window if step in batch.steps]

    @cached_property
    def busiest_groups(self) -> dict[str, BusiestGroup]:
        """Of each step, over the window."""
        least = self.thresholds.elements_min
        return {step: busiest_group(step, self.step_records(step), least) for step in self.steps}

    @cached_property
    def hottest_keys(self) -> dict[str, HottestKey]:
        """Of each step, over the window."""
        least = self.thresholds.elements_min
        return {step: hottest_key(step, self.step_records(step), least) for step in self.steps}

    def trend(self, span_ms: int) -> list[BatchRecord]:
        """The micro-batches with input of the last so many milliseconds, or more of them if these are few; none if the
        history does not reach that far."""
        begin = self.at_ms - span_ms
        recent = [batch for batch in self.working if batch.at_ms >= begin]
        found = self.working[-max(len(recent), _TREND_MIN) :]
        reaches = bool(found) and self.working[0].at_ms <= begin
        return found if reaches and len(found) >= _TREND_MIN else []

    def long_trend(self) -> list[BatchRecord]:
        """The newer half of all that is known, by time."""
        if not self.working:
            return []
        middle = (self.working[0].at_ms + self.at_ms) // 2
        return [batch for batch in self.working if batch.at_ms >= middle]

    def typical(self, of: Callable[[BatchRecord], float | None]) -> float | None:
        """The median over the window of what a micro-batch has, if it has it."""
        return median(value for batch in self.window if (value := of(batch)) is not None)


def steady(history: History) -> History:
    """The history as it would be if the clock had never been set back: what came before such a moment is as much earlier.
    Else what took ten minutes may seem to have taken none."""
    shift_ms, next_ms = 0, None
    moved: list[BatchRecord] = []
    for batch in reversed(history.batches):
        if next_ms is not None and batch.at_ms + shift_ms > next_ms:
            shift_ms = next_ms - max(batch.duration_ms, 0) - batch.at_ms
        next_ms = batch.at_ms + shift_ms
        moved.append(msgspec.structs.replace(batch, at_ms=next_ms) if shift_ms else batch)
    batches = moved[::-1] if shift_ms else history.batches
    events = _before_what_followed(history.events, batches)
    if not shift_ms and events is None:
        return history
    return dataclasses.replace(history, batches=batches, events=history.events if events is None else events)


def _before_what_followed(events: Sequence[EventRecord], batches: Sequence[BatchRecord]) -> list[EventRecord] | None:
    """The events, none later than the micro-batch that came after it; None if that is so already."""
    last = batches[-1] if batches else None
    late = [] if last is None else [e for e in events if e.at_ms > last.at_ms and _number(e) < last.batch]
    if not late:
        return None
    numbers = [batch.batch for batch in batches]
    at = {id(event): batches[bisect.bisect_right(numbers, _number(event))].at_ms for event in late}
    return [msgspec.structs.replace(e, at_ms=min(e.at_ms, at[id(e)])) if id(e) in at else e for e in events]


def _number(event: EventRecord) -> int:
    return -1 if event.batch is None else event.batch


def has_input(batch: BatchRecord) -> bool:
    return batch.rows > 0 or any(step.counters.get("elements", 0) > 0 for step in batch.steps.values())


def median(values: Iterable[float]) -> float | None:
    """None if there are no values."""
    found = list(values)
    return statistics.median(found) if found else None


def quarters(values: Sequence[float]) -> list[float]:
    """The medians of the four parts of a series; fewer if it is too short."""
    size = len(values) / _PARTS
    parts = [values[round(n * size) : round((n + 1) * size)] for n in range(_PARTS)]
    return [statistics.median(part) for part in parts if part]


def rises(values: Sequence[float]) -> list[float] | None:
    """The medians of its four parts, if each is above the one before it, and the last by a fair share; or None.

    So a series that has levelled off in its last part does not rise, nor one that goes up and down, nor one with one jump.
    """
    medians = quarters(values)
    if len(medians) < _PARTS:
        return None
    rise = medians[-1] - medians[0]
    steps = [after - before for before, after in itertools.pairwise(medians)]
    return medians if rise > 0 and min(steps) >= 0.03 * rise and steps[-1] >= 0.15 * rise else None
