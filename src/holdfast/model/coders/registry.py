"""Coders from their descriptions: for tools that read stored state without the code that wrote it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import CoderError
from holdfast.model.coders.base import BuiltinCoder, Coder
from holdfast.model.coders.composite import (
    IterableCoder,
    JsonCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    TupleCoder,
)
from holdfast.model.coders.opaque import OpaqueCoder
from holdfast.model.coders.pickled import CloudpickleCoder, PickleCoder
from holdfast.model.coders.plain import PlainCoder
from holdfast.model.coders.primitive import (
    BigIntegerCoder,
    BooleanCoder,
    BytesCoder,
    DecimalCoder,
    FloatCoder,
    StrUtf8Coder,
    TimestampCoder,
    VarIntCoder,
)
from holdfast.model.coders.records import RecordCoder, RecordViewCoder, RowViewCoder
from holdfast.model.coders.sessions import SessionsCoder
from holdfast.model.coders.struct import StructCoder

__all__ = ["coder_from_description"]

_SIMPLE: tuple[type[BuiltinCoder[Any]], ...] = (
    BigIntegerCoder,
    BooleanCoder,
    BytesCoder,
    DecimalCoder,
    FloatCoder,
    JsonCoder,
    PlainCoder,
    RecordViewCoder,
    StrUtf8Coder,
    TimestampCoder,
    VarIntCoder,
)
_ROW = "row"
"""The coder of whole rows, which is made on Spark: it knows their schema."""
_PICKLES: tuple[type[BuiltinCoder[Any]], ...] = (CloudpickleCoder, PickleCoder)
_NESTED: dict[str, tuple[Callable[..., BuiltinCoder[Any]], tuple[str, ...]]] = {
    ListCoder.short_name: (ListCoder, ("element",)),
    IterableCoder.short_name: (IterableCoder, ("element",)),
    MapCoder.short_name: (MapCoder, ("key", "value")),
    NullableCoder.short_name: (NullableCoder, ("inner",)),
}


def coder_from_description(
    description: Mapping[str, Any], *, trust_pickle: bool = False, view_records: bool = False
) -> Coder[Any] | None:
    """The coder that `describe()` described; None if it needs the user's code, or has another version.

    Runs no user code. Coders that pickle are returned only with `trust_pickle`. With `view_records`, a record
    coder is replaced by one that reads records as dicts and cannot write.
    """

    def component(part: Any) -> Coder[Any] | None:
        if not isinstance(part, Mapping):
            return None
        return coder_from_description(part, trust_pickle=trust_pickle, view_records=view_records)

    identifier = description.get("id")
    if not isinstance(identifier, str):
        return None
    simple = _SIMPLE + (_PICKLES if trust_pickle else ())
    for kind in simple:
        if kind.short_name == identifier and kind.version == description.get("version"):
            return kind()
    if identifier == RecordCoder.short_name and RecordCoder.version == description.get("version"):
        return RecordViewCoder() if view_records else None
    if identifier == _ROW and Coder.version == description.get("version"):
        return _row(description) if view_records else None
    if identifier == StructCoder.short_name and StructCoder.version == description.get("version"):
        return _struct(description)
    if identifier == TupleCoder.short_name and TupleCoder.version == description.get("version"):
        components = description.get("components", [])
        parts = [component(part) for part in (components if isinstance(components, (list, tuple)) else [None])]
        known = [part for part in parts if part is not None]
        return TupleCoder(known) if len(known) == len(parts) else None
    if identifier == SessionsCoder.short_name and SessionsCoder.version == description.get("version"):
        return _sessions_coder(description, component)
    if identifier in _NESTED:
        build, names = _NESTED[identifier]
        parts = [component(description.get(name)) for name in names]
        same_version = BuiltinCoder.version == description.get("version")
        return build(*parts) if same_version and None not in parts else None
    return None


def _row(description: Mapping[str, Any]) -> Coder[Any] | None:
    fields = description.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        return None
    return RowViewCoder(fields, bare=description.get("bare") is True)


def _struct(description: Mapping[str, Any]) -> Coder[Any] | None:
    try:
        return StructCoder({"type": "struct", "fields": description["fields"]})
    except (CoderError, LookupError, TypeError, AttributeError):
        return None


def _sessions_coder(description: Mapping[str, Any], made: Callable[[Any], Coder[Any] | None]) -> SessionsCoder | None:
    """Accumulators that need the user's code stay bytes; the sessions they are in can be read all the same."""
    names, components = description.get("names"), description.get("components")
    if not isinstance(names, list) or not isinstance(components, list) or len(names) != len(components):
        return None
    if not all(isinstance(part, Mapping) for part in components):
        return None
    return SessionsCoder(names, [made(part) or OpaqueCoder(part) for part in components])
