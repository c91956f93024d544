"""A table in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.model.extras import require_extra
from holdfast.model.functions.options import DurationLike
from holdfast.spark.sinks.sql.postgres_access import PostgresAccess, access_problems
from holdfast.spark.sinks.sql.postgres_database import PostgresDatabase
from holdfast.spark.sinks.sql.postgres_errors import may_pass, sink_error
from holdfast.spark.sinks.sql.retrying import retried, retry_seconds
from holdfast.spark.sinks.sql.sink import SqlSink

if TYPE_CHECKING:
    import psycopg

__all__ = ["Postgres"]

Given = TypeVar("Given")


class Postgres(SqlSink):
    """Writes to a table in PostgreSQL, which is created if missing. Exactly-once: rows and a note of their micro-batch, in
    the table `holdfast_batches` of the same schema, are one transaction, and a micro-batch that is noted is skipped.

    `conninfo` is as libpq takes it, a URL or `host=… dbname=…`, but without a password. That comes from the environment
    (PGPASSWORD), a password file (~/.pgpass), a service file, or from where `password_env` or `password_file` says; it is
    read anew for each connection. TLS is as the connection string says, such as `sslmode=verify-full`.

    Trouble that may pass (a connection that is lost, a server that is down, a deadlock) is tried again for `retry_for`, the
    transaction as a whole; if the answer to a commit is lost, the note tells what became of it. Rows are as durable as the
    server makes a commit: `synchronous_commit=off` does not count here, and tables that are unlogged are refused.

    Append: several queries may write to one table; each has its own micro-batches. `batch_column` names a column of type
    uuid that gets the id of the row's micro-batch in `holdfast_batches`. With it and `take_over=True`, if the checkpoint
    was rolled back, this query's rows from the next micro-batch on are removed; otherwise they are an error.

    Upsert: the key is the primary key of the table, and each row replaces the one with its key. An existing table must have
    a primary key or unique index of just these columns; its rows are kept until their keys come. The table belongs to one
    query; another is refused, and so are another key, and appending. `take_over=True`: if the rows are another query's, all
    rows of the table are deleted. If the checkpoint was rolled back, the rows stay, since the values that they replaced are
    gone: each is right again once its key is written again. Without `take_over` both are errors.
    """

    name_bytes_max = 63

    def __init__(
        self,
        conninfo: str,
        table: str,
        *,
        schema: str = "public",
        password_env: str | None = None,
        password_file: str | None = None,
        batch_column: str | None = None,
        take_over: bool = False,
        retry_for: DurationLike = "1 minute",
    ) -> None:
        require_extra("postgres", "psycopg", (3, 2), "hf.sinks.Postgres")
        super().__init__(table, schema, batch_column, take_over)
        problems = [*self._problems(), *access_problems(conninfo, password_env, password_file)]
        self._retry_seconds = retry_seconds(retry_for, problems)
        if problems:
            raise InvalidStep.of("Postgres", problems)
        self._access = PostgresAccess(conninfo, password_env, password_file)
        self._place: Hashable = ("postgres", self._access.shown, self.table)

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        super().open(spark, schema, query_id)
        self._place = ("postgres", *self._transact(lambda database: database.place_of(self.table), keep=False))

    def _transact(self, work: Callable[[PostgresDatabase], Given], *, keep: bool = True) -> Given:
        import psycopg

        try:
            return retried(lambda: self._once(work, keep), psycopg.Error, may_pass, self._retry_seconds, repr(self))
        except psycopg.Error as error:
            raise sink_error(repr(self), error) from error

    def _once(self, work: Callable[[PostgresDatabase], Given], keep: bool) -> Given:
        with closing(self._connection()) as connection, connection.transaction(force_rollback=not keep):
            return work(PostgresDatabase(connection, self._retry_seconds))

    def _connection(self) -> psycopg.Connection[tuple[object, ...]]:
        import psycopg

        try:
            return self._access.connect()
        except psycopg.Error as error:
            failed = type(error)(str(error))
        # Not the error itself: it has the password in it, and in the variables of its traceback.
        raise failed

    @property
    def _how(self) -> str:
        return "hf.sinks.Postgres(conninfo, table"

    @property
    def place(self) -> Hashable:
        return self._place

    def __repr__(self) -> str:
        return f"Postgres({self._access.shown!r}, {str(self.table)!r})"
