"""What sources remember in a checkpoint, where it is known what that should be.

The offsets of a micro-batch say where each source was. A file source numbers the sets of files that it has seen: its offset
is `{"logOffset": n}`, and `sources/<number>/` has a file for each. From time to time one, `<n>.compact`, replaces all before
it. Without these files, every file would look new to the source. What other sources keep is not known.
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
    """What the sources of a checkpoint remember now."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._planned = set(checkpoint.planned())
        self._names: dict[int, list[str]] = {}
        self._offsets: list[tuple[str | None, ...]] | None = None

    def missing(self, batch: int) -> list[str]:
        """The paths of source files that are missing after a micro-batch; none if its offsets are missing."""
        if batch not in self._planned:
            return []
        missing: list[str] = []
        for number, offset in enumerate(self._checkpoint.offsets(batch).sources):
            last = _log_offset(offset)
            if last is not None and not self._is_another(number):
                missing += self._missing_logs(number, last)
        return missing

    def _is_another(self, number: int) -> bool:
        """Whether a source without a log is an earlier source that the query reads twice.

        Such a source has two offsets, equal in every micro-batch, and one log. If two sources have always been at the same
        offset, a missing log of the second cannot be noticed.
        """
        histories = self._histories()
        if self._log(number) or number >= len(histories):
            return False
        return any(self._log(n) and histories[n] == histories[number] for n in range(number))

    def _histories(self) -> list[tuple[str | None, ...]]:
        """For each source, its offsets in all known micro-batches."""
        if self._offsets is None:
            self._offsets = list(zip(*self._known_offsets(), strict=False))
        return self._offsets

    def _known_offsets(self) -> Iterator[tuple[str | None, ...]]:
        for batch in sorted(self._planned):
            # Damaged offsets say nothing, but the other micro-batches are still whole.
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
    """The number up to which a file source must have its log; None for another source."""
    try:
        content = json.loads(offset or "null")
    except ValueError:
        return None
    if not isinstance(content, dict) or content.keys() != {"logOffset"} or not isinstance(content["logOffset"], int):
        return None
    return int(content["logOffset"])
