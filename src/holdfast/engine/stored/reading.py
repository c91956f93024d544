"""Reads stored state without the code that wrote it: a key group is read with the manifest that it carries.

Coders are made from their descriptions. Values that need code that is missing or not trusted stay bytes: they can be
counted, moved and written again, but not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.engine.log.blob import NOTE, Section
from holdfast.engine.log.chain import SnapshotOptions, append, read_head, whole
from holdfast.engine.log.head import Head
from holdfast.engine.log.sections import apply_sections, segments
from holdfast.engine.state.ages import AGE
from holdfast.engine.state.key_group import KeyGroupState, Layout, WindowState
from holdfast.engine.state.keys import sort_slots
from holdfast.engine.stored.evolution import MANIFEST, stored_specs
from holdfast.engine.stored.manifest import LOG_BACKENDS, read_manifest
from holdfast.engine.tables import Slot, Table
from holdfast.engine.tables.expiring import stamp_name
from holdfast.errors import CheckpointError, CorruptState
from holdfast.model.state.specs import State, StateSpec
from holdfast.model.time.timestamps import MAX_TIMESTAMP, Duration, Timestamp
from holdfast.model.windows.bounded import BoundedWindow
from holdfast.model.windows.codec import window_from_bytes
from holdfast.model.windows.functions import NonMergingWindowFn
from holdfast.model.windows.windowing import Windowing

__all__ = ["HIDDEN", "Blobs", "OpaqueWindow", "StoredCell", "StoredGroup", "StoredLayout", "read_group", "write_group"]

HIDDEN = "hidden"
"""The kind of the engine's internal cells."""


class Blobs:
    """The blobs of a key group, as a store in memory."""

    def __init__(self, blobs: Mapping[str, bytes] | None = None) -> None:
        self._blobs = dict(blobs or {})

    def get(self, name: str) -> bytes | None:
        return self._blobs.get(name)

    def expect(self, names: Iterable[str]) -> None:
        """Everything is at hand."""

    def put(self, name: str, blob: bytes) -> None:
        self._blobs[name] = blob

    def remove(self, name: str) -> None:
        self._blobs.pop(name, None)

    def items(self) -> Iterator[tuple[str, bytes]]:
        yield from self._blobs.items()


class OpaqueWindow(BoundedWindow):
    """A window that only the code of its window function could read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(MAX_TIMESTAMP)
        self.data = data

    @property
    def start(self) -> Timestamp:
        return self.end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueWindow) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"window {self.data.hex()}"


class _StoredWindows(NonMergingWindowFn):
    """Windows as they are stored. Those of a user's own window function may have a coder that is not available."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._known = str(description.get("id", "")).startswith("holdfast.")

    def decode_window(self, data: bytes) -> BoundedWindow:
        try:
            return window_from_bytes(data)
        except CorruptState:
            if self._known:
                raise
            return OpaqueWindow(data)

    def encode_window(self, window: BoundedWindow) -> bytes:
        return window.data if isinstance(window, OpaqueWindow) else super().encode_window(window)


class _StoredStep(NamedTuple):
    name: str
    windowing: Windowing


class StoredLayout(Layout):
    """The tables that a manifest describes, including hidden ones."""

    def __init__(self, manifest: Mapping[str, Any], *, trust_pickle: bool = False) -> None:
        windowing = manifest["windowing"]
        lateness = Duration(micros=windowing["allowed_lateness_micros"])
        step: Any = _StoredStep(manifest["name"], Windowing(_StoredWindows(windowing["window_fn"]), lateness))
        self.step = step
        self.specs = stored_specs(manifest, None, trust_pickle=trust_pickle)
        self.positions = {spec.name: position for position, spec in enumerate(self.specs)}
        self.described = {cell["name"]: cell for cell in manifest["cells"]}
        self.cells: list[StateSpec[State]] = [self.specs[self.positions[name]] for name in self.described]
        self.timers = []
        self.domains = []
        self.first_timer = 0
        self.seen = self.held = self.panes = self.sessions = None
        self.gives_whole_windows = False
        self.age = self.positions[AGE]
        self.keeps_last_use = False
        self.gives_whole_windows = False
        self.stamps = {}

    def kind_of(self, spec: StateSpec[State]) -> str:
        """The kind of a user's cell; "timer"; or "hidden" for the engine's internal cells."""
        if spec.name in self.described:
            return str(self.described[spec.name]["kind"])
        return "timer" if spec.name.startswith(("~timer:", "~tags:")) else HIDDEN


class StoredCell(NamedTuple):
    """What one key has in one cell of one window."""

    slot: Slot
    window: WindowState
    spec: StateSpec[State]
    kind: str
    """See `StoredLayout.kind_of`."""
    table: Table
    entry: Any
    expires_micros: int | None


class StoredGroup(NamedTuple):
    """A key group as it is stored."""

    state: KeyGroupState
    manifest: dict[str, Any]
    head: Head
    layout: StoredLayout

    def cells(self, slots: Collection[Slot] | None = None, *, ordered: bool = True) -> Iterator[StoredCell]:
        """All cells that hold anything, for all keys or only these: by window and cell, and by key if `ordered`."""
        layout = self.layout
        for data in sorted(self.state.windows):
            window = self.state.windows[data]
            for spec, table in zip(layout.specs, window.tables, strict=True):
                kind = layout.kind_of(spec)
                stamps, lifetime = self._stamps(window, layout, spec)
                found = table.values if slots is None else [slot for slot in slots if slot in table.values]
                for slot in sort_slots(found) if ordered else found:
                    stamp = stamps.get(slot)
                    expires = None if stamp is None else stamp + lifetime
                    yield StoredCell(slot, window, spec, kind, table, table.values[slot], expires)

    def _stamps(self, window: WindowState, layout: StoredLayout, spec: StateSpec[State]) -> tuple[Mapping[Slot, int], int]:
        """When each key's cell was last touched, and how long it lives after that."""
        ttl = layout.described.get(spec.name, {}).get("ttl")
        if ttl is None:
            return {}, 0
        return window.tables[layout.positions[stamp_name(spec.name)]].values, int(ttl["micros"])

    def slots(self) -> set[Slot]:
        """The keys that have anything."""
        return set().union(*(window.slots() for window in self.state.windows.values()))


def read_group(blobs: Blobs, *, trust_pickle: bool = False) -> StoredGroup:
    """The state in the blobs of a key group. Every blob is checked before anything is decoded from it."""
    stored = blobs.get(MANIFEST)
    if stored is None:
        raise CorruptState("A key group has no manifest beside its state.")
    manifest = read_manifest(stored)
    if manifest["backend"] not in LOG_BACKENDS:
        raise CheckpointError(
            f"The state of the step {manifest['name']!r} is in the backend {manifest['backend']!r}, which has its own "
            "format.",
            todo="read it with that backend's own tools",
        )
    layout = StoredLayout(manifest, trust_pickle=trust_pickle)
    state = KeyGroupState(layout)
    head = read_head(blobs)
    for name, blob in whole(blobs, head):
        apply_sections(state, blob.sections, name)
    return StoredGroup(state, manifest, head, layout)


def write_group(state: KeyGroupState, manifest_data: bytes, last: int, origin: bytes) -> Blobs:
    """The blobs of a new key group that holds this state, as one snapshot.

    `last` is the sequence number after which the log continues: no smaller than that of any log the state comes from, since
    the ages of keys are such numbers. `origin` must differ whenever the state does: otherwise a worker could mistake this
    log for another one.
    """
    blobs = Blobs()
    blobs.put(MANIFEST, manifest_data)
    options = SnapshotOptions(deltas_max=-1)
    note = Section(b"", "", NOTE, origin, [])
    append(blobs, Head(base=last, last=last), [note], options, segments(state, options.segment_bytes_max))
    return blobs
