"""Upgrades: how values stored by older code become values of the current cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidStep
from holdfast.model.coders import Coder
from holdfast.model.foreign import foreign_problem

__all__ = ["Upgrade"]


@dataclass(frozen=True)
class Upgrade:
    """Turns an old value into a new one: each value of a bag, set, list or map; the accumulator of a combining cell.

    `coder` is the one that wrote the old values. It can be left out if it is one of Holdfast's own.
    """

    function: Callable[[Any], Any]
    coder: Coder[Any] | None = None

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise InvalidStep.of("Upgrade", problems)

    def _problems(self) -> Iterator[str]:
        foreign = foreign_problem(self.function)
        if foreign is not None:
            yield f"its upgrade cannot be called with values: {foreign}"
        elif not callable(self.function):
            yield f"its upgrade is {self.function!r}; give a function from an old value to a new one."
        if isinstance(self.coder, type) and issubclass(self.coder, Coder):
            name = self.coder.__name__
            yield f"its upgrade has the class {name} as its coder; write {name}() to make an instance."
        elif self.coder is not None and not isinstance(self.coder, Coder):
            yield f"its upgrade has {self.coder!r} as its coder, which is not a holdfast Coder."
