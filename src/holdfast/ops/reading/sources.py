"""Where state is read from: straight from the files if their format is known, otherwise through Spark.

Whoever looks at state asks a `StateSource`, and does not know which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.engine.stored.reading import Blobs
from holdfast.errors import NeedsSpark
from holdfast.ops.reading.keys import FoundKey
from holdfast.ops.reading.steps import StepRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Comparison", "Groups", "StateSource", "from_state"]

R = TypeVar("R")
Row = tuple[Any, ...]
Groups = dict[int, Blobs]
"""Key groups by label."""


@dataclass(frozen=True)
class Comparison:
    """Two micro-batches to be compared."""

    step: StepRef
    batches: tuple[int, int]
    label: int | None
    """Of the key group to compare; None for all of the step."""
    function: Callable[[Blobs | None, Blobs | None], Iterable[Row]]
    """Takes a key group after one and after the other; None is one that does not exist then. It may run in other
    processes."""
    schema: str
    """Of the rows that it gives."""


class StateSource(Protocol):
    """The state of a checkpoint. Everything may raise CorruptState for damage and CheckpointError for what is not there."""

    @property
    def place(self) -> Checkpoint:
        """The checkpoint."""

    def steps(self, batch: int) -> list[StepRef]:
        """The steps that have state after a micro-batch, by name, for callers that read each key group's manifest anyway."""

    def find_key(self, step: StepRef, text: str) -> FoundKey:
        """The key of a step that a text stands for."""

    def groups(self, step: StepRef, batch: int, label: int | None = None) -> Iterator[tuple[int, Blobs]]:
        """The key groups of a step after a micro-batch, by label, a few at a time; or only one."""

    def mapped(self, operator: int, batch: int, function: Callable[[int, Blobs], Iterable[Row]], schema: str) -> list[Row]:
        """What a function makes of each key group of an operator, which several steps may share. The rows have this schema;
        the function may run in other processes."""

    def compared(self, comparison: Comparison) -> list[Row]:
        """What a function makes of each key group of a step, or of one, after two micro-batches."""

    def versions(self, step: StepRef, label: int | None) -> Iterator[tuple[int, Groups]]:
        """The key groups of a step, or only one, after each retained micro-batch, oldest first."""


def from_state(spark: SparkSession | None, checkpoint: str, work: Callable[[StateSource], R]) -> R:
    """The result of some work on the state of a checkpoint. It is done without Spark if that is possible, otherwise again
    through Spark; without a session, raises NeedsSpark then."""
    from holdfast.ops.reading.direct import DirectSource

    place = open_checkpoint(spark, checkpoint)
    try:
        return work(DirectSource(place))
    except NeedsSpark as needed:
        if spark is None:
            raise _told(needed) from None
    from holdfast.ops.reading.through_spark import SparkSource

    return work(SparkSource(spark, place))


def _told(needed: NeedsSpark) -> NeedsSpark:
    needed.todo = needed.todo or "give a Spark session, or use the command line, which starts one by itself"
    return needed
