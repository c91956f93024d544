"""DuckDB, within one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.spark.sinks.sql import duckdb_types
from holdfast.spark.sinks.sql.database import STAGED, Column, Database, Table, quoted
from holdfast.spark.sinks.sql.values import check_years

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["DuckDBDatabase"]

_ALIKE = ["a", "A", "\u00e1", "a\u0301", "a\u0001", "a "]
"""Texts of which every collation takes some for the same."""
_OF_TABLE = "database_name = current_database() AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)"


class DuckDBDatabase(Database):
    """A connection on which a transaction has begun. No other transaction of a sink runs: the database file belongs to one
    process at a time, and within it each sink waits for its turn."""

    text = "VARCHAR"

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, list(values)).fetchall()

    def run(self, statement: str, *values: object) -> int:
        changed = self.rows(statement, *values)
        return int(changed[0][0]) if changed else 0

    def lock(self, table: Table) -> None:
        """Whoever has a transaction has the whole database."""

    def hold(self, table: Table) -> None:
        """A table that another connection alters meanwhile makes the commit fail."""

    def missing_schema(self, table: Table) -> bool:
        where = "database_name = current_database() AND lower(schema_name) = lower($1)"
        return not self.rows(f"SELECT 1 FROM duckdb_schemas() WHERE {where}", table.schema)

    def refusal(self, table: Table) -> str:
        is_table = self.rows(f"SELECT 1 FROM duckdb_tables() WHERE {_OF_TABLE}", table.schema, table.name)
        return "" if is_table else "is a view, not a table"

    def columns(self, table: Table) -> list[Column]:
        views = _OF_TABLE.replace("table_name", "view_name")
        there = f"SELECT 1 FROM duckdb_tables() WHERE {_OF_TABLE} UNION ALL SELECT 1 FROM duckdb_views() WHERE {views}"
        if not self.rows(there, table.schema, table.name):
            return []
        # Some ten times as fast as to look into duckdb_columns().
        return [
            Column(*found)
            for found in self.rows(f'SELECT column_name, column_type, "default" IS NOT NULL FROM (DESCRIBE {table.sql})')
        ]

    def keeps_unique(self, table: Table, key: frozenset[str]) -> bool:
        constraints = self.rows(
            "SELECT constraint_column_names FROM duckdb_constraints()"
            f" WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND {_OF_TABLE}",
            *(table.schema, table.name),
        )
        indexes = self.rows(
            f"SELECT CAST(expressions AS VARCHAR[]) FROM duckdb_indexes() WHERE is_unique AND {_OF_TABLE}",
            *(table.schema, table.name),
        )
        written = {self.folded(text): self.folded(name) for name in key for text in (name, quoted(name))}
        found = [frozenset(map(self.folded, names)) for [names] in constraints]
        found += [frozenset(written.get(self.folded(text), text) for text in texts) for [texts] in indexes]
        return key in found and all(self._tells_texts_apart(table, name) for name in key)

    def _tells_texts_apart(self, table: Table, column: str) -> bool:
        """Whether no collation takes two texts for one; only its effect can be seen."""
        kinds = {self.folded(found.name): found.kind for found in self.columns(table)}
        if kinds[column] != "VARCHAR":
            return True
        [[number]] = self.rows(
            f"SELECT count(DISTINCT {quoted(column)}) FROM (SELECT {quoted(column)} FROM {table.sql} WHERE false"
            " UNION ALL SELECT unnest($1))",
            _ALIKE,
        )
        return bool(number == len(_ALIKE))

    def column_type(self, kind: pa.DataType, is_key: bool) -> str:
        if is_key:
            kind = duckdb_types.as_key("", pa.chunked_array([], kind)).type
        # As DuckDB itself writes it.
        [[nearest]] = self.rows(f"SELECT typeof(CAST(NULL AS {duckdb_types.column_type(kind)}))")
        return str(nearest)

    def holds(self, column: Column, kind: pa.DataType, is_key: bool) -> bool:
        if is_key:
            kind = duckdb_types.as_key("", pa.chunked_array([], kind)).type
        return duckdb_types.holds(column.kind, kind, self.column_type(kind, False))

    def stage(self, rows: pa.Table, key: Sequence[str]) -> str:
        check_years(rows)
        for place, name in enumerate(rows.column_names):
            if name in key:
                rows = rows.set_column(place, name, duckdb_types.as_key(name, rows.column(place)))
        self._connection.register(STAGED, rows)
        return STAGED

    def folded(self, name: str) -> str:
        return name.lower()
