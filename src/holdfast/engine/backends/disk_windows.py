"""The windows that a disk backend's file knows: how many keys each has, whether it has fired, and which is due next.

They are kept in memory between bundles, because a bundle that touches one window should not look at ten thousand. The copy
in memory is that of the file as long as it is `copy_of` the token that the file has; otherwise it must be read again.

Invariants
- `_changed` has every window whose row in the file is not what it is here.
- Every window that ends has an entry in `_dues` at its due time, or is in `_unentered`. Other entries are left over: of
  windows that are gone or have fired since.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from holdfast.engine.backends.disk_file import WorkingFile
from holdfast.engine.backends.protocol import Schedule
from holdfast.engine.state.key_group import Layout
from holdfast.model.windows.ready import GlobalWindow

__all__ = ["KnownWindow", "KnownWindows"]

_STALE_MIN = 100
"""Up to this many leftover entries are not worth removing."""


class KnownWindow(NamedTuple):
    """What is known of a window."""

    rows: int
    """How many keys have something there."""
    fired: bool
    """In an aggregation: whether it has given its results."""


class KnownWindows:
    """The table `windows`. It is empty if all rows belong to the global window."""

    def __init__(self, file: WorkingFile, layout: Layout) -> None:
        self._file = file
        self._windowing = layout.step.windowing
        self._known: dict[bytes, KnownWindow] = {}
        self._changed: set[bytes] = set()
        self._dues: list[tuple[int, bytes]] = []
        self._unentered: dict[bytes, None] = {}
        self._copy_of: bytes | None = None

    @property
    def known(self) -> Mapping[bytes, KnownWindow]:
        return MappingProxyType(self._known)

    def begin(self, token: bytes | None) -> None:
        """Called when a transaction has begun on a file that has this token."""
        is_copy = token is not None and token == self._copy_of
        # Until it is committed.
        self._copy_of = None
        if not is_copy:
            found = self._file.sql("SELECT window, rows, fired FROM windows")
            self._known = {window: KnownWindow(rows, bool(fired)) for window, rows, fired in found}
            self._forget_rest()

    def write(self) -> None:
        """Brings the file up to date."""
        known = [(data, *self._known[data]) for data in self._changed if data in self._known]
        self._file.many("INSERT OR REPLACE INTO windows VALUES (?, ?, ?)", known)
        gone = [(data,) for data in self._changed if data not in self._known]
        self._file.many("DELETE FROM windows WHERE window = ?", gone)
        self._changed.clear()

    def committed(self, token: bytes) -> None:
        """Called when the file has been committed with this token."""
        self._copy_of = None if self._changed else token

    def empty(self) -> None:
        """Forgets all windows; the file has forgotten them already."""
        self._known = {}
        self._forget_rest()

    def _forget_rest(self) -> None:
        self._changed.clear()
        self._dues = []
        self._unentered = dict.fromkeys(self._known)

    def has_fired(self, data: bytes) -> bool:
        return data in self._known and self._known[data].fired

    def count(self, data: bytes, change: int) -> None:
        """The number of keys in a window has changed."""
        before = self._known.get(data)
        rows = change + (0 if before is None else before.rows)
        self._changed.add(data)
        if rows <= 0:
            self._known.pop(data, None)
            return
        self._known[data] = KnownWindow(rows, before is not None and before.fired)
        if before is None:
            self._unentered[data] = None

    def fire(self, data: bytes) -> None:
        """A window, if it is still there, has given its results."""
        if data in self._known:
            self._known[data] = self._known[data]._replace(fired=True)
            self._changed.add(data)
            self._unentered[data] = None

    def drop(self, data: bytes) -> None:
        if self._known.pop(data, None) is not None:
            self._changed.add(data)

    def due(self, watermark: int, runner: Schedule) -> list[bytes]:
        """The windows that are due, in the order of their bytes."""
        found: dict[bytes, None] = {}
        while (when := self.next_due(runner)) is not None and when <= watermark:
            data = heapq.heappop(self._dues)[1]
            found[data] = None
        # They may stay, and may then be due at another time.
        self._unentered.update(found)
        return sorted(found)

    def next_due(self, runner: Schedule) -> int | None:
        """When the watermark next matters to a window."""
        self._enter(runner)
        while self._dues and self._dues[0][0] != self._due_of(self._dues[0][1], runner):
            heapq.heappop(self._dues)
        return self._dues[0][0] if self._dues else None

    def _enter(self, runner: Schedule) -> None:
        if len(self._dues) > 2 * len(self._known) + _STALE_MIN:
            self._dues, self._unentered = [], dict.fromkeys(self._known)
        for data in self._unentered:
            when = self._due_of(data, runner)
            if when is not None:
                heapq.heappush(self._dues, (when, data))
        self._unentered.clear()

    def _due_of(self, data: bytes, runner: Schedule) -> int | None:
        known = self._known.get(data)
        if known is None:
            return None
        window = self._windowing.window_fn.decode_window(data)
        if isinstance(window, GlobalWindow):
            return None
        end = int(window.end.micros)
        return runner.window_due(end, self._windowing.expiry(end), known.fired)

    def __len__(self) -> int:
        return len(self._known)
