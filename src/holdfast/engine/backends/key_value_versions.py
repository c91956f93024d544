"""Versions of a key group in a store that knows only keys and values.

A micro-batch may fail, run twice, or be rolled back after the store has committed; and two attempts at it may commit. So
nothing is ever overwritten: each entry belongs to one version, and has a key that no other version's has.

    v <token>                      number, parent's token, keys of its entries
    c <number> <token> <place>     what a key has in a window from that version on; empty for nothing
    h <token>                      the tokens of all versions before this one that still have entries which count

A token names a version. It follows from the parent's token and what the version changed, so that the same bundle on the
same state gives the same. Which version is the current one, Spark's store says. A place is a window and a key.

Invariants
- The entries that count for a version are those of the versions on the way to it, and of those that the `h` at the end of
  the way names: of each place the newest. All other entries are of attempts that failed, and count for nobody.
- All entries of a version are in the store before Spark's store has its token.
- Folding removes what counts for none of the versions that are kept, and leaves all that they changed.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import ormsgpack

from holdfast.engine.backends.protocol import Place
from holdfast.engine.state.keys import slot_from_bytes, slot_to_bytes
from holdfast.engine.tables import Slot
from holdfast.errors import CorruptState

__all__ = ["Entries", "Versions", "pair_of", "place_of"]

_TOKEN_BYTES = 16
_FOLD_MIN = 100
"""So many entries are not worth looking for those that can go."""


def place_of(window: bytes, slot: Slot) -> bytes:
    """A window and a key as bytes."""
    return ormsgpack.packb([window, slot_to_bytes(slot)])


def pair_of(place: bytes) -> tuple[bytes, Slot]:
    window, slot = ormsgpack.unpackb(place)
    return window, slot_from_bytes(slot)


class Entries(Protocol):
    """What is asked of a user's store. `KeyValueBackend` documents it."""

    def init(self, place: Place) -> None: ...

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def remove(self, key: bytes) -> None: ...

    def commit(self) -> object: ...

    def abort(self) -> None: ...

    def iterator(self) -> Iterator[tuple[bytes, bytes]]: ...

    def close(self) -> None: ...


class _Version(NamedTuple):
    token: bytes
    number: int
    parent: bytes
    keys: list[bytes]


class _Key(NamedTuple):
    """The key of an entry, taken apart."""

    number: int
    token: bytes
    place: bytes

    @classmethod
    def of(cls, key: bytes) -> _Key:
        return cls(int.from_bytes(key[1:9], "big"), key[9 : 9 + _TOKEN_BYTES], key[9 + _TOKEN_BYTES :])

    def __bytes__(self) -> bytes:
        return b"c" + self.number.to_bytes(8, "big") + self.token + self.place


class Versions:
    """The versions of one key group in a user's store, of which each worker opens a copy of its own."""

    def __init__(self, template: Entries, place: Place, name: str, kept: int) -> None:
        self._template = template
        self._place = place
        self._name = name
        self._kept = kept
        self._opened: Entries | None = None
        self._written = 0
        """How many entries this worker has put since it last looked which of them can go."""

    def close(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened.close()

    # Reading.

    def read(self, token: bytes) -> tuple[int, Iterator[tuple[bytes, bytes]]]:
        """The number of a version, and what counts for it: (place, what a key has there)."""
        way, earlier = self._way(token)
        current, _ = self._current({version.token for version in way} | earlier)
        number = way[0].number if way else 0
        return number, ((key.place, data) for key, data in current.values() if data)

    def missed(self, token: bytes, held: bytes) -> list[list[tuple[bytes, bytes]]] | None:
        """What the versions changed that lead from one to another, in order; None if they do not."""
        versions: list[_Version] = []
        self._there(token)
        while token != held:
            version = self._version(token)
            if version is None:
                return None
            versions.append(version)
            token = version.parent
        return [[(_Key.of(key).place, self._entry(key, version)) for key in version.keys] for version in versions[::-1]]

    def _entry(self, key: bytes, version: _Version) -> bytes:
        data = self._entries.get(key)
        if data is None:
            raise CorruptState(
                f"The store {self._name!r} lacks an entry of its version {version.number}, which it has.",
                todo="put back a whole copy of the store, or start with a new checkpoint",
            )
        return data

    @property
    def _entries(self) -> Entries:
        if self._opened is None:
            # A copy of the user's object, not of what it may have opened: that one is never opened itself.
            opened = copy.copy(self._template)
            opened.init(self._place)
            # Only now: if `init` has raised, the next attempt begins with a new copy.
            self._opened = opened
        return self._opened

    def _version(self, token: bytes) -> _Version | None:
        data = self._entries.get(b"v" + token) if token else None
        return None if data is None else _Version(token, *ormsgpack.unpackb(data))

    def _there(self, token: bytes) -> None:
        """Raises CorruptState if a version is not there, also not in a copy that is opened now."""
        if token and self._version(token) is None:
            self.close()
            if self._version(token) is None:
                raise self._lacks(token)

    def _way(self, token: bytes) -> tuple[list[_Version], set[bytes]]:
        """The versions that led to one, newest first, as far as they are kept; and the tokens of those before that count."""
        for _ in range(2):
            way, at = [], token
            while (version := self._version(at)) is not None:
                way.append(version)
                at = version.parent
            if not at:
                return way, set()
            earlier = self._entries.get(b"h" + way[-1].token) if way else None
            if earlier is not None:
                return way, set(ormsgpack.unpackb(earlier))
            # Another worker has written a version, or folded some, since this copy was opened.
            self.close()
        raise self._lacks(token)

    def _lacks(self, token: bytes) -> CorruptState:
        return CorruptState(
            f"The store {self._name!r} does not have the version {token.hex()}, which is Spark's.",
            detail=f"It keeps {self._kept} versions or more. It may be another store, or the query went back further.",
            todo="put the store of that version in its place, or start with a new checkpoint",
        )

    def _current(self, tokens: set[bytes]) -> tuple[dict[bytes, tuple[_Key, bytes]], list[_Key]]:
        """The entries of these versions that count, by place; and all others."""
        current: dict[bytes, tuple[_Key, bytes]] = {}
        others = []
        for name, data in self._entries.iterator():
            if name[:1] != b"c":
                continue
            key = _Key.of(name)
            if key.token not in tokens:
                others.append(key)
                continue
            before = current.get(key.place)
            if before is not None and before[0].number > key.number:
                others.append(key)
                continue
            current[key.place] = (key, data)
            if before is not None:
                others.append(before[0])
        return current, others

    # Writing.

    def write(self, parent: bytes, number: int, changed: list[tuple[bytes, bytes]]) -> bytes:
        """Writes a version; returns its token."""
        digest = hashlib.blake2b(parent, digest_size=_TOKEN_BYTES)
        for place, data in changed:
            digest.update(ormsgpack.packb([place, data]))
        token = digest.digest()
        keys = [bytes(_Key(number, token, place)) for place, _ in changed]
        puts = [(key, data) for key, (_, data) in zip(keys, changed, strict=True)]
        self._commit([*puts, (b"v" + token, ormsgpack.packb([number, parent, keys]))], [])
        self._written += len(changed)
        return token

    def fold_if_due(self, token: bytes, living: int) -> None:
        """Removes what is no longer needed, if more has been written meanwhile than there is."""
        if self._written > max(_FOLD_MIN, living):
            self._written = 0
            self._fold(token)

    def _fold(self, token: bytes) -> None:
        way, earlier = self._way(token)
        # This version is not Spark's yet, and may never be.
        kept = self._kept + 1
        if len(way) <= kept + 1:
            return
        last = way[kept]
        gone = {version.token for version in way[kept + 1 :]} | earlier
        current, others = self._current(gone | {last.token})
        living = [key for key, data in current.values() if data]
        removed = [bytes(key) for key in others if key.number <= last.number]
        # The last one keeps what says that a key has nothing: a worker may come that has the version before it.
        removed += [bytes(key) for key, data in current.values() if not data and key.token != last.token]
        removed += [name for name, data in self._entries.iterator() if self._is_old(name, data, last)]
        tokens = sorted({key.token for key in living} - {last.token})
        self._commit([(b"h" + last.token, ormsgpack.packb(tokens))], removed)

    def _is_old(self, name: bytes, data: bytes, last: _Version) -> bool:
        """Whether an entry tells of versions before the last that is kept, or beside it."""
        if name[:1] == b"v":
            return name[1:] != last.token and int(ormsgpack.unpackb(data)[0]) <= last.number
        return name[:1] == b"h" and name[1:] != last.token

    def _commit(self, puts: list[tuple[bytes, bytes]], removed: list[bytes]) -> None:
        entries = self._entries
        try:
            for key, data in puts:
                entries.put(key, data)
            for key in removed:
                entries.remove(key)
            entries.commit()
        except BaseException:
            entries.abort()
            raise
