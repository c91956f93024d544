"""A table in a DuckDB database: for results on one machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import InvalidStep, SinkError
from holdfast.model.extras import require_extra
from holdfast.model.functions.options import DurationLike
from holdfast.spark.sinks.sql.database import Database
from holdfast.spark.sinks.sql.duckdb_database import DuckDBDatabase
from holdfast.spark.sinks.sql.retrying import retried, retry_seconds
from holdfast.spark.sinks.sql.sink import SqlSink

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDB"]

Given = TypeVar("Given")

_turns: dict[str, threading.Lock] = {}
"""By the path of a database: whoever has the lock writes to it. Other processes are kept out by DuckDB itself."""


class DuckDB(SqlSink):
    """Writes to a table in a DuckDB database, which is created if missing. Exactly-once: rows and a note of their
    micro-batch, in the table `holdfast_batches` of the same schema, are one transaction, and a micro-batch that is noted is
    skipped.

    DuckDB gives a database to one process at a time. The sink has it open only while it writes, so that others can read
    between micro-batches; while others have it, the sink waits for up to `retry_for`.

    Append: several queries may write to one table; each has its own micro-batches. `batch_column` names a column of type
    uuid that gets the id of the row's micro-batch in `holdfast_batches`. With it and `take_over=True`, if the checkpoint
    was rolled back, this query's rows from the next micro-batch on are removed; otherwise they are an error.

    Upsert: the key is the primary key of the table, and each row replaces the one with its key. An existing table must have
    a primary key or unique index of just these columns; its rows are kept until their keys come. The table belongs to one
    query; another is refused, and so are another key, and appending. `take_over=True`: if the rows are another query's, all
    rows of the table are deleted. If the checkpoint was rolled back, the rows stay, since the values that they replaced are
    gone: each is right again once its key is written again. Without `take_over` both are errors.
    """

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        schema: str = "main",
        batch_column: str | None = None,
        take_over: bool = False,
        retry_for: DurationLike = "1 minute",
    ) -> None:
        # Older ones stored -0.0 as 0.0, and hid what collations take for the same.
        require_extra("duckdb", "duckdb", (2, 0), "hf.sinks.DuckDB")
        super().__init__(table, schema, batch_column, take_over)
        problems = self._problems()
        if not isinstance(path, (str, Path)):
            problems.append(f"path is {path!r}; give the path of a file.")
        elif str(path) == "" or str(path).startswith(":memory:"):
            problems.append(f"{str(path)!r} is a database that is lost with each connection; give a file.")
        self._retry_seconds = retry_seconds(retry_for, problems)
        if problems:
            raise InvalidStep.of("DuckDB", problems)
        self.path = str(path)

    def _transact(self, work: Callable[[Database], Given], *, keep: bool = True) -> Given:
        import duckdb

        try:
            with _turn(self._file):
                return retried(lambda: self._once(work, keep), duckdb.Error, _may_pass, self._retry_seconds, repr(self))
        except duckdb.Error as error:
            raise self._told(error) from error

    def _once(self, work: Callable[[Database], Given], keep: bool) -> Given:
        import duckdb

        # The whole path: DuckDB takes some names for something else than a file.
        with duckdb.connect(self._file) as connection:
            # An instance that others use in this process may take texts for the same that are not.
            connection.execute("SET SESSION default_collation = ''")
            connection.begin()
            try:
                given = work(DuckDBDatabase(connection))
            except BaseException:
                with suppress(duckdb.Error):
                    connection.rollback()
                raise
            connection.commit() if keep else connection.rollback()
            return given

    @property
    def _file(self) -> str:
        return os.path.realpath(self.path)

    def _folded(self, name: str) -> str:
        return name.lower()

    @property
    def _how(self) -> str:
        return "hf.sinks.DuckDB(path, table"

    @property
    def place(self) -> Hashable:
        return "duckdb", self._file, self.table.schema.lower(), self.table.name.lower()

    def __repr__(self) -> str:
        return f"DuckDB({self.path!r}, {str(self.table)!r})"

    def _told(self, error: duckdb.Error) -> SinkError:
        passing = _may_pass(error)
        todo = "check that the directory exists and is writable, and that the file is a DuckDB database"
        if passing:
            todo = "see that no other process keeps the database open, then start the job again: the micro-batch comes again"
        return SinkError(
            f"{self!r} {'could not' if passing else 'cannot'} be written: {str(error).strip().rstrip('.')}.",
            detail="The transaction was not committed: the table is as it was.",
            todo=todo,
        )


@contextmanager
def _turn(path: str) -> Iterator[None]:
    with _turns.setdefault(path, threading.Lock()):
        yield


def _may_pass(error: duckdb.Error) -> bool:
    """Whether another process has the database, or another transaction got in the way."""
    import duckdb

    return isinstance(error, duckdb.TransactionException) or "Could not set lock" in str(error)
