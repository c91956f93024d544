"""Partial accumulators: what many elements of a key became before they crossed the network."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Partial"]


class Partial(NamedTuple):
    """Elements that were combined beforehand. All of them lie in the same windows."""

    start: int
    """In microseconds; of sessions that of the first element, else some time that lies in the same windows."""
    end: int
    """Of sessions, when the silence after the last element has been long enough."""
    elements: int
    accumulators: tuple[Any, ...]
    """One for each column of the grouping."""
