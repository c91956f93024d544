"""The fields of an output, or of a struct in one: turns what a function yields into values in the schema's order.

Tuples and lists go by position; dicts, dataclasses, named tuples, Rows and msgspec structs go by name. A name that the
schema does not have is an error, never dropped; a name missing from a dict is null.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from holdfast.spark.types.fits import Misfit

__all__ = ["Records"]

Row = Sequence[Any]


class Records:
    """Reads records with these names. With `bare`, a value without fields is the only field of its record."""

    def __init__(self, names: Sequence[str], *, bare: bool = False) -> None:
        self.names = tuple(names)
        self._bare = bare
        self._readers: dict[type, Callable[[Any], Row]] = {}

    def rows(self, items: Sequence[Any]) -> Sequence[Row]:
        """The values of records, each in the order of the names. Raises Misfit."""
        types = set(map(type, items))
        if types == {tuple} and set(map(len, items)) == {len(self.names)}:
            return items
        readers = {kind: self._reader_of(kind) for kind in types}
        if len(readers) > 1:
            return [readers[type(item)](item) for item in items]
        [reader] = readers.values() or [_itself]
        return items if reader is _itself else list(map(reader, items))

    def row(self, item: Any) -> Row:
        """The values of one record."""
        return self._reader_of(type(item))(item)

    def _reader_of(self, kind: type) -> Callable[[Any], Row]:
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._readers[kind] = self._reader(kind)
        return reader

    def _reader(self, kind: type) -> Callable[[Any], Row]:
        if issubclass(kind, Mapping):
            return self._of_mapping
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._by_name(kind._fields, itemgetter) or self._as_renamed(kind._fields) or self._unlike(kind._fields)
        if issubclass(kind, (tuple, list)):
            return self._of_sequence
        fields = _fields(kind)
        read = None if fields is None else self._by_attribute(kind, fields)
        if read is None and self._bare:
            return _alone
        return read or (self._no_record if fields is None else self._unlike(fields))

    def _of_sequence(self, item: Any) -> Row:
        fields = getattr(item, "__fields__", None)
        if fields is not None:
            # Spark's Row has its names in the instance, not in the class.
            return self._of_mapping(dict(zip(fields, item, strict=True)), all_of_them=True)
        if len(item) != len(self.names):
            raise Misfit(f"it has {len(item)} values, but the schema has {len(self.names)} columns")
        return item  # type: ignore[no-any-return]

    def _of_mapping(self, item: Mapping[Any, Any], *, all_of_them: bool = False) -> Row:
        unknown = [name for name in item if name not in self.names]
        if unknown:
            raise Misfit(f"it has {_listed(unknown)}, which the schema does not")
        if self._bare and not item:
            raise Misfit(
                "it is an empty dict, which could be a value or a row", "yield ({},) for an empty map, (None,) for null"
            )
        missing = [name for name in self.names if name not in item]
        if missing and all_of_them:
            raise Misfit(f"it has no {_listed(missing)}")
        return [item.get(name) for name in self.names]

    def _by_name(self, fields: Sequence[str], getter: Any) -> Callable[[Any], Row] | None:
        """By the names in a named tuple's class, in any order."""
        if fields == self.names:
            return _itself
        if sorted(fields) != sorted(self.names) or len(fields) < 2:
            return None
        read: Callable[[Any], Row] = getter(*(fields.index(name) for name in self.names))
        return read

    def _as_renamed(self, fields: Sequence[str]) -> Callable[[Any], Row] | None:
        """By position, if names that Python does not allow were numbered, as in the rows that a function gets."""
        if len(fields) != len(self.names):
            return None
        same = (field in (name, f"_{place}") for place, (field, name) in enumerate(zip(fields, self.names, strict=True)))
        return _itself if all(same) else None

    def _by_attribute(self, kind: type, fields: Sequence[str]) -> Callable[[Any], Row] | None:
        known = set(fields) | {name for name in self.names if hasattr(kind, name)}
        if set(fields) - set(self.names) or set(self.names) - known:
            return None
        read = attrgetter(*self.names)
        return read if len(self.names) > 1 else lambda item: (read(item),)

    def _unlike(self, fields: Sequence[str]) -> Callable[[Any], Row]:
        unknown = [name for name in fields if name not in self.names]
        missing = [name for name in self.names if name not in fields]
        parts = [f"it has {_listed(unknown)}, which the schema does not"] if unknown else []
        parts += [f"it has no {_listed(missing)}"] if missing else []

        def refuse(item: Any) -> Row:
            raise Misfit(
                ", and ".join(parts), "give its fields the names of the schema, or yield a plain tuple of its values"
            )

        return refuse

    def _no_record(self, item: Any) -> Row:
        kind = type(item).__name__
        raise Misfit(f"it is a {kind}; give a tuple, a dict, a dataclass or a named tuple")


def _itself(item: Any) -> Row:
    return item  # type: ignore[no-any-return]


def _alone(item: Any) -> Row:
    return (item,)


def _fields(kind: type) -> Sequence[str] | None:
    """The fields of a record class; None for any other class."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return getattr(kind, "__struct_fields__", None)


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names))
