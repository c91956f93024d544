"""BatchDoFn: a function that takes the elements of many keys at once, as columns, and its cells as columns too.

A `Batch` has *rows*, one for each element, in order of arrival, and *keys*, one for each key among them, in order of first
appearance. An array with one item for each row is called *by row*, one with an item for each key *by key*.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError, OutputError
from holdfast.model.functions import params
from holdfast.model.functions.dofn import DoFn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from holdfast.model.state.specs import ValueStateSpec

__all__ = ["Batch", "BatchDoFn", "ColumnState", "Mask", "Positions", "ValueColumns"]

Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]


class ValueColumns(Protocol):
    """The values of elements, as columns; a runtime has its own kind."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns; None if the values are bare."""

    def column(self, name: str | None) -> tuple[NDArray[Any], Mask | None]:
        """A column, and which of its items are null, if any is; what stands in their place means nothing. Raises KeyError
        if there is no such column."""

    def values(self, rows: Positions | None) -> list[Any]:
        """The values as a DoFn gets them, all or those of some rows."""

    def take(self, rows: Positions) -> ValueColumns:
        """The same for some of the rows."""


class Batch:
    """The elements of a bundle in one window, as columns."""

    def __init__(
        self,
        keys: NDArray[Any],
        key_of_row: Positions,
        times: Positions,
        window: Any,
        columns: ValueColumns,
    ) -> None:
        self.keys = keys
        """By key: the keys, each once."""
        self.key_of_row = key_of_row
        """By row: the position of its key in `keys`."""
        self.times = times
        """By row: event times, in microseconds."""
        self.window = window
        self._columns = columns

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.key_of_row)

    # The values.

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns of the values; None if the values are bare."""
        return self._columns.names

    def column(self, name: str | None = None, *, null: object = None) -> NDArray[Any]:
        """By row: a column of the values, or the values themselves if they are bare.

        Numbers, booleans and times come as arrays of their types, anything else as an array of Python objects. `null` takes
        the place of nulls; without it, a column that has some is an error.
        """
        try:
            found, nulls = self._columns.column(name)
        except KeyError:
            raise self._no_column(name) from None
        if nulls is None:
            return found
        if null is None:
            raise InputError(
                f"The column {name or 'of the values'!r} has {int(nulls.sum())} nulls in a batch of {len(self)} rows.",
                todo=f"say what stands for them, column({name!r}, null=...), or see which they are with is_null({name!r})",
            )
        if found.dtype != object and not np.can_cast(np.asarray(null).dtype, found.dtype, "same_kind"):
            raise InputError(
                f"{null!r} cannot stand for the nulls of the column {name or 'of the values'!r}, which is {found.dtype}.",
                todo="give a value of the column's own type",
            )
        filled = found.copy()
        if found.dtype != object:
            filled[nulls] = null
        else:
            # NumPy would deal out the items of a list.
            for row in np.flatnonzero(nulls):
                filled[row] = copy.deepcopy(null)
        return np.asarray(filled)

    def is_null(self, name: str | None = None) -> Mask:
        """By row: whether the value of a column is null."""
        try:
            _, nulls = self._columns.column(name)
        except KeyError:
            raise self._no_column(name) from None
        return np.zeros(len(self), dtype=bool) if nulls is None else nulls

    def values(self) -> list[Any]:
        """By row: the values as `process` would get them."""
        return self._columns.values(None)

    def _no_column(self, name: str | None) -> InputError:
        if self.names is None:
            return InputError(
                f"The values are bare, so they have no column {name!r}.", todo="take the values themselves: batch.column()"
            )
        return InputError(f"The values have no column {name!r}.", todo=f"they have {', '.join(map(repr, self.names))}")

    # Rows and their keys.

    @property
    def row_keys(self) -> NDArray[Any]:
        """By row: its key."""
        return self.keys[self.key_of_row]

    def spread(self, by_key: ArrayLike) -> NDArray[Any]:
        """By row: what its key has in an array by key."""
        return np.asarray(by_key)[self.key_of_row]

    @cached_property
    def counts(self) -> Positions:
        """By key: how many rows it has; at least one."""
        return np.bincount(self.key_of_row, minlength=len(self.keys)).astype(np.int64)

    @cached_property
    def rank(self) -> Positions:
        """By row: how many rows of its key come before it."""
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[self._by_key] = np.arange(len(self)) - np.repeat(self._starts, self.counts)
        return ranks

    @property
    def first(self) -> Positions:
        """By key: the position of its first row."""
        return np.asarray(self._by_key[self._starts])

    @property
    def last(self) -> Positions:
        """By key: the position of its last row."""
        return np.asarray(self._by_key[self._starts + self.counts - 1])

    def reduce(self, ufunc: np.ufunc, by_row: ArrayLike) -> NDArray[Any]:
        """By key: the items of its rows, reduced by a function of NumPy's, as in `reduce(np.maximum, amounts)`."""
        items = np.asarray(by_row)[self._by_key]
        return ufunc.reduceat(items, self._starts) if len(items) else items

    @cached_property
    def _by_key(self) -> Positions:
        """The rows of each key together, in order of arrival."""
        return np.argsort(self.key_of_row, kind="stable")

    @cached_property
    def _starts(self) -> Positions:
        """By key: where its rows begin in `_by_key`."""
        return np.cumsum(self.counts) - self.counts


class ColumnState(abc.ABC):
    """The value cells of all keys of a batch, as a column. Arrays are by key."""

    @abc.abstractmethod
    def read(self, default: object) -> NDArray[Any]:
        """What the cells hold, with `default` where there is nothing; each key gets its own copy of that."""

    @abc.abstractmethod
    def known(self) -> Mask:
        """Which cells hold something."""

    @abc.abstractmethod
    def write(self, values: ArrayLike | Sequence[object], where: Mask | None = None) -> None:
        """Sets the cells, or those that `where` says. `values` is by key, or one value for all."""

    @abc.abstractmethod
    def clear(self, where: Mask | None = None) -> None:
        """Empties the cells, or those that `where` says."""


class BatchDoFn(DoFn):
    """A DoFn that is called with many elements at once: once for each window in a bundle.

        class RunningCount(hf.BatchDoFn):
            COUNT = hf.ReadModifyWriteStateSpec("count", hf.VarIntCoder())

            def process_batch(self, batch, count=hf.BatchDoFn.StateParam(COUNT)):
                before = count.read(0)
                count.write(before + batch.counts)
                yield {"card": batch.row_keys, "n": batch.spread(before) + batch.rank + 1}

    What it yields are columns: a dict from names to arrays, lists or Arrow arrays of one length. A `TaggedOutput` may hold
    one. The time of an output is the latest of the batch.

    It may have value cells, with a time to live too, windows and side inputs; no timers and no other cells. A call that
    raises fails the micro-batch, as there is no single element to put aside. What it stores is what a `DoFn` with the same
    cells stores, so a job can change from one to the other.
    """

    if TYPE_CHECKING:

        @staticmethod
        def StateParam(state_spec: ValueStateSpec[Any]) -> ColumnState: ...  # type: ignore[override]
    else:
        StateParam = params.StateParam

    def process_batch(self, batch: Batch, *args: Any, **kwargs: Any) -> Iterable[Any] | None:
        """Called for the elements of a bundle, once for each of their windows. It may ask for cells, the window and side
        inputs."""
        raise OutputError(
            f"{type(self).__name__} has no process_batch method.",
            todo="define process_batch(self, batch, ...) in the class",
        )
