"""The state of one checkpoint for whoever asks often: a dashboard, a notebook, a script that goes through many keys.

The functions of `ops` open a checkpoint, answer and forget. A `StateReader` keeps what it has decoded, up to a limit, and so
answers the next question about the same key group at once. It needs no Spark.

    reader = StateReader("path/to/checkpoint")
    reader.batches()                                    # [3, 4, 5]
    [step.name for step in reader.steps()]              # ["alerts", "totals"]
    page = reader.page("totals", prefix="card 1", limit=50)
    reader.key("totals", "card 17", batch=4)            # its cells and timers after micro-batch 4
    reader.history("totals", "card 17")                 # what each retained micro-batch changed
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.store.partition import PartitionFiles
from holdfast.engine.state.keys import encode_slots
from holdfast.engine.tables import Slot
from holdfast.errors import InputError, NeedsSpark
from holdfast.ops.inspect.compare import Change, key_changes
from holdfast.ops.inspect.decoded import DecodedGroup, LeastRecent
from holdfast.ops.inspect.showing import ShownCell
from holdfast.ops.reading.direct import DirectSource
from holdfast.ops.reading.keys import FoundKey, is_spread
from holdfast.ops.reading.steps import StepRef, choose_step, docs_of

__all__ = ["KeyPage", "KeyState", "StateReader", "StepInfo"]


@dataclass(frozen=True)
class StepInfo:
    """A step that has state."""

    name: str
    operator: int
    """The stateful operator of the query that it is in; several steps can share one."""
    key: str
    """The columns of its key with their types: "card string"."""
    cells: list[str]
    timers: list[str]
    key_groups: int
    backend: str
    docs: dict[str, str] = field(default_factory=dict)
    """What the authors of cells and timers say of them, by name."""


@dataclass(frozen=True)
class KeyState:
    """One key with everything that it has, in all windows."""

    key: str
    """As text: what `StateReader.key` takes."""
    label: int
    """Of its key group."""
    cells: list[ShownCell]
    """By window, then in the order of the step's cells; then timers."""
    before: list[ShownCell] = field(default_factory=list)
    """The same after the micro-batch that it is compared with, if there is one: what the key had in this key group."""


@dataclass(frozen=True)
class KeyPage:
    """Some keys of a step, ordered by key group and, within it, by key. The order is the same for the same state."""

    batch: int
    offset: int
    keys: list[KeyState]
    more: bool
    """Whether more keys follow."""


_STEPS_MAX = 32
_HISTORIES_MAX = 256
_COUNTS_MAX = 256


class StateReader:
    """Reads the state of a checkpoint, after any retained micro-batch, as often as asked.

    Safe to use from several threads. Each call sees the checkpoint as it is then, so a running job's new micro-batches
    appear; what was decoded is used again as long as its files are the same. Where `batch` is None, it is the last committed
    one. Every call may raise:

    * CheckpointError: there is no such checkpoint, micro-batch or step; or a running job removed the micro-batch while it
      was read: ask again for a later one.
    * CorruptState: a file or a blob is damaged; it says which.
    * NeedsSpark: the files have a format that can only be read through Spark (`ops.state_show` with a session does).
    """

    def __init__(self, checkpoint: str, *, cache_bytes: int = 256 << 20, trust_pickle: bool = False) -> None:
        """`cache_bytes` limits what is kept, by the size of the state without compression; decoded state takes several
        times that in memory. `trust_pickle` decodes pickled values, which can run any code."""
        self.checkpoint = checkpoint
        self._trust_pickle = trust_pickle
        self._groups: LeastRecent[DecodedGroup | None] = LeastRecent(cache_bytes)
        self._counts: LeastRecent[int] = LeastRecent(_COUNTS_MAX)
        self._decoding = threading.Lock()
        self._steps: LeastRecent[list[StepRef]] = LeastRecent(_STEPS_MAX)
        self._histories: LeastRecent[list[Change]] = LeastRecent(_HISTORIES_MAX)

    def batches(self) -> list[int]:
        """The micro-batches whose state can be read, in order."""
        return self._open().place.retained()

    def steps(self, batch: int | None = None) -> list[StepInfo]:
        """The steps that have state after a micro-batch, by name."""
        source = self._open()
        return [_info(step, source.place) for step in self._steps_at(source, source.place.check_batch(batch))]

    def labels(self, step: str, batch: int | None = None) -> list[int]:
        """The labels of the key groups of a step that have state after a micro-batch, in order."""
        at = self._at(step, batch)
        return sorted(at.source.reader.manifests(at.ref.operator, at.batch).keys() & set(at.ref.labels))

    def page(
        self,
        step: str,
        *,
        batch: int | None = None,
        prefix: str = "",
        offset: int = 0,
        limit: int = 50,
        compare: int | None = None,
    ) -> KeyPage:
        """The keys whose text begins with `prefix`, from the one at `offset` on, at most `limit`, with their cells; with
        `compare` also with what they had after that micro-batch.

        Key groups are decoded one after the other until the page is full, so the first page is fast. Raises InputError if
        `offset` or `limit` is negative.
        """
        if offset < 0 or limit < 0:
            raise InputError(
                f"There is no page of {limit} keys from {offset} on.", todo="give numbers that are not negative"
            )
        at = self._at(step, batch)
        found = list(islice(_matching(self._all_groups(at), prefix), offset, offset + limit + 1))
        other = None if compare is None else self._other(at, compare)
        keys = [
            KeyState(text, group.label, group.shown(step, slot), self._shown_in(other, at, group.label, slot))
            for group, text, slot in found[:limit]
        ]
        return KeyPage(at.batch, offset, keys, more=len(found) > limit)

    def count(self, step: str, *, batch: int | None = None, prefix: str = "") -> int:
        """How many keys have a text that begins with `prefix`. Decodes every key group of the step once."""
        at = self._at(step, batch)
        known = (at.ref.name, at.batch, prefix, tuple(source.identity for source in at.files.values()))
        kept = self._counts.get(known)
        if kept is not None:
            return kept[0]
        found = sum(group.count_from(prefix) for group in self._all_groups(at))
        self._counts.put(known, found, 1)
        return found

    def key(self, step: str, key: str, *, batch: int | None = None) -> list[ShownCell]:
        """The cells and timers of one key after a micro-batch; empty if it has none. `key` is text as SQL would cast it, or
        as `KeyState.key` shows it; several columns are a JSON list. Raises InputError if it is not a key of the step."""
        at = self._at(step, batch)
        found = self._find(at, key)
        if found.label is None:
            return [cell for group in self._all_groups(at) for cell in group.shown(step, found.slot)]
        group = self._group(at, found.label)
        return [] if group is None else group.shown(step, found.slot)

    def history(self, step: str, key: str) -> list[Change]:
        """What each retained micro-batch changed of a key, oldest first; empty if it has no state in any of them. What it
        had in the first of them counts as added by it."""
        at = self._at(step, None)
        found = self._find(at, key)
        files = tuple(source.identity for source in at.files.values())
        known = (at.ref.name, encode_slots([found.slot]), tuple(at.source.place.retained()), files)
        kept = self._histories.get(known)
        if kept is not None:
            return list(kept[0])
        changes = list(key_changes(at.source, at.ref, found, self._trust_pickle))
        self._histories.put(known, changes, 1)
        return list(changes)

    def close(self) -> None:
        """Forgets what it has read. The reader can still be used."""
        for kept in (self._groups, self._counts, self._steps, self._histories):
            kept.clear()

    def _open(self) -> DirectSource:
        return DirectSource(open_checkpoint(None, self.checkpoint))

    def _at(self, step: str, batch: int | None) -> _At:
        source = self._open()
        number = source.place.check_batch(batch)
        (ref,) = choose_step(self._steps_at(source, number), step, source.place.path)
        return _At(source, ref, number, source.reader.sources(ref.operator, number))

    def _find(self, at: _At, key: str) -> FoundKey:
        """The key that a text stands for. One that only Spark could cast is found as it is shown, if it is there."""
        try:
            return at.source.find_key(at.ref, key)
        except NeedsSpark:
            for group in self._all_groups(at):
                text, slot = next(group.keys_from(key), ("", None))
                if slot is not None and text == key:
                    return FoundKey(slot, None if is_spread(at.ref) else group.label)
            raise

    def _other(self, at: _At, batch: int) -> _At | None:
        """The same step after another micro-batch; None if it had no state then."""
        number = at.source.place.check_batch(batch)
        ref = next((step for step in self._steps_at(at.source, number) if step.name == at.ref.name), None)
        return None if ref is None else _At(at.source, ref, number, at.source.reader.sources(ref.operator, number))

    def _shown_in(self, other: _At | None, at: _At, label: int, slot: Slot) -> list[ShownCell]:
        """What a key of a key group has in the other one, by its slot: not every key's text can be read back. If the key
        groups were others there, it may be in any."""
        if other is None:
            return []
        groups = [self._group(other, label)] if other.ref.labels == at.ref.labels else self._all_groups(other)
        return [cell for group in groups if group is not None for cell in group.shown(other.ref.name, slot)]

    def _steps_at(self, source: DirectSource, batch: int) -> list[StepRef]:
        known = (batch, _described(source.place, batch))
        kept = self._steps.get(known)
        if kept is not None:
            return kept[0]
        found = source.steps(batch)
        self._steps.put(known, found, 1)
        return found

    def _all_groups(self, at: _At) -> Iterator[DecodedGroup]:
        """All key groups of a step, by label."""
        for label in sorted(at.ref.labels):
            group = self._group(at, label)
            if group is not None:
                yield group

    def _group(self, at: _At, label: int) -> DecodedGroup | None:
        """A key group, decoded; None if it has no state."""
        number = at.source.reader.partition_of(at.ref.operator, at.batch, label)
        known = (at.ref.operator, at.batch, label, at.files[number].identity)
        # Who asks for the same waits for it: to decode it for each takes as long for all, and the memory for each.
        with self._decoding:
            kept = self._groups.get(known)
            if kept is None:
                kept = (self._decoded(at, label),)
                self._groups.put(known, kept[0], 1 if kept[0] is None else kept[0].size)
            return kept[0]

    def _decoded(self, at: _At, label: int) -> DecodedGroup | None:
        blobs = dict(at.source.reader.groups(at.ref.operator, at.batch, [label])).get(label)
        return None if blobs is None else DecodedGroup(label, blobs, trust_pickle=self._trust_pickle)


@dataclass(frozen=True)
class _At:
    """A step after a micro-batch, and what its state is read from, by partition."""

    source: DirectSource
    ref: StepRef
    batch: int
    files: dict[int, PartitionFiles]


def _matching(groups: Iterator[DecodedGroup], prefix: str) -> Iterator[tuple[DecodedGroup, str, Slot]]:
    """The keys whose text begins with something."""
    for group in groups:
        for text, slot in group.keys_from(prefix):
            yield group, text, slot


def _info(step: StepRef, place: Checkpoint) -> StepInfo:
    manifest = step.manifest
    return StepInfo(
        step.name,
        step.operator,
        ", ".join(f"{column['name']} {column['type']}" for column in manifest["key"]),
        [str(cell["name"]) for cell in manifest["cells"]],
        [str(timer["name"]) for timer in manifest["timers"]],
        int(manifest["key_groups"]),
        str(manifest["backend"]),
        docs_of(place, step),
    )


def _described(place: Checkpoint, batch: int) -> tuple[object, ...]:
    """Another one if the files that say which steps there are may have changed."""
    found: list[object] = []
    for operator in place.operators():
        for store in operator.partitions:
            found += [(file.path, file.size, file.modified_seconds) for file in store.chain(batch + 1) or ()]
    return tuple(found)
