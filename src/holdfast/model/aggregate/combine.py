"""Combining many values into one: the contract of a `CombineFn`, and plain functions used as one.

An accumulator is the state kept while values arrive. Several may exist at once for one key, so the result
must not depend on how the values were divided among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from holdfast.errors import InputError, InvalidStep
from holdfast.model.coders import Coder
from holdfast.model.foreign import foreign_problem

__all__ = ["BuiltinSum", "CallableCombineFn", "CombineFn", "FieldCombineFn"]

InputT = TypeVar("InputT", contravariant=True)
AccumulatorT = TypeVar("AccumulatorT")
OutputT = TypeVar("OutputT", covariant=True)


class CombineFn(Generic[InputT, AccumulatorT, OutputT]):
    """Folds values into accumulators, merges accumulators, and makes a result from one.

    For type checkers, name the types of input, accumulator and output: `class Longest(CombineFn[str, int, int])`.

    Order of calls: `setup`; then for each accumulator `create_accumulator`, any number of `add_input` and
    `add_inputs`, perhaps `compact` before it is stored; then perhaps `merge_accumulators`, and
    `extract_output`, which may be called again after more input; finally `teardown`. Only
    `create_accumulator`, `add_input`, `merge_accumulators` and `extract_output` must be defined.

    `add_input` may change the accumulator it is given, and must return the one to use from then on.
    `merge_accumulators` may change only the first of its accumulators, `extract_output` none.
    """

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Opens what the other methods need; called once for each copy of this object."""

    def create_accumulator(self, *args: Any, **kwargs: Any) -> AccumulatorT:
        """A new, empty accumulator."""
        raise NotImplementedError(f"{type(self).__name__}.create_accumulator")

    def add_input(self, mutable_accumulator: AccumulatorT, element: InputT, *args: Any, **kwargs: Any) -> AccumulatorT:
        """The accumulator with one more value."""
        raise NotImplementedError(f"{type(self).__name__}.add_input")

    def add_inputs(
        self, mutable_accumulator: AccumulatorT, elements: Iterable[InputT], *args: Any, **kwargs: Any
    ) -> AccumulatorT:
        """The accumulator with several more values, as if each were added in turn."""
        for element in elements:
            mutable_accumulator = self.add_input(mutable_accumulator, element, *args, **kwargs)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[AccumulatorT], *args: Any, **kwargs: Any) -> AccumulatorT:
        """One accumulator with the content of all of them, in that order."""
        raise NotImplementedError(f"{type(self).__name__}.merge_accumulators")

    def compact(self, accumulator: AccumulatorT, *args: Any, **kwargs: Any) -> AccumulatorT:
        """The accumulator in its smallest form, for storage."""
        return accumulator

    def extract_output(self, accumulator: AccumulatorT, *args: Any, **kwargs: Any) -> OutputT:
        """The result."""
        raise NotImplementedError(f"{type(self).__name__}.extract_output")

    def teardown(self, *args: Any, **kwargs: Any) -> None:
        """Closes what `setup` opened. Not called if the process dies."""

    def apply(self, elements: Iterable[InputT], *args: Any, **kwargs: Any) -> OutputT:
        """The result of these values alone."""
        accumulator = self.create_accumulator(*args, **kwargs)
        accumulator = self.add_inputs(accumulator, elements, *args, **kwargs)
        return self.extract_output(accumulator, *args, **kwargs)

    def get_accumulator_coder(self) -> Coder[AccumulatorT] | None:
        """The coder for accumulators; None for the default one."""
        return None

    def for_input_type(self, input_type: object) -> CombineFn[InputT, AccumulatorT, OutputT]:
        """Returns this function, whatever the type of the values."""
        return self

    def default_label(self) -> str:
        return type(self).__name__

    @staticmethod
    def from_callable(fn: Callable[..., object]) -> CombineFn[Any, Any, Any]:
        """Makes a `CombineFn` of a function from an iterable of values to one value."""
        _check_callable(fn)
        return CallableCombineFn(fn)

    @staticmethod
    def maybe_from_callable(fn: CombineFn[Any, Any, Any] | Callable[..., object]) -> CombineFn[Any, Any, Any]:
        """Returns a `CombineFn` as it is, and makes one of a function; the builtin `sum` becomes plain addition."""
        if isinstance(fn, CombineFn):
            return fn
        if fn is sum:
            return BuiltinSum()
        return CombineFn.from_callable(fn)


class CallableCombineFn(CombineFn[Any, tuple[Any, ...], Any]):
    """A function from a list of values to one value, such as `max`.

    It is also called with its own results among the values, so results and values must be of the same kind
    and the function associative. Without values, it is called with an empty list; `max` raises then.

    The accumulator is `()` while empty, then `(value,)`.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def create_accumulator(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return ()

    def add_input(self, mutable_accumulator: tuple[Any, ...], element: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return self._folded([*mutable_accumulator, element], args, kwargs)

    def add_inputs(
        self, mutable_accumulator: tuple[Any, ...], elements: Iterable[Any], *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        return self._folded([*mutable_accumulator, *elements], args, kwargs)

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, ...]], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return self._folded([value for held in accumulators for value in held], args, kwargs)

    def extract_output(self, accumulator: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
        return self.fn(list(accumulator), *args, **kwargs)

    def default_label(self) -> str:
        return f"CombineFn({getattr(self.fn, '__name__', None) or repr(self.fn)})"

    def __repr__(self) -> str:
        return f"CallableCombineFn({self.fn!r})"

    def _folded(self, values: list[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        return (self.fn(values, *args, **kwargs),) if len(values) > 1 else tuple(values)


def added(values: Iterable[Any]) -> Any:
    """The sum by plain addition from 0, as `add_input` of a sum does it. The builtin adds floats differently."""
    total: Any = 0
    for value in values:
        total = total + value
    return total


class BuiltinSum(CombineFn[Any, Any, Any]):
    """What the builtin `sum` becomes: plain addition. The accumulator is the sum so far, starting at 0."""

    def create_accumulator(self) -> Any:
        return 0

    def add_input(self, mutable_accumulator: Any, element: Any) -> Any:
        return mutable_accumulator + element

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return added(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator

    def default_label(self) -> str:
        return "CombineFn(sum)"


class FieldCombineFn(CombineFn[Any, AccumulatorT, OutputT]):
    """Combines the elements themselves or, with a field name, that field of each element.

    With a field name, elements are rows, mappings or objects, and as in SQL those whose field is None are
    left out. Without one every element counts, even None. A subclass defines `_add` instead of `add_input`.
    """

    def __init__(self, field: str | None = None) -> None:
        if field is not None and not isinstance(field, str):
            raise InvalidStep(type(self).__name__, [f"its field must be a field name, but is {field!r}"])
        self.field = field

    def add_input(self, mutable_accumulator: AccumulatorT, element: Any) -> AccumulatorT:
        if self.field is not None:
            element = field_of(element, self.field)
            if element is None:
                return mutable_accumulator
        return self._add(mutable_accumulator, element)

    def _add(self, accumulator: AccumulatorT, value: Any) -> AccumulatorT:
        raise NotImplementedError

    def _values(self, elements: Iterable[Any]) -> Iterable[Any]:
        """The values that `_add` would be given for these elements."""
        if self.field is None:
            return elements
        values = (field_of(element, self.field) for element in elements)
        return (value for value in values if value is not None)

    def default_label(self) -> str:
        return type(self).__name__ if self.field is None else f"{type(self).__name__}({self.field})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.field is None else repr(self.field)})"


def field_of(element: Any, field: str) -> Any:
    kind = type(element)
    # A named tuple has its fields as attributes; rows, mappings and most others have them as items.
    if hasattr(kind, "__getitem__") and not hasattr(kind, "_fields"):
        try:
            return element[field]
        except (IndexError, KeyError, TypeError, ValueError):
            pass
    # A method is not a field: every tuple has a `count`.
    if not callable(getattr(kind, field, None)):
        try:
            return getattr(element, field)
        except AttributeError:
            pass
    raise InputError(
        f"An element has no field {field!r}.",
        detail=f"The element is a {kind.__name__}: {element!r:.200}",
        todo="Name a field that every element has, or combine plain values without a field name.",
    )


def _check_callable(fn: Any) -> None:
    foreign = foreign_problem(fn)
    if foreign is not None:
        raise InvalidStep("combine", [foreign])
    if isinstance(fn, type):
        name = fn.__name__
        if issubclass(fn, CombineFn):
            raise InvalidStep("combine", [f"{name} is a class, not a CombineFn: use {name}() not {name}"])
        raise InvalidStep("combine", [f"{name} is a class: use a function from a list of values to one value"])
    if not callable(fn):
        raise InvalidStep("combine", [f"{fn!r} is neither a CombineFn nor a function, but of type {type(fn).__name__}"])
