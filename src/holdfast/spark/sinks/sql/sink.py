"""What the sinks for SQL databases have in common: when a micro-batch is written, and when it is left out or refused.

Invariants
- A micro-batch's rows and its note are one transaction. If the answer to a commit is lost, the note tells what became of it.
- One transaction at a time works on a table: each locks it before it reads the notes, whichever job or driver it is of.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep, SinkError
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.sql.database import STAGED, Database, Table, quoted
from holdfast.spark.sinks.sql.notes import NOTES, Note, Notes
from holdfast.spark.sinks.sql.target import Target
from holdfast.spark.sinks.sql.upserts import UPSERTS, Upserts
from holdfast.spark.sinks.succession import TAKE_OVER_AGAIN, TAKEN_OVER, Succession, other_job, was_taken_back
from holdfast.spark.sinks.upsert import Upsert
from holdfast.spark.types.arrow import arrow_schema

__all__ = ["SqlSink"]

Given = TypeVar("Given")
Own = TypeVar("Own", bound="SqlSink")


class SqlSink(Sink):
    """Writes to a table of a SQL database. A class for a database says how to connect, and what its `Database` is."""

    evaluates_all = True
    name_bytes_max: int | None = None
    """How long the name of a table or column may be."""

    def __init__(self, table: str, schema: str, batch_column: str | None, take_over: bool) -> None:
        self.table = Table(schema, table)
        self._batch_column = batch_column
        self._take_over = take_over
        self._may_take_over = take_over
        """Only the first micro-batch takes over: whatever comes later and does not fit is no rollback. A job that is started
        again after a failure uses the same sink, and does not take over once more."""
        self._last_at_open: list[Note] | None = None
        """The last micro-batch of this query when `open` was called, if there was one. What others have written since, a
        driver that took this one for dead, is not taken over."""
        self._upsert: Upsert | None = None
        self._succession = Succession()

    @abc.abstractmethod
    def _transact(self, work: Callable[[Database], Given], *, keep: bool = True) -> Given:
        """Runs `work` in a transaction, again if the trouble may pass; commits it if `keep`. Raises SinkError."""

    @property
    @abc.abstractmethod
    def _how(self) -> str:
        """How a user writes this sink, up to the options."""

    def upserting(self: Own, upsert: Upsert) -> Own:
        if self._batch_column is not None:
            raise InvalidStep.of_sink(self, ["batch_column is for rows that are appended; leave it out when upserting."])
        same = copy.copy(self)
        same._upsert = upsert
        same._succession = Succession()
        return same

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        self._may_take_over = self._take_over and not self._succession.has_begun(query_id)
        self._succession.start_again()
        nothing = arrow_schema(schema).empty_table()
        self._check_names(nothing.schema)
        self._last_at_open = self._transact(lambda database: self._begin(database, nothing.schema, query_id))
        # The database itself says now if it would refuse: for want of a permission, say.
        self._transact(lambda database: self._try(database, nothing), keep=False)

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        table = rows.toArrow()
        self._check_names(table.schema)
        if self._upsert is not None:
            table = self._upsert.newest(table)
        last = self._transact(lambda database: self._write(database, table, info))
        self._may_take_over = False
        self._succession.wrote(info.query_id, last)

    def _write(self, database: Database, rows: pa.Table, info: BatchInfo) -> Note:
        """Writes a micro-batch, unless it is there; returns its note."""
        # The rows take the longest; until they are there, others may write.
        staged = database.stage(rows, self._key)
        target = self._prepare(database, rows.schema, info.query_id)
        notes = Notes(database, self.table)
        if self._upsert is not None and self._upserts(database).claim(info.query_id):
            notes.forget_all()
        written = self._written(database, notes, info)
        if written is not None:
            return written
        target.put(staged, rows.num_rows, notes.id_of(info))
        return notes.add(info, self._mark, rows.num_rows, is_upserted=self._upsert is not None)

    def _begin(self, database: Database, schema: pa.Schema, query_id: str | None) -> list[Note]:
        """Makes sure that rows can be written; returns the last micro-batch of this query."""
        self._prepare(database, schema, query_id)
        return [] if query_id is None else Notes(database, self.table).last(query_id)

    def _try(self, database: Database, nothing: pa.Table) -> None:
        """Writes no rows, as a micro-batch would."""
        self._target(database, nothing.schema).put(database.stage(nothing, self._key), 0, _NO_ID)

    def _prepare(self, database: Database, schema: pa.Schema, query_id: str | None) -> Target:
        """Locks the table, and creates what is missing or checks that it fits."""
        database.lock(self.table)
        target, notes, upserts = self._target(database, schema), Notes(database, self.table), self._upserts(database)
        exists = target.exists()
        if not exists:
            target.create()
        notes.create()
        upserts.create()
        if not exists:
            upserts.forget()
            if self._upsert is not None:
                # If there are any, they are of a table that somebody has dropped, and which may have been appended to.
                notes.forget_all()
        if self._upsert is None:
            upserts.refuse_appending()
        else:
            upserts.check(self._upsert, notes.exist())
            upserts.check_owner(query_id, self._may_take_over, f"{self._how}, take_over=True)")
        target.check()
        return target

    def _written(self, database: Database, notes: Notes, info: BatchInfo) -> Note | None:
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
            self._remove_rows(database, notes, notes.since(info), info)
        notes.take_back(info)
        return None

    def _remove_rows(self, database: Database, notes: Notes, noted: Sequence[Note], info: BatchInfo) -> None:
        marks = {note.batch_column for note in noted if note.row_count}
        if None in marks or marks - {self._mark}:
            before = next(iter(marks - {self._mark}), None)
            raise SinkError(
                f"{self!r} does not say which rows belong to the micro-batches from {info.batch_id} on: they were written "
                f"{'without batch_column' if before is None else f'with batch_column={before!r}'}.",
                todo=f"remove those rows, and their notes in the table {NOTES}, by hand; or give another table. With "
                "batch_column='…' from the beginning, take_over=True can do it",
                context={"query": info.query_id},
            )
        if self._batch_column is not None:
            notes.remove_marked(self.table, quoted(self._batch_column), info)

    def _taken_back(self, number: int, info: BatchInfo) -> SinkError:
        if self._upsert is not None:
            detail = "The checkpoint was rolled back. The table cannot be: the values that were replaced since are gone."
            how = (
                f"start once with {self._how}, take_over=True), which goes on with the rows as they are: each is right "
                "again once its key is written again; or put back a copy of the table, and of the notes, that was made with "
                "the savepoint"
            )
        else:
            detail = "The checkpoint was rolled back. New rows would be mixed with those written before."
            how = f"remove the rows from {info.batch_id} on, and their notes in {NOTES}, by hand; or give another table"
            if self._batch_column is not None:
                how = (
                    f"start once with {self._how}, batch_column={self._batch_column!r}, take_over=True), which removes the "
                    f"rows from {info.batch_id} on; or give another table"
                )
        if self._take_over:
            detail += TAKEN_OVER
            how = TAKE_OVER_AGAIN
        return SinkError(
            f"{self!r} has micro-batches up to {number} of this query, but another {info.batch_id} comes next.",
            detail=detail,
            todo=how,
            context={"query": info.query_id, "micro_batch": info.batch_id},
        )

    @property
    def _key(self) -> tuple[str, ...]:
        return () if self._upsert is None else self._upsert.key

    @property
    def _mark(self) -> str | None:
        return None if self._batch_column is None else self._folded(self._batch_column)

    def _target(self, database: Database, schema: pa.Schema) -> Target:
        return Target(database, self.table, repr(self), schema, self._upsert, self._batch_column)

    def _upserts(self, database: Database) -> Upserts:
        return Upserts(database, self.table, repr(self))

    def _check_names(self, schema: pa.Schema) -> None:
        problems = [] if schema.names else ["The rows have no columns."]
        problems += [problem for name in schema.names for problem in self._name_problems(name, "column")]
        names = [self._folded(name) for name in schema.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        problems += [f"Two columns have the name {name!r}; rename one." for name in twice]
        if self._batch_column is not None and self._folded(self._batch_column) in names:
            problems.append(f"The rows have a column {self._batch_column!r}; give batch_column another name.")
        if problems:
            raise InvalidStep.of_sink(self, problems)

    def _folded(self, name: str) -> str:
        return name

    def _name_problems(self, name: Any, of: str) -> list[str]:
        """What speaks against the name of a schema, table or column."""
        if not isinstance(name, str) or not name or "\0" in name or not _is_unicode(name):
            return [f"{name!r} is not a valid {of} name."]
        if self.name_bytes_max is not None and len(name.encode()) > self.name_bytes_max:
            return [f"The {of} name {name!r} is longer than {self.name_bytes_max} bytes; the database would cut it off."]
        return []

    def _problems(self) -> list[str]:
        """What speaks against the names that were given."""
        problems = [*self._name_problems(self.table.schema, "schema"), *self._name_problems(self.table.name, "table")]
        if not problems and self._folded(self.table.name) in (NOTES, UPSERTS, STAGED):
            problems.append(f"The table {self.table.name!r} is reserved: the sink uses it itself.")
        if self._batch_column is not None:
            problems += self._name_problems(self._batch_column, "column")
        return problems


def _is_same(plan: str, other: str) -> bool:
    """Whether two plans are the same. What is unknown counts as the same."""
    return plan == other or not plan or not other


_NO_ID = "00000000-0000-0000-0000-000000000000"


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
