"""Notes of what has been written, in the table `holdfast_batches` beside the tables that rows go to.

    sink           the table
    query_id       whose micro-batch it is
    batch_id       its number
    plan           tells micro-batches with the same number apart
    id             made from all of these; rows have it if they are marked
    batch_column   the column of the table that has the id; null if its rows are not marked
    row_count      how many rows it has written; -1: it was the first of those that a take-over has removed
    written_at     when, by the database's clock

Invariants
- A micro-batch's rows and its note are written in one transaction.
- No two notes have the same sink, query and number; the primary key sees to it, even if no lock did.
- A note is kept for as long as it is of use. The last one of a query tells whether a micro-batch comes again. The last one
  with rows that are not marked tells from where on there are none. Each one with marked rows is the only way to find these,
  if ever a savepoint is restored that is older than they are. All others are removed when the next one is added.
- Of those that a take-over has removed, the first after its own stays as such until one with its number or a later comes.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass

from holdfast.spark.sinks.base import BatchInfo
from holdfast.spark.sinks.sql.database import Database, Table

__all__ = ["NOTES", "Note", "Notes"]

NOTES = "holdfast_batches"


@dataclass(frozen=True)
class Note:
    """That a micro-batch was written."""

    batch_id: int
    plan: str
    batch_column: str | None
    row_count: int

    def is_of(self, plan: str) -> bool:
        """Whether it was planned so, which is known."""
        return bool(plan) and self.plan == plan


class Notes:
    """The notes of one sink. All methods run within the caller's transaction."""

    def __init__(self, database: Database, table: Table) -> None:
        self._database = database
        self._sink = database.folded(table.name)
        self._table = table.beside(NOTES)

    def create(self) -> None:
        text = self._database.text
        self._database.create_once(
            self._table,
            f"sink {text} NOT NULL, query_id {text} NOT NULL, batch_id bigint NOT NULL, plan {text} NOT NULL,"
            f" id uuid NOT NULL, batch_column {text}, row_count bigint NOT NULL,"
            " written_at timestamp with time zone DEFAULT current_timestamp, PRIMARY KEY (sink, query_id, batch_id)",
        )

    def exist(self) -> bool:
        return bool(self._database.rows(f"SELECT 1 FROM {self._table.sql} WHERE sink = $1 LIMIT 1", self._sink))

    def since(self, info: BatchInfo) -> list[Note]:
        """The notes of a query from a micro-batch on, in order."""
        found = self._database.rows(
            f"SELECT {_NOTE} FROM {self._table.sql} WHERE {_SINCE} ORDER BY batch_id",
            *self._since(info),
        )
        return [Note(*row) for row in found]

    def last(self, query_id: str) -> list[Note]:
        """The note of a query's last micro-batch, if there is one."""
        found = self._database.rows(
            f"SELECT {_NOTE} FROM {self._table.sql} WHERE {_OURS} ORDER BY batch_id DESC LIMIT 1",
            *(self._sink, query_id),
        )
        return [Note(*row) for row in found]

    def taken_back(self, query_id: str) -> list[Note]:
        """The first of a query's micro-batches that were removed by a take-over, unless later ones have come."""
        found = self._database.rows(
            f"SELECT {_NOTE} FROM {self._table.sql} WHERE sink = $1 AND query_id = $2 AND row_count = {_TAKEN_BACK}",
            *(self._sink, query_id),
        )
        return [Note(*row) for row in found]

    def before(self, info: BatchInfo) -> list[Note]:
        """The note of a query's last micro-batch before one, if there is one."""
        found = self._database.rows(
            f"SELECT {_NOTE} FROM {self._table.sql} WHERE {_OURS} AND batch_id < $3 ORDER BY batch_id DESC LIMIT 1",
            *self._since(info),
        )
        return [Note(*row) for row in found]

    def add(self, info: BatchInfo, batch_column: str | None, row_count: int, *, is_upserted: bool = False) -> Note:
        """Notes a micro-batch, in the place of notes that are of no use beside it."""
        # At most two before it can be: the last one, and the last one with rows that are not marked.
        before = f"SELECT batch_id FROM {self._table.sql} WHERE {_OURS} ORDER BY batch_id DESC LIMIT 2"
        useless = "row_count = 0"
        if is_upserted:
            useless = "true"
        elif row_count and batch_column is None:
            useless += " OR batch_column IS NULL"
        self._database.run(
            f"DELETE FROM {self._table.sql} WHERE sink = $1 AND query_id = $2 AND (batch_id IN ({before}) AND ({useless})"
            f" OR row_count = {_TAKEN_BACK} AND batch_id <= $3)",
            *self._since(info),
        )
        return self._insert(info, batch_column, row_count)

    def _insert(self, info: BatchInfo, batch_column: str | None, row_count: int) -> Note:
        self._database.run(
            f"INSERT INTO {self._table.sql} (sink, query_id, batch_id, plan, id, batch_column, row_count)"
            " VALUES ($1, $2, $3, $4, CAST($5 AS uuid), $6, $7)",
            *(self._sink, info.query_id, info.batch_id, info.plan, self.id_of(info), batch_column, row_count),
        )
        return Note(info.batch_id, info.plan, batch_column, row_count)

    def remove_marked(self, target: Table, column: str, info: BatchInfo) -> None:
        """Removes the rows of a query's micro-batches from one on; `column` has their ids."""
        ids = f"SELECT id FROM {self._table.sql} WHERE {_SINCE}"
        self._database.run(f"DELETE FROM {target.sql} WHERE {column} IN ({ids})", *self._since(info))

    def take_back(self, info: BatchInfo) -> None:
        """Removes the notes of a query's micro-batches from one on, but for that of the first after it, which says so."""
        removed = [note for note in self.since(info) if note.batch_id > info.batch_id]
        where = "sink = $1 AND query_id = $2 AND batch_id >= $3"
        self._database.run(f"DELETE FROM {self._table.sql} WHERE {where}", *self._since(info))
        for note in removed[:1]:
            self._insert(BatchInfo(info.query_id, note.batch_id, note.plan), None, _TAKEN_BACK)

    def forget_all(self) -> None:
        self._database.run(f"DELETE FROM {self._table.sql} WHERE sink = $1", self._sink)

    def id_of(self, info: BatchInfo) -> str:
        """The same for the same micro-batch of this sink, and another for any other."""
        parts = json.dumps([self._sink, info.query_id, info.batch_id, info.plan])
        return str(uuid.UUID(bytes=hashlib.blake2b(parts.encode(), digest_size=16).digest()))

    def _since(self, info: BatchInfo) -> tuple[str, str, int]:
        return self._sink, info.query_id, info.batch_id


_NOTE = "batch_id, plan, batch_column, row_count"
_TAKEN_BACK = -1
_OURS = "sink = $1 AND query_id = $2 AND row_count >= 0"
_SINCE = f"{_OURS} AND batch_id >= $3"
