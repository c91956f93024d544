"""A table in a SQLite database: for small outputs, such as alerts, on one machine.

A second table, `holdfast_batches`, notes what has been written: the sink (its table in lower case, since SQLite ignores
case in names), query, micro-batch and plan, and the first and last rowid of its rows: 0 and -1 if there are none, null if
the table has no rowids or is upserted. `holdfast_upserts` has the tables that are; see `sqlite_upserts.py`.

Invariant: a micro-batch's rows and its note are written in one transaction.
"""

from __future__ import annotations

import copy
import os
import re
import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep, SinkError
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.sqlite_tables import columns_of, last_row, quoted
from holdfast.spark.sinks.sqlite_upserts import UPSERTS, UpsertedTable, forget_upserts, refuse_appending
from holdfast.spark.sinks.sqlite_values import column_kind, sqlite_columns
from holdfast.spark.sinks.upsert import Upsert
from holdfast.spark.types.arrow import arrow_schema

__all__ = ["Sqlite"]

_NOTES = "holdfast_batches"
_CREATE_NOTES = (
    f"CREATE TABLE IF NOT EXISTS {_NOTES} (sink TEXT, query_id TEXT, batch_id INTEGER, plan TEXT,"
    " first_row INTEGER, last_row INTEGER, PRIMARY KEY (sink, query_id, batch_id))"
)
_ADDED = {"plan": "TEXT", "first_row": "INTEGER", "last_row": "INTEGER"}
"""Columns that older versions' notes lack."""
_OURS = "lower(sink) = ? AND query_id = ?"


class Sqlite(Sink):
    """Writes to a table, which is created if missing. Exactly-once: rows and a note of their micro-batch are one
    transaction, and a micro-batch that is noted is skipped.

    Append: several queries may write to one table; each has its own micro-batches. `take_over=True`: if the checkpoint was
    rolled back, this query's rows from the next micro-batch on are removed; otherwise they are an error.

    Upsert: the key is the primary key of the table, and each row replaces the one with its key. An existing table must have
    a primary key or unique index of just these columns; its rows are kept until their keys come. The table belongs to one
    query; another is refused, and so are another key, and appending. `take_over=True`: if the rows are another query's, all
    rows of the table are deleted. If the checkpoint was rolled back, the rows stay, since the values that they replaced are
    gone: each is right again once its key is written again, and one whose key never comes again stays as it is. Without
    `take_over` both are errors.
    """

    evaluates_all = True

    def __init__(self, path: str | Path, table: str, *, take_over: bool = False) -> None:
        problems = [*_name_problems(table)]
        if not isinstance(path, (str, Path)):
            problems.append(f"path is {path!r}; give the path of a file.")
        elif str(path) in ("", ":memory:"):
            problems.append(f"{str(path)!r} is a database that is lost with each connection; give a file.")
        if problems:
            raise InvalidStep.of("Sqlite", problems)
        self.path = str(path)
        self.table = table
        self._take_over = take_over
        self._upsert: Upsert | None = None

    def upserting(self, upsert: Upsert) -> Sqlite:
        same = copy.copy(self)
        same._upsert = upsert
        return same

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        with self._transaction() as database:
            self._prepare(database, arrow_schema(schema), query_id)

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        table = rows.toArrow()
        with self._transaction() as database:
            self._prepare(database, table.schema, info.query_id)
            self._claim(database, info)
            if not self._is_written(database, info):
                first, last = self._put(database, table)
                note = (self.table.lower(), info.query_id, info.batch_id, info.plan, first, last)
                database.execute(f"INSERT INTO {_NOTES} VALUES (?, ?, ?, ?, ?, ?)", note)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as database:
                # From here on nobody else can write: what we read stays true until the commit.
                database.execute("BEGIN IMMEDIATE")
                with database:
                    yield database
        except sqlite3.Error as error:
            raise SinkError(
                f"{self!r} could not be written: {error}.",
                detail="The transaction was not committed: the table is as it was.",
                todo="check that the directory exists and is writable, and that the file is a SQLite database",
            ) from error

    def _prepare(self, database: sqlite3.Connection, schema: pa.Schema, query_id: str | None) -> None:
        """Creates the tables, or checks that they fit."""
        database.execute(_CREATE_NOTES)
        present = columns_of(database, _NOTES)
        for name, kind in _ADDED.items():
            if name not in present:
                database.execute(f"ALTER TABLE {_NOTES} ADD COLUMN {name} {kind}")
        self._prepare_table(database, schema)
        if self._upsert is None:
            refuse_appending(database, self.table, repr(self))
        else:
            upserted = self._upserted(database, self._upsert)
            upserted.check(schema, self._has_notes(database))
            upserted.check_owner(query_id, self._take_over)

    def _prepare_table(self, database: sqlite3.Connection, schema: pa.Schema) -> None:
        found = columns_of(database, self.table)
        if not found:
            forget_upserts(database, self.table)
            self._create(database, schema)
        elif sorted(map(str.lower, found)) != sorted(map(str.lower, schema.names)):
            raise SinkError(
                f"The table {self.table!r} in {self.path!r} has other columns than the rows.",
                detail=f"It has {', '.join(found)}\nThe rows have {', '.join(schema.names)}",
                todo="give another table, or alter this one",
            )

    def _create(self, database: sqlite3.Connection, schema: pa.Schema) -> None:
        if self._upsert is None:
            columns = ", ".join(f"{quoted(field.name)} {column_kind(field.type)}" for field in schema)
            database.execute(f"CREATE TABLE {quoted(self.table)} ({columns})")
        else:
            self._upserted(database, self._upsert).create(schema)
            # If there are any, they are of a table that somebody has dropped, and which may have been appended to.
            self._forget_notes(database)

    def _claim(self, database: sqlite3.Connection, info: BatchInfo) -> None:
        if self._upsert is not None and self._upserted(database, self._upsert).claim(info.query_id):
            self._forget_notes(database)

    def _upserted(self, database: sqlite3.Connection, upsert: Upsert) -> UpsertedTable:
        return UpsertedTable(database, self.table, repr(self), upsert)

    def _has_notes(self, database: sqlite3.Connection) -> bool:
        query = f"SELECT count(*) FROM {_NOTES} WHERE lower(sink) = ?"
        return bool(database.execute(query, (self.table.lower(),)).fetchone()[0])

    def _forget_notes(self, database: sqlite3.Connection) -> None:
        database.execute(f"DELETE FROM {_NOTES} WHERE lower(sink) = ?", (self.table.lower(),))

    def _is_written(self, database: sqlite3.Connection, info: BatchInfo) -> bool:
        """Whether a micro-batch has been written. If its number was, by another plan, the checkpoint was rolled back."""
        ours = (self.table.lower(), info.query_id)
        query = f"SELECT batch_id, plan, first_row, last_row FROM {_NOTES} WHERE {_OURS} AND batch_id >= ? ORDER BY batch_id"
        noted = database.execute(query, (*ours, info.batch_id)).fetchall()
        if not noted:
            return False
        number, plan, *_ = noted[-1]
        if number == info.batch_id and (plan == info.plan or not plan or not info.plan):
            return True
        if not self._take_over:
            raise self._taken_back(number, info)
        self._remove(database, noted, ours, info)
        return False

    def _remove(self, database: sqlite3.Connection, noted: Sequence[Any], ours: tuple[str, str], info: BatchInfo) -> None:
        """Takes back micro-batches, with their rows if those were appended."""
        if self._upsert is None:
            self._remove_rows(database, noted, ours, info)
        database.execute(f"DELETE FROM {_NOTES} WHERE {_OURS} AND batch_id >= ?", (*ours, info.batch_id))

    def _remove_rows(
        self, database: sqlite3.Connection, noted: Sequence[Any], ours: tuple[str, str], info: BatchInfo
    ) -> None:
        spans = [(first, last) for _, _, first, last in noted]
        if (None, None) in spans:
            raise SinkError(
                f"{self!r} does not say which rows belong to the micro-batches from {info.batch_id} on.",
                todo=f"remove those rows, and their notes in the table {_NOTES}, by hand",
                context={"query": info.query_id},
            )
        for first, last in spans:
            self._check_not_shared(database, first, last, ours, info)
        database.executemany(f"DELETE FROM {quoted(self.table)} WHERE rowid BETWEEN ? AND ?", spans)

    def _check_not_shared(
        self, database: sqlite3.Connection, first: int, last: int, ours: tuple[str, str], info: BatchInfo
    ) -> None:
        """SQLite reuses the numbers of rows removed by hand: they may be another query's by now."""
        query = (
            f"SELECT count(*) FROM {_NOTES} WHERE lower(sink) = ? AND first_row <= ? AND last_row >= ?"
            " AND NOT (query_id = ? AND batch_id >= ?)"
        )
        [others] = database.execute(query, (ours[0], last, first, ours[1], info.batch_id)).fetchone()
        if others:
            raise SinkError(
                f"{self!r} does not say which rows belong to the micro-batches from {info.batch_id} on: rows were "
                "removed by hand, and others have their numbers now.",
                todo=f"remove the rows, and their notes in the table {_NOTES}, by hand",
                context={"query": info.query_id},
            )

    def _put(self, database: sqlite3.Connection, table: pa.Table) -> tuple[int | None, int | None]:
        """Writes rows; returns the first and last rowid of those that were added."""
        if self._upsert is None:
            return self._insert(database, table)
        self._upserted(database, self._upsert).put(table)
        return None, None

    def _insert(self, database: sqlite3.Connection, table: pa.Table) -> tuple[int | None, int | None]:
        """Adds rows; returns their first and last rowid."""
        if not table.num_rows:
            return 0, -1
        before = last_row(database, self.table)
        names, places = ", ".join(map(quoted, table.column_names)), ", ".join("?" * table.num_columns)
        rows = zip(*sqlite_columns(table), strict=True)
        database.executemany(f"INSERT INTO {quoted(self.table)} ({names}) VALUES ({places})", rows)
        after = last_row(database, self.table)
        counted = before is not None and after == before + table.num_rows
        return (before + 1, after) if before is not None and counted else (None, None)

    def _taken_back(self, number: int, info: BatchInfo) -> SinkError:
        if self._upsert is None:
            detail = "The checkpoint was rolled back. New rows would be mixed with those written before."
            todo = f"which removes the rows from {info.batch_id} on; or give another table"
        else:
            detail = "The checkpoint was rolled back. The table cannot be: the values that were replaced since are gone."
            todo = (
                "which goes on with the rows as they are: each is right again once its key is written again; or put back "
                "a copy of the database that was made with the savepoint"
            )
        return SinkError(
            f"{self!r} has micro-batches up to {number} of this query, but another {info.batch_id} comes next.",
            detail=detail,
            todo=f"start once with hf.sinks.Sqlite(path, table, take_over=True), {todo}",
            context={"query": info.query_id, "micro_batch": info.batch_id},
        )

    @property
    def place(self) -> Hashable:
        return "sqlite", os.path.abspath(self.path), self.table.lower()

    def __repr__(self) -> str:
        return f"Sqlite({self.path!r}, {self.table!r})"


def _name_problems(table: Any) -> list[str]:
    if not isinstance(table, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", table):
        return [f"{table!r} is not a valid table name; use letters, digits and underscores."]
    if table.lower() in (_NOTES, UPSERTS) or table.lower().startswith("sqlite_"):
        by = "SQLite" if table.lower().startswith("sqlite_") else "the sink"
        return [f"The table {table!r} is reserved: {by} uses it itself."]
    return []
