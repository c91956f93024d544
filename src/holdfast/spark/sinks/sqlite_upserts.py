"""Tables of SQLite that are upserted.

The table `holdfast_upserts` has a row for each of them: the sink (its table in lower case), the key (its columns in lower
case, sorted, as JSON), and the query whose rows they are, null until its first micro-batch.

Invariants
- A table in `holdfast_upserts` is not appended to, and one that was appended to is not in it.
- All rows of such a table are of one query, or were there before the first.
- Its key is unique: SQLite itself sees to it, and neither collations nor converted types make two keys one.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import SinkError
from holdfast.spark.sinks.sqlite_tables import affinity, columns_of, declared_types, quoted, unique_keys
from holdfast.spark.sinks.sqlite_values import column_kind, sqlite_columns
from holdfast.spark.sinks.upsert import Upsert

__all__ = ["UPSERTS", "UpsertedTable", "forget_upserts", "refuse_appending"]

UPSERTS = "holdfast_upserts"
_OURS = "WHERE sink = ?"


@dataclass(frozen=True)
class UpsertedTable:
    """A table as one job upserts into it. All methods run within the caller's transaction."""

    database: sqlite3.Connection
    table: str
    sink: str
    """How messages call it."""
    upsert: Upsert

    @property
    def _sink(self) -> tuple[str]:
        return (self.table.lower(),)

    @property
    def _key(self) -> list[str]:
        return sorted(name.lower() for name in self.upsert.key)

    def create(self, schema: pa.Schema) -> None:
        """Creates the table, with its key as the primary key."""
        parts = [
            f"{quoted(field.name)} {column_kind(field.type)}{' NOT NULL' if field.name in self.upsert.key else ''}"
            for field in schema
        ]
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, self.upsert.key))})")
        self.database.execute(f"CREATE TABLE {quoted(self.table)} ({', '.join(parts)})")

    def check(self, schema: pa.Schema, has_notes: bool) -> None:
        """Makes sure that the table can be upserted by this key and not otherwise, and notes it."""
        self.database.execute(f"CREATE TABLE IF NOT EXISTS {UPSERTS} (sink TEXT PRIMARY KEY, key TEXT, query_id TEXT)")
        noted = self.database.execute(f"SELECT key FROM {UPSERTS} {_OURS}", self._sink).fetchone()
        if noted is None and has_notes:
            raise self._error(
                "has rows that were appended; they cannot be upserted from now on.",
                detail="A key may be in several of its rows, and which of them is the newest is not known.",
            )
        if noted is not None and json.loads(noted[0]) != self._key:
            raise self._error(f"is upserted by the key {', '.join(json.loads(noted[0]))}, not by {self.upsert}.")
        self._check_unique()
        self._check_types(schema)
        if noted is None:
            self.database.execute(f"INSERT INTO {UPSERTS} VALUES (?, ?, NULL)", (*self._sink, json.dumps(self._key)))

    def _check_unique(self) -> None:
        if frozenset(self._key) not in unique_keys(self.database, self.table):
            columns = ", ".join(map(quoted, self.upsert.key))
            raise self._error(
                f"does not keep the key {self.upsert} unique: it has neither a primary key nor a unique index of just these "
                "columns, over all rows, which tells all texts apart.",
                todo=f"create one: CREATE UNIQUE INDEX {self.table}_key ON {quoted(self.table)} ({columns}); or give "
                "another table",
            )

    def _check_types(self, schema: pa.Schema) -> None:
        declared = declared_types(self.database, self.table)
        for name in self.upsert.key:
            kind, found = column_kind(schema.field(name).type), declared[name.lower()]
            if affinity(found) not in (kind, "BLOB"):
                raise self._error(
                    f"has the key column {name!r} of the type {found}; SQLite would convert its values, and could make two "
                    "keys one.",
                    todo=f"give another table, or one in which {name!r} has the type {kind}",
                )

    def check_owner(self, query_id: str | None, take_over: bool) -> None:
        """Refuses a query whose rows these are not, unless it may take them over."""
        owner = self._owner()
        if owner is not None and owner != query_id and not take_over:
            raise self._error(
                f"has the rows of the query {owner}, not of this one.",
                detail="A new checkpoint makes a new query. It would put older values in the place of newer ones.",
                todo="give another table; or resume with the checkpoint that wrote it; or, if all rows of the table may be "
                "deleted, start once with hf.sinks.Sqlite(path, table, take_over=True)",
            )

    def claim(self, query_id: str) -> bool:
        """Makes the table this query's; whether it was another's, whose rows are deleted."""
        owner = self._owner()
        self.database.execute(f"UPDATE {UPSERTS} SET query_id = ? {_OURS}", (query_id, *self._sink))
        if owner in (None, query_id):
            return False
        self.database.execute(f"DELETE FROM {quoted(self.table)}")
        return True

    def put(self, rows: pa.Table) -> None:
        """Upserts the newest row of each key."""
        names, places = ", ".join(map(quoted, rows.column_names)), ", ".join("?" * rows.num_columns)
        others = [quoted(name) for name in rows.column_names if name not in self.upsert.key]
        does = f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
        self.database.executemany(
            # A table may have the name `excluded`, by which the clause calls the rows that come.
            f"INSERT INTO {quoted(self.table)} AS written ({names}) VALUES ({places})"
            f" ON CONFLICT ({', '.join(map(quoted, self.upsert.key))}) DO {does}",
            zip(*sqlite_columns(self.upsert.newest(rows)), strict=True),
        )

    def _owner(self) -> str | None:
        [owner] = self.database.execute(f"SELECT query_id FROM {UPSERTS} {_OURS}", self._sink).fetchone()
        return None if owner is None else str(owner)

    def _error(self, what: str, *, detail: str = "", todo: str = "") -> SinkError:
        return SinkError(f"{self.sink} {what}", detail=detail, todo=todo or "give another table, or drop this one")


def forget_upserts(database: sqlite3.Connection, table: str) -> None:
    """For a table that does not exist: somebody has dropped it, and what it was is void."""
    if columns_of(database, UPSERTS):
        database.execute(f"DELETE FROM {UPSERTS} {_OURS}", (table.lower(),))


def refuse_appending(database: sqlite3.Connection, table: str, sink: str) -> None:
    """Raises SinkError if a table is upserted."""
    if not columns_of(database, UPSERTS):
        return
    noted = database.execute(f"SELECT key FROM {UPSERTS} {_OURS}", (table.lower(),)).fetchone()
    if noted is not None:
        raise SinkError(
            f"{sink} is upserted by the key {', '.join(json.loads(noted[0]))}; rows cannot be appended to it.",
            detail="It has one row for each key. Appended rows would be refused, or be replaced.",
            todo="write with mode='upsert' and this key; or give another table, or drop this one",
        )
