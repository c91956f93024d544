"""Rows as Delta tables have them: their types, whether they fit a table that is there, and what a table is partitioned by.

deltalake converts what does not fit, 1.5 to 1 and "" to null. So nothing is given to it that would have to be converted.

A type is as in a table's log: "long", or {"type": "array", "elementType": …, "containsNull": …}, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from holdfast.errors import SinkError
from holdfast.spark.types.arrow import column_type

__all__ = ["check_values", "delta_fields", "differences", "nullable", "row_problems"]

_SIMPLE = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_PARTITIONS = ("string", "byte", "short", "integer", "long", "boolean", "date", "timestamp", "timestamp_ntz")
"""A partition's value is a text in the log. These come back from it as they were; deltalake writes -1.5 as -1.-5."""


def row_problems(schema: pa.Schema, partition_by: Sequence[str]) -> Iterator[str]:
    """Everything that speaks against a table of such rows."""
    for field in schema:
        lacking = _lacking(field.type)
        if lacking is not None:
            kind = column_type(field.type)
            yield f"The column {field.name!r} has the type {kind}: {lacking} cannot be in a Delta table; cast it."
    lower = [name.lower() for name in schema.names]
    for place, name in enumerate(schema.names):
        other = schema.names[lower.index(lower[place])]
        if lower.index(lower[place]) < place:
            yield f"The columns {other!r} and {name!r} are one in a Delta table, which ignores case in names; rename one."
    for name in partition_by:
        yield from _partition_problems(name, schema)
    if partition_by and set(partition_by) >= set(schema.names):
        yield "The rows have no column beside those in partition_by, but a Delta table needs one."


def _lacking(kind: pa.DataType) -> str | None:
    """What of a type Delta has not."""
    if pa.types.is_struct(kind) and kind.num_fields == 0:
        return "a struct without fields"
    inner = _inner(kind)
    if inner:
        return next((found for found in map(_lacking, inner) if found is not None), None)
    return None if kind in _SIMPLE or pa.types.is_decimal(kind) else column_type(kind)


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    if pa.types.is_struct(kind):
        return [kind.field(place).type for place in range(kind.num_fields)]
    return [kind.value_type] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else []


def _partition_problems(name: str, schema: pa.Schema) -> Iterator[str]:
    if name not in schema.names:
        yield f"There is no column {name!r} to partition by; the columns are {', '.join(schema.names)}."
        return
    if not name.isprintable():
        yield f"The column {name!r} has a name that cannot be in a path, so rows cannot be partitioned by it; rename it."
    kind = schema.field(name).type
    if _lacking(kind) is None and _delta_type(kind) not in _PARTITIONS:
        yield (
            f"Rows cannot be partitioned by {name!r}, of the type {column_type(kind)}: its values do not survive as texts. "
            "Use whole numbers, texts, booleans, dates or timestamps."
        )


def delta_fields(schema: pa.Schema) -> list[dict[str, Any]]:
    """The columns of rows without problems, as in a table's log."""
    return [_field(field) for field in schema]


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": _delta_type(field.type), "nullable": field.nullable, "metadata": {}}


def _delta_type(kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(place)) for place in range(kind.num_fields)]}
    if pa.types.is_map(kind):
        key, value = _delta_type(kind.key_type), _delta_type(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": kind.item_field.nullable}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "elementType": _delta_type(kind.value_type), "containsNull": kind.value_field.nullable}
    return _SIMPLE.get(kind)


def nullable(part: Any) -> Any:
    """A type, or a column, that may be null wherever it can be. Whether Spark knows that a column is never null depends on
    the query, so a new table does not insist on it."""
    if isinstance(part, list):
        return [nullable(item) for item in part]
    if not isinstance(part, dict):
        return part
    flags = ("nullable", "containsNull", "valueContainsNull")
    return {name: True if name in flags else part[name] if name == "name" else nullable(part[name]) for name in part}


def differences(rows: Sequence[Mapping[str, Any]], table: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each column that keeps rows from fitting a table. Their order does not matter."""
    ours, theirs = ({field["name"]: field for field in fields} for fields in (rows, table))
    for name in ours:
        if name not in theirs:
            yield f"The table has no column {name!r}."
        elif not _fits(ours[name]["type"], theirs[name]["type"]):
            in_rows, in_table = _shown(ours[name]["type"]), _shown(theirs[name]["type"])
            yield f"The column {name!r} is {in_rows} in the rows, and {in_table} in the table."
    for name in theirs:
        if name not in ours:
            yield f"The rows have no column {name!r}."


def _fits(ours: Any, theirs: Any) -> bool:
    """Whether values of one type are, as they are, values of another. Nulls in columns themselves are looked for later."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return bool(ours == theirs)
    if ours["type"] != theirs["type"]:
        return False
    if ours["type"] == "struct":
        pairs = list(zip(ours["fields"], theirs["fields"], strict=False))
        same = len(ours["fields"]) == len(theirs["fields"]) and all(a["name"] == b["name"] for a, b in pairs)
        return same and all(_fits(a["type"], b["type"]) and (b["nullable"] or not a["nullable"]) for a, b in pairs)
    flag = "containsNull" if ours["type"] == "array" else "valueContainsNull"
    inner = ("elementType",) if ours["type"] == "array" else ("keyType", "valueType")
    return (theirs[flag] or not ours[flag]) and all(_fits(ours[name], theirs[name]) for name in inner)


def _shown(kind: Any) -> str:
    if not isinstance(kind, dict):
        return str(kind)
    if kind["type"] == "struct":
        return f"struct<{','.join(_shown_field(field) for field in kind['fields'])}>"
    if kind["type"] == "array":
        return f"array<{_shown(kind['elementType'])}{'' if kind['containsNull'] else ' not null'}>"
    return f"map<{_shown(kind['keyType'])},{_shown(kind['valueType'])}{'' if kind['valueContainsNull'] else ' not null'}>"


def _shown_field(field: Mapping[str, Any]) -> str:
    return f"{field['name']}:{_shown(field['type'])}{'' if field['nullable'] else ' not null'}"


def check_values(rows: pa.Table, table: Sequence[Mapping[str, Any]], partitions: Sequence[str], sink: str) -> None:
    """Raises SinkError if a value would not be the same in the table."""
    for field in table:
        if not field["nullable"] and rows.column(field["name"]).null_count:
            raise SinkError(
                f"A row has no value in the column {field['name']!r}, which must have one in {sink}.",
                todo="leave such rows out, or give them a value with coalesce; the micro-batch comes again when the job is "
                "started",
            )
    for name in partitions:
        column = rows.column(name)
        if (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) and _has_empty(column):
            raise SinkError(
                f"A row has an empty text in the column {name!r}, by which {sink} is partitioned: it would become null.",
                todo="give such rows another value, or null with nullif; the micro-batch comes again when the job starts",
            )


def _has_empty(column: pa.ChunkedArray) -> bool:
    return "" in column.unique().to_pylist()
