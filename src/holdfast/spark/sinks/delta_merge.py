"""Upserting into a Delta table, by MERGE."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spark.sinks.upsert import Upsert

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

__all__ = ["merge"]

_LISTED_MAX = 100
_PLAIN = re.compile(r"[A-Za-z0-9_ .:+-]*")


def merge(table: DeltaTable, rows: pa.Table, upsert: Upsert, commit: CommitProperties) -> None:
    """Puts rows in the place of those with their keys. No two rows may have the same key."""
    rows = _one_zero(rows, upsert)
    matching = [f"{_target(name)} = {_source(name)}" for name in upsert.key]
    matching += _partitions(rows, [name for name in table.metadata().partition_columns if name in upsert.key])
    # Streamed, deltalake does not compare what is in the rows with the statistics of files, which leave out NaN.
    merging = table.merge(
        rows,
        " AND ".join(matching),
        source_alias="source",
        target_alias="target",
        streamed_exec=True,
        commit_properties=commit,
    )
    if set(upsert.key) != set(rows.column_names):
        merging = merging.when_matched_update({_target(name): _source(name) for name in rows.column_names})
    merging.when_not_matched_insert({_quoted(name): _source(name) for name in rows.column_names}).execute()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _target(name: str) -> str:
    return f"target.{_quoted(name)}"


def _source(name: str) -> str:
    return f"source.{_quoted(name)}"


def _one_zero(rows: pa.Table, upsert: Upsert) -> pa.Table:
    """Rows in whose keys each number has one form only: 0.0 for -0.0, and one NaN."""
    for name in upsert.key:
        kind = rows.schema.field(name).type
        if pa.types.is_floating(kind):
            column = rows.column(name)
            same = pc.if_else(pc.equal(column, 0.0), pa.scalar(0.0, kind), column)
            same = pc.if_else(pc.is_nan(same), pa.scalar(float("nan"), kind), same)
            rows = rows.set_column(rows.column_names.index(name), name, same)
    return rows


def _partitions(rows: pa.Table, names: list[str]) -> list[str]:
    """Conditions that say the same once more, so that deltalake leaves out partitions without any of the keys."""
    conditions = []
    for name in names:
        literals = [_literal(value) for value in rows.column(name).unique().to_pylist()]
        if len(literals) <= _LISTED_MAX and None not in literals:
            conditions.append(f"{_target(name)} IN ({', '.join(map(str, literals))})")
    return conditions


def _literal(value: Any) -> str | None:
    """A value in SQL; None if there may be more than one way to read it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return f"CAST('{value.isoformat()}' AS DATE)"
    return f"'{value}'" if isinstance(value, str) and _PLAIN.fullmatch(value) else None
