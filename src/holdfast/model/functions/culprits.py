"""Finds what keeps an object from being sent to a worker: the innermost values that fail, and the path to each.

An object is taken apart as cloudpickle would: instances by their state; functions and classes that are pickled by value by
their variables and members. Only what fails to pickle is inspected, so none of this costs anything in the normal case.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.aggregate.triggers import Trigger
from holdfast.model.coders import Coder
from holdfast.model.foreign import global_names
from holdfast.model.functions.dofn import DoFn
from holdfast.model.state.upgrade import Upgrade
from holdfast.model.windows.functions import WindowFn

__all__ = ["BACKEND_ADVICE", "sending_problems"]

BACKEND_ADVICE = "Open it in make(), which a worker calls"

_OWNERS = (DoFn, CombineFn, Coder, WindowFn, Trigger, Upgrade)
_CLOSED = ("pyspark.", "py4j.")
"""Packages whose objects are not inspected: their internals mean nothing to a user."""
_MADE_ANEW = ("__dict__", "__weakref__", "_abc_impl")
"""Members of a class that are not pickled with it."""

_SETUP = "Make it in setup(), which every worker calls, and keep only what it is made from: an address, a path, a number"
_OWN_SETUP = (
    "Make it inside the function when it is first called, or write a {base} of your own that makes it in setup(), which "
    "every worker calls"
)
_NO_SETUP = (
    "Make it when it is first used, leave it out in __getstate__, and keep only what it is made from; only a DoFn and a "
    "CombineFn have setup(), where a worker makes such things"
)
_DATA_FRAME = "A DataFrame exists only on the driver: give it as a side input, side_inputs={'...': hf.AsDict(df)}"
_DRIVER_ONLY = "It exists only on the driver: make what a worker needs in setup(), or keep plain values"

Children = Iterator[tuple["Spot", Any]]


@dataclass(frozen=True)
class Spot:
    """Where a value is: its path as Python source, where the first name of the path comes from, and its owner."""

    path: str
    note: str = ""
    owner: Any = None

    def inside(self, step: str) -> Spot:
        return replace(self, path=self.path + step)

    def variable(self, name: str, note: str) -> Spot:
        return replace(self, path=name, note=note)


@dataclass(frozen=True)
class Culprit:
    """A value that cannot be pickled although all of its parts can, and why."""

    spot: Spot
    value: Any
    reason: str


def sending_problems(attempt: Callable[[Any], Any], parts: Iterable[tuple[str, Any]], advice: str = "") -> list[str]:
    """Why these named parts cannot be sent: one sentence for each culprit.

    `attempt` tries to send a value and raises if it cannot. `advice` is what to do, if that is always the same.
    """
    search = _Search(attempt)
    return [_problem(culprit, advice) for name, part in parts for culprit in search.below(Spot(name), part)]


class _Search:
    """One walk. It keeps what it has seen alive, so that no object id is reused meanwhile."""

    def __init__(self, attempt: Callable[[Any], Any]) -> None:
        self._attempt = attempt
        self._seen: dict[int, Any] = {}

    def below(self, spot: Spot, value: Any) -> Iterator[Culprit]:
        failure = self._failure_of(value)
        if failure is None or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, _OWNERS):
            spot = replace(spot, owner=value)
        failing = [(at, child) for at, child in _children(spot, value) if self._failure_of(child) is not None]
        if not failing:
            yield Culprit(spot, value, str(failure).strip().partition("\n")[0])
        for at, child in failing:
            yield from self.below(at, child)

    def _failure_of(self, value: Any) -> Exception | None:
        try:
            self._attempt(value)
        except Exception as error:
            return error
        return None


def _children(spot: Spot, value: Any) -> Children:
    """The parts of a value that are pickled with it."""
    if type(value).__module__.startswith(_CLOSED):
        return
    if isinstance(value, types.FunctionType):
        yield from _of_function(spot, value)
    elif isinstance(value, type):
        yield from _of_class(value, spot)
    elif isinstance(value, types.MethodType):
        yield spot, value.__self__
        yield spot, value.__func__
    elif isinstance(value, functools.partial):
        yield spot.inside(".func"), value.func
        yield from _of_items(spot.inside(".args"), value.args)
        yield from _of_mapping(spot.inside(".keywords"), value.keywords)
    elif type(value) in (list, tuple, set, frozenset):
        yield from _of_items(spot, value)
    elif type(value) is dict:
        yield from _of_mapping(spot, value)
    elif isinstance(value, (staticmethod, classmethod)):
        yield spot, value.__func__
    elif isinstance(value, property):
        yield from ((spot, part) for part in (value.fget, value.fset, value.fdel) if part is not None)
    elif not isinstance(value, types.ModuleType):
        yield from _of_instance(spot, value)


def _of_function(spot: Spot, function: types.FunctionType) -> Children:
    name = _name(function)
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        for content in _content(cell):
            yield spot.variable(variable, f"a variable around {name}"), content
    for variable in sorted(global_names(function.__code__)):
        if variable in function.__globals__:
            yield spot.variable(variable, f"a global that {name} uses"), function.__globals__[variable]
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    given = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    for parameter, default in {**given, **(function.__kwdefaults__ or {})}.items():
        yield spot.variable(parameter, f"a default of {name}"), default
    yield from ((spot.inside(f".{attribute}"), child) for attribute, child in vars(function).items())


def _content(cell: Any) -> tuple[Any, ...]:
    """The value of a variable; empty if it has none yet."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _of_class(cls: type[Any], spot: Spot) -> Children:
    for name, member in vars(cls).items():
        if name not in _MADE_ANEW and not isinstance(member, types.MemberDescriptorType):
            yield replace(spot, path=f"{_name(cls)}.{name}", note=""), member
    yield from ((spot.variable(_name(base), ""), base) for base in cls.__bases__)


def _of_items(spot: Spot, items: Iterable[Any]) -> Children:
    for number, item in enumerate(items):
        yield spot.inside(f"[{number}]"), item


def _of_mapping(spot: Spot, items: Mapping[Any, Any]) -> Children:
    for key, item in items.items():
        yield spot.inside(f"[{key!r:.40}]"), item
        yield spot.variable(f"{key!r:.40}", f"a key of {spot.path}"), key


def _of_instance(spot: Spot, value: Any) -> Children:
    """The class of an object, and the state that it would be pickled as."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return
    if not isinstance(reduced, tuple):
        return
    state = reduced[2] if len(reduced) > 2 else None
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if isinstance(part, dict):
            yield from ((spot.inside(f".{name}"), child) for name, child in part.items())
        elif part is not None:
            yield spot, part
    yield from ((spot, part) for part in reduced[1] if part is not value)
    yield from _of_items(spot, reduced[3] or () if len(reduced) > 3 else ())
    yield from _of_mapping(spot, dict(reduced[4] or ()) if len(reduced) > 4 else {})


def _name(value: Any) -> str:
    return str(value.__qualname__).rpartition("<locals>.")[2]


def _problem(culprit: Culprit, advice: str) -> str:
    note = f" ({culprit.spot.note})" if culprit.spot.note else ""
    is_a = f"{culprit.spot.path}{note} is {_article(_kind(culprit.value))}"
    return f"{is_a}, which cannot be sent to a worker: {culprit.reason.rstrip('.')}. {advice or _advice(culprit)}."


def _kind(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _advice(culprit: Culprit) -> str:
    kind = type(culprit.value)
    if kind.__module__.startswith(_CLOSED):
        return _DATA_FRAME if kind.__name__ == "DataFrame" else _DRIVER_ONLY
    owner = culprit.spot.owner
    if owner is not None and not isinstance(owner, (DoFn, CombineFn)):
        return _NO_SETUP
    if owner is not None and not type(owner).__module__.startswith("holdfast."):
        return _SETUP
    # A plain function, or one of Holdfast's own classes around it: there is no setup() that the user could extend.
    return _OWN_SETUP.format(base="DoFn" if isinstance(owner, DoFn) else "CombineFn")
