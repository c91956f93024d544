"""StructCoder: values that a schema of Spark's describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from holdfast.errors import CoderError
from holdfast.model.coders.base import BuiltinCoder, shortened
from holdfast.model.coders.column_types import Unfit, converter, type_problems, types_only
from holdfast.model.coders.plain import PlainCoder

__all__ = ["StructCoder", "StructSchema"]

_PLAIN = PlainCoder()


class StructSchema(Protocol):
    """A schema of Spark's: a `StructType`."""

    def jsonValue(self) -> dict[str, Any]: ...


class StructCoder(BuiltinCoder[Any]):
    """Values with the fields and types of a `StructType`.

    A value is a dict, or a tuple in the order of the fields, and comes back as what it was, with the types that elements
    have: a timestamp is an aware datetime in UTC, an array a list. Named tuples and Rows come back as dicts. A field that a
    dict leaves out is None. What does not fit without loss is refused, as in an output column, and so is None in a field
    that must not be null. Values are stored as plain ones.
    """

    short_name = "struct"

    def __init__(self, schema: StructSchema | Mapping[str, Any]) -> None:
        json: Any = schema if isinstance(schema, Mapping) else schema.jsonValue()
        if not isinstance(json, Mapping) or json.get("type") != "struct":
            raise CoderError(f"{shortened(schema)} is no schema of a struct.", todo="Give a StructType.")
        problems = [problem for field in json["fields"] for problem in type_problems(field["type"], repr(field["name"]))]
        names = [field["name"] for field in json["fields"]]
        problems += [f"It has two fields {name!r}." for name in dict.fromkeys(names) if names.count(name) > 1]
        if problems:
            raise CoderError("The schema cannot be that of state.", detail="\n".join(problems), todo="Use other types.")
        self._json = dict(json)
        self._convert = converter(json)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._json,))

    def is_deterministic(self) -> bool:
        return True

    def encode(self, value: object) -> bytes:
        try:
            return _PLAIN.encode(self._convert(value))
        except Unfit as unfit:
            where = f"The field {unfit.path.removeprefix('.')}: " if unfit.path else ""
            raise self.misfit(value, f"{where}{unfit.why}.") from None

    def decode(self, data: bytes) -> Any:
        return _PLAIN.decode(data)

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "fields": types_only(self._json)["fields"]}

    def __repr__(self) -> str:
        return f"StructCoder({', '.join(field['name'] for field in self._json['fields'])})"
