"""Counters of what a step did, in one bundle or many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from holdfast.engine.metrics.hot_keys import HeavyKey, HotKey, KeySketch, LargestKeys
from holdfast.model.metrics import UserMetrics

__all__ = ["StepMetrics"]

_TOP = 20
_NOT_COUNTERS = ("hot", "heavy", "user")


@dataclass
class StepMetrics:
    """Plain sums; adding two gives the metrics of both. Readable as attributes and by name."""

    bundles: int = 0
    elements: int = 0
    """Elements received, including late ones."""
    calls: int = 0
    """Calls of `process`: one for each element and window."""
    late: int = 0
    """(element, window) pairs that arrived after their window's end plus the allowed lateness."""
    dead_letters: int = 0
    outputs: int = 0
    timers_fired: int = 0
    timers_dropped: int = 0
    """Timers that callbacks of an expiring window set for a time after it."""
    windows_expired: int = 0
    cells_expired: int = 0
    """Cells that were emptied because they had expired."""
    sweep_micros: int = 0
    """Time spent on finding and removing them, in microseconds."""
    over_limit: int = 0
    """(element, window) pairs that were diverted because of a limit."""
    keys_evicted: int = 0
    """Keys whose state was removed because of a limit."""
    elements_evicted: int = 0
    """Elements that were removed from bags because of a limit."""
    delta_bytes: int = 0
    snapshot_bytes: int = 0
    loads: int = 0
    """How often state was read from the beginning: a fresh worker, or a copy in memory that could not be trusted."""
    catch_ups: int = 0
    """How often a worker's copy was behind and only had to catch up."""
    snapshot_micros: int = 0
    """Time spent on writing snapshots, in microseconds."""
    open_micros: int = 0
    """Time spent on opening state: reading what a worker did not have, in microseconds."""
    run_micros: int = 0
    """Time spent on the elements and timers themselves."""
    commit_micros: int = 0
    """Time spent on storing what changed."""
    hot: KeySketch = field(default_factory=KeySketch)
    """How many elements keys got."""
    heavy: LargestKeys = field(default_factory=LargestKeys)
    """How large keys are."""
    user: UserMetrics = field(default_factory=UserMetrics)
    """What the function itself counted."""

    def add(self, other: StepMetrics) -> None:
        for name in self.names():
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.hot.add(other.hot)
        self.heavy.add(other.heavy)
        self.user.add(other.user)

    @property
    def hot_keys(self) -> list[HotKey]:
        """The keys with the most elements, and roughly how many; `hot.error` says how much too low the counts may be."""
        return self.hot.top(_TOP)

    @property
    def heavy_keys(self) -> list[HeavyKey]:
        """The keys with the most state, and roughly how many bytes."""
        return self.heavy.top(_TOP)

    def __getitem__(self, name: str) -> int:
        if name in self.names():
            value: int = getattr(self, name)
            return value
        return self.user.counters[name]

    def names(self) -> Iterator[str]:
        """The names of Holdfast's own counters."""
        return (item.name for item in fields(self) if item.name not in _NOT_COUNTERS)
