"""What went wrong with PostgreSQL: whether it may pass, and what a user is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.errors import SinkError
from holdfast.spark.sinks.sql.notes import NOTES

if TYPE_CHECKING:
    import psycopg

__all__ = ["may_pass", "sink_error"]

_PASSING = re.compile(
    "08..."  # the connection is lost
    "|40001|40P01"  # transactions got in each other's way
    "|53..."  # too many connections, no memory, no room on the disk
    "|55P03"  # a lock was not to be had in time
    "|57014|57P0[1235]"  # broken off by an administrator; going down; coming up
    "|25P03"  # this process stood still for too long
    "|25006"  # a standby, which may become the server
)
_FOR_GOOD = re.compile(
    "authentication failed|no password supplied|pg_hba.conf|does not exist|permission denied|is not permitted to log in"
    "|does not support SSL|certificate|server does not support",
    re.IGNORECASE,
)
"""Refusals of a connection, which have no code; in other languages they are tried again for a while."""
_NUL = ("22021", "22P05")


def may_pass(error: psycopg.Error) -> bool:
    """Whether the same transaction may succeed a little later."""
    import psycopg

    if error.sqlstate is not None:
        return _PASSING.fullmatch(error.sqlstate) is not None or _is_doubled_note(error)
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and not _FOR_GOOD.search(str(error))


def _is_doubled_note(error: psycopg.Error) -> bool:
    """Somebody else has written the same micro-batch at the same time."""
    return error.sqlstate == "23505" and error.diag.table_name == NOTES


def sink_error(sink: str, error: psycopg.Error) -> SinkError:
    """The error as a user is told it."""
    said = (error.diag.message_primary or str(error)).strip().rstrip(".")
    more = [part for part in (error.diag.message_detail, error.diag.message_hint, error.diag.context) if part]
    passing = may_pass(error)
    became = (
        "If the connection was lost during a commit, the rows may be in the table; they will not be written twice."
        if error.sqlstate is None and passing
        else "The transaction was not committed: the table is as it was."
    )
    return SinkError(
        f"{sink} {'could not' if passing else 'cannot'} be written: {said}.",
        detail="\n".join([*more, became]),
        todo=_todo(error, passing),
    )


def _todo(error: psycopg.Error, passing: bool) -> str:
    state, said = error.sqlstate or "", str(error)
    if passing:
        return "see that the server runs and can be reached, then start the job again: the micro-batch comes again"
    if state == "42501":
        return (
            "grant what is missing: USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the table and on "
            f"{NOTES} and holdfast_upserts; CREATE on the schema if these do not exist yet"
        )
    if state in _NUL:
        return "PostgreSQL has no texts with the character NUL: remove it, translate(column, char(0), ''), or write binary"
    if state[:2] in ("22", "23"):
        return "mend the rows, or alter the table; the micro-batch comes again when the job is started"
    if "password" in said or "authentication" in said:
        return (
            "give the right password and user; the password by PGPASSWORD, a password file (~/.pgpass), a service file, "
            "password_env='…' or password_file='…'"
        )
    return "mend what the message says, then start the job again: the micro-batch comes again"
