"""Three recipes on columns, for streams with many elements a key: the same state as their namesakes, a fraction of the time.

Each gives rows whose columns are named by its arguments. A step can change from one to its namesake, and back, under the
same `name=`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import holdfast as hf
from holdfast.recipes.counting import AssignIndex, RunningCount
from holdfast.recipes.duplicates import FirstOccurrence

__all__ = ["AssignIndexColumns", "FirstOccurrenceColumns", "RunningCountColumns"]

Columns = dict[str, Any]


class RunningCountColumns(hf.BatchDoFn):
    """`RunningCount` on columns: the key and its count so far, for each element.

    Keeps for each key and window: one whole number.

    Frees it: when the window ends; in the global window never.

    Order: any.
    """

    COUNT = RunningCount.COUNT

    def __init__(self, key: str = "key", count: str = "count") -> None:
        self._key = key
        self._count = count

    def process_batch(self, batch: hf.Batch, count: hf.ColumnState = hf.BatchDoFn.StateParam(COUNT)) -> Iterator[Columns]:
        before = count.read(0)
        count.write(before + batch.counts)
        yield {self._key: batch.row_keys, self._count: batch.spread(before) + batch.rank + 1}


class AssignIndexColumns(hf.BatchDoFn):
    """`AssignIndex` on columns: the key, the number and the columns of the value, for each element.

    A bare value is the column `value`.

    Keeps for each key and window: one whole number.

    Frees it: when the window ends; in the global window never.

    Order: any.
    """

    INDEX = AssignIndex.INDEX

    def __init__(self, key: str = "key", index: str = "index", value: str = "value") -> None:
        self._key = key
        self._index = index
        self._value = value

    def process_batch(self, batch: hf.Batch, index: hf.ColumnState = hf.BatchDoFn.StateParam(INDEX)) -> Iterator[Columns]:
        before = index.read(0)
        index.write(before + batch.counts)
        yield {
            self._key: batch.row_keys,
            self._index: batch.spread(before) + batch.rank,
            **_values(batch, self._value),
        }


class FirstOccurrenceColumns(hf.BatchDoFn):
    """`FirstOccurrence` on columns: the key and the columns of the value, for the first element of each key and window.

    A bare value is the column `value`.

    Keeps for each key and window: one flag.

    Frees it: when the window ends; in the global window never.

    Order: any. The first is the first to arrive.
    """

    SEEN = FirstOccurrence.SEEN

    def __init__(self, key: str = "key", value: str = "value") -> None:
        self._key = key
        self._value = value

    def process_batch(self, batch: hf.Batch, seen: hf.ColumnState = hf.BatchDoFn.StateParam(SEEN)) -> Iterator[Columns]:
        new = ~seen.known()
        seen.write(True, where=new)
        rows = batch.first[new]
        yield {
            self._key: batch.keys[new],
            **{name: _taken(column, rows) for name, column in _values(batch, self._value).items()},
        }


def _values(batch: hf.Batch, bare: str) -> Columns:
    """The columns of the values. Nulls stay nulls, so a column that has some is a list."""
    names = {bare: None} if batch.names is None else {name: name for name in batch.names}
    return {name: _column(batch, column) for name, column in names.items()}


def _column(batch: hf.Batch, name: str | None) -> Any:
    if not batch.is_null(name).any():
        return batch.column(name)
    return [value if name is None else _field(value, name) for value in batch.values()]


def _field(value: Any, name: str) -> object:
    return value[name] if isinstance(value, dict) else getattr(value, name)


def _taken(column: Any, rows: Any) -> Any:
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]
