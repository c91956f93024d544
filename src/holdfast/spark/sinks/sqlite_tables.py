"""What SQLite says of its tables, and how their names are written."""

from __future__ import annotations

import sqlite3

__all__ = ["affinity", "columns_of", "declared_types", "last_row", "quoted", "rowid_of", "unique_keys"]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def columns_of(database: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table; none if it does not exist."""
    return [name for _, name, *_ in database.execute(f"PRAGMA table_info({quoted(table)})")]


def declared_types(database: sqlite3.Connection, table: str) -> dict[str, str]:
    """The types of a table's columns as they were declared, by names in lower case."""
    return {name.lower(): kind for _, name, kind, *_ in database.execute(f"PRAGMA table_info({quoted(table)})")}


def affinity(declared: str) -> str:
    """What a column of a declared type makes of values; BLOB leaves them as they are. The rules are SQLite's own."""
    rules = {"INTEGER": ["INT"], "TEXT": ["CHAR", "CLOB", "TEXT"], "BLOB": ["BLOB"], "REAL": ["REAL", "FLOA", "DOUB"]}
    for kind, parts in rules.items():
        if any(part in declared.upper() for part in parts):
            return kind
    return "NUMERIC" if declared else "BLOB"


def rowid_of(database: sqlite3.Connection, table: str) -> str | None:
    """The name by which a statement reaches the rowids of a table; None if it has none, or columns of its own with all of
    the names."""
    taken = set(declared_types(database, table))
    name = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
    if name is None:
        return None
    try:
        database.execute(f"SELECT {name} FROM {quoted(table)} LIMIT 0")
    except sqlite3.OperationalError:
        return None
    return name


def last_row(database: sqlite3.Connection, table: str) -> int | None:
    """The largest rowid; None if they cannot be reached."""
    rowid = rowid_of(database, table)
    if rowid is None:
        return None
    [[last]] = database.execute(f"SELECT coalesce(max({rowid}), 0) FROM {quoted(table)}").fetchall()
    return int(last)


def unique_keys(database: sqlite3.Connection, table: str) -> list[frozenset[str]]:
    """The sets of columns, in lower case, of which no two rows of a table have the same values, byte for byte."""
    indexes = database.execute(f"PRAGMA index_list({quoted(table)})").fetchall()
    found = [_columns_of_index(database, name) for _, name, unique, _, partial in indexes if unique and not partial]
    if not any(origin == "pk" for _, _, _, origin, _ in indexes):
        # A primary key without an index is the rowid itself, a whole number.
        found.append([n for _, n, _, _, _, place in database.execute(f"PRAGMA table_info({quoted(table)})") if place])
    return [frozenset(name.lower() for name in names) for names in found if names]


def _columns_of_index(database: sqlite3.Connection, index: str) -> list[str]:
    """The columns of an index; none if it has expressions, or takes different texts for equal."""
    parts = database.execute(f"PRAGMA index_xinfo({quoted(index)})").fetchall()
    names = [(name, collation) for _, _, name, _, collation, is_key in parts if is_key]
    return [] if any(name is None or collation != "BINARY" for name, collation in names) else [name for name, _ in names]
