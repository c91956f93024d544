"""How a sink reaches a PostgreSQL server: where it is, who we are, and the password, which is not kept.

Invariant: no attribute, repr or error has a password. It is read anew for each connection, from where the user keeps it, and
given to the driver alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import SinkError

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["PostgresAccess", "access_problems"]

_SHOWN = ("service", "host", "hostaddr", "port", "dbname", "user")
_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_DEFAULTS = {
    "connect_timeout": "10",
    # A network that has fallen silent is noticed within a minute.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_WHERE = "PGPASSWORD, a password file (~/.pgpass), a service file, password_env='…' or password_file='…'"


@dataclass(frozen=True)
class PostgresAccess:
    """A connection string without secrets, and where the password is, unless libpq finds it by itself."""

    conninfo: str
    password_env: str | None = None
    password_file: str | None = None

    @property
    def shown(self) -> str:
        """The connection string as messages have it: where the server is, and who we are."""
        given = _parsed(self.conninfo) or {}
        return " ".join(f"{name}={given[name]}" for name in _SHOWN if name in given)

    def connect(self) -> Connection[Any]:
        """A new connection, which begins no transaction by itself."""
        import psycopg

        given = _parsed(self.conninfo) or {}
        # What we give goes before what a service file says.
        defaults = {} if "service" in given or "PGSERVICE" in os.environ else _DEFAULTS
        connection: Connection[Any] = psycopg.connect(
            **{**defaults, **given, **self._password()},
            fallback_application_name="holdfast",
            autocommit=True,
            client_encoding="utf8",
            cursor_factory=psycopg.RawCursor,
            # A pooler between us and the server may give each transaction another of its connections.
            prepare_threshold=None,
        )
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        connection.read_only = False
        return connection

    def _password(self) -> dict[str, str]:
        if self.password_env is not None:
            found = os.environ.get(self.password_env)
            if found is None:
                raise SinkError(
                    f"There is no password for {self.shown}: the environment has no variable {self.password_env!r}.",
                    todo="set it where the job's driver runs",
                )
            return {"password": self._checked(found)}
        if self.password_file is not None:
            try:
                content = Path(self.password_file).read_bytes()
            except OSError as error:
                raise SinkError(
                    f"There is no password for {self.shown}: {self.password_file!r} cannot be read: {error.strerror}.",
                    todo="put the password, and nothing else, into this file where the job's driver runs",
                ) from None
            return {"password": self._checked(os.fsdecode(content).rstrip("\r\n"))}
        return {}

    def _checked(self, password: str) -> str:
        """The password, if it can be one: errors that others raise about it might quote it."""
        if not password or not password.isprintable():
            raise SinkError(
                f"The password for {self.shown} is empty, or has characters that are not printable text in UTF-8.",
                todo="put the password, and nothing else, where password_env or password_file says",
            )
        return password


def access_problems(conninfo: Any, password_env: Any, password_file: Any) -> Iterator[str]:
    """What speaks against these; no problem quotes the connection string, which may have a password anywhere."""
    given = _parsed(conninfo) if isinstance(conninfo, str) else None
    if given is None:
        yield (
            "The connection string cannot be read: give postgresql://user@host/database or 'host=… dbname=… user=…', as "
            "libpq takes them."
        )
    elif any(name in given for name in _SECRET):
        yield (
            "The connection string has a password, which would get into code, logs and notebooks. Leave it out; give it by "
            f"{_WHERE}."
        )
    if password_env is not None and password_file is not None:
        yield "password_env and password_file are given; the password is in one of them only."
    for name, value in (("password_env", password_env), ("password_file", password_file)):
        if value is not None and (not isinstance(value, str) or not value):
            yield f"{name} must be a text; it names where the password is."


def _parsed(conninfo: str) -> dict[str, Any] | None:
    """The parts of a connection string; None if it cannot be read, of which the reason might quote a password."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(conninfo)
    except (psycopg.Error, ValueError):
        return None
    # A whole URL in one of its parts is a mistake, and may have a password too.
    return None if any("://" in str(value) for value in given.values()) else given
