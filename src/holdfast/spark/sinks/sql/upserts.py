"""Which tables are upserted, in the table `holdfast_upserts` beside them.

    sink       the table
    key        the columns of its key, sorted, as JSON
    query_id   whose rows they are; null until the first micro-batch

Invariants
- A table in `holdfast_upserts` is not appended to, and one that was appended to is not in it.
- All rows of such a table are of one query, or were there before the first.
"""

from __future__ import annotations

import json

from holdfast.errors import SinkError
from holdfast.spark.sinks.sql.database import Database, Table
from holdfast.spark.sinks.upsert import Upsert

__all__ = ["UPSERTS", "Upserts"]

UPSERTS = "holdfast_upserts"


class Upserts:
    """Whether and how a table is upserted. All methods run within the caller's transaction."""

    def __init__(self, database: Database, table: Table, sink: str) -> None:
        self._database = database
        self._table = table
        self._name = database.folded(table.name)
        self._upserts = table.beside(UPSERTS)
        self._sink = sink
        """How messages call it."""

    def create(self) -> None:
        text = self._database.text
        self._database.create_once(self._upserts, f"sink {text} PRIMARY KEY, key {text} NOT NULL, query_id {text}")

    def forget(self) -> None:
        """For a table that does not exist: somebody has dropped it, and what it was is void."""
        self._database.run(f"DELETE FROM {self._upserts.sql} WHERE sink = $1", self._name)

    def refuse_appending(self) -> None:
        noted = self._key()
        if noted is not None:
            raise SinkError(
                f"{self._sink} is upserted by the key {', '.join(noted)}; rows cannot be appended to it.",
                detail="It has one row for each key. Appended rows would be refused, or be replaced.",
                todo="write with mode='upsert' and this key; or give another table, or drop this one",
            )

    def check(self, upsert: Upsert, was_appended: bool) -> None:
        """Makes sure that the table is upserted by this key and not otherwise, and notes it."""
        key, noted = sorted(map(self._database.folded, upsert.key)), self._key()
        if noted is None and was_appended:
            raise SinkError(
                f"{self._sink} has rows that were appended; they cannot be upserted from now on.",
                detail="A key may be in several of its rows, and which of them is the newest is not known.",
                todo="give another table, or drop this one",
            )
        if noted is not None and noted != key:
            raise SinkError(
                f"{self._sink} is upserted by the key {', '.join(noted)}, not by {upsert}.",
                todo="give another table, or drop this one",
            )
        if noted is None:
            insert = f"INSERT INTO {self._upserts.sql} (sink, key) VALUES ($1, $2)"
            self._database.run(insert, self._name, json.dumps(key, ensure_ascii=False))

    def check_owner(self, query_id: str | None, may_take_over: bool, how: str) -> None:
        """Refuses a query whose rows these are not, unless it may take them over. `how` says how to allow that."""
        owner = self._owner()
        if owner is not None and owner != query_id and not may_take_over:
            raise SinkError(
                f"{self._sink} has the rows of the query {owner}, not of this one.",
                detail="A new checkpoint makes a new query. It would put older values in the place of newer ones.",
                todo="give another table; or resume with the checkpoint that wrote it; or, if all rows of the table may be "
                f"deleted, start once with {how}",
            )

    def claim(self, query_id: str) -> bool:
        """Makes the table this query's; whether it was another's, whose rows are deleted."""
        owner = self._owner()
        if owner == query_id:
            return False
        self._database.run(f"UPDATE {self._upserts.sql} SET query_id = $1 WHERE sink = $2", query_id, self._name)
        if owner is None:
            return False
        self._database.run(f"DELETE FROM {self._table.sql}")
        return True

    def _key(self) -> list[str] | None:
        found = self._database.rows(f"SELECT key FROM {self._upserts.sql} WHERE sink = $1", self._name)
        return [str(name) for name in json.loads(found[0][0])] if found else None

    def _owner(self) -> str | None:
        found = self._database.rows(f"SELECT query_id FROM {self._upserts.sql} WHERE sink = $1", self._name)
        return found[0][0] if found else None
