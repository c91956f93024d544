"""Places that SQL sinks write to, with what tests need of each: a sink, statements, rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import holdfast as hf

__all__ = ["DuckDBPlace", "Rows", "rows"]


class Rows:
    """What a sink needs of a DataFrame."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def toArrow(self) -> pa.Table:
        return self._table


def rows(*values: tuple[Any, ...], names: tuple[str, ...] = ("k", "n"), kinds: tuple[Any, ...] = ()) -> Rows:
    """Rows of a text and a number, unless told otherwise."""
    fields = list(zip(names, kinds or (pa.string(), pa.int64()), strict=True))
    columns = [pa.array([row[place] for row in values], kind) for place, (_, kind) in enumerate(fields)]
    return Rows(pa.table(columns, schema=pa.schema(fields)))


class DuckDBPlace:
    """A database file of its own for a test."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "rows.duckdb")
        self.schema = "main"

    def sink(self, table: str = "counts", **options: Any) -> hf.sinks.DuckDB:
        return hf.sinks.DuckDB(self.path, table, **options)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        import duckdb

        with duckdb.connect(self.path) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall()

    def rows(self, table: str = "counts", columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.execute(f'SELECT {columns} FROM "{table}"'), key=repr)
