"""What changed: between two micro-batches, and for one key from each micro-batch to the next.

Two versions of a key group whose logs end with the same token are the same, and are skipped. Others are decoded and
compared where they are read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engine.log.chain import HEAD
from holdfast.engine.state.key_group import WindowState
from holdfast.engine.stored.readable import to_json, to_text
from holdfast.engine.stored.reading import HIDDEN, Blobs, read_group
from holdfast.engine.tables import Slot, Table
from holdfast.errors import CheckpointError
from holdfast.model.coders import Encoded
from holdfast.ops.inspect.html import diff_html
from holdfast.ops.reading.keys import FoundKey, key_text
from holdfast.ops.reading.naming import named_values, window_text
from holdfast.ops.reading.sources import Comparison, Groups, StateSource, from_state
from holdfast.ops.reading.steps import StepRef, choose_step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Change", "Diff", "Valued", "batch_changes", "key_changes", "state_diff", "state_history"]

_DIFF_SCHEMA = "key string, window string, cell string, kind string, before string, after string, old string, new string"
_KIND, _BEFORE = 3, 4
_EXACT = frozenset({int, str, bytes, bool, type(None), Encoded})
"""Where equal means the same. Elsewhere 0.0 equals -0.0, and a tuple with 1 in it one with True."""
_COUNT = "~count"

Side = tuple[WindowState, Table, str]
"""A table with its window and kind, in one of two versions."""
Changed = tuple["Side | None", "Side | None"]


@dataclass(frozen=True)
class Change:
    """A cell or timer of a key that changed."""

    step: str
    key: str
    window: str
    cell: str
    kind: str
    before: str | None
    """As JSON; None if there was nothing."""
    after: str | None
    old: str
    """Readable text."""
    new: str
    batch: int | None = None
    """The micro-batch that changed it, in a history."""

    @property
    def what(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True)
class Diff:
    """What changed between two micro-batches."""

    from_batch: int
    to_batch: int
    changes: list[Change]
    total: int
    """How many changes there are; `changes` may hold only the first of them."""

    def _repr_html_(self) -> str:
        return diff_html(self)


def state_diff(
    spark: SparkSession | None,
    checkpoint: str,
    from_batch: int,
    to_batch: int,
    *,
    step: str | None = None,
    key: str | None = None,
    limit: int | None = None,
    trust_pickle: bool = False,
) -> Diff:
    """The cells and timers that differ between two micro-batches, ordered by step and key. Without a session, raises
    NeedsSpark if only Spark can read the state."""
    return from_state(
        spark, checkpoint, lambda source: _diff(source, (from_batch, to_batch), step, key, limit, trust_pickle)
    )


def _diff(
    source: StateSource,
    batches: tuple[int, int],
    step: str | None,
    key: str | None,
    limit: int | None,
    trust_pickle: bool,
) -> Diff:
    for batch in batches:
        source.place.check_batch(batch)
    changes: list[Change] = []
    total = 0
    for ref in choose_step(source.steps(max(batches)), step, source.place.path):
        wanted = None if key is None else source.find_key(ref, key)
        rows = _diff_rows(source, ref, batches, wanted, limit, trust_pickle)
        total += sum(int(row[_BEFORE]) for row in rows if row[_KIND] == _COUNT)
        found = [_change(ref.name, row) for row in rows if row[_KIND] != _COUNT]
        changes += sorted(found, key=lambda change: (change.key, change.window, change.cell))
    return Diff(*batches, changes if limit is None else changes[:limit], total)


def _change(step: str, row: Any, batch: int | None = None) -> Change:
    key, window, cell, kind, before, after, old, new = row
    return Change(step, key, window, cell, kind, before, after, old, new, batch)


def _diff_rows(
    source: StateSource,
    ref: StepRef,
    batches: tuple[int, int],
    wanted: FoundKey | None,
    limit: int | None,
    trust_pickle: bool,
) -> list[tuple[Any, ...]]:
    """For each key group a row with the number of its changes, then the changes; at most `limit`, the first by key."""
    slots = None if wanted is None else [wanted.slot]

    def rows(before: Blobs | None, after: Blobs | None) -> Iterator[tuple[str | None, ...]]:
        changed = list(_changed(_Version(before, trust_pickle), _Version(after, trust_pickle), slots))
        first = changed if limit is None else heapq.nsmallest(limit, changed, key=lambda pair: key_text(pair[0]))
        yield "", "", "", _COUNT, str(len(changed)), None, "", ""
        yield from _rendered(first)

    label = None if wanted is None else wanted.label
    return source.compared(Comparison(ref, batches, label, rows, _DIFF_SCHEMA))


class _Version:
    """A key group in one of two versions, decoded when it is needed, and once."""

    def __init__(self, blobs: Blobs | None, trust_pickle: bool) -> None:
        self._blobs = blobs
        self._trust_pickle = trust_pickle

    @property
    def head(self) -> bytes | None:
        return None if self._blobs is None else self._blobs.get(HEAD)

    @cached_property
    def tables(self) -> dict[tuple[bytes, str], Side]:
        """By window and name, without the engine's own."""
        if self._blobs is None:
            return {}
        group = read_group(self._blobs, trust_pickle=self._trust_pickle)
        found = {}
        for data, window in group.state.windows.items():
            for table in window.tables:
                kind = group.layout.kind_of(table.spec)
                if kind != HIDDEN and table.values:
                    found[data, table.spec.name] = (window, table, kind)
        return found


def _changed(before: _Version, after: _Version, slots: list[Slot] | None) -> Iterator[tuple[Slot, Changed]]:
    """The cells that differ, with their keys. Different bytes may still decode to equal values."""
    if before.head is not None and before.head == after.head:
        return
    old, new = before.tables, after.tables
    for place in sorted(old.keys() | new.keys()):
        first, second = old.get(place), new.get(place)
        was = {} if first is None else first[1].values
        now = {} if second is None else second[1].values
        for slot in _differing(was, now) if slots is None else [slot for slot in slots if not _is_same(was, now, slot)]:
            yield slot, (first if slot in was else None, second if slot in now else None)


def _differing(was: Mapping[Slot, Any], now: Mapping[Slot, Any]) -> list[Slot]:
    """The keys that do not have the same in both. There may be millions, most of them the same: so it is one plain loop."""
    get, nothing = was.get, object()
    found = [
        slot
        for slot, value in now.items()
        if (old := get(slot, nothing)) is not value
        and not (type(old) is type(value) and old == value and (type(value) in _EXACT or repr(old) == repr(value)))
    ]
    return found + [slot for slot in was if slot not in now]


def _is_same(was: Mapping[Slot, Any], now: Mapping[Slot, Any], slot: Slot) -> bool:
    return not _differing(*({slot: side[slot]} if slot in side else {} for side in (was, now)))


class Valued(NamedTuple):
    """A cell or timer that changed, with its values; None is a value too, so whether there was one is said apart."""

    slot: Slot
    window: Any
    cell: str
    kind: str
    before: Any
    after: Any
    was_there: bool
    is_there: bool

    @property
    def what(self) -> str:
        return "added" if not self.was_there else "changed" if self.is_there else "removed"

    @property
    def old(self) -> str | None:
        """As JSON; None if there was nothing."""
        return to_json(self.before) if self.was_there else None

    @property
    def new(self) -> str | None:
        return to_json(self.after) if self.is_there else None


def _valued(changed: Iterable[tuple[Slot, Changed]]) -> Iterator[Valued]:
    """What changed, by the names that users see. What decodes to the same is left out."""
    for slot, (first, second) in changed:
        window, _, kind = second or first or (None, None, "")
        assert window is not None
        was = {} if first is None else dict(named_values(first[1], slot))
        now = {} if second is None else dict(named_values(second[1], slot))
        for name in [*was, *(name for name in now if name not in was)]:
            here = (name in was, name in now)
            found = Valued(slot, window.window, name, kind, was.get(name), now.get(name), *here)
            if found.old != found.new:
                yield found


def _rendered(changed: Iterable[tuple[Slot, Changed]]) -> Iterator[tuple[str | None, ...]]:
    for found in _valued(changed):
        old, new = to_text(found.before) if found.was_there else "", to_text(found.after) if found.is_there else ""
        place = (key_text(found.slot), window_text(found.window), found.cell, found.kind)
        yield (*place, found.old, found.new, old, new)


def state_history(
    spark: SparkSession | None,
    checkpoint: str,
    key: str,
    *,
    step: str | None = None,
    trust_pickle: bool = False,
) -> list[Change]:
    """How each retained micro-batch changed a key's state, oldest first.

    State after the first of them counts as added by it. Without a session, raises NeedsSpark if only Spark can read it.
    """
    return from_state(spark, checkpoint, lambda source: _history(source, key, step, trust_pickle))


def _history(source: StateSource, key: str, step: str | None, trust_pickle: bool) -> list[Change]:
    last = source.place.check_batch(None)
    changes: list[Change] = []
    for ref in choose_step(source.steps(last), step, source.place.path):
        changes += key_changes(source, ref, source.find_key(ref, key), trust_pickle)
    if not changes:
        raise CheckpointError(
            f"The key {key!r} has no state in the retained micro-batches.", todo="list the state with: holdfast state show"
        )
    return sorted(changes, key=lambda change: (change.batch or 0, change.step))


def key_changes(source: StateSource, ref: StepRef, wanted: FoundKey, trust_pickle: bool) -> Iterator[Change]:
    """How each retained micro-batch changed a key of a step, oldest first."""
    for batch, changed in _followed(source.versions(ref, wanted.label), trust_pickle, [wanted.slot]):
        yield from (_change(ref.name, row, batch) for row in _rendered(changed))


def batch_changes(versions: Iterable[tuple[int, Groups]], trust_pickle: bool) -> Iterator[tuple[int, list[Valued]]]:
    """What each version of some key groups changed of the one before. Everything in the first counts as added by it."""
    for batch, changed in _followed(versions, trust_pickle, None):
        yield batch, list(_valued(changed))


def _followed(
    versions: Iterable[tuple[int, Groups]], trust_pickle: bool, slots: list[Slot] | None
) -> Iterator[tuple[int, Iterator[tuple[Slot, Changed]]]]:
    """For each version what differs from the one before, of all keys or only these."""
    before: dict[int, _Version] = {}
    nothing = _Version(None, trust_pickle)
    for batch, groups in versions:
        now = {label: _Version(blobs, trust_pickle) for label, blobs in groups.items()}
        pairs = []
        for label in sorted(now.keys() | before.keys()):
            was, here = before.get(label, nothing), now.get(label, nothing)
            pairs.append((was, here))
            if was.head is not None and was.head == here.head:
                # The same state: what is decoded of it serves again.
                now[label] = was
        yield batch, chain.from_iterable(_changed(was, here, slots) for was, here in pairs)
        before = now
