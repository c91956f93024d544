"""Savepoints that a dashboard can show: those in the folders it was given, and those beside a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.ops.move.savepoint import savepoint_ls
from holdfast.ops.move.savepoint_file import Savepoint

__all__ = ["find_savepoints", "folders_beside"]

_ENTRIES_MAX = 500


def folders_beside(checkpoint: Path) -> list[str]:
    """Where savepoints of a checkpoint usually are: beside it, and in a folder of that name beside it. A folder with very
    many entries is no such place."""
    return [str(folder) for folder in (checkpoint.parent, checkpoint.parent / "savepoints") if _is_small(folder)]


def find_savepoints(folders: Iterable[str]) -> tuple[list[Savepoint], list[str]]:
    """The savepoints in folders, newest first, and what looks like one and cannot be used."""
    found: dict[str, Savepoint] = {}
    unusable: list[str] = []
    for savepoint, problem in _each(folders):
        if savepoint is not None:
            found[savepoint.path] = savepoint
        elif problem not in unusable:
            unusable.append(problem)
    newest = sorted(found.values(), key=lambda each: (each.created_at, each.path), reverse=True)
    return newest[:_ENTRIES_MAX], unusable[:_ENTRIES_MAX]


def _each(folders: Iterable[str]) -> Iterator[tuple[Savepoint | None, str]]:
    for folder in folders:
        try:
            savepoints, problems = savepoint_ls(None, folder)
        except (HoldfastError, OSError) as error:
            yield None, str(error).splitlines()[0]
            continue
        yield from ((savepoint, "") for savepoint in savepoints)
        yield from ((None, str(problem)) for problem in problems)


def _is_small(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return len(list(islice(entries, _ENTRIES_MAX + 1))) <= _ENTRIES_MAX
    except OSError:
        return False
