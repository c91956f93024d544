"""Notes of what has been written, in the table `holdfast_batches` of the same SQLite database.

    sink                  the table, in lower case, since SQLite ignores case in names
    query_id              whose micro-batch it is
    batch_id              its number
    plan                  tells micro-batches with the same number apart
    first_row, last_row   the first and last rowid of its rows: 0 and -1 if there are none, null if they are not known; 0 and
                          -2: it was the first of those that a take-over has removed

Invariants
- A micro-batch's rows and its note are written in one transaction.
- Of those that a take-over has removed, the first after its own stays as such until one with its number or a later comes.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from holdfast.errors import SinkError
from holdfast.spark.sinks.base import BatchInfo
from holdfast.spark.sinks.sqlite_tables import columns_of, quoted, rowid_of

__all__ = ["NOTES", "Note", "Notes"]

NOTES = "holdfast_batches"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {NOTES} (sink TEXT, query_id TEXT, batch_id INTEGER, plan TEXT,"
    " first_row INTEGER, last_row INTEGER, PRIMARY KEY (sink, query_id, batch_id))"
)
_ADDED = {"plan": "TEXT", "first_row": "INTEGER", "last_row": "INTEGER"}
"""Columns that older versions' notes lack."""
_NOTE = "batch_id, plan, first_row, last_row"
_TAKEN_BACK = (0, -2)
_ALL = "lower(sink) = ? AND query_id = ?"
_OURS = f"{_ALL} AND coalesce(last_row, 0) <> -2"


@dataclass(frozen=True)
class Note:
    """That a micro-batch was written."""

    batch_id: int
    plan: str | None
    first_row: int | None
    last_row: int | None

    def is_of(self, plan: str) -> bool:
        """Whether it was planned so, which is known."""
        return bool(plan) and self.plan == plan


class Notes:
    """The notes of one table. All methods run within the caller's transaction."""

    def __init__(self, database: sqlite3.Connection, table: str, sink: str) -> None:
        self._database = database
        self._table = table
        self._sink = sink
        """How messages call it."""

    def create(self) -> None:
        self._database.execute(_CREATE)
        present = columns_of(self._database, NOTES)
        for name, kind in _ADDED.items():
            if name not in present:
                self._database.execute(f"ALTER TABLE {NOTES} ADD COLUMN {name} {kind}")

    def exist(self) -> bool:
        found = self._database.execute(f"SELECT 1 FROM {NOTES} WHERE lower(sink) = ? LIMIT 1", (self._table.lower(),))
        return found.fetchone() is not None

    def last(self, query_id: str) -> list[Note]:
        """The note of a query's last micro-batch, if there is one."""
        return self._found(f"{_OURS} ORDER BY batch_id DESC LIMIT 1", self._table.lower(), query_id)

    def taken_back(self, query_id: str) -> list[Note]:
        """The first of a query's micro-batches that were removed by a take-over, unless later ones have come."""
        return self._found(f"{_ALL} AND last_row = -2", self._table.lower(), query_id)

    def before(self, info: BatchInfo) -> list[Note]:
        """The note of a query's last micro-batch before one, if there is one."""
        return self._found(f"{_OURS} AND batch_id < ? ORDER BY batch_id DESC LIMIT 1", *self._since(info))

    def add(self, info: BatchInfo, first_row: int | None, last_row: int | None) -> Note:
        self._database.execute(f"DELETE FROM {NOTES} WHERE {_ALL} AND batch_id <= ? AND last_row = -2", self._since(info))
        return self._insert(info, first_row, last_row)

    def _insert(self, info: BatchInfo, first_row: int | None, last_row: int | None) -> Note:
        values = (*self._since(info), info.plan, first_row, last_row)
        self._database.execute(f"INSERT INTO {NOTES} (sink, query_id, {_NOTE}) VALUES (?, ?, ?, ?, ?, ?)", values)
        return Note(info.batch_id, info.plan, first_row, last_row)

    def forget_all(self) -> None:
        self._database.execute(f"DELETE FROM {NOTES} WHERE lower(sink) = ?", (self._table.lower(),))

    def take_back(self, info: BatchInfo) -> None:
        """Removes the notes of a query's micro-batches from one on, but for that of the first after it, which says so."""
        removed = self._found(f"{_OURS} AND batch_id > ? ORDER BY batch_id LIMIT 1", *self._since(info))
        self._database.execute(f"DELETE FROM {NOTES} WHERE {_ALL} AND batch_id >= ?", self._since(info))
        for note in removed:
            self._insert(BatchInfo(info.query_id, note.batch_id, note.plan or ""), *_TAKEN_BACK)

    def remove_rows_since(self, info: BatchInfo) -> None:
        """Removes the rows of a query's micro-batches from one on; raises SinkError if it is not known which these are."""
        noted = self._found(f"{_OURS} AND batch_id >= ?", *self._since(info))
        rowid = rowid_of(self._database, self._table)
        if any(None in (note.first_row, note.last_row) for note in noted) or rowid is None:
            raise self._not_known(info, "")
        for note in noted:
            self._check_not_shared(note, info)
        spans = [(note.first_row, note.last_row) for note in noted]
        self._database.executemany(f"DELETE FROM {quoted(self._table)} WHERE {rowid} BETWEEN ? AND ?", spans)

    def _check_not_shared(self, note: Note, info: BatchInfo) -> None:
        """SQLite reuses the numbers of rows removed by hand: they may be another query's by now."""
        query = (
            f"SELECT count(*) FROM {NOTES} WHERE lower(sink) = ? AND first_row <= ? AND last_row >= ?"
            " AND NOT (query_id = ? AND batch_id >= ?)"
        )
        values = (self._table.lower(), note.last_row, note.first_row, info.query_id, info.batch_id)
        [others] = self._database.execute(query, values).fetchone()
        if others:
            raise self._not_known(info, ": rows were removed by hand, and others have their numbers now")

    def _not_known(self, info: BatchInfo, why: str) -> SinkError:
        return SinkError(
            f"{self._sink} does not say which rows belong to the micro-batches from {info.batch_id} on{why}.",
            todo=f"remove those rows, and their notes in the table {NOTES}, by hand",
            context={"query": info.query_id},
        )

    def _found(self, where: str, *values: object) -> list[Note]:
        return [Note(*row) for row in self._database.execute(f"SELECT {_NOTE} FROM {NOTES} WHERE {where}", values)]

    def _since(self, info: BatchInfo) -> tuple[str, str, int]:
        return self._table.lower(), info.query_id, info.batch_id
