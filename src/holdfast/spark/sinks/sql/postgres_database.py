"""PostgreSQL, within one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.spark.sinks.sql import postgres_types
from holdfast.spark.sinks.sql.database import STAGED, Column, Database, Table, quoted
from holdfast.spark.sinks.sql.postgres_values import copied
from holdfast.spark.sinks.sql.values import check_years

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PostgresDatabase"]

_STAGED = f"pg_temp.{STAGED}"
_IDLE_SECONDS = 60
"""How long a transaction may wait for a driver that stands still, and let others wait for its locks."""
_SETTINGS = """
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                                        ELSE current_setting('synchronous_commit') END, true),
       set_config('lock_timeout', $1, true),
       set_config('idle_in_transaction_session_timeout', $2, true),
       set_config('tcp_keepalives_idle', '30', true),
       set_config('tcp_keepalives_interval', '10', true),
       set_config('tcp_keepalives_count', '3', true)
"""
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), atthasdef OR attidentity <> '' OR attgenerated <> '',
       attidentity <> 'a' AND attgenerated = '',
       CASE WHEN atttypid = 'varchar'::regtype AND atttypmod > 4 THEN atttypmod - 4 END
FROM pg_catalog.pg_attribute
WHERE attrelid = to_regclass(CAST($1 AS text)) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
"""
_KINDS = """
SELECT oid = to_regclass(CAST($1 AS text)), relkind::text, relpersistence::text
FROM pg_catalog.pg_class
WHERE oid = to_regclass(CAST($1 AS text)) OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(CAST($1 AS text))))
"""
_UNIQUE = """
SELECT array(SELECT attname::text FROM unnest((indkey::int2[])[0:indnkeyatts - 1]) AS place
             JOIN pg_catalog.pg_attribute ON attrelid = indrelid AND attnum = place),
       indimmediate
       AND NOT EXISTS (SELECT 1 FROM unnest(indcollation::oid[]) AS used JOIN pg_catalog.pg_collation AS c ON c.oid = used
                       WHERE NOT collisdeterministic)
       AND NOT EXISTS (SELECT 1 FROM unnest(indclass::oid[]) AS used JOIN pg_catalog.pg_opclass AS c ON c.oid = used
                       WHERE opcnamespace <> 'pg_catalog'::regnamespace)
FROM pg_catalog.pg_index
WHERE indrelid = to_regclass(CAST($1 AS text)) AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL
"""
_NO_TABLE = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


class PostgresDatabase(Database):
    """A connection on which a transaction has begun, with the isolation READ COMMITTED: what is read after a lock was
    waited for has what its last owner committed."""

    text = 'text COLLATE "C"'

    def __init__(self, connection: Connection[Any], lock_seconds: float) -> None:
        self._connection = connection
        lock_ms = max(1000, round(lock_seconds * 1000))
        self.rows(_SETTINGS, str(lock_ms), f"{_IDLE_SECONDS}s")

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values or None).fetchall()

    def run(self, statement: str, *values: object) -> int:
        return self._connection.execute(statement, values or None).rowcount

    def lock(self, table: Table) -> None:
        digest = hashlib.blake2b(f"holdfast {table.sql}".encode(), digest_size=8).digest()
        # Two tables with one number would only wait for each other.
        self.rows("SELECT pg_advisory_xact_lock(CAST($1 AS bigint))", int.from_bytes(digest, "big", signed=True))

    def hold(self, table: Table) -> None:
        self.run(f"LOCK TABLE {table.sql} IN ROW EXCLUSIVE MODE")

    def missing_schema(self, table: Table) -> bool:
        return not self.rows("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", table.schema)

    def refusal(self, table: Table) -> str:
        for is_itself, kind, persistence in self.rows(_KINDS, table.sql):
            of = "is" if is_itself else "has a partition that is"
            if kind not in ("r", "p"):
                return f"{of} {_NO_TABLE.get(kind, 'something else')}, not a table"
            if persistence != "p":
                return f"{of} unlogged: if the server crashes, its rows are gone"
        return ""

    def columns(self, table: Table) -> list[Column]:
        return [Column(*found) for found in self.rows(_COLUMNS, table.sql)]

    def keeps_unique(self, table: Table, key: frozenset[str]) -> bool:
        # ON CONFLICT goes by every one that has these columns: a single one that takes two keys for one is too many.
        found = [is_exact for columns, is_exact in self.rows(_UNIQUE, table.sql) if frozenset(columns) == key]
        return bool(found) and all(found)

    def column_type(self, kind: pa.DataType, is_key: bool) -> str:
        nearest = postgres_types.column_type(kind)
        # The order of the system's locales changes with its version; that of bytes never does.
        return self.text if is_key and nearest == "text" else nearest

    def holds(self, column: Column, kind: pa.DataType, is_key: bool) -> bool:
        return postgres_types.holds(column.kind, kind, is_key)

    def stage(self, rows: pa.Table, key: Sequence[str]) -> str:
        check_years(rows)
        columns = ", ".join(f"{quoted(field.name)} {postgres_types.column_type(field.type)}" for field in rows.schema)
        self.run(f"CREATE TEMPORARY TABLE {STAGED} ({columns}) ON COMMIT DROP")
        with self._connection.cursor().copy(f"COPY {_STAGED} FROM STDIN (FORMAT csv, ENCODING 'UTF8')") as copy:
            for piece in copied(rows):
                copy.write(piece)
        return _STAGED

    def folded(self, name: str) -> str:
        return name

    def place_of(self, table: Table) -> tuple[object, ...]:
        """Which table of which server it is, however the server was reached."""
        [server] = self.rows(
            "SELECT extract(epoch FROM pg_postmaster_start_time()), CAST(oid AS bigint) FROM pg_catalog.pg_database"
            " WHERE datname = current_database()"
        )
        return (*server, table)
