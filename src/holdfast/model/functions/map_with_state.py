"""`MapWithState`: a plain function of the state and a value, when one state value and no timer is enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from holdfast.errors import HoldfastError, OutputError
from holdfast.model.coders import Coder
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import DurationLike
from holdfast.model.functions.plain_functions import call_problems, label_of, module_of
from holdfast.model.state.specs import ValueStateSpec
from holdfast.model.state.ttl import Ttl

__all__ = ["MapWithState"]

S = TypeVar("S")
R = TypeVar("R")


class MapWithState(DoFn):
    """Calls `fn(state, value)` for each value of a key; it returns the new state and a row.

    The state is None before the first value, and after a call that returned None as the state. A row of None is left out.
    Outputs are (key, row). `ttl` forgets the state of a key that has not been written for that long.
    """

    def __init__(
        self,
        fn: Callable[[S | None, Any], tuple[S | None, R]],
        *,
        ttl: Ttl | DurationLike | None = None,
        state_coder: Coder[S] | None = None,
    ) -> None:
        self._fn = fn
        self._problems = [*call_problems(fn, "map_with_state", ("state", "value"))]
        try:
            life = ttl if ttl is None or isinstance(ttl, Ttl) else Ttl(ttl)
        except (HoldfastError, TypeError, ValueError) as refused:
            self._problems.append(f"ttl is {ttl!r}: {refused}")
            life = None
        base = type(self)
        self.__class__ = _with_cell(base, ValueStateSpec("state", state_coder, ttl=life))
        self.__class__.__name__ = base.__name__

    def declaration_problems(self) -> Iterable[str]:
        return self._problems

    @property
    def code_modules(self) -> list[str]:
        """The modules whose code travels with the function."""
        return [module_of(self._fn)]

    def default_label(self) -> str:
        return label_of(self._fn, "map_with_state")

    def _output(self, key: Any, row: Any) -> Any:
        return key, row


def _with_cell(base: type[MapWithState], spec: ValueStateSpec[Any]) -> type[MapWithState]:
    """The class with its cell, which depends on the arguments."""

    class WithCell(base):  # type: ignore[valid-type,misc]
        def process(self, element: Any, cell: Any = DoFn.StateParam(spec)) -> Any:
            key, value = element
            result = self._fn(cell.read(), value)
            if type(result) is not tuple or len(result) != 2:
                raise _no_pair(self.default_label(), result)
            state, row = result
            if state is None:
                cell.clear()
            else:
                cell.write(state)
            return None if row is None else (self._output(key, row),)

    return WithCell


def _no_pair(name: str, result: object) -> OutputError:
    return OutputError(
        f"{name} returned {result!r:.200}; it must return a pair, the new state and a row.",
        todo="return (state, row); a row of None is left out, a state of None is forgotten",
    )
