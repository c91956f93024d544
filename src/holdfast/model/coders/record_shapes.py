"""Shapes: the fields of a record class, and how to take its values apart and put them together."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from holdfast.model.coders.blocks import Damaged

__all__ = ["Shape", "is_record_class", "qualified_name", "reachable_classes", "shape_of"]

_IMMUTABLE_TYPES = frozenset(
    {int, float, str, bytes, bool, type(None), complex, date, datetime, time, timedelta, Decimal, UUID}
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """The fields of one record class."""

    names: tuple[str, ...]
    defaults: dict[str, Callable[[], Any]]
    """Makes the default, for each field that has one."""
    types: dict[str, Any]
    annotations: dict[str, str]
    is_immutable: bool
    assemble: Callable[[dict[str, Any]], Any]

    def fields_of(self, value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in self.names}

    def build(self, stored: dict[str, Any]) -> Any:
        """A value from its fields: missing ones take their default, unknown ones are ignored."""
        fields = {}
        for name in self.names:
            if name in stored:
                fields[name] = stored[name]
            elif name in self.defaults:
                fields[name] = self.defaults[name]()
            else:
                raise Damaged(f"the field {name!r} is missing, and has no default")
        return self.assemble(fields)


def is_record_class(kind: Any) -> bool:
    if not isinstance(kind, type):
        return False
    if issubclass(kind, msgspec.Struct):
        return True
    if dataclasses.is_dataclass(kind):
        # Init-only variables are not kept on the value, so it cannot be taken apart.
        pseudo_fields = kind.__dataclass_fields__.values()
        return kind.__new__ is object.__new__ and not any(
            field._field_type is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
            for field in pseudo_fields
        )
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def shape_of(kind: Any) -> Shape:
    return _shape_of(kind)


@lru_cache(maxsize=1024)
def _shape_of(kind: Any) -> Shape:
    if issubclass(kind, msgspec.Struct):
        return _struct_shape(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_shape(typing.cast(type[Any], kind))
    return _named_tuple_shape(kind)


def _struct_shape(kind: type[Any]) -> Shape:
    defaults: dict[str, Callable[[], Any]] = {}
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            defaults[field.name] = _constant(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = field.default_factory
    return _shape(kind, kind.__struct_fields__, defaults, kind.__struct_config__.frozen, lambda f: kind(**f))


def _dataclass_shape(kind: type[Any]) -> Shape:
    fields = dataclasses.fields(kind)
    defaults: dict[str, Callable[[], Any]] = {}
    for field in fields:
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = _constant(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory

    def assemble(values: dict[str, Any]) -> Any:
        record = object.__new__(kind)
        for name, value in values.items():
            object.__setattr__(record, name, value)
        return record

    frozen = kind.__dataclass_params__.frozen
    return _shape(kind, tuple(field.name for field in fields), defaults, frozen, assemble)


def _named_tuple_shape(kind: type[Any]) -> Shape:
    defaults = {name: _constant(default) for name, default in kind._field_defaults.items()}
    return _shape(kind, kind._fields, defaults, True, lambda f: tuple.__new__(kind, f.values()))


def _shape(
    kind: type[Any],
    names: tuple[str, ...],
    defaults: dict[str, Callable[[], Any]],
    frozen: bool,
    assemble: Callable[[dict[str, Any]], Any],
) -> Shape:
    hints = _hints(kind)
    field_types = {name: hints.get(name, Any) for name in names}
    return Shape(
        names=names,
        defaults=defaults,
        types=field_types,
        annotations={name: _spelled(annotation) for name, annotation in field_types.items()},
        is_immutable=frozen and all(map(_is_immutable_type, field_types.values())),
        assemble=assemble,
    )


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _hints(kind: type[Any]) -> dict[str, Any]:
    """The annotations as types; those that cannot be resolved (names local to a function) as text."""
    try:
        return typing.get_type_hints(kind)
    except Exception:
        return {name: hint for base in reversed(kind.__mro__) for name, hint in getattr(base, "__annotations__", {}).items()}


def _is_immutable_type(annotation: Any) -> bool:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return all(map(_is_immutable_type, typing.get_args(annotation)))
    return isinstance(annotation, type) and annotation in _IMMUTABLE_TYPES


def _spelled(annotation: Any) -> str:
    """One spelling for each type, however the source writes it: Optional[int] is int | None."""
    if isinstance(annotation, str):
        return annotation
    if annotation is None or annotation is type(None):
        return "None"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_spelled, arguments))
    if isinstance(origin, type) and arguments:
        return f"{qualified_name(origin)}[{', '.join(map(_spelled, arguments))}]"
    if isinstance(annotation, type):
        return qualified_name(annotation)
    return "..." if annotation is ... else repr(annotation)


def reachable_classes(start: Iterable[Any]) -> list[type[Any]]:
    """The record and enumeration classes among these, and those that their annotations mention."""
    found: dict[type[Any], None] = {}
    waiting = list(start)
    while waiting:
        kind = waiting.pop()
        if typing.get_origin(kind) is not None:
            waiting.extend((typing.get_origin(kind), *typing.get_args(kind)))
        if not isinstance(kind, type) or kind in found:
            continue
        if is_record_class(kind):
            found[kind] = None
            waiting.extend(shape_of(kind).types.values())
        elif issubclass(kind, enum.Enum):
            found[kind] = None
    return list(found)


def qualified_name(kind: type[Any]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
