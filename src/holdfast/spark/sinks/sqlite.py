"""A table of a SQLite database: for small outputs, such as alerts, on one machine."""

from __future__ import annotations

import datetime
import decimal
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sinks.base import BatchInfo, Sink

__all__ = ["Sqlite"]

_TYPES = {"byte": "INTEGER", "short": "INTEGER", "integer": "INTEGER", "long": "INTEGER", "boolean": "INTEGER"}
_TYPES |= {"float": "REAL", "double": "REAL", "binary": "BLOB"}


class Sqlite(Sink):
    """Appends rows to a table, which is made if it is not there. Exactly once: the rows of a micro-batch and the note
    that it has been written are one transaction."""

    evaluates_all = True

    def __init__(self, path: str | Path, table: str) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", table):
            raise InvalidStep("sink", [f"{table!r} is no name for a table: use letters, digits and underscores."])
        self.path = str(path)
        self.table = table

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        values = [tuple(map(_plain, row)) for row in rows.collect()]
        with closing(sqlite3.connect(self.path, timeout=60)) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS holdfast_batches"
                " (sink TEXT, query_id TEXT, batch_id INTEGER, PRIMARY KEY (sink, query_id, batch_id))"
            )
            database.execute(self._create_table(rows.schema))
            noted = database.execute(
                "INSERT OR IGNORE INTO holdfast_batches VALUES (?, ?, ?)", (self.table, info.query_id, info.batch_id)
            )
            if noted.rowcount == 0:
                return
            places = ", ".join("?" * len(rows.schema))
            database.executemany(f'INSERT INTO "{self.table}" VALUES ({places})', values)

    def _create_table(self, schema: StructType) -> str:
        columns = ", ".join(
            f'"{field.name.replace(chr(34), "")}" {_TYPES.get(field.dataType.typeName(), "TEXT")}' for field in schema
        )
        return f'CREATE TABLE IF NOT EXISTS "{self.table}" ({columns})'

    def __repr__(self) -> str:
        return f"Sqlite({self.path!r}, {self.table!r})"


def _plain(value: Any) -> Any:
    """What SQLite can hold: times and decimals as text, nested values as JSON."""
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, default=str)
    return bytes(value) if isinstance(value, bytearray) else value
