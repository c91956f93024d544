"""Tables and cells: a *table* holds one cell for every key of a window, a *cell* is the user's handle on one entry.

Invariants
- A table's `values` is the state as the current bundle sees it; `changes` says, key by key, how it differs from the last
  commit. `settle` is called when that difference has been stored, and forgets it.
- Applying `delta` to the committed table yields `values`, with the same iteration order where a user can see one.
- Values are kept in *stored* form: an immutable value as it is, a mutable one as `Encoded` bytes, decoded again at each
  read. So nothing that a user holds is ever part of the state.
- Between `undo.begin()` and `undo.rollback()` every mutation leaves its inverse in the `Undo`; a rolled-back table is as
  it was, including changes and order.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from holdfast.errors import CoderError
from holdfast.model.coders import Coder, Encoded
from holdfast.model.state.methods import cell_methods
from holdfast.model.state.specs import State, StateSpec

__all__ = [
    "APPEND",
    "DROP",
    "MERGE",
    "MISSING",
    "PUT",
    "REPLACE",
    "Cell",
    "Focus",
    "Rows",
    "Slot",
    "Table",
    "Undo",
    "as_members",
    "collection_bytes",
    "freeze",
]

Slot = Hashable
"""A key in the hashable form that tables use; see `engine.state.keys`."""

# What the rows of a delta say about their keys. The numbers are part of the stored format.
PUT = 1
"""The keys now have these values."""
DROP = 2
"""The keys now have nothing."""
APPEND = 3
"""These values are appended to what the keys had."""
REPLACE = 4
"""The keys now have exactly this collection."""
MERGE = 5
"""These parts are removed from the keys' collections, then these are added."""

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING", "__slots__": ()})()

# Not MISSING: that is an entry in a value table's changes, which must be restored like any other.
_NO_ENTRY: Any = object()


_COLLECTOR_BYTES = sys.getsizeof([]) - [].__sizeof__()
"""The garbage collector's header on each collection."""


class Rows(NamedTuple):
    """One operation on many keys of a table: the keys, and the operation's data as blocks of bytes."""

    operation: int
    keys: list[Slot]
    columns: list[bytes]


class Undo:
    """The inverses of one call's changes, so that a call that raises leaves no trace.

    An inverse takes about as much time and space as the change itself, however large the collection. Where that is
    impossible (an entry cannot be put back into the middle of a dict), the change itself waits until the call is over.
    """

    __slots__ = ("_steps", "_waiting")

    def __init__(self) -> None:
        self._steps: list[tuple[Any, ...]] = []
        self._waiting: list[tuple[Any, ...]] = []

    def begin(self) -> None:
        """Makes everything done so far permanent."""
        self._steps.clear()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for function, *arguments in waiting:
                function(*arguments)

    def add(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._steps.append((function, *arguments))

    def wait(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Defers something until the call can no longer be rolled back."""
        self._waiting.append((function, *arguments))

    def restore(self, mapping: dict[Any, Any], key: Any) -> None:
        """Records the present entry of a dict, to be restored. For dicts whose order does not matter."""
        self._steps.append((_put_back, mapping, key, mapping.get(key, _NO_ENTRY)))

    def rollback(self) -> None:
        self._waiting.clear()
        while self._steps:
            function, *arguments = self._steps.pop()
            function(*arguments)


def _put_back(mapping: dict[Any, Any], key: Any, old: Any) -> None:
    if old is _NO_ENTRY:
        mapping.pop(key, None)
    else:
        mapping[key] = old


class Focus:
    """The key of the current call. Cells look here, so setting one attribute prepares a call."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None


TableT = TypeVar("TableT", bound="Table")


class Table(abc.ABC):
    """One cell for every key of a window."""

    __slots__ = ("changes", "spec", "values")

    emptied: ClassVar[Any] = None
    """The entry in `changes` for a key that had something and now has nothing."""

    def __init__(self, spec: StateSpec[State]) -> None:
        self.spec = spec
        self.values: dict[Any, Any] = {}
        self.changes: dict[Any, Any] = {}

    @abc.abstractmethod
    def delta(self) -> Iterator[Rows]:
        """What changed since the last commit."""

    @abc.abstractmethod
    def rows(self, keys: list[Slot], entries: list[Any]) -> Rows:
        """Rows that set these keys to these entries of `values`."""

    @abc.abstractmethod
    def apply(self, rows: Rows) -> None:
        """Applies rows to a committed table."""

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        """An entry with `change` applied to each of its stored values."""
        raise NotImplementedError(type(self).__name__)

    @abc.abstractmethod
    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        """The stored values in an entry, with their coders."""

    def objects(self, entry: Any) -> list[Collection[Any]]:
        """The stored values in an entry that are Python objects of their own."""
        return [values for _, values in self.stored(entry)]

    def items(self) -> int:
        """The number of such objects in all entries together; fast."""
        return len(self.values)

    def containers(self) -> int:
        """The size of the collections that hold them, without their content; fast."""
        return 0

    def clear(self, keys: Iterable[Slot]) -> None:
        """Empties the cells of keys that have something there; cannot be rolled back."""
        values, changes, emptied = self.values, self.changes, self.emptied
        for key in keys:
            del values[key]
            changes[key] = emptied

    def prepare(self) -> None:  # noqa: B027
        """Brings the changes into the form in which they will be stored."""

    def pack(self, entry: Any) -> Any:
        """One entry of `values` in types that MessagePack has."""
        operation, _, columns = self.rows([0], [entry])
        return [operation, *columns]

    def unpack(self, packed: Any) -> Any:
        """The inverse of `pack`."""
        table = type(self)(self.spec)
        table.apply(Rows(packed[0], [0], packed[1:]))
        return table.values[0]

    @abc.abstractmethod
    def reveal(self, key: Slot) -> Any:
        """The entry of a key as a user would read it; the key must be there."""

    @abc.abstractmethod
    def conceal(self, value: Any) -> Any:
        """The inverse of `reveal`: the entry for this value."""

    def settle(self) -> None:
        """Called when the changes have been stored."""
        self.changes = {}


class Cell(Generic[TableT]):
    """What all live cells share: bound to a table by `attach`, to a key by the focus."""

    __slots__ = ("_changes", "_coder", "_direct", "_focus", "_spec", "_table", "_undo", "_values")

    def __init__(self, spec: StateSpec[State], focus: Focus, undo: Undo | None) -> None:
        self._spec = spec
        self._focus = focus
        self._undo = undo
        self._coder: Coder[Any] = spec.coder
        self._direct = spec.coder.direct_types

    def attach(self, table: TableT) -> None:
        self._table = table
        self._values = table.values
        self._changes = table.changes

    def clear(self) -> None:
        """Empties the cell of the key."""
        key = self._focus.key
        if key not in self._values:
            return
        if self._undo is not None:
            self._undo.restore(self._values, key)
            self._undo.restore(self._changes, key)
        del self._values[key]
        self._changes[key] = self._table.emptied

    def _freeze(self, value: Any) -> Any:
        return freeze(self._coder, value, self._spec.name)

    def wrong_use(self, method: str) -> str:
        """The message for calling a method that this kind of cell does not have."""
        # A __getattr__ could say it by itself, but would slow down every access to a cell.
        has = ", ".join(cell_methods(self._spec))
        return f"The cell {self._spec.name!r} is a {self._spec.kind} cell: it has {has}, but no {method!r}."

    def __repr__(self) -> str:
        return f"<{self._spec.kind} cell {self._spec.name!r}>"


def freeze(coder: Coder[Any], value: Any, cell: str) -> Any:
    """The stored form of a value; the error for a value that does not fit names the cell."""
    if type(value) in coder.direct_types:
        return value
    try:
        return coder.freeze(value)
    except CoderError as error:
        error.within(cell=cell)
        raise


def collection_bytes(kind: type, collections: Collection[Any]) -> int:
    """The size of collections of one kind, without their content."""
    # Three times as fast as `sys.getsizeof`, which looks this method up again for each.
    size_of: Callable[[Any], int] = kind.__sizeof__  # type: ignore[assignment]
    try:
        return sum(map(size_of, collections)) + _COLLECTOR_BYTES * len(collections)
    except TypeError:
        # One of them is a draft.
        return sum(map(sys.getsizeof, collections))


def as_members(coder: Coder[Any], stored: list[Any]) -> list[Any]:
    """The content of a block, in the form that `freeze` gives, so that set members and map keys can be found."""
    if Encoded not in map(type, stored) or not coder.is_immutable():
        return stored
    return [coder.freeze(coder.thaw(item)) if type(item) is Encoded else item for item in stored]
