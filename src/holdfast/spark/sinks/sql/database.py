"""What a SQL sink needs of a database, within one transaction, and what it is told of a table."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

__all__ = ["STAGED", "Column", "Database", "Table", "quoted"]

STAGED = "holdfast_staged"
"""What the rows of a micro-batch are called until they are in their table."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Table:
    """A table by its name, whether it exists or not."""

    schema: str
    name: str

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def beside(self, name: str) -> Table:
        """Another table of the same schema."""
        return Table(self.schema, name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Column:
    """A column of a table that exists."""

    name: str
    kind: str
    """Its type, in the database's words."""
    fills_itself: bool = False
    """Whether it has a default, or is generated: rows need not have it."""
    takes_values: bool = True
    """Whether rows may have it; a generated column refuses."""
    length_max: int | None = None
    """How many characters fit into it."""


class Database(abc.ABC):
    """A database as one transaction sees it. Statements have $1, $2, … in the place of values."""

    text: ClassVar[str]
    """The type of texts that are equal only if all their characters are."""

    @abc.abstractmethod
    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs a statement; returns the rows that it gives."""

    @abc.abstractmethod
    def run(self, statement: str, *values: object) -> int:
        """Runs a statement; returns how many rows it has changed."""

    @abc.abstractmethod
    def lock(self, table: Table) -> None:
        """Waits until no other transaction has locked the table, which need not exist, and locks it to the end of this one.
        What is read afterwards has everything that those before have committed."""

    @abc.abstractmethod
    def hold(self, table: Table) -> None:
        """Makes sure that nobody alters an existing table before this transaction ends."""

    @abc.abstractmethod
    def missing_schema(self, table: Table) -> bool:
        """Whether the schema of a table does not exist."""

    @abc.abstractmethod
    def refusal(self, table: Table) -> str:
        """Why rows of an existing table would not be kept, or not in this transaction: the end of a sentence. Or ""."""

    @abc.abstractmethod
    def columns(self, table: Table) -> list[Column]:
        """The columns of a table; none if it does not exist."""

    @abc.abstractmethod
    def keeps_unique(self, table: Table, key: frozenset[str]) -> bool:
        """Whether no two rows of a table have the same values in just these columns (folded names), and rows whose values
        differ are never taken for the same."""

    @abc.abstractmethod
    def column_type(self, kind: pa.DataType, is_key: bool) -> str:
        """The type of a column that holds every value of an Arrow type."""

    @abc.abstractmethod
    def holds(self, column: Column, kind: pa.DataType, is_key: bool) -> bool:
        """Whether a column that exists holds every value of an Arrow type, but for texts that are too long."""

    @abc.abstractmethod
    def stage(self, rows: pa.Table, key: Sequence[str]) -> str:
        """Brings rows into the database, for this transaction; returns the relation that has them, with their names."""

    @abc.abstractmethod
    def folded(self, name: str) -> str:
        """A name in a form that is equal for names which the database takes for the same."""

    def create_once(self, table: Table, columns: str) -> None:
        """Creates a table unless it exists, also if others do so at the same time."""
        if not self.columns(table):
            self.lock(table)
            self.run(f"CREATE TABLE IF NOT EXISTS {table.sql} ({columns})")
