"""Tables and cells: a *table* keeps one cell of every key of one window, a *cell* is the user's hand on one entry.

Invariants
- A table's `values` is the state as the present bundle sees it; `changes` says, key by key, how it differs from what
  was last committed. `settle` is called when that difference has been stored, and forgets it.
- Applying to the committed table what `delta` gave yields `values`, also in the order of its iteration where a user
  can see one.
- What is kept is *stored* form: an immutable value as it is, a mutable one as `Encoded` bytes, decoded afresh at each
  read. So nothing that a user holds is ever part of the state.
- Between `undo.begin()` and `undo.rollback()` every mutation has left its inverse in the `Undo`; a rolled-back table is
  as it was, changes and order included.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from holdfast.errors import CoderError
from holdfast.model.coders import Coder, Encoded
from holdfast.model.functions.signature import cell_methods
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
"""A key in the hashable form in which tables keep it; see `engine.keys`."""

# What a row group of a delta says about its keys. The numbers are part of the stored format.
PUT = 1
"""The keys have these values now."""
DROP = 2
"""The keys have nothing now."""
APPEND = 3
"""These values come after what the keys had."""
REPLACE = 4
"""The keys have exactly this collection now."""
MERGE = 5
"""Of the keys' collections these parts go, then these come."""

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING", "__slots__": ()})()

# Not MISSING: that is an entry of a value table's changes, which must be put back like any other.
_NO_ENTRY: Any = object()


_COLLECTOR_BYTES = sys.getsizeof([]) - [].__sizeof__()
"""What Python's collector of garbage keeps with each collection."""


class Rows(NamedTuple):
    """One operation on many keys of a table: the keys, and what the operation needs as blocks of bytes."""

    operation: int
    keys: list[Slot]
    columns: list[bytes]


class Undo:
    """The inverses of what one call changed, so that a call that raises leaves no trace.

    An inverse takes about as long as what it takes back, and no more room, however large a collection is. Where that
    cannot be (a place in the middle of a dict is not found again), the change itself waits until the call is over.
    """

    __slots__ = ("_steps", "_waiting")

    def __init__(self) -> None:
        self._steps: list[tuple[Any, ...]] = []
        self._waiting: list[tuple[Any, ...]] = []

    def begin(self) -> None:
        """What was done so far stays."""
        self._steps.clear()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for function, *arguments in waiting:
                function(*arguments)

    def add(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._steps.append((function, *arguments))

    def wait(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Notes what is to be done once there is no way back."""
        self._waiting.append((function, *arguments))

    def restore(self, mapping: dict[Any, Any], key: Any) -> None:
        """Notes the present entry of a dict whose order does not matter, to be put back."""
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
    """The key that the present call is about. Cells look here, so a call is prepared by setting one attribute."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None


TableT = TypeVar("TableT", bound="Table")


class Table(abc.ABC):
    """One cell of every key of one window."""

    __slots__ = ("changes", "spec", "values")

    emptied: ClassVar[Any] = None
    """What `changes` says of a key that had something and has nothing now."""

    def __init__(self, spec: StateSpec[State]) -> None:
        self.spec = spec
        self.values: dict[Any, Any] = {}
        self.changes: dict[Any, Any] = {}

    @abc.abstractmethod
    def delta(self) -> Iterator[Rows]:
        """What changed since the last commit."""

    @abc.abstractmethod
    def rows(self, keys: list[Slot], entries: list[Any]) -> Rows:
        """A row group that sets these keys to these entries of `values`."""

    @abc.abstractmethod
    def apply(self, rows: Rows) -> None:
        """Does to a committed table what a row group says."""

    def mapped(self, entry: Any, change: Callable[[Any], Any]) -> Any:
        """An entry with each of its stored values changed."""
        raise NotImplementedError(type(self).__name__)

    @abc.abstractmethod
    def stored(self, entry: Any) -> list[tuple[Coder[Any], Collection[Any]]]:
        """The stored values that an entry is made of, with their coders."""

    def items(self) -> int:
        """How many stored values there are in all entries together, quickly."""
        return len(self.values)

    def containers(self) -> int:
        """How many bytes the collections take in which these are, without what is in them; quickly."""
        return 0

    def clear(self, keys: Iterable[Slot]) -> None:
        """Empties the cells of keys that have something there, with no way back."""
        values, changes, emptied = self.values, self.changes, self.emptied
        for key in keys:
            del values[key]
            changes[key] = emptied

    def prepare(self) -> None:  # noqa: B027
        """Brings what changed into the form in which it will be stored."""

    def pack(self, entry: Any) -> Any:
        """One entry of `values` as something that MessagePack has."""
        operation, _, columns = self.rows([0], [entry])
        return [operation, *columns]

    def unpack(self, packed: Any) -> Any:
        """The entry that `pack` made this of."""
        table = type(self)(self.spec)
        table.apply(Rows(packed[0], [0], packed[1:]))
        return table.values[0]

    @abc.abstractmethod
    def reveal(self, key: Slot) -> Any:
        """The entry of a key as a user would read it; the key is known to be there."""

    @abc.abstractmethod
    def conceal(self, value: Any) -> Any:
        """The entry that `reveal` would give as this value."""

    def settle(self) -> None:
        """The changes have been stored."""
        self.changes = {}


class Cell(Generic[TableT]):
    """The part of a live cell that all kinds share: bound to a table by `attach`, to a key by the focus."""

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
        """Leaves nothing for the key."""
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
        """What to say when a method is called that this kind of cell does not have."""
        # A __getattr__ here would say it by itself, but it would also make every access to a cell slower.
        has = ", ".join(cell_methods(self._spec))
        return f"The cell {self._spec.name!r} is a {self._spec.kind} cell: it has {has}, but no {method!r}."

    def __repr__(self) -> str:
        return f"<{self._spec.kind} cell {self._spec.name!r}>"


def freeze(coder: Coder[Any], value: Any, cell: str) -> Any:
    """The stored form of a value; a value that does not fit names the cell."""
    if type(value) in coder.direct_types:
        return value
    try:
        return coder.freeze(value)
    except CoderError as error:
        error.within(cell=cell)
        raise


def collection_bytes(kind: type, collections: Collection[Any]) -> int:
    """What collections of one kind take, without what is in them."""
    # Three times as fast as `sys.getsizeof`, which looks for this method again for each.
    size_of: Callable[[Any], int] = kind.__sizeof__  # type: ignore[assignment]
    try:
        return sum(map(size_of, collections)) + _COLLECTOR_BYTES * len(collections)
    except TypeError:
        # One of them is a draft.
        return sum(map(sys.getsizeof, collections))


def as_members(coder: Coder[Any], stored: list[Any]) -> list[Any]:
    """What a block gave, in the form that `freeze` gives: only then is a member of a set or the key of a map found."""
    if Encoded not in map(type, stored) or not coder.is_immutable():
        return stored
    return [coder.freeze(coder.thaw(item)) if type(item) is Encoded else item for item in stored]
