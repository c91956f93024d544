"""The order of a query's sources: Spark finds their offsets by it, so it must stay as it was when a graph changes.

A mark says which source is meant: its kind, and a digest of its schema and its path or topic, which may contain secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.errors import StateConflict
from holdfast.spark.steps.lineage import children

__all__ = ["are_told_apart", "check_sources", "in_recorded_order", "source_marks"]

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


def source_marks(plan: Any) -> list[str]:
    """The marks of a plan's sources, in the order in which Spark counts them."""
    found: list[Any] = []
    for leaf in _leaves(plan):
        if not any(known.equals(leaf) for known in found):
            found.append(leaf)
    return [_mark(leaf) for leaf in found]


def in_recorded_order(plans: Sequence[Any], recorded: Sequence[str] | None) -> list[int]:
    """The numbers of the plans, sorted so that their sources come in the order that is recorded. One that is not recorded
    takes the place of one that is no longer there, as when a path has changed."""
    if recorded is None:
        return list(range(len(plans)))
    marks = [source_marks(plan) for plan in plans]
    present = [mark for own in marks for mark in own]
    free = [number for number, mark in enumerate(recorded) if mark not in present]
    places = {mark: number for number, mark in reversed(list(enumerate(recorded)))}
    for mark in present:
        if mark not in places:
            places[mark] = free.pop(0) if free else len(recorded)
    return sorted(range(len(plans)), key=lambda number: min(map(places.__getitem__, marks[number]), default=len(recorded)))


def are_told_apart(recorded: Sequence[str], present: Sequence[str]) -> bool:
    """Whether it is certain which source is which."""
    return len(set(present)) == len(present) and len(set(present) - set(recorded)) <= 1


def check_sources(recorded: Sequence[str] | None, present: Sequence[str]) -> None:
    """Raises StateConflict if offsets would be taken for those of another source. A path may have changed."""
    if recorded is None or list(recorded) == list(present):
        return
    if len(recorded) != len(present):
        raise StateConflict(
            f"The job reads from {_counted(len(present))}, and its checkpoint has the offsets of {_counted(len(recorded))}.",
            todo="start with a new checkpoint; to keep the state, export it and import it there",
        )
    if sorted(recorded) == sorted(present):
        raise StateConflict(
            "The job reads its sources in another order than before, and each would begin where another one was.",
            todo="put them back into the old order, in unions and joins",
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
