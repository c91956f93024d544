"""What a `BatchDoFn` yields: columns, with a tag, checked to be of one length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from holdfast.engine.run.batch_columns import items_of
from holdfast.engine.run.outputs import Output
from holdfast.engine.run.runner import Receiver
from holdfast.errors import OutputError
from holdfast.model.functions.dofn import TaggedOutput
from holdfast.model.functions.step import LATE_TAG, MAIN_TAG, Step
from holdfast.model.time.timestamps import Timestamp

__all__ = ["BatchOutputs", "as_list"]

Columns = dict[str, Any]


class BatchOutputs:
    """The outputs of one bundle."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._blocks: list[tuple[str, Columns, int, int, Any]] = []
        """(tag, columns, rows, time in microseconds, window)."""
        self.late: list[tuple[tuple[Any, Any], int, Any]] = []
        """Late elements, if they are wanted: (element, time, window)."""

    @property
    def rows(self) -> int:
        return sum(rows for _, _, rows, _, _ in self._blocks)

    def take(self, item: Any, time: int, window: Any) -> None:
        """Takes one thing that process_batch has yielded."""
        tag, columns = (item.tag, item.value) if isinstance(item, TaggedOutput) else (MAIN_TAG, item)
        if tag != MAIN_TAG and self._step.tags is not None and tag not in self._step.tags:
            raise OutputError(
                f"The step {self._step.name!r} gave an output with the tag {tag!r}, which is not declared.",
                detail=f"Declared tags: {', '.join(sorted(self._step.tags)) or 'none'}.",
                todo=f"declare it: outputs={{{tag!r}: ...}}",
            )
        if not isinstance(columns, Mapping) or not columns:
            raise OutputError(
                f"process_batch yielded {columns!r:.200}; it yields columns, as a dict from their names to arrays.",
                todo="yield {'card': batch.row_keys, 'count': counts}",
            )
        lengths = {name: self._length(name, column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise OutputError(
                f"process_batch yielded columns of different lengths: {told}.",
                todo="make them all by row, with batch.spread(...), or all by key",
            )
        # The function may go on to use its arrays.
        kept = {str(name): _kept(column) for name, column in columns.items()}
        self._blocks.append((tag, kept, next(iter(lengths.values())), time, window))

    def _length(self, name: object, column: Any) -> int:
        if isinstance(column, (str, bytes, Mapping)) or not hasattr(column, "__len__") or getattr(column, "ndim", 1) != 1:
            raise OutputError(
                f"The column {name!r} that process_batch yielded is {column!r:.200}; a column is an array or a list.",
                todo="np.full(len(batch), value) repeats one value",
            )
        return len(column)

    def deliver(self, receiver: Receiver) -> None:
        """Hands them to the receiver."""
        for tag, columns, rows, _, _ in self._blocks:
            if rows:
                receiver.take_columns(tag, columns)
        if self.late:
            receiver.take_values(LATE_TAG, [element for element, _, _ in self.late])

    def outputs(self) -> Iterator[Output]:
        """The same one by one: a row is a dict."""
        for element, time, window in self.late:
            yield Output(element, Timestamp(micros=time), window, LATE_TAG)
        for tag, columns, _, time, window in self._blocks:
            for row in zip(*map(as_list, columns.values()), strict=True):
                yield Output(dict(zip(columns, row, strict=True)), Timestamp(micros=time), window, tag)


def _kept(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column.copy()
    # Arrow's do not change.
    return column if hasattr(column, "to_pylist") else list(column)


def as_list(column: Any) -> list[Any]:
    """The items of a column as Python objects."""
    if hasattr(column, "to_pylist"):
        found: list[Any] = column.to_pylist()
        return found
    if isinstance(column, np.ndarray):
        items: list[Any] = items_of(column)
        return items
    return [items_of(item) if isinstance(item, np.generic) else item for item in column]
