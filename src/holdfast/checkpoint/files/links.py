"""Paths for Spark's reader of state and its repartitioning, which escape what a URI cannot have, and then look for the
escaped path: a checkpoint at `/my data/c` is looked for at `/my%20data/c`. Such a checkpoint is given to them by a link with
a plain name, which lasts as long as this process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from pathlib import Path

from holdfast.checkpoint.files.local import temporary_folder
from holdfast.checkpoint.files.paths import local_path, normalised
from holdfast.errors import CheckpointError

__all__ = ["for_state_reader"]

_ESCAPED = re.compile(r"[^\w\-!.~'()*,;:$&+=/@]")


class _Owner:
    """Has the folder of the links."""


_OWNER = _Owner()


def for_state_reader(path: str) -> str:
    """The path by which Spark finds the state of a checkpoint. Raises CheckpointError if there can be none."""
    whole = normalised(path)
    escaped = _ESCAPED.search(whole)
    if escaped is None:
        return whole
    local = local_path(path)
    if local is None:
        raise CheckpointError(
            f"Spark cannot read the state in {path!r}, because of the character {escaped[0]!r} in its path.",
            todo="restore a savepoint of it at a path of letters, digits, '-' and '_'",
        )
    return f"file:{_link_to(os.path.abspath(local))}"


def _link_to(path: str) -> Path:
    link = _folder() / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    # Another thread may be as far.
    with contextlib.suppress(FileExistsError):
        link.symlink_to(path, target_is_directory=True)
    return link


@functools.cache
def _folder() -> Path:
    return temporary_folder(_OWNER, "holdfast-links-")
