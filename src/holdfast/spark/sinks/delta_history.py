"""The way back of a Delta table, when the checkpoint of a query was rolled back.

A table keeps its older versions for as long as its log and its files. The one to go back to is from before the first
micro-batch that no longer counts. Restoring it is exact, for upserted rows too, but undoes what others have written since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.spark.sinks.delta_notes import noted_query

__all__ = ["NoWayBack", "version_before"]

_HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END")
"""Operations that change files, but no rows."""


class NoWayBack(Exception):
    """Says why a table cannot go back by itself, and to which version somebody may restore it, if that helps."""

    def __init__(self, why: str, version: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.version = version


def version_before(history: Iterable[Mapping[str, Any]], newest: int, query_id: str, number: int) -> int:
    """The version of a table in which no micro-batch of a query from a number on is, and everything else still is.

    Where somebody restored the table, what had been written between no longer counts.
    """
    commits = {commit["version"]: commit for commit in history}
    at = found = newest
    stranger: Mapping[str, Any] | None = None
    undone = False
    while at in commits:
        commit = commits[at]
        restored = _restored(commit)
        whose, batch = noted_query(dict(commit))
        if restored is not None and restored < at:
            found = restored if found == at else found
            at = restored
            continue
        if whose == query_id and (batch is None or batch < number):
            break
        if whose == query_id:
            undone = undone or stranger is not None
            found = at - 1
        elif commit.get("operation") not in _HARMLESS:
            stranger = stranger or commit
        at -= 1
    if undone and stranger is not None:
        done = f"{stranger.get('operation', 'a commit')} in version {stranger['version']}"
        raise NoWayBack(f"others have changed the table since ({done})", found)
    return found


def _restored(commit: Mapping[str, Any]) -> int | None:
    """The version that a commit restored."""
    if commit.get("operation") != "RESTORE":
        return None
    try:
        return int(commit["operationParameters"]["version"])
    except (KeyError, TypeError, ValueError):
        return None
