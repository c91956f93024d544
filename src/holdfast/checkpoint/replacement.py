"""State that takes the place of other state in a checkpoint: what a tool leaves that was killed on the way, and the way out.

    holdfast/replacement…       the new state with its manifest, finished or not; if that is all, nothing has changed
    holdfast/state-before       the old state, moved aside. As long as there is no `state/` it can be put back; if there is,
                                it is the new one, and only its manifest has to follow

Both are gone when all is done. Only who has the lock of the checkpoint may finish it or take it back.
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
    """Which operation has moved the state of a checkpoint and was not finished, and how far it got; None if none has."""
    if files.info(join(checkpoint, OLD_STATE)) is None:
        return None
    operation = _operation(files, checkpoint)
    if files.info(join(checkpoint, "state")) is None:
        return f"{operation} was interrupted: the state is moved aside, to {OLD_STATE!r}, and nothing is in its place"
    return f"{operation} was interrupted: the new state is in its place, its manifest is not"


def finish_replacing(files: Files, checkpoint: str) -> str | None:
    """After a replacement, whether it was finished or killed at any point: one whole state, and the manifest of it.

    Says what was done, if anything was.
    """
    said = _settle(files, checkpoint)
    for path in _begun(files, checkpoint):
        files.remove(path)
        said = said or "what an interrupted operation had left was removed; it had changed nothing"
    return said


def left_over(files: Files, checkpoint: str) -> str | None:
    """What an operation has left that was interrupted before it changed anything, or is at work now; None if nothing."""
    begun = _begun(files, checkpoint)
    return f"an operation was interrupted before it changed anything, and has left {begun[0]!r}" if begun else None


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
        return f"{operation} had been interrupted, and was taken back"
    manifest = files.read(join(new, MANIFEST_FILE))
    if manifest is not None:
        files.write(join(checkpoint, MANIFEST_FILE), manifest)
    files.remove(old)
    return f"{operation} had been interrupted, and was finished"


def _operation(files: Files, checkpoint: str) -> str:
    """What was to be done, as far as the two manifests tell."""
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
    return "a replacement of the state (state import, or rescale)"


def _key_groups(stored: bytes | None) -> dict[str, Any]:
    try:
        steps = parse_json(stored or b"{}", infinite=True).get("steps", {})
        return {str(name): step.get("key_groups") for name, step in steps.items()}
    except (Malformed, AttributeError):
        return {}
