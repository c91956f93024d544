"""Keys as typed by people: from text to the key, and to its key group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.engine.state.keys import key_of, slot_of
from holdfast.engine.stored.readable import key_to_text
from holdfast.engine.tables import Slot
from holdfast.errors import InputError, NeedsSpark
from holdfast.ops.reading.key_casts import cast_text
from holdfast.ops.reading.key_hash import group_of_key
from holdfast.ops.reading.steps import StepRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FoundKey", "find_key", "is_spread", "key_text"]

_NESTED = ("array<", "map<", "struct<")
_TEXTS = ("string", "varchar", "char")


@dataclass(frozen=True)
class FoundKey:
    """A key of a step, and where its state is."""

    slot: Slot
    label: int | None
    """The label of its key group; None if it may be in any, as when a key's windows are spread."""


def key_text(slot: Slot) -> str:
    """A stored key as text: a string as is, anything else as JSON, several columns as a list."""
    return key_to_text(key_of(slot))


def find_key(spark: SparkSession | None, step: StepRef, text: str) -> FoundKey:
    """The key that a text stands for, read as SQL would cast it to the type of the key's column.

    A key of several columns is a JSON list, or its parts separated by commas. Without a session, raises NeedsSpark if only
    Spark can read it.
    """
    columns = step.manifest["key"]
    kinds = [str(column["type"]) for column in columns]
    parts = [_shown(part, kind) for part, kind in zip(_parts(text, columns), kinds, strict=True)]
    _check_encoding(parts)
    values, group = _cast(spark, step, parts, kinds)
    for column, value, part in zip(columns, values, parts, strict=True):
        if value is None:
            raise InputError(
                f"{part!r:.200} is not a key of the step {step.name!r}: {column['name']} is {column['type']}.",
                todo="write the key so that SQL can cast it",
            )
    slot = slot_of(values[0] if len(columns) == 1 else tuple(values))
    return FoundKey(slot, None if is_spread(step) else step.labels[group])


def is_spread(step: StepRef) -> bool:
    """Whether the windows of one key are in several key groups."""
    return bool(step.manifest.get("parallel_over", "key") != "key")


def _check_encoding(parts: Sequence[str]) -> None:
    """Bytes that are no UTF-8, as a shell may pass them on, are in no key, and cannot be given to Spark."""
    for part in parts:
        try:
            part.encode()
        except UnicodeEncodeError:
            raise InputError(f"{part!r:.200} is not a key: it is not UTF-8.", todo="give the key in UTF-8") from None


def _cast(spark: SparkSession | None, step: StepRef, parts: Sequence[str], kinds: Sequence[str]) -> tuple[list[Any], int]:
    """The values of the columns, and the number of the key group."""
    try:
        values = [cast_text(part, kind) for part, kind in zip(parts, kinds, strict=True)]
        return values, -1 if None in values else group_of_key(values, kinds, int(step.manifest["key_groups"]))
    except NeedsSpark:
        if spark is None:
            raise
    from holdfast.ops.reading.spark_keys import cast_by_spark

    return cast_by_spark(spark, step, parts)


def _parts(text: str, columns: Sequence[Any]) -> list[str]:
    if len(columns) == 1:
        return [text]
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = text.split(",")
    if not isinstance(given, list) or len(given) != len(columns):
        names = ", ".join(column["name"] for column in columns)
        raise InputError(
            f"{text!r:.200} is not a key: it has {len(columns)} columns, {names}.",
            todo='give them as a JSON list: ["a", 5]',
        )
    return [part if isinstance(part, str) else json.dumps(part) for part in given]


def _shown(part: str, kind: str) -> str:
    """A part as SQL would cast it, even if written as keys are shown: {"$date": "1970-01-01"}. A string is shown as it is,
    also one that looks like that."""
    if kind.startswith(_TEXTS):
        return part
    try:
        given = json.loads(part)
    except (ValueError, RecursionError):
        return part
    if isinstance(given, dict) and len(given) == 1 and not kind.startswith(_NESTED):
        [(name, content)] = given.items()
        if name.startswith("$"):
            return str(content[0] if isinstance(content, list) and content else content)
    return part
