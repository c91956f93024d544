"""The manifest: what stored state depends on, recorded with it and checked whenever it is opened.

Every key group carries it in the state store, and a job also writes it beside Spark's own files. A step that does not
agree with the manifest is refused before it can read state as something it is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.errors import CorruptState, StateConflict

__all__ = ["MANIFEST_VERSION", "check_manifest", "differences", "make_manifest", "manifest_bytes"]

MANIFEST_VERSION = 1


def make_manifest(
    step: dict[str, Any], *, key: list[dict[str, str]], key_groups: int, backend: str, parallel_over: str = "key"
) -> dict[str, Any]:
    """The manifest of a step: its own description, and how its keys are distributed."""
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


def check_manifest(stored: bytes, present: Mapping[str, Any]) -> None:
    """Raises StateConflict, with everything that changed, if the step is not the one that the state belongs to."""
    try:
        recorded = json.loads(stored)
        version = recorded["manifest_version"]
    except (ValueError, KeyError, TypeError):
        raise CorruptState("The stored manifest is damaged: it is not a manifest at all.") from None
    if version != MANIFEST_VERSION:
        raise StateConflict(
            f"The state was written with manifest version {version}; this Holdfast knows version {MANIFEST_VERSION}.",
            todo="use the version of Holdfast that wrote it, or a newer one",
        )
    changed = list(differences(recorded, present))
    if changed:
        raise StateConflict(
            f"The step {present.get('name')!r} is not the one that the stored state belongs to: {changed[0]}",
            detail="\n".join(f"- {change}" for change in changed),
            todo="undo the change, or start with a new checkpoint",
        )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What changed, in sentences."""
    if old["key"] != new["key"]:
        yield f"the key was {_columns(old['key'])} and is {_columns(new['key'])} now."
    for name in ("key_groups", "parallel_over", "backend", "time_sorted"):
        if old[name] != new[name]:
            yield f"{name} was {old[name]!r} and is {new[name]!r} now."
    if old["windowing"]["window_fn"] != new["windowing"]["window_fn"]:
        before, after = old["windowing"]["window_fn"], new["windowing"]["window_fn"]
        yield f"the window function was {_described(before)} and is {_described(after)} now."
    before, after = old.get("grouping"), new.get("grouping")
    if before != after:
        yield f"the aggregation was {_described(before)} and is {_described(after)} now."
    yield from _cells(old, new)
    old_timers = {timer["name"]: timer for timer in old["timers"]}
    for timer in new["timers"]:
        before = old_timers.get(timer["name"])
        if before is not None and before != timer:
            yield (
                f"the timer {timer['name']!r} was in the domain {before['time_domain']} and is in "
                f"{timer['time_domain']} now."
            )
    for name in old_timers.keys() - {timer["name"] for timer in new["timers"]}:
        yield f"the timer {name!r} is gone, and may still be set for some keys."


def _cells(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    present = {cell["name"]: cell for cell in new["cells"]}
    for cell in old["cells"]:
        now = present.get(cell["name"])
        if now is None:
            yield f"the cell {cell['name']!r} is gone, and its state would be lost."
            continue
        if cell["kind"] != now["kind"]:
            yield f"the cell {cell['name']!r} was a {cell['kind']} cell and is a {now['kind']} cell now."
        for what, label in (("coder", "coder"), ("key_coder", "coder of the keys")):
            if cell.get(what) != now.get(what):
                yield (
                    f"the {label} of the cell {cell['name']!r} was {_described(cell.get(what))} and is "
                    f"{_described(now.get(what))} now."
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
