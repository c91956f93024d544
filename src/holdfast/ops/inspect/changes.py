"""What each micro-batch changed of a job's state: which changes there are to read, and their rows.

A reader of changes has a *position*: the micro-batch after which it has everything. So that nothing is missed without a
word, the position also names the query, and the state that it was read from: an operator who replaces the state of a
stopped job (`state rm`, `state import`, `rescale --key-groups`) changes it outside of any micro-batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.errors import CheckpointError
from holdfast.ops.inspect.compare import Valued, batch_changes
from holdfast.ops.reading.direct import DirectSource
from holdfast.ops.reading.sources import Groups, StateSource
from holdfast.ops.reading.steps import StepRef, choose_step

__all__ = [
    "BEGINNING",
    "Part",
    "Position",
    "change_rows",
    "check_range",
    "committed_range",
    "newest",
    "parts_of",
    "position_at",
]

BEGINNING = -1
"""Before the first micro-batch, when there is no state."""


@dataclass(frozen=True)
class Position:
    """How far a reader of changes is."""

    batch: int
    query: str
    state: float | None
    """Another one after the state was replaced; None if there is none yet."""

    def as_offset(self) -> dict[str, Any]:
        return {"batch": self.batch, "query": self.query, "state": None if self.state is None else repr(self.state)}

    @staticmethod
    def of_offset(offset: dict[str, Any]) -> Position:
        state = offset["state"]
        return Position(int(offset["batch"]), str(offset["query"]), None if state is None else float(state))


def position_at(place: Checkpoint, batch: int) -> Position:
    """The position of a reader that has everything up to a micro-batch."""
    info = place.files.info(join(place.path, "state")) if batch > BEGINNING else None
    return Position(batch, place.query_id, None if info is None else info.modified_seconds)


def newest(place: Checkpoint) -> int:
    """The last committed micro-batch; BEGINNING if there is none."""
    return max(place.committed(), default=BEGINNING)


def check_range(place: Checkpoint, start: Position, *, accept_replaced: bool = False) -> None:
    """Raises CheckpointError if the changes since a position are not all there to be read."""
    last = newest(place)
    if place.query_id != start.query:
        raise CheckpointError(
            f"{place.path!r} is not the checkpoint whose changes were read so far: its query is another one.",
            todo="read its changes from the beginning, with a new checkpoint for their reader",
        )
    if last < start.batch:
        raise CheckpointError(
            f"The changes of {place.path!r} were read up to micro-batch {start.batch}, but its last one is {last} now.",
            detail="It has gone back, as to a savepoint.",
            todo="read its changes again, with a new checkpoint for their reader",
        )
    now = position_at(place, last).state
    if None not in (start.state, now) and start.state != now and not accept_replaced:
        raise CheckpointError(
            f"The state of {place.path!r} was replaced since micro-batch {start.batch} was read.",
            detail="By state rm, state import, a change of key groups, or because the job's steps have changed. What that "
            "changed is among the changes of no micro-batch.",
            todo="compare what you made of the changes with the state, or make it anew; to go on: accept_replaced=True",
        )


def committed_range(place: Checkpoint, start: int, end: int) -> list[int]:
    """The micro-batches from one to another, whose state says what changed after the first.

    Raises CheckpointError if one of them cannot be read."""
    if end < start:
        raise CheckpointError(f"Micro-batch {end} comes before micro-batch {start}.", todo="give the earlier one first")
    found = [batch for batch in place.committed() if start <= batch <= end]
    for wanted in sorted({*found, max(start, BEGINNING + 1), end} - {BEGINNING}):
        place.check_batch(wanted)
    return found


@dataclass(frozen=True)
class Part:
    """Some key groups of a step, whose changes are read together."""

    step: str
    labels: tuple[int, ...]


def parts_of(source: DirectSource, end: int, step: str | None) -> list[Part]:
    """All key groups of the steps, partition by partition."""
    parts = []
    for ref in choose_step(source.steps(end), step, source.place.path) if end > BEGINNING else ():
        found: dict[int, list[int]] = {}
        for label in ref.labels:
            found.setdefault(source.reader.partition_of(ref.operator, end, label), []).append(label)
        parts += [Part(ref.name, tuple(labels)) for _, labels in sorted(found.items())]
    return parts


def change_rows(
    source: StateSource, ref: StepRef, labels: Collection[int], batches: list[int], start: int, *, trust_pickle: bool
) -> Iterator[tuple[int, list[Valued]]]:
    """What each micro-batch after `start` changed of key groups of a step, in order."""
    for batch, changes in batch_changes(_versions(source, ref, labels, batches), trust_pickle):
        if batch > start:
            yield batch, changes


def _versions(
    source: StateSource, ref: StepRef, labels: Collection[int], batches: list[int]
) -> Iterator[tuple[int, Groups]]:
    if isinstance(source, DirectSource):
        yield from source.versions_of(ref, labels, batches)
        return
    wanted = {*batches}
    for batch, groups in source.versions(ref, None):
        if batch in wanted:
            yield batch, groups
