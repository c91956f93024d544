"""The manifest: what stored state depends on, recorded with it and checked whenever it is opened.

Every key group carries it in the state store, and a job also writes it beside Spark's own files. Code may continue from
older state if the changes are compatible: a new cell starts empty, a removed one is kept until it is dropped explicitly, a
renamed one declares its old name (`was=`), and one whose coder changed has an upgrade (`upgrade=`). Any other mismatch is
refused, before state can be misread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.engine.stored.documents import Malformed, parse_json
from holdfast.engine.stored.manifest_form import check_manifest
from holdfast.engine.stored.session_forms import as_sessions, result_changes, was_a_function
from holdfast.errors import CorruptState, StateConflict
from holdfast.model.coders import coder_from_description
from holdfast.model.docs import without_doc
from holdfast.model.state.specs import State, StateSpec

__all__ = [
    "LOG_BACKENDS",
    "MANIFEST_VERSION",
    "Evolution",
    "Reconciled",
    "check_owner",
    "checked_manifest",
    "make_manifest",
    "manifest_bytes",
    "read_manifest",
    "reconcile",
]

MANIFEST_VERSION = 1

LOG_BACKENDS = frozenset({"heap", "disk"})
"""Backends that keep the same log, so that one can continue from another."""
_WAY_OUT = "export the state, transform it and import it into a new checkpoint, or undo the change"


def make_manifest(
    step: dict[str, Any], *, key: list[dict[str, str]], key_groups: int, backend: str, parallel_over: str = "key"
) -> dict[str, Any]:
    """The manifest of a step: its description, and how its keys are distributed."""
    return {
        "manifest_version": MANIFEST_VERSION,
        **step,
        "key": key,
        "key_groups": key_groups,
        "parallel_over": parallel_over,
        "backend": backend,
    }


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()


def read_manifest(stored: bytes) -> dict[str, Any]:
    """A stored manifest of a known version."""
    try:
        return checked_manifest(parse_json(stored, infinite=True))
    except Malformed as error:
        raise CorruptState(f"The stored manifest is damaged: {error}.", todo="restore it from a copy") from None


def checked_manifest(recorded: Any) -> dict[str, Any]:
    """A manifest whose fields have the right types. Raises Malformed, or StateConflict for another version."""
    if not isinstance(recorded, dict) or "manifest_version" not in recorded:
        raise Malformed("it is not a manifest at all")
    version = recorded["manifest_version"]
    if version != MANIFEST_VERSION:
        raise StateConflict(
            f"The state was written with manifest version {version!r:.40}; this Holdfast knows version {MANIFEST_VERSION}.",
            todo="use the version of Holdfast that wrote it, or a newer one",
        )
    check_manifest(recorded)
    return recorded


def check_owner(stored: bytes | None, step: str) -> None:
    """Raises StateConflict if a key group's manifest belongs to another step: its state is not where it was written."""
    owner = None if stored is None else read_manifest(stored).get("name")
    if owner is not None and owner != step:
        raise StateConflict(
            f"The step {step!r} found the state of the step {owner!r} where its own should be.",
            todo="give the steps their old names and their old order; if nothing was changed, check the checkpoint: "
            "holdfast checkpoint verify --deep",
        )


@dataclass(frozen=True)
class Evolution:
    """What the code declares about older state."""

    was: dict[str, str] = field(default_factory=dict)
    """From a cell's name to its former name."""
    upgrades: dict[str, Any] = field(default_factory=dict)
    """From the name of a cell with an upgrade to the description of the old coder, if given."""
    drop: frozenset[str] = frozenset()
    """Removed cells whose stored state should be deleted."""

    @staticmethod
    def of(cells: Iterable[StateSpec[State]], drop: Iterable[str] = ()) -> Evolution:
        cells = list(cells)
        coders = {cell.name: cell.upgrade.coder for cell in cells if cell.upgrade is not None}
        return Evolution(
            was={cell.name: cell.was for cell in cells if cell.was is not None},
            upgrades={name: None if coder is None else coder.describe() for name, coder in coders.items()},
            drop=frozenset(drop),
        )


@dataclass(frozen=True)
class Reconciled:
    """How stored state fits the code."""

    manifest: dict[str, Any]
    """The manifest from now on: the code's, plus the cells that are kept."""
    sources: dict[str, str]
    """From each stored cell that continues, to the name it is stored under."""
    upgraded: frozenset[str]
    kept: tuple[dict[str, Any], ...]
    """Descriptions of stored cells that the code does not have."""
    notes: tuple[str, ...]
    """What changed, in sentences."""
    refits_sessions: bool = False
    """Whether sessions are stored in another form, or with other results, than the code keeps them."""


def reconcile(old: Mapping[str, Any], new: Mapping[str, Any], evolution: Evolution) -> Reconciled:
    """How code continues from stored state. Raises StateConflict, listing every obstacle, if it cannot."""
    was_function = was_a_function(old, new)
    old = as_sessions(old, new) if was_function else old
    problems = [*_step_problems(old, new)]
    notes: list[str] = []
    if was_function:
        notes.append("the sessions of each key are kept in one cell from now on.")
        if new["backend"] not in LOG_BACKENDS:
            problems.append(
                "its sessions are stored in an older form, and cannot be converted: the backend "
                f"{new['backend']!r} has its own format. Go on with the version of Holdfast that wrote them."
            )
    sources: dict[str, str] = {}
    upgraded: set[str] = set()
    refits = False
    stored = {cell["name"]: cell for cell in old["cells"]}
    for cell in new["cells"]:
        name, was = cell["name"], evolution.was.get(cell["name"])
        source = name if name in stored else was
        if name in stored and was in stored:
            if not {name, was} & evolution.drop:
                problems.append(
                    f"the cell {name!r} has was={was!r}, but both are stored; say which of them goes: drop_cells=[{was!r}], "
                    f"or drop_cells=[{name!r}] to go on with what is stored as {was!r}."
                )
                continue
            source = was if name in evolution.drop else name
        if source not in stored:
            notes.append(f"the cell {name!r} is new, and empty.")
            continue
        assert source is not None
        sources[name] = source
        if source != name:
            notes.append(f"the cell {name!r} was called {source!r}.")
        if stored[source]["kind"] == cell["kind"] == "sessions":
            in_the_way, worth_a_note = result_changes(stored[source], cell, evolution.drop)
            problems += in_the_way
            notes += worth_a_note
            refits = was_function or stored[source]["coder"] != cell["coder"]
            continue
        problems += _cell_problems(stored[source], cell, evolution)
        if stored[source]["coder"] != cell["coder"] and name in evolution.upgrades:
            upgraded.add(name)
            notes.append(f"the cell {name!r} is upgraded from {_described(stored[source]['coder'])}.")
    kept = []
    for name in stored.keys() - set(sources.values()):
        if name in evolution.drop:
            notes.append(f"the cell {name!r} is dropped, as asked.")
        else:
            kept.append(stored[name])
            notes.append(f"the cell {name!r} is no longer declared; its state is kept. Drop it: drop_cells=[{name!r}].")
    timers = {timer["name"] for timer in new["timers"]}
    notes += [
        f"the timer {t['name']!r} is gone; pending ones are dropped." for t in old["timers"] if t["name"] not in timers
    ]
    if problems:
        raise StateConflict(
            f"The step {new.get('name')!r} does not match its stored state: {problems[0]}",
            detail="\n".join(f"- {problem}" for problem in problems[1:]),
            todo=_WAY_OUT,
        )
    manifest = {**new, "cells": [*new["cells"], *({**cell, "kept": True} for cell in kept)]}
    return Reconciled(manifest, sources, frozenset(upgraded), tuple(kept), tuple(sorted(notes)), refits)


def _step_problems(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old["key"] != new["key"]:
        yield f"the key was {_columns(old['key'])} and is {_columns(new['key'])} now."
    if old["backend"] != new["backend"] and not {old["backend"], new["backend"]} <= LOG_BACKENDS:
        yield f"backend was {old['backend']!r} and is {new['backend']!r} now."
    for name in ("key_groups", "parallel_over", "time_sorted"):
        if old[name] != new[name]:
            yield f"{name} was {old[name]!r} and is {new[name]!r} now."
    if old["windowing"]["window_fn"] != new["windowing"]["window_fn"]:
        before, after = old["windowing"]["window_fn"], new["windowing"]["window_fn"]
        yield f"the window function was {_described(before)} and is {_described(after)} now."
    before, after = old.get("grouping"), new.get("grouping")
    if before != after:
        yield f"the aggregation was {_described(before)} and is {_described(after)} now."
    yield from _parameter_problems(old.get("parameters"), new.get("parameters", {}))
    old_timers = {timer["name"]: timer for timer in old["timers"]}
    for timer in new["timers"]:
        known = old_timers.get(timer["name"])
        if known is not None and without_doc(known) != without_doc(timer):
            yield (
                f"the timer {timer['name']!r} was in the domain {known['time_domain']} and is in {timer['time_domain']} now."
            )


def _parameter_problems(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    """A manifest may have no parameters, if the function gave none or it is too old: then there is nothing to compare."""
    if old is None:
        return
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{name} was {old[name]!r} and is not given now."
        elif name not in old:
            yield f"{name} was not given and is {new[name]!r} now."
        elif old[name] != new[name]:
            yield f"{name} was {old[name]!r} and is {new[name]!r} now."


def _cell_problems(old: Mapping[str, Any], new: Mapping[str, Any], evolution: Evolution) -> Iterator[str]:
    name = new["name"]
    if old["kind"] != new["kind"]:
        yield f"the cell {name!r} was a {old['kind']} cell and is a {new['kind']} cell now."
        return
    if old.get("key_coder") != new.get("key_coder"):
        before, after = _described(old.get("key_coder")), _described(new.get("key_coder"))
        yield f"the coder of the keys of the cell {name!r} was {before} and is {after} now."
    if old["coder"] == new["coder"]:
        return
    before, after = _described(old["coder"]), _described(new["coder"])
    if name not in evolution.upgrades:
        yield (
            f"the coder of the cell {name!r} was {before} and is {after} now; declare on the cell how old values become new "
            "ones: upgrade=function."
        )
        return
    given = evolution.upgrades[name]
    if given is not None and given != old["coder"]:
        yield f"the upgrade of the cell {name!r} is from {_described(given)}, but the values were written with {before}."
    elif given is None and coder_from_description(old["coder"], view_records=True) is None:
        yield (
            f"the coder of the cell {name!r} was {before}, which cannot be made from its description; pass it to the "
            "upgrade: upgrade=Upgrade(function, coder=...)."
        )


def _columns(columns: list[dict[str, str]]) -> str:
    return ", ".join(f"{column['name']} {column['type']}" for column in columns)


def _described(description: Any) -> str:
    if not isinstance(description, Mapping):
        return repr(description)
    details = {name: value for name, value in description.items() if name not in ("id", "version")}
    version = f" version {description['version']}" if description.get("version", 1) != 1 else ""
    inner = ", ".join(f"{name}={_described(value)}" for name, value in details.items())
    return f"{description.get('id', '?')}{f'({inner})' if inner else ''}{version}"
