"""A backend keeps the state of a key group between bundles, on top of the store that the runtime provides.

Order of calls, for one key group:

    open(store)                              at the start of a bundle: makes memory agree with the committed state
    parts(slots, clocks, runner)             yields the bundle in one part or several, each with the state of some keys;
                                             together they cover these slots and all keys with something due by the
                                             clocks. Asking for the next part means that the last one has run
    limit(limiter)                           for a step with limits: evicts excess state, or raises
    commit(store)                            at the end: all changes go into the store together; or
    abandon()                                after a failure: nothing of this bundle may be seen again
    next_due(runner)                         after a commit: when there is something to do next

The store's writes become durable with the micro-batch, all or none, after `commit` has returned. A backend cannot know
whether they did. So whatever it keeps, in memory or elsewhere, is a guess that `open` must check against the store.

Rules

1. What was committed is what the next `open` on that content of the store sees, in this process or any other.
2. What was abandoned, or neither committed nor abandoned, leaves no trace.
3. A commit whose store was rolled back afterwards leaves no trace either. `open` may find the content of the store as it
   was one commit ago, and must restore that state. It may refuse to go back further, with an error that says so.
4. The same bundle on the same state gives the same state and outputs, whoever runs it and however often.
5. Two attempts at one bundle may run at the same time, each with its own view of the store. Only one of them counts, it may
   be either, and it must be complete.
6. A key group sees nothing of any other key group, step or query.
7. Each element of the bundle is in exactly one part, and every key with something due is in a part. The state of a part has
   everything that its keys have, in all windows. A key that appears again finds what the earlier part left.
8. `next_due` is no later than the earliest time at which something is due.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.engine.log.store import BlobStore
from holdfast.engine.metrics.step import StepMetrics
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.ledger import Ledger
from holdfast.engine.tables import Slot
from holdfast.model.present import BundleClocks

__all__ = ["BackendFactory", "Commit", "Due", "Limiting", "Part", "Place", "Schedule", "StateBackend"]


@dataclass(frozen=True)
class Commit:
    """What a commit wrote, and what it cost to open the state."""

    delta_bytes: int = 0
    snapshot_bytes: int = 0
    loads: int = 0
    """1 if the state was read from the beginning."""
    catch_ups: int = 0
    """1 if only missed deltas were read."""
    snapshot_micros: int = 0
    """How long writing a snapshot took."""

    def metrics(self) -> StepMetrics:
        return StepMetrics(**dataclasses.asdict(self))


class Part(NamedTuple):
    """Some keys of a key group, and which of the bundle's elements are theirs."""

    state: KeyGroupState
    positions: Sequence[int] | None
    """The positions of the elements in the bundle, in order; None: all of them."""
    sweep: int
    """How many expired cells may be removed from it."""


class Due(NamedTuple):
    """When there is something to do next, in microseconds of event and processing time; None: nothing is known."""

    event: int | None = None
    real: int | None = None


class Schedule(Protocol):
    """What a backend may ask the step's runner."""

    def next_event(self, state: KeyGroupState) -> int | None:
        """When the watermark next matters to a state."""

    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        """When the watermark next matters to a window."""


class Limiting(Protocol):
    """Enforces the limits of the step."""

    @property
    def fails(self) -> bool:
        """Whether excess state is an error."""

    @property
    def suspects(self) -> Collection[Slot]:
        """Keys that this bundle may have made too large."""

    def trim(self, state: KeyGroupState) -> None:
        """Checks the suspects among the keys of a state."""

    def is_over(self, ledger: Ledger) -> bool:
        """Whether the key group as a whole has too much state."""

    def evict(self, state: KeyGroupState) -> None:
        """Removes keys of a state, in eviction order, until it is within its limits; or raises."""


class StateBackend(Protocol):
    """Keeps one key group. See the module for the order of calls."""

    def open(self, store: BlobStore) -> object: ...

    def parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]: ...

    def limit(self, limiter: Limiting) -> None: ...

    def commit(self, store: BlobStore) -> Commit: ...

    def abandon(self) -> None: ...

    def next_due(self, runner: Schedule) -> Due: ...

    def everything(self, store: BlobStore) -> Iterator[KeyGroupState]:
        """The state in the store, in one piece or several, for inspection.

        Must also work on an instance that was never opened. Each key is in one piece only.
        """

    @property
    def memory_bytes(self) -> int:
        """Roughly how much memory it holds between bundles."""

    def release(self) -> None:
        """Frees that memory; the state is read again when needed."""

    # A backend may also have a property `holding`, a `Holding`: how much it holds since its last commit. Metrics and the
    # dashboard show it. It is asked after every bundle, so it must not walk through the keys.


class Place(NamedTuple):
    """Identifies a key group: the same across restarts and in every process, as long as the checkpoint is the same."""

    query: str
    """The id of the streaming query, which belongs to its checkpoint."""
    step: str
    """The name of the step. A renamed step has another place."""
    key_group: int

    @property
    def name(self) -> str:
        """A name unique to this place, for files and tables: letters, digits and underscores, beginning with a letter."""
        digest = hashlib.blake2b(repr(tuple(self)).encode(), digest_size=8).hexdigest()
        return f"hf_{re.sub('[^A-Za-z0-9]+', '_', self.step)[:32]}_{self.key_group}_{digest}"


class BackendFactory(Protocol):
    """Makes your own backends. It is pickled and sent to every worker, so it holds settings, not connections."""

    @property
    def name(self) -> str:
        """Recorded with the state: state stored under one name cannot be opened under another."""

    def make(self, layout: Layout, place: Place) -> StateBackend:
        """The backend of one key group; called again in each worker, and whenever the previous one was released."""
