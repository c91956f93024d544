"""Keys as typed by people: from text to the key, and to its key group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from holdfast.engine.state.keys import key_of, slot_of
from holdfast.engine.stored.readable import to_json
from holdfast.engine.tables import Slot
from holdfast.errors import InputError
from holdfast.ops.reading.blobs import StepRef
from holdfast.spark.stages.assign import key_column, key_group
from holdfast.spark.types.arrow import to_python
from holdfast.spark.types.schemas import read_schema

__all__ = ["FoundKey", "find_key", "key_text"]


@dataclass(frozen=True)
class FoundKey:
    """A key of a step, and where its state is."""

    slot: Slot
    label: int | None
    """The label of its key group; None if it may be in any, as when a key's windows are spread."""


def key_text(slot: Slot) -> str:
    """A key as text: a string as is, anything else as JSON, several columns as a list."""
    key = key_of(slot)
    if isinstance(key, str):
        return key
    return to_json(list(key)) if type(key) is tuple else to_json(key)


def find_key(spark: SparkSession, step: StepRef, text: str) -> FoundKey:
    """The key that a text stands for: Spark reads it as the type of the key's column.

    A key of several columns is a JSON list, or its parts separated by commas.
    """
    columns = step.manifest["key"]
    schema = ", ".join(f"k{i} {column['type']}" for i, column in enumerate(columns))
    types = [field.dataType for field in read_schema(schema, step.name).fields]
    parts = [_shown(part, kind) for part, kind in zip(_parts(text, columns), types, strict=True)]
    names = [f"k{i}" for i in range(len(parts))]
    frame = spark.range(1).select(*(F.lit(part).alias(name) for name, part in zip(names, parts, strict=True)))
    frame = frame.select(*(_read(name, kind).alias(name) for name, kind in zip(names, types, strict=True)))
    hashed = [key_column(name, kind) for name, kind in zip(names, types, strict=True)]
    groups = int(step.manifest["key_groups"])
    table = frame.select(*hashed, key_group(hashed, groups).alias("group")).toArrow()
    values = [to_python(column.combine_chunks(), plain=True)[0] for column in table.columns]
    for column, value, part in zip(columns, values, parts, strict=False):
        if value is None:
            raise InputError(
                f"{part!r} is not a key of the step {step.name!r}: {column['name']} is {column['type']}.",
                todo="write the key so that SQL can cast it",
            )
    slot = slot_of(values[0] if len(columns) == 1 else tuple(values[:-1]))
    spread = step.manifest.get("parallel_over", "key") != "key"
    return FoundKey(slot, None if spread else step.labels[values[-1]])


def _parts(text: str, columns: Sequence[Any]) -> list[str]:
    if len(columns) == 1:
        return [text]
    try:
        given = json.loads(text)
    except ValueError:
        given = text.split(",")
    if not isinstance(given, list) or len(given) != len(columns):
        names = ", ".join(column["name"] for column in columns)
        raise InputError(
            f"{text!r} is not a key: it has {len(columns)} columns, {names}.",
            todo='give them as a JSON list: ["a", 5]',
        )
    return [part if isinstance(part, str) else json.dumps(part) for part in given]


def _shown(part: str, kind: DataType) -> str:
    """A part as SQL would cast it, even if written as keys are shown: {"$date": "1970-01-01"}, a struct as a list."""
    try:
        given = json.loads(part)
    except (ValueError, RecursionError):
        return part
    if isinstance(kind, StructType) and isinstance(given, list) and len(given) == len(kind):
        return json.dumps(dict(zip(kind.names, given, strict=True)))
    if isinstance(given, dict) and len(given) == 1 and not isinstance(kind, (ArrayType, MapType, StructType)):
        [(name, content)] = given.items()
        if name.startswith("$"):
            return str(content[0] if isinstance(content, list) and content else content)
    return part


def _read(name: str, kind: DataType) -> Any:
    if isinstance(kind, (ArrayType, MapType, StructType)):
        return F.from_json(F.col(name), kind)
    if isinstance(kind, BinaryType):
        return F.try_to_binary(F.col(name), F.lit("base64"))
    return F.col(name).try_cast(kind)
