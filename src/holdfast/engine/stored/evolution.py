"""Evolution: makes the stored state of a key group fit the code, before anything else uses it.

State written by other code is read with a layout made from its manifest, converted to the code's own layout, and written
back as a snapshot. From then on the log is as the code itself would have written it. A job does so with all key groups at
once, before it goes on (`spark/graph/converting.py`); otherwise each key group is converted when it is next opened, in the
same transaction as the first bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.engine.log.blob import NOTE, Section
from holdfast.engine.log.chain import SnapshotOptions, append, read_head, whole
from holdfast.engine.log.sections import apply_sections, segments
from holdfast.engine.log.store import BlobStore
from holdfast.engine.state.ages import age_spec
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.timers import timer_cells
from holdfast.engine.stored.manifest import LOG_BACKENDS, Evolution, Reconciled, manifest_bytes, read_manifest, reconcile
from holdfast.engine.stored.session_forms import sessions_of
from holdfast.engine.tables.expiring import stamp_name
from holdfast.errors import StateConflict, UserCodeError
from holdfast.model.coders import BooleanCoder, Coder, OpaqueCoder, VarIntCoder, coder_from_description
from holdfast.model.coders.sessions import SessionsCoder
from holdfast.model.state.sessions import SessionsStateSpec
from holdfast.model.state.specs import (
    BagStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    SetStateSpec,
    State,
    StateSpec,
    ValueStateSpec,
)
from holdfast.model.time.timers import TimeDomain, TimerSpec

__all__ = ["MANIFEST", "adapted", "came_along", "is_rewritten", "stored_specs"]

MANIFEST = "~manifest"
"""The name of the manifest in the store, beside the log. No name in the log begins like it."""

# A combining cell is stored like a value. Its CombineFn is not needed, and only the older code has it.
_KINDS: dict[str, Any] = {
    "value": ValueStateSpec,
    "combining": ValueStateSpec,
    "bag": BagStateSpec,
    "set": SetStateSpec,
    "ordered_list": OrderedListStateSpec,
    "sessions": SessionsStateSpec,
}


def adapted(store: BlobStore, manifest: Mapping[str, Any], layout: Layout, evolution: Evolution) -> Layout:
    """Makes stored state fit the manifest; returns the layout to use, which may have cells that are merely kept."""
    stored = store.get(MANIFEST)
    if stored is None:
        store.put(MANIFEST, manifest_bytes(manifest))
        return layout
    old = read_manifest(stored)
    agreed = reconcile(old, manifest, evolution)
    kept = [_spec(cell, None) for cell in agreed.kept]
    wanted = layout.keeping(kept) if kept else layout
    if manifest_bytes(old) == manifest_bytes(agreed.manifest):
        return wanted
    if is_rewritten(old, agreed):
        if manifest["backend"] not in LOG_BACKENDS:
            raise _not_in_the_log(manifest)
        _rewrite(store, old, wanted, agreed)
    store.put(MANIFEST, manifest_bytes(agreed.manifest))
    return wanted


def _not_in_the_log(manifest: Mapping[str, Any]) -> StateConflict:
    return StateConflict(
        f"The step {manifest['name']!r} renames, upgrades or drops cells, but its state is in the backend "
        f"{manifest['backend']!r}, which has its own format.",
        todo="leave the cells as they were, add new ones beside them, or start with a new checkpoint",
    )


def is_rewritten(old: Mapping[str, Any], agreed: Reconciled) -> bool:
    """Whether the log holds something other than what the code would read."""
    here = {cell["name"] for cell in agreed.manifest["cells"]} | set(agreed.sources.values())
    dropped = {cell["name"] for cell in old["cells"]} - here
    renamed = any(name != source for name, source in agreed.sources.items())
    return bool(dropped or renamed or agreed.upgraded or agreed.refits_sessions)


def came_along(stored: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Whether a key group with this manifest has all that was changed until the recorded one: it may lack cells that are
    new in that, which are empty. If it has others, those were renamed, upgraded or dropped, and it missed it."""
    known = {cell["name"]: _form_of(cell) for cell in recorded["cells"]}
    return all(known.get(cell["name"]) == _form_of(cell) for cell in stored["cells"])


def _form_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """How the values of a cell are stored. Sessions are told apart by their results, of which there may be new ones."""
    coder = None if cell["kind"] == "sessions" else cell["coder"]
    return cell["kind"], coder, cell.get("key_coder")


def _rewrite(store: BlobStore, old: Mapping[str, Any], layout: Layout, agreed: Reconciled) -> None:
    head = read_head(store)
    before = KeyGroupState(layout.of_specs(stored_specs(old, layout, agreed)))
    for name, blob in whole(store, head):
        apply_sections(before, blob.sections, name)
    after = _converted(before, layout, agreed)
    note = Section(b"", "", NOTE, manifest_bytes(agreed.manifest), [])
    options = SnapshotOptions(deltas_max=-1)
    append(store, head, [note], options, segments(after, options.segment_bytes_max))


def stored_specs(
    manifest: Mapping[str, Any], layout: Layout | None, agreed: Reconciled | None = None, *, trust_pickle: bool = False
) -> list[StateSpec[State]]:
    """All cells that a log with this manifest may have, including hidden ones."""
    coders = _given_coders(layout, agreed)
    specs: list[StateSpec[State]] = []
    for cell in manifest["cells"]:
        coder = _former_sessions(cell, coders, trust_pickle) if cell["kind"] == "sessions" else coders.get(cell["name"])
        specs.append(_spec(cell, coder, trust_pickle))
        if "ttl" in cell:
            specs.append(ValueStateSpec(stamp_name(cell["name"]), VarIntCoder()))
    for timer in manifest["timers"]:
        specs += timer_cells(TimerSpec(timer["name"], TimeDomain(timer["time_domain"])))
    specs.append(ValueStateSpec("~seen", BooleanCoder()))
    specs.append(ValueStateSpec("~panes", VarIntCoder()))
    specs.append(age_spec())
    if layout is not None and layout.held is not None:
        specs.append(layout.specs[layout.held])
    elif manifest.get("time_sorted"):
        specs.append(OrderedListStateSpec("~held"))
    return specs


def _former_sessions(cell: Mapping[str, Any], coders: Mapping[str, Coder[Any]], trust_pickle: bool) -> Coder[Any] | None:
    """The coder of stored sessions. `coders`: those that the code has, for the cell or, if its results changed, for them."""
    if cell["name"] in coders:
        return coders[cell["name"]]
    names, components = cell["coder"].get("names", []), cell["coder"].get("components", [])
    if not coders or len(names) != len(components):
        return None
    made = [coders.get(name) or _coder(part, trust_pickle) for name, part in zip(names, components, strict=True)]
    return SessionsCoder(names, made)


def _given_coders(layout: Layout | None, agreed: Reconciled | None) -> dict[str, Coder[Any]]:
    """The coders that the code has for stored cells: those of unchanged cells, and those given with an upgrade."""
    if layout is None or agreed is None:
        return {}
    coders: dict[str, Coder[Any]] = {}
    for cell in layout.cells:
        source = agreed.sources.get(cell.name)
        if source is None:
            continue
        if agreed.refits_sessions and isinstance(cell, SessionsStateSpec):
            coders.update(zip(cell.coder.names, cell.coder.components, strict=True))
        elif cell.name not in agreed.upgraded:
            coders[source] = cell.coder
        elif cell.upgrade is not None and cell.upgrade.coder is not None:
            coders[source] = cell.upgrade.coder
    return coders


def _spec(cell: Mapping[str, Any], coder: Coder[Any] | None, trust_pickle: bool = False) -> StateSpec[State]:
    """The cell of a description. Values that need code that is missing or not trusted stay bytes."""
    coder = coder or _coder(cell["coder"], trust_pickle)
    if cell["kind"] == "map":
        return MapStateSpec(cell["name"], _coder(cell["key_coder"], trust_pickle), coder)
    spec: StateSpec[State] = _KINDS[cell["kind"]](cell["name"], coder)
    return spec


def _coder(description: Mapping[str, Any], trust_pickle: bool) -> Coder[Any]:
    coder = coder_from_description(description, trust_pickle=trust_pickle, view_records=True)
    return coder or OpaqueCoder(description)


def _converted(before: KeyGroupState, layout: Layout, agreed: Reconciled) -> KeyGroupState:
    after = KeyGroupState(layout)
    positions = before.layout.positions
    for data, window in before.windows.items():
        target = after.window_of(data)
        if agreed.refits_sessions:
            target.sessions.values.update(sessions_of(window, positions, layout))
            continue
        for spec, table in zip(layout.specs, target.tables, strict=True):
            source = _source(spec.name, agreed)
            if source not in positions:
                continue
            old = window.tables[positions[source]]
            if spec.name in agreed.upgraded:
                change = _change(old.spec.coder, spec)
                table.values.update({slot: table.mapped(entry, change) for slot, entry in old.values.items()})
            else:
                table.values.update(old.values)
    return after


def _source(name: str, agreed: Reconciled) -> str:
    """The name under which the content of a cell is stored."""
    if name.startswith("~ttl:"):
        cell = name.removeprefix("~ttl:")
        return stamp_name(agreed.sources.get(cell, cell))
    return agreed.sources.get(name, name)


def _change(old: Coder[Any], spec: StateSpec[State]) -> Callable[[Any], Any]:
    assert spec.upgrade is not None
    function, new = spec.upgrade.function, spec.coder

    def change(stored: Any) -> Any:
        before = old.thaw(stored)
        try:
            after = function(before)
        except Exception as error:
            raise UserCodeError(
                f"The upgrade of the cell {spec.name!r} raised {type(error).__name__}: {error}",
                detail=f"It was given {before!r:.200}.",
                todo="correct the function and start again; what it was given is stored as before",
            ) from error
        return new.freeze(after)

    return change
