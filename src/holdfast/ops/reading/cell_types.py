"""The types of a cell's values, for coders that take any type.

The type of such a cell is that of what is stored in it. An edited value must have it too, in each known part: the value
itself, its elements, the fields of a dict. None goes with every type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.errors import InputError
from holdfast.model.coders import Encoded

__all__ = ["CellTypes", "is_typed", "types_in"]

_TYPED = frozenset({"varint", "bigint", "float", "bool", "str", "bytes", "decimal", "timestamp"})
_INNER = ("element", "key", "value", "inner")
_FIELDS_MAX = 50
_DEPTH_MAX = 4
_WHOLE: dict[str, tuple[type, ...]] = {"bag": (list,), "ordered_list": (list,), "set": (set, frozenset), "map": (dict,)}
_FORMS = {"bag": "a list", "ordered_list": "a list of pairs of time and value", "set": '{"$set": [...]}', "map": "an object"}

Found = tuple[str, str]
"""A part of a value, and the name of its type."""


def is_typed(coder: Any) -> bool:
    """Whether a coder, by its description, takes only values of one type."""
    if not isinstance(coder, Mapping):
        return False
    inner = [coder[name] for name in _INNER if name in coder] + list(coder.get("components", ()))
    return coder.get("id") in _TYPED or (bool(inner) and all(map(is_typed, inner)))


def types_in(kind: str, value: Any) -> set[Found]:
    """The types in the value of a cell of a kind."""
    if kind == "map":
        return {*_of_all("of its keys", value), *_of_all("of its values", value.values())}
    if kind == "ordered_list":
        return set(_of_all("of its values", (item for _, item in value)))
    if kind in ("bag", "set"):
        return set(_of_all("of its values", value))
    return set(_types("", value))


def _of_all(part: str, values: Iterable[Any], depth: int = 0) -> Iterator[Found]:
    for value in values:
        yield from _types(part, value, depth)


def _types(part: str, value: Any, depth: int = 0) -> Iterator[Found]:
    if value is None or isinstance(value, Encoded) or depth > _DEPTH_MAX:
        return
    yield part, type(value).__name__
    if isinstance(value, (list, tuple, set, frozenset)):
        yield from _of_all(f"{part} of an element".strip(), value, depth + 1)
    elif isinstance(value, dict) and len(value) <= _FIELDS_MAX and all(isinstance(name, str) for name in value):
        for name, field in value.items():
            yield from _types(f"{part} of {name!r}".strip(), field, depth + 1)
    elif isinstance(value, dict):
        yield from _of_all(f"{part} of a key".strip(), value, depth + 1)
        yield from _of_all(f"{part} of a value".strip(), value.values(), depth + 1)


class CellTypes:
    """The stored types, by cell and part."""

    def __init__(self, found: Iterable[tuple[str, str, str]] = ()) -> None:
        self._known: dict[tuple[str, str], set[str]] = {}
        for cell, part, name in found:
            self._known.setdefault((cell, part), set()).add(name)

    def check(self, cell: str, kind: str, value: Any) -> None:
        """Raises InputError if the cell cannot have this value."""
        if kind in _WHOLE and not isinstance(value, _WHOLE[kind]):
            raise InputError(
                f"The value has the type {type(value).__name__}, which a {kind} cell cannot have.",
                todo=f"write {_FORMS[kind]}",
            )
        wrong = []
        for part, name in sorted(types_in(kind, value)):
            known = self._known.get((cell, part))
            if known and name not in known:
                wrong.append(
                    f"{f'one {part}' if part else 'it'} has the type {name}, but all stored values are {_either(known)}"
                )
        if wrong:
            raise InputError(
                f"The value does not have the cell's type: {'; '.join(wrong)}.",
                todo="write a value of that type; if the code now keeps another, empty `encoded` in all rows of the cell",
            )


def _either(names: set[str]) -> str:
    return " or ".join(sorted(names))
