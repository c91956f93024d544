"""Plain functions as steps: `FlatMap`, `Map` and `Filter`, for work that needs no state.

The function is given each element, a (key, value) pair, then its side inputs. It may ask for more through the defaults of
its parameters, as `process` of a DoFn does, except for cells and timers.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from holdfast.errors import InvalidStep
from holdfast.model.foreign import foreign_problem
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import SideInputs
from holdfast.model.functions.params import ParamKind
from holdfast.model.functions.plain_functions import label_of, module_of
from holdfast.model.functions.side_inputs import AsSingleton, SideInput
from holdfast.model.functions.signature import Argument, MethodSignature, read_signature
from holdfast.model.time.timestamps import Timestamp

__all__ = ["Filter", "FlatMap", "Map", "PlainFunction", "as_function", "own_side_inputs"]

F = TypeVar("F", bound="PlainFunction")

_ALLOWED = frozenset(
    {
        ParamKind.ELEMENT,
        ParamKind.KEY,
        ParamKind.TIMESTAMP,
        ParamKind.WINDOW,
        ParamKind.WINDOWED_VALUE,
        ParamKind.PANE_INFO,
        ParamKind.SIDE_INPUT,
    }
)


class PlainFunction(DoFn):
    """What `FlatMap`, `Map` and `Filter` share: a function, and what it is given besides the element.

    `side_inputs` are for its parameters after the element, in order, `named` by name: side inputs, or plain values.
    """

    def __init__(self, function: Callable[..., object], *side_inputs: object, **named: object) -> None:
        self.function = function
        self._given = side_inputs
        self._named = named

    def declaration_problems(self) -> Iterator[str]:
        called = type(self).__name__
        foreign = foreign_problem(self.function)
        if foreign is not None:
            yield f"{called} takes a function of an element: {foreign}"
        elif not callable(self.function):
            yield f"{called} was given {self.function!r}; give a function of an element, a (key, value) pair."
        elif not self._takes_element():
            yield f"{self.default_label()} takes no parameters; the first one is for the element, a (key, value) pair."

    def default_label(self) -> str:
        return label_of(self.function, type(self).__name__)

    @property
    def code_modules(self) -> list[str]:
        """The modules whose code travels with the function."""
        return [module_of(self.function)]

    def process_signature(self) -> MethodSignature:
        """What the function asks for, and how it is called."""
        label = self.default_label()
        if [*self.declaration_problems()]:
            return MethodSignature(label, self.function)
        try:
            signature = read_signature(self.function, label, allowed=_ALLOWED, element_first=True)
        except ValueError:
            # Some functions of Python's own do not say which parameters they have.
            signature = MethodSignature(label, self.function, [Argument("element", ParamKind.ELEMENT)])
        return self._given_outputs(signature)

    def without_side_inputs(self: F) -> F:
        """The same function, which is given its side inputs by the step."""
        bare = copy.copy(self)
        bare._given, bare._named = (), {}
        return bare

    def _takes_element(self) -> bool:
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except ValueError:
            return True
        return any(p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD for p in parameters)

    def _given_outputs(self, signature: MethodSignature) -> MethodSignature:
        """The signature with a function that gives outputs, as `process` does."""
        return signature


class FlatMap(PlainFunction):
    """Calls `function(element)` for each (key, value) pair; what it yields, or returns in an iterable, is output.

    Further arguments are side inputs or plain values for the function's further parameters:

        stream.par_do(hf.FlatMap(words, hf.AsDict(stop_words)), output="word string")
    """


class Map(PlainFunction):
    """Calls `function(element)` for each (key, value) pair; what it returns is one output, None too.

    Further arguments are side inputs or plain values for the function's further parameters:

        stream.par_do(hf.Map(convert, hf.AsDict(rates)), output="card string, amount double")
    """

    def _given_outputs(self, signature: MethodSignature) -> MethodSignature:
        function = self.function
        signature.function = lambda *arguments: (function(*arguments),)
        return signature


class Filter(PlainFunction):
    """Calls `function(element)` for each (key, value) pair, and lets those pass for which the result is true.

    On Spark its rows have the columns that the stream was keyed on: key, timestamp, value. Further arguments are side inputs
    or plain values for the function's further parameters.
    """

    def _given_outputs(self, signature: MethodSignature) -> MethodSignature:
        """The call has the element and its time, then what the function takes."""
        function, output = self.function, self._output
        signature.function = lambda element, time, *arguments: (output(element, time),) if function(*arguments) else ()
        own = [Argument("~element", ParamKind.ELEMENT), Argument("~time", ParamKind.TIMESTAMP)]
        signature.arguments = [*own, *signature.arguments]
        return signature

    def _output(self, element: Any, time: Timestamp) -> Any:
        """The output for an element that passes."""
        return element


def as_function(fn: Any) -> Any:
    """A plain function or generator as the step it stands for; anything else as it is."""
    is_plain = callable(fn) and not isinstance(fn, (DoFn, type)) and not hasattr(fn, "default_name")
    return FlatMap(fn) if is_plain else fn


def own_side_inputs(fn: Any, given: SideInputs | None, step: str) -> tuple[Any, SideInputs | None]:
    """The function without what it was given besides the element, and the side inputs of its step: that, and `given`."""
    if not isinstance(fn, PlainFunction) or not (fn._given or fn._named):
        return fn, given
    names = [argument.name for argument in fn.process_signature().side_inputs]
    own = dict(zip(names, map(_side_input, fn._given), strict=False))
    more = [_side_input(value) for value in fn._given[len(names) :]]
    problems = [*_clashes(fn, names, own, given)]
    own |= {name: _side_input(value) for name, value in fn._named.items()}
    if isinstance(given, Mapping):
        own |= given
    if more and len(own) < len(names):
        problems.append(f"{fn.default_label()} has a parameter that is left out, before those that *args takes.")
    if problems:
        raise InvalidStep(step or fn.default_label(), problems)
    if not more:
        return fn.without_side_inputs(), own
    return fn.without_side_inputs(), [*(own[name] for name in names), *more]


def _clashes(fn: PlainFunction, names: Sequence[str], own: Iterable[str], given: SideInputs | None) -> Iterator[str]:
    called = type(fn).__name__
    if given and not isinstance(given, Mapping):
        yield f"{called} was given arguments, and the step side_inputs in a list; give them in one place."
    elsewhere = set(given) if isinstance(given, Mapping) else set()
    for name in own:
        if name in fn._named or name in elsewhere:
            yield f"The parameter {name!r} of {fn.default_label()} is given twice."
    for name in fn._named:
        if name in elsewhere:
            yield f"The parameter {name!r} of {fn.default_label()} is given twice."
        if name not in names:
            yield f"{called} is given {name}=, but {fn.default_label()} has no parameter of that name for it."


def _side_input(value: object) -> SideInput:
    return value if isinstance(value, SideInput) else AsSingleton([value])
