"""Models of River, the library for online machine learning: `pip install 'holdfast[river]'`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Protocol

import holdfast as hf
from holdfast.model.extras import require_extra
from holdfast.recipes.rows import plain

__all__ = ["Detector", "RiverModel"]


class Detector(Protocol):
    """What all anomaly detectors of River can do."""

    def score_one(self, x: dict[str, object]) -> float:
        """How unusual something is."""

    def learn_one(self, x: dict[str, object]) -> object:
        """Learns from it."""


class RiverModel:
    """An anomaly detector of River as an online model: `RiverModel(lambda: anomaly.HalfSpaceTrees(seed=1))`.

    `make` makes a detector that has seen nothing; seed it, so that a micro-batch that runs again gives the same. A row is
    given to it as a dict of its fields, a number as {"value": number}. It scores nothing before it has seen `warmup` values.

    The state is (count, the detector as bytes). The bytes are pickled, for there is no other way to store one: each element
    of a key unpickles it twice and pickles it once, and who can write to the checkpoint can run code in your workers. Tools
    show the bytes and never unpickle them. Another release of River may be unable to read what an older one stored.
    """

    name = "river"

    def __init__(self, make: Callable[[], Detector], *, warmup: int = 100) -> None:
        require_extra("river", "river", (0, 22), "RiverModel")
        problems = []
        if not callable(make):
            problems.append(f"make is {make!r}; it must be a function that makes a detector.")
        if isinstance(warmup, bool) or not isinstance(warmup, int) or warmup < 0:
            problems.append(f"warmup is {warmup!r}; it must be a whole number of at least 0.")
        if problems:
            raise hf.InvalidStep.of("RiverModel", problems)
        self._make = make
        self._warmup = warmup

    def create(self) -> tuple[int, bytes]:
        return 0, pickle.dumps(self._make())

    def score(self, state: tuple[int, bytes], value: object) -> float | None:
        count, stored = state
        return None if count < self._warmup else float(_opened(stored).score_one(_features(value)))

    def learn(self, state: tuple[int, bytes], value: object) -> tuple[int, bytes]:
        count, stored = state
        detector = _opened(stored)
        detector.learn_one(_features(value))
        return count + 1, pickle.dumps(detector)


def _opened(stored: bytes) -> Detector:
    detector: Detector = pickle.loads(stored)
    return detector


def _features(value: object) -> dict[str, object]:
    """What River learns from."""
    row = plain(value)
    return dict(row) if isinstance(row, Mapping) else {"value": row}
