"""How many public signatures say `Any`, where an editor can help nobody.

Counted are the functions that `holdfast`, `holdfast.testing`, `holdfast.ops`, `holdfast.watch`, `holdfast.backends` and
`holdfast.recipes`
export, and of the classes that they export the constructor and every method and property without an underscore, each where
it is defined; a method that is inherited is counted once. Names that two of them export are counted once.

A signature says Any if it stands anywhere in its annotations, also inside another type or behind an alias: they are
evaluated, not searched as text. What a numpy array says of its own shape is not ours. Of an overloaded function the
implementation is counted, which takes what all of its overloads take.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import typing_extensions

# KeyedStream and Job are public too.
pytest.importorskip("pyspark")

PACKAGES = ["holdfast", "holdfast.testing", "holdfast.ops", "holdfast.watch", "holdfast.backends", "holdfast.recipes"]
SHARE_MAX = 0.10


def public_functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
            elif inspect.isclass(thing):
                found.update(methods_of(thing))
    return found


def methods_of(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else inspect.unwrap(getattr(member, "__func__", member))
        # Methods that a library has put there, such as those of an enumeration, are not ours.
        if inspect.isfunction(function) and function.__module__ == cls.__module__ and (name == "__init__" or name[0] != "_"):
            yield f"{cls.__module__}.{cls.__qualname__}.{name}", function


def annotations_of(function: Callable[..., Any]) -> list[Any]:
    # What is imported for type checkers alone, as Unpack is, must be found too.
    names = {**vars(typing_extensions), **vars(sys.modules[function.__module__])}
    names.update(only_for_checkers(function.__module__))
    return list(typing.get_type_hints(function, globalns=names).values())


def only_for_checkers(module: str) -> dict[str, Any]:
    """The names that a module imports `if TYPE_CHECKING`."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom) and statement.module:
                    source = importlib.import_module(statement.module)
                    found.update({alias.asname or alias.name: getattr(source, alias.name) for alias in statement.names})
    return found


def says_any(annotation: object) -> bool:
    if annotation is Any:
        return True
    if typing.get_origin(annotation) is numpy.ndarray:
        return False
    parts = annotation if isinstance(annotation, list) else typing.get_args(annotation)
    return any(map(says_any, parts))


def test_any_is_seen_inside_other_types_and_behind_aliases() -> None:
    combiner = importlib.import_module("holdfast.spark.api.keyed").Combiner
    assert says_any(combiner)
    assert says_any(Callable[[int, list[Any]], None])
    assert not says_any(Callable[..., object])
    assert not says_any(dict[str, int] | None)


def test_any_stands_in_at_most_one_public_signature_of_ten() -> None:
    functions = public_functions()
    saying = [name for name, function in functions.items() if any(map(says_any, annotations_of(function)))]
    assert len(functions) > 400, "the public functions were not found"
    share = len(saying) / len(functions)
    assert share <= SHARE_MAX, f"{share:.1%} of {len(functions)} signatures say Any: {', '.join(sorted(saying))}"
