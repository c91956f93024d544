"""Upgrades: how values that older code has stored become values of today's cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.model.coders import Coder

__all__ = ["Upgrade"]


@dataclass(frozen=True)
class Upgrade:
    """Turns an old value into a new one: of a bag, set, list or map each of its values, of a combining cell the accumulator.

    `coder` is the one that wrote the old values. It need not be given if it is one of Holdfast's own.
    """

    function: Callable[[Any], Any]
    coder: Coder | None = None

    @staticmethod
    def of(given: Any) -> Upgrade | None:
        return given if given is None or isinstance(given, Upgrade) else Upgrade(given)

    def problems(self, cell: str) -> Iterator[str]:
        if not callable(self.function):
            yield f"The upgrade of the cell {cell!r} is {self.function!r}; give a function from an old value to a new one."
        if self.coder is not None and not isinstance(self.coder, Coder):
            yield f"The upgrade of the cell {cell!r} has {self.coder!r} as its coder, which is not a holdfast Coder."
