"""The table that rows go to: created if it is missing, and checked if it is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import SinkError
from holdfast.spark.sinks.sql.database import Column, Database, Table, quoted
from holdfast.spark.sinks.upsert import Upsert
from holdfast.spark.types.arrow import column_type

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """A table as one sink writes to it. All methods run within the caller's transaction."""

    database: Database
    table: Table
    sink: str
    """How messages call it."""
    schema: pa.Schema
    """That of the rows."""
    upsert: Upsert | None
    batch_column: str | None

    @property
    def _key(self) -> tuple[str, ...]:
        return () if self.upsert is None else self.upsert.key

    def exists(self) -> bool:
        return bool(self.database.columns(self.table))

    def create(self) -> None:
        """Creates the table, with the key as its primary key if there is one."""
        if self.database.missing_schema(self.table):
            raise SinkError(
                f"{self.sink} cannot be created: there is no schema {self.table.schema!r} in the database.",
                todo=f"create it: CREATE SCHEMA {quoted(self.table.schema)}; or give another with schema=",
            )
        parts = [self._declared(field, field.name in self._key) for field in self.schema]
        if self.batch_column is not None:
            parts.append(f"{quoted(self.batch_column)} uuid NOT NULL")
        if self._key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, self._key))})")
        self.database.run(f"CREATE TABLE {self.table.sql} ({', '.join(parts)})")

    def _declared(self, field: pa.Field, is_key: bool) -> str:
        return f"{quoted(field.name)} {self.database.column_type(field.type, is_key)}{' NOT NULL' if is_key else ''}"

    def check(self) -> None:
        """Makes sure that an existing table takes all rows as they are, and that it stays so until the transaction ends."""
        refusal = self.database.refusal(self.table)
        if refusal:
            raise SinkError(f"{self.sink} {refusal}.", todo="give another table")
        self.database.hold(self.table)
        found = {self.database.folded(column.name): column for column in self.database.columns(self.table)}
        self._check_names(found)
        problems = [*self._type_problems(found)]
        if problems:
            raise SinkError(
                f"{self.sink} has columns that cannot hold every value of the rows.",
                detail="\n".join(problems),
                todo="give another table, alter this one, or cast the columns of the rows",
            )
        if self.upsert is not None:
            self._check_unique(self.upsert)

    def _check_names(self, found: dict[str, Column]) -> None:
        names = {self.database.folded(name) for name in self.schema.names}
        marked = set() if self.batch_column is None else {self.database.folded(self.batch_column)}
        lacking = [name for name, column in found.items() if name not in names | marked and not column.fills_itself]
        if lacking or not names | marked <= set(found):
            marks = "" if self.batch_column is None else f", and {self.batch_column} for the micro-batch"
            raise SinkError(
                f"{self.sink} has other columns than the rows.",
                detail=f"It has {', '.join(column.name for column in found.values())}\n"
                f"The rows have {', '.join(self.schema.names)}{marks}",
                todo="give another table, or alter this one; columns that rows do not have need a default",
            )

    def _type_problems(self, found: dict[str, Column]) -> Iterator[str]:
        for field in self.schema:
            column = found[self.database.folded(field.name)]
            if not column.takes_values:
                yield f"{column.name} is generated; the rows have values for it"
            elif not self.database.holds(column, field.type, field.name in self._key):
                wanted = self.database.column_type(field.type, field.name in self._key)
                yield f"{column.name} is {column.kind}; the rows have {column_type(field.type)}, which needs {wanted}"
        if self.batch_column is not None:
            column = found[self.database.folded(self.batch_column)]
            if column.kind.lower() != "uuid" or not column.takes_values:
                yield f"{column.name} is {column.kind}; a column for the micro-batch needs uuid"

    def _check_unique(self, upsert: Upsert) -> None:
        if not self.database.keeps_unique(self.table, frozenset(map(self.database.folded, upsert.key))):
            raise SinkError(
                f"{self.sink} does not keep the key {upsert} unique: it has no primary key or unique index of just these "
                "columns, over all rows, which is checked at once and tells all values apart.",
                todo=f"create one: CREATE UNIQUE INDEX {quoted(self.table.name + '_key')} ON {self.table.sql} "
                f"({', '.join(map(quoted, upsert.key))}); or give another table",
            )

    def put(self, staged: str, row_count: int, mark: str) -> None:
        """Writes staged rows; `mark` is the id of their micro-batch."""
        self._check_lengths(staged)
        names = [*map(quoted, self.schema.names)]
        values = list(names)
        marks: tuple[str, ...] = ()
        if self.batch_column is not None:
            names, values, marks = [*names, quoted(self.batch_column)], [*values, "CAST($1 AS uuid)"], (mark,)
        # A table may have the name `excluded`, by which the clause calls the rows that come.
        insert = f"INSERT INTO {self.table.sql} AS written ({', '.join(names)}) SELECT {', '.join(values)} FROM {staged}"
        changed = self.database.run(insert + self._conflict(), *marks)
        if changed != row_count and not self._conflict().endswith("NOTHING"):
            raise SinkError(
                f"{self.sink} took {changed} rows of {row_count}: a trigger or rule of the table changes what is written.",
                detail="The transaction was not committed: the table is as it was.",
                todo="give a table without it",
            )

    def _conflict(self) -> str:
        if self.upsert is None:
            return ""
        key = ", ".join(map(quoted, self.upsert.key))
        others = [quoted(name) for name in self.schema.names if name not in self.upsert.key]
        does = f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
        return f" ON CONFLICT ({key}) DO {does}"

    def _check_lengths(self, staged: str) -> None:
        """Databases cut off spaces at the end of a text that is too long."""
        longest = {self.database.folded(c.name): c.length_max for c in self.database.columns(self.table)}
        for name in self.schema.names:
            length = longest[self.database.folded(name)]
            if length is None:
                continue
            [[over]] = self.database.rows(f"SELECT count(*) FROM {staged} WHERE length({quoted(name)}) > {length}")
            if over:
                raise SinkError(
                    f"{self.sink} has room for {length} characters in the column {name!r}; {over} of the rows have more.",
                    todo="give the column the type text, or shorten the values; the micro-batch comes again when the job is "
                    "started",
                )
