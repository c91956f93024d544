"""Whose turn it is: a count of how often the lock on a checkpoint has been taken, that outlives the locks.

`<checkpoint>/holdfast/turn.json` names the last holder by the token of its lock:

    {"turn_version": 1, "turn": 7, "token": "…"}

A lock that is given back is removed. So a driver that slept, was taken for dead, and wakes when the one that took over has
ended as well finds no lock at all; the turn tells it that others have been there since.
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
    """Notes that the holder of this lock is the last one that has been there. Only who has the lock may do so."""
    number, _ = _read(files, checkpoint)
    content = {"turn_version": _TURN_VERSION, "turn": number + 1, "token": token}
    files.write(join(checkpoint, TURN_FILE), json.dumps(content).encode())


def is_turn_of(files: Files, checkpoint: str, token: str) -> bool:
    """Whether nobody has had the lock since the holder of this one took it."""
    return _read(files, checkpoint)[1] == token


def _read(files: Files, checkpoint: str) -> tuple[int, str]:
    """The number and the token; of a file that is not there, or damaged, those of nobody."""
    found = read_turn(files.read(join(checkpoint, TURN_FILE)) or b"")
    return (0, "") if found is None or found.turn_version != _TURN_VERSION else (found.turn, found.token)
