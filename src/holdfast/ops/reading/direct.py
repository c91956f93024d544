"""State straight from the files of a checkpoint, in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from holdfast.checkpoint.blob_reader import BlobChange, BlobReader
from holdfast.checkpoint.labels import labels_of_slot
from holdfast.checkpoint.layout import Checkpoint
from holdfast.engine.stored.reading import Blobs
from holdfast.errors import NeedsSpark
from holdfast.ops.reading.keys import FoundKey, find_key
from holdfast.ops.reading.sources import Comparison
from holdfast.ops.reading.steps import StepRef, by_step, fullest, only_step

__all__ = ["DirectSource"]

Row = tuple[Any, ...]
_AT_ONCE_MAX = 64


class DirectSource:
    """A `StateSource` that needs no Spark. Raises NeedsSpark where only Spark can read."""

    def __init__(self, place: Checkpoint) -> None:
        if place.files.needs_spark:
            raise NeedsSpark(f"{place.path!r} is not a local path.")
        self.place = place
        self.reader = BlobReader(place)

    def steps(self, batch: int) -> list[StepRef]:
        only = only_step(self.place)
        return self.all_steps(batch) if only is None else [only]

    def all_steps(self, batch: int) -> list[StepRef]:
        """Like `steps`; the state itself says which there are, even for a job with one step."""
        found: list[StepRef] = []
        for operator in self.place.operators():
            if operator.is_a_step:
                named = by_step(self.reader.manifests(operator.number, batch).values())
                found += [StepRef(name, operator.number, fullest(manifests)) for name, manifests in named.items()]
        return sorted(found, key=lambda step: step.name)

    def find_key(self, step: StepRef, text: str) -> FoundKey:
        return find_key(None, step, text)

    def groups(self, step: StepRef, batch: int, label: int | None = None) -> Iterator[tuple[int, Blobs]]:
        labels = sorted(step.labels) if label is None else [label]
        # More and more at once: what is wanted may be in the first, and each time a whole partition's changelogs are read.
        size = 1
        while labels:
            yield from sorted(self.reader.groups(step.operator, batch, labels[:size]))
            labels, size = labels[size:], min(2 * size, _AT_ONCE_MAX)

    def mapped(self, operator: int, batch: int, function: Callable[[int, Blobs], Iterable[Row]], schema: str) -> list[Row]:
        return [row for label, blobs in self.reader.groups(operator, batch) for row in function(label, blobs)]

    def compared(self, comparison: Comparison) -> list[Row]:
        rows: list[Row] = []
        step, batches, function = comparison.step, comparison.batches, comparison.function
        own = labels_of_slot(step.slot)
        wanted = None if comparison.label is None else [comparison.label]
        # The number of partitions may differ, so one side is held in memory, as it is stored.
        before = {at: blobs for at, blobs in self.reader.groups(step.operator, batches[0], wanted) if at in own}
        for at, after in self.reader.groups(step.operator, batches[1], wanted):
            if at in own:
                rows += function(before.pop(at, None), after)
        for gone in before.values():
            rows += function(gone, None)
        return rows

    def versions(self, step: StepRef, label: int | None) -> Iterator[tuple[int, dict[int, Blobs]]]:
        wanted = None if label is None else [label]
        yield from self._versions(step, self.place.check_history(), wanted, labels_of_slot(step.slot))

    def versions_of(
        self, step: StepRef, labels: Collection[int], batches: Iterable[int]
    ) -> Iterator[tuple[int, dict[int, Blobs]]]:
        """The key groups of a step with these labels after each of some micro-batches, which are in order."""
        own = {*labels}
        yield from self._versions(step, list(batches), own, own)

    def _versions(
        self, step: StepRef, batches: Sequence[int], wanted: Collection[int] | None, own: Collection[int]
    ) -> Iterator[tuple[int, dict[int, Blobs]]]:
        """The first version is read whole, then each micro-batch's changelogs. A version without them, as after rescaling,
        is read whole again. The folders are listed once for all of them."""
        for run in self.reader.runs(step.operator, batches):
            found = self.reader.groups(step.operator, run[0], wanted)
            groups = {at: dict(blobs.items()) for at, blobs in found if at in own}
            yield run[0], _copied(groups)
            changes = self.reader.changes(step.operator, run[0] + 1, run[-1], wanted)
            change = next(changes, None)
            for batch in run[1:]:
                while change is not None and change.batch == batch:
                    _apply(groups, change, own)
                    change = next(changes, None)
                yield batch, _copied(groups)


def _copied(groups: dict[int, dict[str, bytes]]) -> dict[int, Blobs]:
    return {at: Blobs(blobs) for at, blobs in groups.items() if blobs}


def _apply(groups: dict[int, dict[str, bytes]], change: BlobChange, own: Collection[int]) -> None:
    if change.label not in own:
        return
    blobs = groups.setdefault(change.label, {})
    if change.blob is None:
        blobs.pop(change.name, None)
    else:
        blobs[change.name] = change.blob
