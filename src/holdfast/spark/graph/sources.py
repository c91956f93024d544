"""The order of a query's sources: Spark finds their offsets by it, so it must stay as it was when a graph changes.

Spark counts a source as often as a plan reads it. All these have the same offset, so only their number and places matter.

A mark says which source is meant: its kind, and a digest of its schema and its path or topic, which may contain secrets.
Sources that look the same have numbers besides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.errors import StateConflict
from holdfast.spark.steps.lineage import children

__all__ = ["are_told_apart", "check_sources", "in_recorded_order", "source_marks"]

_ALIKE = " #"
_PLACES = (
    "path",
    "pathGlobFilter",
    "subscribe",
    "subscribePattern",
    "assign",
    "topic",
    "host",
    "port",
    "kafka.bootstrap.servers",
)


class _Marks:
    """The marks of the sources that have been met."""

    def __init__(self) -> None:
        self._known: list[tuple[Any, str]] = []

    def of(self, plan: Any) -> list[str]:
        return [self._mark(leaf) for leaf in _leaves(plan)]

    def _mark(self, leaf: Any) -> str:
        for known, mark in self._known:
            if known.equals(leaf):
                return mark
        mark = _mark(leaf)
        alike = sum(known.partition(_ALIKE)[0] == mark for _, known in self._known)
        self._known.append((leaf, f"{mark}{_ALIKE}{alike + 1}" if alike else mark))
        return self._known[-1][1]


def source_marks(plan: Any) -> list[str]:
    """The marks of a plan's sources, as often as it reads each, in the order in which Spark counts them."""
    return _Marks().of(plan)


def in_recorded_order(plans: Sequence[Any], recorded: Sequence[str] | None) -> list[int]:
    """The numbers of the plans, sorted so that their sources come in the order that is recorded. One that is not recorded
    takes the place of one that is no longer there, as when a path has changed."""
    known = _Marks()
    marks = [known.of(plan) for plan in plans]
    left, order, place = list(range(len(plans))), [], 0
    if recorded is None or [mark for own in marks for mark in own] == list(recorded):
        return left
    while left:
        fitting = [number for number in left if marks[number] == list(recorded[place : place + len(marks[number])])]
        new = [number for number in left if not set(marks[number]) <= set(recorded)]
        order.append((fitting or new or left)[0])
        left.remove(order[-1])
        place += len(marks[order[-1]])
    return order


def are_told_apart(recorded: Sequence[str], present: Sequence[str]) -> bool:
    """Whether it is certain which source is which."""
    return not any(_ALIKE in mark for mark in present) and len(set(present) - set(recorded)) <= 1


def check_sources(recorded: Sequence[str] | None, present: Sequence[str]) -> None:
    """Raises StateConflict if offsets would be taken for those of another source. A path may have changed."""
    if recorded is None or list(recorded) == list(present):
        return
    were, are = len(set(recorded)), len(set(present))
    if were != are:
        raise StateConflict(
            f"The job reads from {_counted(are)}, and its checkpoint has the offsets of {_counted(were)}.",
            todo="start with a new checkpoint; to keep the state, export it and import it there",
        )
    if sorted(recorded) == sorted(present):
        raise StateConflict(
            "The job reads its sources in another order than before, and each would begin where another one was.",
            todo="put them back into the old order, in unions and joins",
        )
    pairs = set(zip(recorded, present, strict=False))
    moved = any(now != before and now in recorded for before, now in pairs)
    if len(recorded) != len(present) or len(pairs) != are or moved:
        raise StateConflict(
            "What is done with rows of sources before the first steps, or without any, has changed: sources are now read "
            f"{len(present)} times in all, and were {len(recorded)} times, or others of them. Spark would mistake offsets.",
            detail="A source is read once more for each explode, join, Python function and watermark of its own.",
            todo="do that in a step, or start with a new checkpoint; to keep the state, export it and import it there",
        )


def _counted(sources: int) -> str:
    return f"{sources} source{'' if sources == 1 else 's'}"


def _leaves(node: Any) -> Iterator[Any]:
    if not node.isStreaming():
        return
    below = children(node)
    if not below:
        yield node
    for child in below:
        yield from _leaves(child)


def _mark(leaf: Any) -> str:
    name = str(leaf.nodeName())
    kind, place, options = name, "", None
    if name == "StreamingRelation":
        kind, _, place = str(leaf.sourceName()).partition("[")
        options = leaf.dataSource().options()
        place += repr([str(options.get(option).get()) for option in _PLACES if options.contains(option)])
    elif name == "StreamingRelationV2":
        options = leaf.extraOptions()
        kind, place = str(leaf.sourceName()), repr([options.get(option) for option in _PLACES])
    place += str(leaf.schema().simpleString())
    return f"{kind} {hashlib.blake2b(place.encode(), digest_size=8).hexdigest()}"
