"""An in-memory store that behaves like a durable one: what was committed survives a crash, the rest does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["MemoryStore"]


class MemoryStore:
    """A BlobStore with a transaction around each bundle."""

    def __init__(self, blobs: dict[str, bytes] | None = None) -> None:
        self.committed: dict[str, bytes] = dict(blobs or {})
        self._pending = dict(self.committed)

    def get(self, name: str) -> bytes | None:
        return self._pending.get(name)

    def expect(self, names: Iterable[str]) -> None:
        """Everything is at hand."""

    def put(self, name: str, blob: bytes) -> None:
        self._pending[name] = blob

    def remove(self, name: str) -> None:
        self._pending.pop(name, None)

    def items(self) -> Iterator[tuple[str, bytes]]:
        return iter(list(self._pending.items()))

    def commit(self) -> None:
        self.committed = dict(self._pending)

    def rollback(self) -> None:
        self._pending = dict(self.committed)
