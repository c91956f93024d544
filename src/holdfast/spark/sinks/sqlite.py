"""A table in a SQLite database: for small outputs, such as alerts, on one machine.

Two more tables say what is in it: `holdfast_batches` which micro-batches, see `sqlite_notes.py`, and `holdfast_upserts`
whether it is upserted, see `sqlite_upserts.py`.

Invariants
- A micro-batch's rows and its note are written in one transaction.
- Only the first micro-batch after the job's start takes over: whatever comes later and does not fit is no rollback.
"""

from __future__ import annotations

import copy
import os
import re
import sqlite3
from collections.abc import Hashable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep, SinkError
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.sqlite_notes import NOTES, Note, Notes
from holdfast.spark.sinks.sqlite_tables import affinity, columns_of, declared_types, last_row, quoted
from holdfast.spark.sinks.sqlite_upserts import UPSERTS, UpsertedTable, forget_upserts, refuse_appending
from holdfast.spark.sinks.sqlite_values import column_kind, is_converted, sqlite_columns
from holdfast.spark.sinks.succession import TAKE_OVER_AGAIN, TAKEN_OVER, Succession, other_job, was_taken_back
from holdfast.spark.sinks.upsert import Upsert
from holdfast.spark.types.arrow import arrow_schema, column_type

__all__ = ["Sqlite"]


class Sqlite(Sink):
    """Writes to a table, which is created if missing. Exactly-once: rows and a note of their micro-batch are one
    transaction, and a micro-batch that is noted is skipped.

    Append: several queries may write to one table; each has its own micro-batches. `take_over=True`: if the checkpoint was
    rolled back, this query's rows from the next micro-batch on are removed; otherwise they are an error. It holds for the
    first micro-batch after the job's start only.

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
        self._may_take_over = take_over
        self._last_at_open: list[Note] | None = None
        """The last micro-batch of this query when `open` was called, if there was one. What others have written since, a
        driver that took this one for dead, is not taken over."""
        self._upsert: Upsert | None = None
        self._succession = Succession()

    def upserting(self, upsert: Upsert) -> Sqlite:
        same = copy.copy(self)
        same._upsert = upsert
        same._succession = Succession()
        return same

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        self._may_take_over = self._take_over and not self._succession.has_begun(query_id)
        self._succession.start_again()
        with self._transaction() as database:
            notes = self._prepare(database, arrow_schema(schema), query_id)
            self._last_at_open = [] if query_id is None else notes.last(query_id)

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        table = rows.toArrow()
        with self._transaction() as database:
            last = self._write(database, table, info)
        self._may_take_over = False
        self._succession.wrote(info.query_id, last)

    def _write(self, database: sqlite3.Connection, table: pa.Table, info: BatchInfo) -> Note:
        """Writes a micro-batch, unless it is there; returns its note."""
        notes = self._prepare(database, table.schema, info.query_id)
        if self._upsert is not None and self._upserted(database, self._upsert).claim(info.query_id):
            notes.forget_all()
        return self._written(notes, info) or notes.add(info, *self._put(database, table))

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

    def _prepare(self, database: sqlite3.Connection, schema: pa.Schema, query_id: str | None) -> Notes:
        """Creates the tables, or checks that they fit."""
        notes = Notes(database, self.table, repr(self))
        notes.create()
        self._prepare_table(database, schema, notes)
        if self._upsert is None:
            refuse_appending(database, self.table, repr(self))
        else:
            upserted = self._upserted(database, self._upsert)
            upserted.check(schema, notes.exist())
            upserted.check_owner(query_id, self._may_take_over)
        self._check_types(database, schema)
        return notes

    def _prepare_table(self, database: sqlite3.Connection, schema: pa.Schema, notes: Notes) -> None:
        found = columns_of(database, self.table)
        if not found:
            forget_upserts(database, self.table)
            self._create(database, schema, notes)
        elif sorted(map(str.lower, found)) != sorted(map(str.lower, schema.names)):
            raise SinkError(
                f"The table {self.table!r} in {self.path!r} has other columns than the rows.",
                detail=f"It has {', '.join(found)}\nThe rows have {', '.join(schema.names)}",
                todo="give another table, or alter this one",
            )

    def _check_types(self, database: sqlite3.Connection, schema: pa.Schema) -> None:
        declared = declared_types(database, self.table)
        problems = [
            f"{field.name} is {found}; the rows have {column_type(field.type)}, which needs {column_kind(field.type)}"
            for field in schema
            if is_converted(field.type, affinity(found := declared[field.name.lower()]))
        ]
        if problems:
            raise SinkError(
                f"The table {self.table!r} in {self.path!r} would convert values of the rows.",
                detail="\n".join(problems),
                todo="give another table, or one whose columns have these types; or cast the columns of the rows",
            )

    def _create(self, database: sqlite3.Connection, schema: pa.Schema, notes: Notes) -> None:
        if self._upsert is None:
            columns = ", ".join(f"{quoted(field.name)} {column_kind(field.type)}" for field in schema)
            database.execute(f"CREATE TABLE {quoted(self.table)} ({columns})")
        else:
            self._upserted(database, self._upsert).create(schema)
            # If there are any, they are of a table that somebody has dropped, and which may have been appended to.
            notes.forget_all()

    def _upserted(self, database: sqlite3.Connection, upsert: Upsert) -> UpsertedTable:
        return UpsertedTable(database, self.table, repr(self), upsert)

    def _written(self, notes: Notes, info: BatchInfo) -> Note | None:
        """The note of a micro-batch that has been written. If its number was, by another plan, the checkpoint was rolled
        back: then later ones are removed, or it is an error."""
        found = notes.last(info.query_id)
        if not found:
            return None
        [last] = found
        if last.batch_id < info.batch_id:
            self._succession.check(self, info, last.batch_id, last, lambda: _is_same(last.plan, info.planned(last.batch_id)))
            for removed in notes.taken_back(info.query_id):
                if was_taken_back(info, last.batch_id, removed.batch_id, removed.is_of):
                    raise other_job(self, info, last.batch_id)
            return None
        if last.batch_id == info.batch_id and _is_same(last.plan, info.plan):
            return last
        if not self._may_take_over or self._last_at_open not in (None, found):
            raise self._taken_back(last.batch_id, info)
        for kept in notes.before(info):
            if not _is_same(kept.plan, info.planned(kept.batch_id)):
                raise other_job(self, info, kept.batch_id)
        if self._upsert is None:
            notes.remove_rows_since(info)
        notes.take_back(info)
        return None

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
            how = f"which removes the rows from {info.batch_id} on; or give another table"
        else:
            detail = "The checkpoint was rolled back. The table cannot be: the values that were replaced since are gone."
            how = (
                "which goes on with the rows as they are: each is right again once its key is written again; or put back "
                "a copy of the database that was made with the savepoint"
            )
        todo = f"start once with hf.sinks.Sqlite(path, table, take_over=True), {how}"
        if self._take_over:
            detail += TAKEN_OVER
            todo = TAKE_OVER_AGAIN
        return SinkError(
            f"{self!r} has micro-batches up to {number} of this query, but another {info.batch_id} comes next.",
            detail=detail,
            todo=todo,
            context={"query": info.query_id, "micro_batch": info.batch_id},
        )

    @property
    def place(self) -> Hashable:
        return "sqlite", os.path.abspath(self.path), self.table.lower()

    def __repr__(self) -> str:
        return f"Sqlite({self.path!r}, {self.table!r})"


def _is_same(plan: str | None, other: str) -> bool:
    """Whether two plans are the same. What is unknown counts as the same."""
    return plan == other or not plan or not other


def _name_problems(table: Any) -> list[str]:
    if not isinstance(table, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", table):
        return [f"{table!r} is not a valid table name; use letters, digits and underscores."]
    if table.lower() in (NOTES, UPSERTS) or table.lower().startswith("sqlite_"):
        by = "SQLite" if table.lower().startswith("sqlite_") else "the sink"
        return [f"The table {table!r} is reserved: {by} uses it itself."]
    return []
