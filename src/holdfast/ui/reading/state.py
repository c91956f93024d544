"""What the dashboard needs of stored state, whoever reads it: steps, pages of keys, one key, and one key's life."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["CellInfo", "CellValue", "KeyChange", "Page", "StateSource", "StepInfo", "WindowRow"]


@dataclass(frozen=True)
class CellInfo:
    """A cell or timer that a step declares."""

    name: str
    is_timer: bool = False
    doc: str = ""
    """What it is for, as its author says."""


@dataclass(frozen=True)
class StepInfo:
    """A step with what it keeps after a micro-batch."""

    name: str
    cells: list[CellInfo]
    key: str = ""
    """The columns of its key, with their types."""
    key_groups: int = 0
    backend: str = ""


@dataclass(frozen=True)
class CellValue:
    """What a cell holds."""

    text: str
    """For people; cut if it is long."""
    json: str
    """Lossless; the form is that of `holdfast.engine.stored.readable`."""
    expires_at: str | None = None


@dataclass(frozen=True)
class WindowRow:
    """The cells of one key and window."""

    key: str
    window: str
    """Empty for the global window."""
    cells: dict[str, CellValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """Some keys with all their windows, in an order that is the same for the same state."""

    rows: list[WindowRow]
    keys: int
    """How many keys these are."""
    more: bool
    """Whether more keys follow."""
    before: dict[str, list[WindowRow]] = field(default_factory=dict)
    """Of each key, its windows after the micro-batch that was asked for to compare."""


@dataclass(frozen=True)
class KeyChange:
    """What a micro-batch did to a cell or timer of a key."""

    batch: int
    window: str
    cell: str
    what: str
    """added, changed or removed."""
    old: str = ""
    new: str = ""


class StateSource(Protocol):
    """Reads the state of one checkpoint. Safe to call from several threads.

    Raises HoldfastError: CheckpointError for a micro-batch, step or key that is not there, CorruptState for damage. A
    micro-batch of None is the last one.
    """

    def retained(self) -> list[int]:
        """The micro-batches whose state can be read, ascending."""

    def steps(self, batch: int | None) -> tuple[int, list[StepInfo]]:
        """The micro-batch that was looked at, and its steps."""

    def page(self, step: str, batch: int, *, prefix: str, offset: int, limit: int, compare: int | None) -> Page:
        """Keys whose text begins with a prefix, from the one at an offset on; at most so many. With what they had after
        another micro-batch, if there is one to compare with."""

    def count(self, step: str, batch: int, *, prefix: str) -> int:
        """How many keys have a text that begins with a prefix. May read all state of the step, the first time."""

    def key(self, step: str, key: str, batch: int | None) -> tuple[int, list[WindowRow]]:
        """All windows of one key; none if it has no state."""

    def life(self, step: str, key: str) -> list[KeyChange]:
        """What each retained micro-batch did to a key, oldest first."""
