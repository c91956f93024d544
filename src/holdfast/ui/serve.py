"""Serves a dashboard until it is told to end: by Ctrl-C or SIGTERM, or because the process that it belongs to has ended."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import uvicorn

from holdfast.checkpoint.host import ProcessId, has_ended, process_by_number
from holdfast.errors import HoldfastError
from holdfast.ui.api.job_views import Judge
from holdfast.ui.app import Dashboard
from holdfast.ui.guard import Access
from holdfast.ui.reading.jobs import Jobs

__all__ = ["LOOPBACK", "Address", "serve"]

LOOPBACK = "127.0.0.1"
_PARENT_SECONDS = 1.0
_ENDING_SECONDS = 1


@dataclass(frozen=True)
class Address:
    """Where a dashboard is."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """What to open in a browser; with the token, if it takes one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/" + ("" if self.token is None else f"?token={quote(self.token, safe='')}")


def serve(
    jobs: Jobs,
    judge: Judge,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    token: str | None = None,
    savepoint_folders: Sequence[str] = (),
    parent: int | None = None,
    on_ready: Callable[[Address], None] = lambda address: None,
) -> None:
    """Serves until it is told to end. Port 0 is a free one. On another address than loopback's there is always a token.

    `on_ready` is called when requests are taken. With `parent`, it ends when that process does.
    """
    belongs_to = None if parent is None else _parent(parent)
    if token is None and not _is_loopback(host):
        token = secrets.token_urlsafe(24)
    names = {"localhost", host.lower(), *([] if _is_loopback(host) else [socket.gethostname().lower()])}
    dashboard = Dashboard(jobs, judge, Access(tuple(sorted(names)), token), savepoint_folders=savepoint_folders)
    listening = _listening(host, port)
    shown = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
    address = Address(shown, int(listening.getsockname()[1]), token)
    # Without its own log: an address may have the token in it.
    config = uvicorn.Config(dashboard, log_config=None, access_log=False, server_header=False, date_header=False)
    config.timeout_graceful_shutdown = _ENDING_SECONDS
    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(_Server(config, lambda: on_ready(address), dashboard.end_streams), listening, belongs_to))


class _Server(uvicorn.Server):
    """Says when it is ready, and ends streams that have no end when it ends itself."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_end = on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_end()
        await super().shutdown(sockets)


async def _serve(server: _Server, listening: socket.socket, belongs_to: ProcessId | None) -> None:
    watching = None if belongs_to is None else asyncio.create_task(_end_with(server, belongs_to))
    try:
        await server.serve(sockets=[listening])
    finally:
        if watching is not None:
            watching.cancel()


async def _end_with(server: uvicorn.Server, process: ProcessId) -> None:
    while not has_ended(process):
        await asyncio.sleep(_PARENT_SECONDS)
    server.should_exit = True


def _parent(number: int) -> ProcessId:
    process = process_by_number(number)
    if not process.started:
        raise HoldfastError(f"There is no process {number}.", todo="give --parent-pid the number of a running process")
    return process


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        # UnicodeError: what cannot be the name of a machine.
        raise HoldfastError(
            f"The dashboard cannot be served on {host!r:.100}, port {port}: {getattr(error, 'strerror', None) or error}.",
            todo="choose another port with --port, or --port 0 for a free one; or another --host",
        ) from None
