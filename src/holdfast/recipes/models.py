"""Online models: what is usual, learnt from one value after the other. Their state is a plain value, kept in a cell."""

from __future__ import annotations

import math
from typing import Protocol, TypeVar

from holdfast.recipes.arguments import Arguments

__all__ = ["Moments", "MovingMoments", "OnlineModel"]


S = TypeVar("S")
_State = tuple[int, float, float]


class OnlineModel(Protocol[S]):
    """Learns from values, and scores them. The object has parameters only: what was learnt is in the states it gives."""

    name: str
    """Is stored with the state. Code whose model has another name cannot continue from it."""

    def create(self) -> S:
        """The state of a model that has seen nothing: a plain value."""

    def score(self, state: S, value: object) -> float | None:
        """How unusual a value is, from 0; None as long as the model cannot say."""

    def learn(self, state: S, value: object) -> S:
        """The state with one more value. May not change the one it is given."""


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r:.200} is no finite number, which is what this model learns from")
    return float(value)


def _bounded(state: _State) -> _State:
    """The state, if floats can hold it: with an infinite one every later score would be 0, or NaN."""
    if not all(map(math.isfinite, state)):
        raise OverflowError("the values of this key are too large, or too far apart, for floats: their spread is infinite")
    return state


class _ZScore:
    """A score in standard deviations, from a state (count, mean, …)."""

    def __init__(self, warmup: int, min_spread: float) -> None:
        self._check = Arguments()
        self._warmup = self._check.whole("warmup", warmup, least=2)
        self._min_spread = self._check.number("min_spread", min_spread, above=0.0)

    def variance(self, state: _State) -> float:
        raise NotImplementedError

    def create(self) -> _State:
        return (0, 0.0, 0.0)

    def score(self, state: _State, value: object) -> float | None:
        number = _finite(value)
        count, mean, _ = state
        if count < self._warmup:
            return None
        return abs(number - mean) / max(math.sqrt(self.variance(state)), self._min_spread)


class Moments(_ZScore):
    """Mean and spread of all values so far, by Welford's method. A score is the distance from the mean, in standard
    deviations.

    It scores nothing before it has seen `warmup` values. `min_spread` bounds the standard deviation from below, for what is
    always the same. The state is (count, mean, sum of squared distances): three numbers, however many values there were.
    """

    name = "moments"

    def __init__(self, *, warmup: int = 10, min_spread: float = 1e-9) -> None:
        super().__init__(warmup, min_spread)
        self._check.check("Moments")

    def variance(self, state: _State) -> float:
        return state[2] / (state[0] - 1)

    def learn(self, state: _State, value: object) -> _State:
        count, mean, squares = state
        number = _finite(value)
        away = number - mean
        mean += away / (count + 1)
        return _bounded((count + 1, mean, squares + away * (number - mean)))


class MovingMoments(_ZScore):
    """The same, but old values count less and less: each new one has the weight `weight`, from 0 to 1.

    So it follows what changes slowly. With a weight of 0.1 about half of the mean comes from the last seven values. The
    state is (count, mean, variance).
    """

    name = "moving moments"

    def __init__(self, weight: float = 0.1, *, warmup: int = 10, min_spread: float = 1e-9) -> None:
        super().__init__(warmup, min_spread)
        self._weight = self._check.number("weight", weight, above=0.0)
        if self._weight >= 1 and not self._check.problems:
            self._check.problems.append(f"weight is {weight!r}; it must be below 1.")
        self._check.check("MovingMoments")

    def variance(self, state: _State) -> float:
        return state[2]

    def learn(self, state: _State, value: object) -> _State:
        count, mean, variance = state
        number = _finite(value)
        if count == 0:
            return 1, number, 0.0
        away = number - mean
        step = self._weight * away
        return _bounded((count + 1, mean + step, (1 - self._weight) * (variance + step * away)))
