"""Partial accumulators: elements of a key that were combined before they crossed the network."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Partial"]


class Partial(NamedTuple):
    """Elements that were combined beforehand. All of them belong to the same windows."""

    start: int
    """In microseconds. For sessions the time of the first element, otherwise some time in the same windows."""
    end: int
    """For sessions: when the gap after the last element ends."""
    elements: int
    accumulators: tuple[Any, ...]
    """One for each column of the grouping."""
