"""Replacing the state of a checkpoint: what a tool leaves if it is killed on the way, and how to recover.

    holdfast/replacement…       the new state with its manifest, finished or not; if that is all, nothing has changed
    holdfast/state-before       the old state, moved aside. While there is no `state/`, it can be put back; if there is one,
                                that is the new state, and only its manifest has to follow

Both are gone when all is done. Only the holder of the checkpoint's lock may finish or undo it.
"""

from __future__ import annotations

from typing import Any

from holdfast.checkpoint.files.choice import Files, join
from holdfast.engine.stored.documents import Malformed, parse_json

__all__ = ["MANIFEST_FILE", "NEW_STATE", "OLD_STATE", "finish_replacing", "interrupted", "left_over"]

MANIFEST_FILE = "holdfast/manifest.json"
OLD_STATE = "holdfast/state-before"
NEW_STATE = "holdfast/replacement"


def interrupted(files: Files, checkpoint: str) -> str | None:
    """Which operation moved the state of a checkpoint and did not finish, and how far it got; None if none did."""
    if files.info(join(checkpoint, OLD_STATE)) is None:
        return None
    operation = _operation(files, checkpoint)
    if files.info(join(checkpoint, "state")) is None:
        return f"{operation} was interrupted: the old state is in {OLD_STATE!r}, and the new state is not in place"
    return f"{operation} was interrupted: the new state is in place, its manifest is not"


def finish_replacing(files: Files, checkpoint: str) -> str | None:
    """Leaves one whole state with its manifest, whether a replacement finished or was killed at any point.

    Returns what was done, if anything.
    """
    said = _settle(files, checkpoint)
    for path in _begun(files, checkpoint):
        files.remove(path)
        said = said or "the leftovers of an interrupted operation were removed; it had changed nothing"
    return said


def left_over(files: Files, checkpoint: str) -> str | None:
    """What an operation left that was interrupted before it changed anything, or is still running; None if nothing."""
    begun = _begun(files, checkpoint)
    return f"an operation was interrupted before it changed anything, and left {begun[0]!r}" if begun else None


def _begun(files: Files, checkpoint: str) -> list[str]:
    entries = files.entries(join(checkpoint, "holdfast")) or ()
    return [entry.path for entry in entries if join("holdfast", entry.name).startswith(NEW_STATE)]


def _settle(files: Files, checkpoint: str) -> str | None:
    old, state, new = (join(checkpoint, name) for name in (OLD_STATE, "state", NEW_STATE))
    if files.info(old) is None:
        return None
    operation = _operation(files, checkpoint)
    if files.info(state) is None:
        files.move(old, state)
        return f"{operation} had been interrupted, and was undone"
    manifest = files.read(join(new, MANIFEST_FILE))
    if manifest is not None:
        files.write(join(checkpoint, MANIFEST_FILE), manifest)
    files.remove(old)
    return f"{operation} had been interrupted, and was finished"


def _operation(files: Files, checkpoint: str) -> str:
    """The name of the operation, as far as the two manifests tell."""
    before, after = (
        _key_groups(files.read(join(place, MANIFEST_FILE))) for place in (checkpoint, join(checkpoint, NEW_STATE))
    )
    changed = [
        f"{name} from {before[name]} to {after[name]}"
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    ]
    if changed:
        return f"a change of key groups (rescale: {', '.join(changed)})"
    return "a replacement of the state (state import, state rm, or rescale)"


def _key_groups(stored: bytes | None) -> dict[str, Any]:
    try:
        steps = parse_json(stored or b"{}", infinite=True).get("steps", {})
        return {str(name): step.get("key_groups") for name, step in steps.items()}
    except (Malformed, AttributeError):
        return {}
