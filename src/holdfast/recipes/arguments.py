"""The arguments of recipes: checked, with everything that is wrong collected, so that a user sees all of it at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

import holdfast as hf

__all__ = ["Arguments", "Recipe", "Span"]

Span = hf.Duration | timedelta | float | str
"""A duration, seconds, or a text such as "10 minutes"."""

T = TypeVar("T")
_ANY_SPAN = hf.Duration(1)


class Arguments:
    """Reads arguments. What is wrong goes into `problems`, and a harmless value takes its place."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def span(self, name: str, given: Span) -> hf.Duration:
        """A duration longer than zero."""
        try:
            span = hf.Duration.of(given)
        except (hf.HoldfastError, TypeError, ValueError) as refused:
            what = refused.what if isinstance(refused, hf.HoldfastError) else str(refused)
            self.problems.append(f"{name} is {given!r}, which is not a duration: {what} Write '10 minutes', or seconds.")
            return _ANY_SPAN
        if span.micros <= 0:
            self.problems.append(f"{name} is {given!r}; it must be longer than zero.")
            return _ANY_SPAN
        return span

    def optional_span(self, name: str, given: Span | None) -> hf.Duration | None:
        return None if given is None else self.span(name, given)

    def whole(self, name: str, given: int, least: int = 1) -> int:
        """A whole number of at least so many."""
        if isinstance(given, bool) or not isinstance(given, int) or given < least:
            self.problems.append(f"{name} is {given!r}; it must be a whole number of at least {least}.")
            return least
        return given

    def number(self, name: str, given: float, *, above: float = -math.inf) -> float:
        """A finite number above a bound."""
        is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if not is_number or not math.isfinite(given) or given <= above:
            bound = "" if above == -math.inf else f" above {above:g}"
            self.problems.append(f"{name} is {given!r}; it must be a number{bound}.")
            return above + 1 if math.isfinite(above) else 0.0
        return float(given)

    def field(self, name: str, given: str) -> str:
        """The name of a field of the values."""
        if not isinstance(given, str) or not given:
            self.problems.append(f"{name} is {given!r}; it must be the name of a field.")
            return "value"
        return given

    def optional_field(self, name: str, given: str | None) -> str | None:
        return None if given is None else self.field(name, given)

    def fields(self, name: str, given: Iterable[str]) -> tuple[str, ...]:
        """Names of fields, at least one."""
        if isinstance(given, str) or not isinstance(given, Iterable):
            self.problems.append(f"{name} is {given!r}; it must be a list of names of fields.")
            return ()
        found = tuple(self.field(f"One of {name}", field) for field in given)
        if not found:
            self.problems.append(f"{name} is empty; name at least one field.")
        return found

    def choice(self, name: str, given: T, choices: tuple[T, ...]) -> T:
        if given not in choices:
            self.problems.append(f"{name} is {given!r}; it can be {' or '.join(map(repr, choices))}.")
            return choices[0]
        return given

    def function(self, name: str, given: Callable[..., object]) -> None:
        if not callable(given):
            self.problems.append(f"{name} is {given!r}; it must be a function.")

    def tag(self, name: str, given: str | None) -> str | None:
        """The tag of an output, or None."""
        if given is not None and (not isinstance(given, str) or not given):
            self.problems.append(f"{name} is {given!r}; it must be the tag of an output, or None.")
            return None
        return given

    def check(self, owner: str) -> None:
        """Raises what was found; for combiners, whose arguments a step does not ask for."""
        if self.problems:
            raise hf.InvalidStep.of(owner, self.problems)


class Recipe(hf.DoFn):
    """A ready-made function. What is wrong with its arguments is reported with all other problems of its step."""

    def __init__(self) -> None:
        self._arguments = Arguments()

    def declaration_problems(self) -> list[str]:
        return self._arguments.problems
