"""State cells: what a DoFn declares (`…Spec`) and what it then works with (`…State`).

There is one cell for each (step, cell name, key, window). A write is visible at once to later reads of the same
bundle and durable when the bundle commits; a `process` call that raises leaves none of its writes behind.
A value that was read belongs to the reader: changing it in place does not change the state until it is written.
"""

from __future__ import annotations

import abc
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar, overload

from holdfast.errors import InvalidStep
from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.coders import Coder, default_coder
from holdfast.model.coders.pickled import annotation_problems
from holdfast.model.docs import doc_problems, with_doc
from holdfast.model.state.ttl import Ttl
from holdfast.model.state.upgrade import Upgrade
from holdfast.model.time.timestamps import Duration, Timestamp

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "BagState",
    "BagStateSpec",
    "CombiningState",
    "CombiningStateSpec",
    "CombiningValueStateSpec",
    "MapState",
    "MapStateSpec",
    "OrderedListState",
    "OrderedListStateSpec",
    "ReadModifyWriteStateSpec",
    "SetState",
    "SetStateSpec",
    "State",
    "StateSpec",
    "ValueState",
    "ValueStateSpec",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")
Time = Timestamp | int | float


class State(abc.ABC):
    """A live cell, bound by the engine to the key and window of the current call. Do not keep it beyond the call."""

    __slots__ = ()

    @abc.abstractmethod
    def clear(self) -> None:
        """Empties the cell."""

    def prefetch(self) -> None:  # noqa: B027
        """Does nothing: the state of a key is already loaded when its function is called."""


class ValueState(State, Generic[T]):
    """One value."""

    __slots__ = ()

    @abc.abstractmethod
    def read(self) -> T | None:
        """The value last written, or None if there is none."""

    @abc.abstractmethod
    def write(self, value: T) -> None:
        """Replaces the value."""


class BagState(State, Generic[T]):
    """Values appended one by one and read together, in the order they were added."""

    __slots__ = ()

    @abc.abstractmethod
    def read(self) -> Iterable[T]:
        """What the bag holds now: can be iterated repeatedly, and does not see later calls of `add` or `clear`."""

    @abc.abstractmethod
    def add(self, value: T) -> None:
        """Appends a value."""


class SetState(State, Generic[T]):
    """Distinct values."""

    __slots__ = ()

    @abc.abstractmethod
    def read(self) -> set[T]:
        """A copy, as a set."""

    @abc.abstractmethod
    def add(self, value: T) -> None:
        """Adds a value; no effect if it is there already."""

    @abc.abstractmethod
    def contains(self, value: T) -> bool:
        """Whether the value is there, without reading the others."""

    @abc.abstractmethod
    def remove(self, value: T) -> None:
        """Removes a value; no error if it is not there."""


class MapState(State, Generic[K, V]):
    """Values by user-defined keys, in the order in which the keys were first put."""

    __slots__ = ()

    @abc.abstractmethod
    def get(self, key: K, default: V | None = None) -> V | None:
        """The value of a key, or the default."""

    @abc.abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets the value of a key."""

    @abc.abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the key is there."""

    @abc.abstractmethod
    def remove(self, key: K) -> None:
        """Removes a key; no error if it is not there."""

    @abc.abstractmethod
    def keys(self) -> list[K]:
        """The keys, as a list."""

    @abc.abstractmethod
    def values(self) -> list[V]:
        """The values, in the order of `keys`."""

    @abc.abstractmethod
    def items(self) -> list[tuple[K, V]]:
        """Keys and values."""

    @abc.abstractmethod
    def read(self) -> dict[K, V]:
        """A copy, as a dict."""


class OrderedListState(State, Generic[T]):
    """Values sorted by timestamp; those with equal timestamps stay in the order they were added. Ranges are half-open."""

    __slots__ = ()

    @abc.abstractmethod
    def read(self) -> list[tuple[Timestamp, T]]:
        """All (timestamp, value) pairs."""

    @abc.abstractmethod
    def read_range(self, min_timestamp: Time, limit_timestamp: Time) -> list[tuple[Timestamp, T]]:
        """The pairs with min_timestamp ≤ timestamp < limit_timestamp."""

    @abc.abstractmethod
    def add(self, pair: tuple[Time, T]) -> None:
        """Adds a (timestamp, value) pair."""

    @abc.abstractmethod
    def clear_range(self, min_timestamp: Time, limit_timestamp: Time) -> None:
        """Removes the pairs with min_timestamp ≤ timestamp < limit_timestamp."""


class CombiningState(State, Generic[InputT, OutputT]):
    """The accumulator of a CombineFn."""

    __slots__ = ()

    @abc.abstractmethod
    def read(self) -> OutputT:
        """`extract_output` of the accumulator, or of a new accumulator if the cell is empty."""

    @abc.abstractmethod
    def add(self, value: InputT) -> None:
        """Adds an input to the accumulator."""


LiveT = TypeVar("LiveT", bound=State, covariant=True)


class CellOptions(TypedDict, total=False):
    """The options that every kind of cell takes."""

    ttl: Ttl | Duration | int | float | str | None
    """How long the cell lives after it was last touched: a duration, or a `Ttl` for all options."""
    was: str | None
    """The cell's former name in stored state."""
    upgrade: Upgrade | Callable[..., object] | None
    """Converts values stored with another coder: a function, or an `Upgrade`."""
    doc: str | None
    """What the cell holds, in a sentence or two, for whoever looks at the state. It is no part of the state."""


class StateSpec(Generic[LiveT]):
    """The declaration of a cell. Specs are compared by identity; within a step their names are unique.

    A spec is checked when the step is built, not when it is made, so that all problems are reported together. A `Ttl` or
    an `Upgrade` is checked when it is made.
    """

    kind: ClassVar[str] = "state"
    live: ClassVar[Any] = State
    """The type of the live cell."""

    def __init__(
        self,
        name: str,
        coder: Coder[T] | None = None,
        *,
        ttl: Ttl | Duration | int | float | str | None = None,
        was: str | None = None,
        upgrade: Upgrade | Callable[..., object] | None = None,
        doc: str | None = None,
    ) -> None:
        self.name = name
        self.coder: Coder[Any] = default_coder() if coder is None else coder
        self._made_wrong: list[str] = []
        self.ttl: Ttl | None = self._made(Ttl, ttl)
        """How long the cell lives after it was last touched."""
        self.was = was
        """The cell's former name in stored state."""
        self.upgrade: Upgrade | None = self._made(Upgrade, upgrade)
        """Converts values stored with another coder."""
        self.doc = doc
        """What the cell holds, for whoever looks at the state."""

    def _made(self, kind: Any, given: Any) -> Any:
        """The given `Ttl` or `Upgrade`, or one made from what was given."""
        try:
            return given if given is None or isinstance(given, kind) else kind(given)
        except InvalidStep as refused:
            self._made_wrong += refused.problems
            return None

    def problems(self) -> Iterator[str]:
        """What is wrong with this declaration, in sentences."""
        if not isinstance(self.name, str) or not self.name:
            yield f"A {self.kind} cell needs a name that is a non-empty string, not {self.name!r}."
        elif self.name.startswith("~"):
            yield f"The cell name {self.name!r} begins with '~', which is reserved for Holdfast's own cells."
        yield from coder_problems(self.coder, f"The cell {self.name!r}")
        yield from (f"The cell {self.name!r}: {problem}" for problem in self._made_wrong)
        if self.was is not None and (not isinstance(self.was, str) or not self.was or self.was == self.name):
            yield f"The cell {self.name!r} has was={self.was!r}; give the cell's former name, which must be another one."
        yield from doc_problems(self.doc, f"The cell {self.name!r}")

    def describe(self) -> dict[str, object]:
        """What a manifest records about this cell."""
        described: dict[str, object] = {"name": self.name, "kind": self.kind, "coder": self.coder.describe()}
        if self.ttl is not None:
            described["ttl"] = self.ttl.describe()
        return with_doc(described, self.doc)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class ValueStateSpec(StateSpec[ValueState[T]]):
    """Declares a cell that holds one value. Beam's name for it is ReadModifyWriteStateSpec."""

    kind = "value"
    live = ValueState

    @overload
    def __init__(self: ValueStateSpec[Any], name: str, coder: None = None, **options: Unpack[CellOptions]) -> None: ...

    @overload
    def __init__(self, name: str, coder: Coder[T], **options: Unpack[CellOptions]) -> None: ...

    def __init__(self, name: str, coder: Coder[T] | None = None, **options: Unpack[CellOptions]) -> None:
        super().__init__(name, coder, **options)


class BagStateSpec(StateSpec[BagState[T]]):
    """Declares a cell to which values are appended."""

    kind = "bag"
    live = BagState

    @overload
    def __init__(self: BagStateSpec[Any], name: str, coder: None = None, **options: Unpack[CellOptions]) -> None: ...

    @overload
    def __init__(self, name: str, coder: Coder[T], **options: Unpack[CellOptions]) -> None: ...

    def __init__(self, name: str, coder: Coder[T] | None = None, **options: Unpack[CellOptions]) -> None:
        super().__init__(name, coder, **options)


class SetStateSpec(StateSpec[SetState[T]]):
    """Declares a cell of distinct, hashable values."""

    kind = "set"
    live = SetState

    @overload
    def __init__(self: SetStateSpec[Any], name: str, coder: None = None, **options: Unpack[CellOptions]) -> None: ...

    @overload
    def __init__(self, name: str, coder: Coder[T], **options: Unpack[CellOptions]) -> None: ...

    def __init__(self, name: str, coder: Coder[T] | None = None, **options: Unpack[CellOptions]) -> None:
        super().__init__(name, coder, **options)


class OrderedListStateSpec(StateSpec[OrderedListState[T]]):
    """Declares a cell of values sorted by timestamp; the coder is for the values."""

    kind = "ordered_list"
    live = OrderedListState

    @overload
    def __init__(self: OrderedListStateSpec[Any], name: str, coder: None = None, **options: Unpack[CellOptions]) -> None: ...

    @overload
    def __init__(self, name: str, coder: Coder[T], **options: Unpack[CellOptions]) -> None: ...

    def __init__(self, name: str, coder: Coder[T] | None = None, **options: Unpack[CellOptions]) -> None:
        super().__init__(name, coder, **options)


class MapStateSpec(StateSpec[MapState[K, V]]):
    """Declares a cell that maps user-defined, hashable keys to values."""

    kind = "map"
    live = MapState

    @overload
    def __init__(
        self: MapStateSpec[Any, Any],
        name: str,
        key_coder: None = None,
        value_coder: None = None,
        **options: Unpack[CellOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: MapStateSpec[K, Any],
        name: str,
        key_coder: Coder[K],
        value_coder: None = None,
        **options: Unpack[CellOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: MapStateSpec[Any, V],
        name: str,
        key_coder: None = None,
        *,
        value_coder: Coder[V],
        **options: Unpack[CellOptions],
    ) -> None: ...

    @overload
    def __init__(self, name: str, key_coder: Coder[K], value_coder: Coder[V], **options: Unpack[CellOptions]) -> None: ...

    def __init__(
        self,
        name: str,
        key_coder: Coder[K] | None = None,
        value_coder: Coder[V] | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        super().__init__(name, value_coder, **options)
        self.key_coder: Coder[Any] = default_coder() if key_coder is None else key_coder

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from coder_problems(self.key_coder, f"The keys of the cell {self.name!r}")

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "key_coder": self.key_coder.describe()}


class CombiningStateSpec(StateSpec[CombiningState[InputT, OutputT]]):
    """Declares a cell that keeps the accumulator of a CombineFn, or of a plain function such as `sum`.

    Written `CombiningStateSpec(name, combine_fn)`, `(name, coder, combine_fn)` or with keywords. The coder is for the
    accumulator and defaults to `combine_fn.get_accumulator_coder()`.
    """

    kind = "combining"
    live = CombiningState

    @overload
    def __init__(
        self, name: str, coder: CombineFn[InputT, T, OutputT], combine_fn: None = None, **options: Unpack[CellOptions]
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        coder: Coder[T] | None = None,
        combine_fn: CombineFn[InputT, T, OutputT] = ...,
        **options: Unpack[CellOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: CombiningStateSpec[Any, Any],
        name: str,
        coder: Coder[Any] | Callable[..., object] | None = None,
        combine_fn: Callable[..., object] | None = None,
        **options: Unpack[CellOptions],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        coder: Coder[T] | CombineFn[InputT, T, OutputT] | Callable[..., object] | None = None,
        combine_fn: CombineFn[InputT, T, OutputT] | Callable[..., object] | None = None,
        **options: Unpack[CellOptions],
    ) -> None:
        if combine_fn is None and not isinstance(coder, Coder):
            coder, combine_fn = None, coder
        self._refused = ""
        try:
            self.combine_fn: CombineFn[Any, Any, Any] | None = CombineFn.maybe_from_callable(combine_fn)  # type: ignore[arg-type]
        except (TypeError, ValueError) as refused:
            self.combine_fn = None
            self._refused = " ".join(getattr(refused, "problems", [str(refused)]))
        if coder is None and self.combine_fn is not None:
            coder = self.combine_fn.get_accumulator_coder()
        # The coder is checked in problems().
        super().__init__(name, coder, **options)  # type: ignore[arg-type]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.combine_fn is None:
            yield f"The cell {self.name!r} needs a CombineFn or a function such as sum: {self._refused}"
            return
        hints = _hints(self.combine_fn.create_accumulator)
        what = f"The accumulators of the cell {self.name!r} are declared to be"
        yield from annotation_problems(self.coder, hints.get("return"), what)

    def describe(self) -> dict[str, object]:
        described = super().describe()
        described["combine_fn"] = f"{type(self.combine_fn).__module__}.{type(self.combine_fn).__qualname__}"
        return described


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations; empty if a name in them is unknown."""
    try:
        return typing.get_type_hints(function)
    except Exception:
        return {}


# Beam's names.
ReadModifyWriteStateSpec = ValueStateSpec
CombiningValueStateSpec = CombiningStateSpec


def coder_problems(coder: object, owner: str) -> Iterator[str]:
    """Why `coder` is not a coder instance."""
    if isinstance(coder, type) and issubclass(coder, Coder):
        yield f"{owner} has the class {coder.__name__} as its coder; write {coder.__name__}() to make an instance."
    elif not isinstance(coder, Coder):
        yield f"{owner} has {coder!r} as its coder, which is not a holdfast Coder."
