"""A wire to a server that breaks when a test says so: a proxy on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["BrokenWire", "broken_wire"]


class BrokenWire:
    """Passes bytes between clients and a server. Once, it breaks: after so many bytes of a client, or at its `word`, either
    before the server has got it, or when the server has answered and the client has not."""

    def __init__(self, port: int, *, word: bytes = b"", after_bytes: int | None = None, answered: bool = False) -> None:
        self._server_port = port
        self._word = word
        self._after_bytes = after_bytes
        self._answered = answered
        self.breaks = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_back, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        seen = 0
        with suppress(OSError):
            while piece := client.recv(1 << 16):
                seen += len(piece)
                if not self.breaks and self._is_due(piece, seen):
                    self.breaks += 1
                    if self._answered:
                        client.shutdown(socket.SHUT_WR)
                        server.sendall(piece)
                        # The rest of the session: the server ends it when it has answered and finds nobody there.
                        server.shutdown(socket.SHUT_WR)
                        while server.recv(1 << 16):
                            pass
                    break
                server.sendall(piece)
        _end(client, server)

    def _is_due(self, piece: bytes, seen: int) -> bool:
        return (bool(self._word) and self._word in piece) or (self._after_bytes is not None and seen >= self._after_bytes)

    def _pass_back(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while piece := server.recv(1 << 16):
                client.sendall(piece)
        _end(client, server)


@contextmanager
def broken_wire(port: int, **how: object) -> Iterator[BrokenWire]:
    wire = BrokenWire(port, **how)
    try:
        yield wire
    finally:
        wire.close()


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
