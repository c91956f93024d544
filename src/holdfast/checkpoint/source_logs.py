"""What sources remember in a checkpoint, as far as it can be known what that should be.

The offsets of a micro-batch say where each source was. A file source numbers the batches of files that it has seen: its
offset is `{"logOffset": n}`, and `sources/<number>/` has a file for each batch. From time to time one, `<n>.compact`, takes
the place of all before it. Without them it would take every file for a new one. Of other sources it is not known what they
keep.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.errors import CorruptState

__all__ = ["SourceLogs"]

_COMPACT = ".compact"


class SourceLogs:
    """What the sources of a checkpoint remember, as it is now."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._planned = set(checkpoint.planned())
        self._names: dict[int, list[str]] = {}
        self._offsets: list[tuple[str | None, ...]] | None = None

    def missing(self, batch: int) -> list[str]:
        """The paths of what must be remembered after a micro-batch and is not there; none if its offsets are not there."""
        if batch not in self._planned:
            return []
        missing: list[str] = []
        for number, offset in enumerate(self._checkpoint.offsets(batch).sources):
            last = _log_offset(offset)
            if last is not None and not self._is_another(number):
                missing += self._missing_logs(number, last)
        return missing

    def _is_another(self, number: int) -> bool:
        """Whether a source without a log is one of those before it, which the query reads twice.

        That has two offsets, the same in every micro-batch, and one log. Of two sources that have always been at the same
        offset, it cannot be told that the log of the second is missing.
        """
        histories = self._histories()
        if self._log(number) or number >= len(histories):
            return False
        return any(self._log(n) and histories[n] == histories[number] for n in range(number))

    def _histories(self) -> list[tuple[str | None, ...]]:
        """For each source its offsets in all micro-batches that are known."""
        if self._offsets is None:
            self._offsets = list(zip(*self._known_offsets(), strict=False))
        return self._offsets

    def _known_offsets(self) -> Iterator[tuple[str | None, ...]]:
        for batch in sorted(self._planned):
            # Offsets that are damaged say nothing; and the other micro-batches are whole all the same.
            with contextlib.suppress(CorruptState):
                yield self._checkpoint.offsets(batch).sources

    def _log(self, number: int) -> list[str]:
        folder = join(self._checkpoint.path, "sources", str(number))
        if number not in self._names:
            self._names[number] = [entry.name for entry in self._checkpoint.files.entries(folder) or ()]
        return self._names[number]

    def _missing_logs(self, number: int, last: int) -> list[str]:
        folder = join(self._checkpoint.path, "sources", str(number))
        names = self._log(number)
        if last >= 0 and not names:
            return [folder]
        compacted = [name.removesuffix(_COMPACT) for name in names if name.endswith(_COMPACT)]
        base = max((int(name) for name in compacted if name.isdigit()), default=-1)
        seen = {int(name) for name in names if name.isdigit()}
        return [join(folder, str(n)) for n in range(base + 1, max((last, *seen)) + 1) if n not in seen]


def _log_offset(offset: str | None) -> int | None:
    """Up to which number a file source must have its log; None of another source."""
    try:
        content = json.loads(offset or "null")
    except ValueError:
        return None
    if not isinstance(content, dict) or content.keys() != {"logOffset"} or not isinstance(content["logOffset"], int):
        return None
    return int(content["logOffset"])
