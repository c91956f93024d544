"""RecordCoder: dataclasses, NamedTuples and msgspec structs, field by field.

A record is stored as a MessagePack map from field name to value, in the format of plain values; nested records
and enumeration members carry the name of their class. So a value comes back with the types it had, whatever
its annotations say, and can be read without the class (`RecordViewCoder`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from datetime import datetime, time, timezone
from typing import Any, TypeVar

import ormsgpack

from holdfast.errors import CoderError
from holdfast.model.coders import blocks, extensions
from holdfast.model.coders.base import BuiltinCoder, Encoded, shortened
from holdfast.model.coders.plain import PlainCoder
from holdfast.model.coders.plain_format import ATOMS, Misfit, PlainFormat, pack_lowered
from holdfast.model.coders.record_shapes import is_record_class, qualified_name, reachable_classes, shape_of

__all__ = ["RecordCoder", "RecordViewCoder", "RowViewCoder"]

T = TypeVar("T")

_IMMUTABLE_KINDS = ATOMS | (frozenset(extensions.LEAF_NUMBERS) - {bytearray})
_TODO = "Name the other classes that a field may hold: RecordCoder(Order, Line, Colour)."


class RecordCoder(BuiltinCoder[T]):
    """Values of one record class: a dataclass, a NamedTuple or a msgspec struct.

    A field may hold any plain value, and records and enumerations of the classes that the annotations mention
    or that are given as `more`. A value of a subclass is refused.

    When fields change: a field missing from the data takes its default (without one it is a CoderError); a
    field that the class no longer has is ignored. Dataclasses are rebuilt as pickle would, without calling
    `__init__` or `__post_init__`; structs are called with their fields. Attributes that are not fields, such
    as cached properties, are not kept.

    Values of frozen classes count as immutable, and are stored as they are, if all their annotations and all
    their actual fields are immutable atoms.
    """

    short_name = "record"

    def __init__(self, record_class: type[T], *more: type) -> None:
        if not is_record_class(record_class):
            raise CoderError(
                f"{shortened(record_class)} is not a class of records.",
                todo="RecordCoder takes dataclasses (without InitVar), NamedTuples and msgspec structs.",
            )
        self.record_class = record_class
        self.more = more
        self._shape = shape_of(record_class)
        self._format = _RecordFormat(reachable_classes([record_class, *more]))
        self._immutable = self._shape.is_immutable

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.record_class, *self.more))

    def encode(self, value: T) -> bytes:
        if type(value) is not self.record_class:
            raise self.misfit(value, f"It takes values of exactly {qualified_name(self.record_class)}.")
        try:
            return self._format.pack_record(self._shape.fields_of(value))
        except Misfit as misfit:
            raise self.misfit(value, misfit.where() + ".", _TODO) from misfit.__cause__

    def decode(self, data: bytes) -> T:
        try:
            record: T = self._shape.build(_fields(self._format.unpack(data)))
            return record
        except Exception as error:
            raise self.damaged(data, error) from error

    def is_deterministic(self) -> bool:
        return True

    def is_immutable(self) -> bool:
        return self._immutable

    def freeze(self, value: T) -> object:
        # Annotations can be wrong: what the fields hold is what counts.
        if self._immutable and type(value) is self.record_class:
            held = self._shape.fields_of(value).values()
            if ATOMS.issuperset(map(type, held)) or all(map(_is_stored_as_is, held)):
                return value
        return Encoded(self.encode(value))

    def describe(self) -> dict[str, object]:
        others = {
            name: shape_of(kind).annotations if is_record_class(kind) else [member.name for member in kind]
            for name, kind in sorted(self._format.classes.items())
            if kind is not self.record_class
        }
        return {
            **super().describe(),
            "class": qualified_name(self.record_class),
            "fields": self._shape.annotations,
            **({"nested": others} if others else {}),
        }

    def __repr__(self) -> str:
        return f"RecordCoder({', '.join(kind.__qualname__ for kind in (self.record_class, *self.more))})"


class RecordViewCoder(BuiltinCoder[Any]):
    """Reads what any RecordCoder wrote, without its class: records as dicts, enumeration members as their names.

    For tools. It cannot encode.
    """

    short_name = "record_view"

    def encode(self, value: object) -> bytes:
        raise self.misfit(value, "It only reads.", "Use RecordCoder with the class.")

    def decode(self, data: bytes) -> Any:
        try:
            return _fields(_ViewFormat().unpack(data))
        except Exception as error:
            raise self.damaged(data, error) from error


class RowViewCoder(BuiltinCoder[Any]):
    """Reads the rows of a DataFrame that a step has kept: as dicts, or as the bare value of a single column.

    For tools. It cannot encode.
    """

    short_name = "row_view"

    def __init__(self, fields: Sequence[str], *, bare: bool) -> None:
        self._fields = tuple(fields)
        self._bare = bare

    def encode(self, value: object) -> bytes:
        raise self.misfit(value, "It only reads.", "Import the state with the job's own code.")

    def decode(self, data: bytes) -> Any:
        value = PlainCoder().decode(data)
        if self._bare:
            return value
        if not isinstance(value, tuple) or len(value) != len(self._fields):
            raise self.damaged(data, ValueError(f"it has not the fields {', '.join(self._fields)}"))
        return dict(zip(self._fields, value, strict=True))


class _RecordFormat(PlainFormat):
    """Plain values, and records and enumerations of known classes."""

    def __init__(self, classes: Iterable[type[Any]]) -> None:
        self.classes = {qualified_name(kind): kind for kind in classes}
        self._names = {kind: name for name, kind in self.classes.items()}
        self._shapes = {kind: shape_of(kind) for kind in self._names if is_record_class(kind)}

    def pack_record(self, fields: dict[str, Any]) -> bytes:
        # Field names are always valid Unicode, so they go to MessagePack as they are.
        return self._packed(lambda careful: self.lower_fields(fields, 0, careful, ".{}"))

    def lower_other(self, value: Any, depth: int, careful: bool) -> Any:
        kind = type(value)
        name = self._names.get(kind)
        if name is None:
            return super().lower_other(value, depth, careful)
        if kind in self._shapes:
            fields = self.lower_fields(self._shapes[kind].fields_of(value), depth, careful, ".{}")
            return ormsgpack.Ext(extensions.RECORD, pack_lowered([name, fields]))
        if not isinstance(value, enum.Enum) or value.name not in kind.__members__:
            raise Misfit(f"{shortened(value)} is not a single member of {name}", value)
        return ormsgpack.Ext(extensions.ENUMERATION, pack_lowered([name, value.name]))

    def lift_other(self, number: int, values: list[Any]) -> Any:
        name, content = values
        if number == extensions.RECORD and self.classes.get(name) in self._shapes:
            return self._shapes[self.classes[name]].build(_fields(content))
        kind = self.classes.get(name)
        if number == extensions.ENUMERATION and kind is not None and issubclass(kind, enum.Enum):
            return kind[content]
        raise blocks.Damaged(f"the class {name!r} is not known to this coder")


class _ViewFormat(PlainFormat):
    def lift_other(self, number: int, values: list[Any]) -> Any:
        _, content = values
        if number == extensions.RECORD:
            return _fields(content)
        if number == extensions.ENUMERATION:
            return content
        return super().lift_other(number, values)


def _is_stored_as_is(value: Any) -> bool:
    if type(value) in (datetime, time):
        # Encoding changes a zone of a foreign class: what is stored must be what comes back.
        return value.tzinfo is None or type(value.tzinfo) is timezone
    return type(value) in _IMMUTABLE_KINDS


def _fields(content: Any) -> dict[str, Any]:
    if type(content) is not dict:
        raise blocks.Damaged("a record without fields")
    return content
