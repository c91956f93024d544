"""What keeps the state of a key group between bundles: a backend, over the store that the runtime provides.

Order of calls, for one key group:

    open(store)                              at the start of a bundle: what is in memory agrees with the committed state
    parts(slots, clocks, runner)             the bundle in one part or in several, each with the state of some keys, all
                                             keys of these slots and all for which something is due by the clocks. Asking
                                             for the next part means that the last one has run
    limit(limiter)                           of a step with limits: what is too much goes, or an error is raised
    commit(store)                            at its end: all changes go into the store together, or
    abandon()                                something failed: nothing of this bundle may be seen again
    next_due(runner)                         after a commit: when there is something to do next

The store's writes become durable with the micro-batch, all or none, after `commit` has returned. A backend cannot know
whether they did. So what it keeps in memory, or anywhere else, is a guess that `open` must check against the store.

Rules

1. What `commit` was told is what the next `open` over that content of the store sees, in this process or any other.
2. What was abandoned, or neither committed nor abandoned, leaves no trace.
3. A commit whose store was rolled back afterwards leaves no trace either. `open` may find the content of the store as it
   was one commit ago, and must give that state. Going back further it may refuse, with an error that says so.
4. The same bundle over the same state gives the same state and outputs, whoever runs it and how often.
5. Two attempts at one bundle may be at work at the same time, each with a view of the store of its own. Only one of them
   counts, either one, and it must be whole.
6. A key group sees nothing of any other place, and of no other query.
7. Each element of the bundle is in exactly one part, and every key for which something is due is in a part; the state of a
   part has everything that its keys have, in all windows. A key that comes again finds what the part before left.
8. `next_due` is not later than the earliest time at which something is due.
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
    """What a commit wrote, and what opening the state had cost."""

    delta_bytes: int = 0
    snapshot_bytes: int = 0
    loads: int = 0
    """1 if the state was read from its beginning."""
    catch_ups: int = 0
    """1 if only what was missed was read."""
    snapshot_micros: int = 0
    """How long writing a snapshot took."""

    def metrics(self) -> StepMetrics:
        return StepMetrics(**dataclasses.asdict(self))


class Part(NamedTuple):
    """Some keys of a key group, and which of the bundle's elements are theirs."""

    state: KeyGroupState
    places: Sequence[int] | None
    """The places of the elements in the bundle, in order; None: all of them."""
    sweep: int
    """How many cells whose time to live is up may be removed from it."""


class Due(NamedTuple):
    """When there is something to do next, in microseconds of either time; None: nothing is known of."""

    event: int | None = None
    real: int | None = None


class Schedule(Protocol):
    """What a backend may ask the runner of the step."""

    def next_event(self, state: KeyGroupState) -> int | None:
        """When the watermark next matters to a state."""

    def window_due(self, end: int, expiry: int, fired: bool) -> int:
        """When the watermark next matters to a window."""


class Limiting(Protocol):
    """What keeps the limits of the step."""

    @property
    def fails(self) -> bool:
        """Whether what is too much is an error."""

    @property
    def suspects(self) -> Collection[Slot]:
        """Keys that this bundle may have made too large."""

    def trim(self, state: KeyGroupState) -> None:
        """Looks at the suspects among the keys of a state."""

    def is_over(self, ledger: Ledger) -> bool:
        """Whether there is too much of all."""

    def evict(self, state: KeyGroupState) -> None:
        """Removes keys of a state, in their order, until there is no more than there may be; or raises."""


class StateBackend(Protocol):
    """Keeps one key group. See the module for the order of calls."""

    def open(self, store: BlobStore) -> object: ...

    def parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]: ...

    def limit(self, limiter: Limiting) -> None: ...

    def commit(self, store: BlobStore) -> Commit: ...

    def abandon(self) -> None: ...

    def next_due(self, runner: Schedule) -> Due: ...

    def everything(self, store: BlobStore) -> Iterator[KeyGroupState]:
        """The state of that content of the store, in one piece or in several, for whoever looks at it.

        Also on an instance that was never opened. A key is in one piece only.
        """

    @property
    def memory_bytes(self) -> int:
        """About how much memory it holds between bundles."""

    def release(self) -> None:
        """Gives that memory back; the state is read again when it is needed."""


class Place(NamedTuple):
    """Which key group it is: the same over restarts and in every process, as long as the checkpoint is the same one."""

    query: str
    """The id of the streaming query, which is that of its checkpoint."""
    step: str
    """The name of the step. A step that is given another name is at another place."""
    key_group: int

    @property
    def name(self) -> str:
        """A text that is this place's alone, for files and tables: letters, digits and underscores, a letter first."""
        digest = hashlib.blake2b(repr(tuple(self)).encode(), digest_size=8).hexdigest()
        return f"hf_{re.sub('[^A-Za-z0-9]+', '_', self.step)[:32]}_{self.key_group}_{digest}"


class BackendFactory(Protocol):
    """Makes backends of one's own. It is pickled and sent to every worker, so it holds settings, not connections."""

    @property
    def name(self) -> str:
        """Is recorded with the state: state of one name cannot be opened under another."""

    def make(self, layout: Layout, place: Place) -> StateBackend:
        """The backend of one key group; called again for each worker, and whenever the old one was let go."""
