"""Where a log is kept: named blobs that belong to one key group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

__all__ = ["BlobStore"]


class BlobStore(Protocol):
    """A small map of named blobs for one key group, transactional with the micro-batch.

    Each call may be a round trip to another process. Names that begin with `~` are Holdfast's.
    """

    def get(self, name: str) -> bytes | None: ...

    def expect(self, names: Iterable[str]) -> None:
        """A hint: these will be read next. A store in another process can fetch them in one round trip."""

    def put(self, name: str, blob: bytes) -> None: ...

    def remove(self, name: str) -> None: ...

    def items(self) -> Iterator[tuple[str, bytes]]: ...
