"""Whose turn it is: counts how often the lock on a checkpoint has been taken, and outlives the locks.

`<checkpoint>/holdfast/turn.json` names the last holder by the token of its lock:

    {"turn_version": 1, "turn": 7, "token": "…"}

A released lock is removed. So a driver that slept, was presumed dead, and wakes after its successor has also ended finds no
lock at all; the turn tells it that others have been there since.
"""

from __future__ import annotations

import json

from holdfast.checkpoint.files.access import Files
from holdfast.checkpoint.files.paths import join
from holdfast.checkpoint.notices import read_turn

__all__ = ["TURN_FILE", "is_turn_of", "take_turn"]

TURN_FILE = "holdfast/turn.json"

_TURN_VERSION = 1


def take_turn(files: Files, checkpoint: str, token: str) -> None:
    """Records the holder of this lock as the latest. Only the holder may do so."""
    number, _ = _read(files, checkpoint)
    content = {"turn_version": _TURN_VERSION, "turn": number + 1, "token": token}
    files.write(join(checkpoint, TURN_FILE), json.dumps(content).encode())


def is_turn_of(files: Files, checkpoint: str, token: str) -> bool:
    """Whether nobody has had the lock since the holder of this one took it."""
    return _read(files, checkpoint)[1] == token


def _read(files: Files, checkpoint: str) -> tuple[int, str]:
    """The number and the token; those of nobody if the file is missing or damaged."""
    found = read_turn(files.read(join(checkpoint, TURN_FILE)) or b"")
    return (0, "") if found is None or found.turn_version != _TURN_VERSION else (found.turn, found.token)
