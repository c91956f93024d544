"""What keeps the state of a key group between bundles: a backend, over the store that the runtime provides.

Order of calls, for one key group:

    open(store) → state                      at the start of a bundle; what comes is the committed state
    prepare(slots)                           before elements of these keys are processed
    commit(store)                            at its end: all changes go into the store together, or
    abandon()                                something failed: nothing of this bundle may be seen again

The store's writes become durable with the micro-batch, all or none, after `commit` has returned. A backend cannot know
whether they did. So what it keeps in memory is a guess that `open` must check against the store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.engine.metrics import StepMetrics
from holdfast.engine.state import KeyGroupState
from holdfast.engine.tables import Slot

__all__ = ["BlobStore", "Commit", "StateBackend"]


class BlobStore(Protocol):
    """A small map of named blobs that belongs to one key group, transactional with the micro-batch."""

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, blob: bytes) -> None: ...

    def remove(self, name: str) -> None: ...

    def items(self) -> Iterator[tuple[str, bytes]]: ...


@dataclass(frozen=True)
class Commit:
    """What a commit wrote, and what opening the state had cost."""

    delta_bytes: int = 0
    snapshot_bytes: int = 0
    loads: int = 0
    """1 if the state was read from its beginning."""
    catch_ups: int = 0
    """1 if only what was missed was read."""

    def metrics(self) -> StepMetrics:
        return StepMetrics(**dataclasses.asdict(self))


class StateBackend(Protocol):
    """Keeps one key group. See the module for the order of calls."""

    def open(self, store: BlobStore) -> KeyGroupState: ...

    def prepare(self, slots: Iterable[Slot]) -> None: ...

    def commit(self, store: BlobStore) -> Commit: ...

    def abandon(self) -> None: ...
