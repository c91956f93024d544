"""A base class for stores of one's own that map keys to values, in the shape of Spark's state store.

A class of yours says where entries are kept: `init`, `get`, `put`, `remove`, `commit`, `abort`, `iterator`. What makes a
backend of it is here and in `key_value_versions`.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.engine.backends.key_value_versions import Versions, pair_of, place_of
from holdfast.engine.backends.protocol import Commit, Due, Limiting, Part, Place, Schedule
from holdfast.engine.log.store import BlobStore
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.sweeping import sweep_budget
from holdfast.engine.tables import Slot
from holdfast.model.present import BundleClocks
from holdfast.model.time.timers import TimeDomain

__all__ = ["KeyValueBackend", "KeyValueState"]

_TOKEN = "version"
"""The name of the current version's token in Spark's store."""
_ENTRY_BYTES = 500


class KeyValueBackend(abc.ABC):
    """A store of your own, with the methods of Spark's. An instance is also what `backend=` takes.

    The object that you give is copied for each key group, and `init` is called on the copy: `__init__` takes settings, and
    connections are opened in `init`. The rules are few:

    - What was put and removed is there for everybody after `commit`, all of it or nothing, and for good. Before it, and
      after `abort`, it is there for nobody else.
    - Others use the same entries at the same time: `commit` adds and removes its own, and leaves the rest as it is.
    - `get` and `iterator` may show the entries as they were when `init` was called, with one's own changes: if something
      newer is missing, a new copy is opened. `iterator` gives what there is at one moment.
    - An entry is never changed: it may be put again with the same value, and removed if it is not there.
    """

    name: str
    """Recorded with the state: state stored under one name cannot be opened under another. By default that of the class."""
    versions: int = 10
    """How many micro-batches you can go back at least."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__

    @abc.abstractmethod
    def init(self, place: Place) -> None:
        """Opens the entries of a key group. `place.name` identifies it: a name for a file, a table or a prefix."""

    @abc.abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""

    @abc.abstractmethod
    def put(self, key: bytes, value: bytes) -> None:
        """Adds an entry."""

    @abc.abstractmethod
    def remove(self, key: bytes) -> None:
        """Removes an entry, if there is one."""

    @abc.abstractmethod
    def commit(self) -> object:
        """Makes durable what was put and removed since the last commit. What it returns is not used."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Forgets what was put and removed since the last commit."""

    @abc.abstractmethod
    def iterator(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries, in any order."""

    def close(self) -> None:  # noqa: B027
        """Closes what `init` has opened. Nothing else is called after it."""

    def make(self, layout: Layout, place: Place) -> KeyValueState:
        """The backend of one key group."""
        return KeyValueState(layout, Versions(self, place, self.name, self.versions))


class KeyValueState:
    """Keeps one key group: in memory while it is in use, in the store for good.

    Invariants
    - What is in memory is trusted only if its token is that of Spark's store, or the versions after it lead there.
    - `open` takes the token away for as long as a bundle may change what is in memory.
    """

    def __init__(self, layout: Layout, versions: Versions) -> None:
        self._layout = layout
        self._versions = versions
        self._state = KeyGroupState(layout)
        self._places: dict[bytes, set[bytes]] = {}
        """Which keys have something in each window, as of the last commit."""
        self._held: bytes | None = None
        """The token of what is in memory."""
        self._token = b""
        self._number = 0
        self._bytes = 0
        self._costs = (0, 0)

    def open(self, store: BlobStore) -> None:
        self._token = store.get(_TOKEN) or b""
        self._costs = (0, 0)
        if self._held != self._token:
            missed = None if self._held is None else self._versions.missed(self._token, self._held)
            self._costs = (1, 0) if missed is None else (0, 1)
            if missed is None:
                self._read()
            else:
                self._number += len(missed)
                self._take(entry for version in missed for entry in version)
        self._held = None

    def parts(self, slots: Sequence[Slot], clocks: BundleClocks, runner: Schedule) -> Iterator[Part]:
        yield Part(self._state, None, sweep_budget(len(slots)))

    def limit(self, limiter: Limiting) -> None:
        limiter.trim(self._state)
        limiter.evict(self._state)

    def commit(self, store: BlobStore) -> Commit:
        changed = self._changed()
        if changed:
            self._token = self._versions.write(self._token, self._number + 1, changed)
            self._number += 1
            store.put(_TOKEN, self._token)
            self._note(changed)
            self._versions.fold_if_due(self._token, sum(map(len, self._places.values())))
        self._state.settle()
        self._held = self._token
        return Commit(sum(len(data) for _, data in changed), 0, *self._costs)

    def abandon(self) -> None:
        self._held = None

    def next_due(self, runner: Schedule) -> Due:
        return Due(runner.next_event(self._state), self._state.indexes[TimeDomain.REAL_TIME].next_time)

    def everything(self, store: BlobStore) -> Iterator[KeyGroupState]:
        self._held, self._token = None, store.get(_TOKEN) or b""
        self._read()
        yield self._state

    def release(self) -> None:
        self._held = None
        self._empty()
        self._versions.close()

    @property
    def memory_bytes(self) -> int:
        return self._bytes + _ENTRY_BYTES * sum(map(len, self._places.values()))

    def _empty(self) -> None:
        self._state, self._places, self._bytes = KeyGroupState(self._layout), {}, 0

    def _read(self) -> None:
        self._empty()
        self._number, entries = self._versions.read(self._token)
        self._take(entries)

    def _take(self, entries: Iterator[tuple[bytes, bytes]]) -> None:
        """Takes what keys have in windows, in place of what they had."""
        taken = list(entries)
        for place, data in taken:
            window, slot = pair_of(place)
            held = self._state.window_of(window)
            held.forget([slot])
            held.unpack(slot, data)
        for window in {pair_of(place)[0] for place, data in taken if not data}:
            if self._state.windows[window].is_empty():
                del self._state.windows[window]
        self._state.reindex()
        self._note(taken)

    def _note(self, entries: list[tuple[bytes, bytes]]) -> None:
        for place, data in entries:
            places = self._places.setdefault(pair_of(place)[0], set())
            if data:
                places.add(place)
            else:
                places.discard(place)
            self._bytes += len(data)

    def _changed(self) -> list[tuple[bytes, bytes]]:
        """What changed: (place, what the key has there now; empty for nothing), in order."""
        state, changed = self._state, {}
        for window in state.dropped:
            changed.update(dict.fromkeys(self._places.get(window, ()), b""))
        for window, slots in state.evicted.items():
            changed.update((place_of(window, slot), b"") for slot in slots)
        for window, slot in state.touched():
            changed[place_of(window, slot)] = state.windows[window].pack(slot)
        return sorted(changed.items())
