"""Drafts: a dict as a call leaves it that may still be taken back.

A dict cannot put an entry back where it was, and finding out where it was takes as long as the dict is large. So a call that
removes something works on a draft: the dict stays as it is, and what becomes of it is noted beside it. When the call is
over, `finish` does it to the dict; a call that is taken back leaves a draft that nobody looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from holdfast.engine.tables.base import MISSING, Slot

__all__ = ["Draft"]


class Draft(MutableMapping[Any, Any]):
    """A dict with changes that it does not have yet, in the order that it will have.

    `_changed`: what has another value in its old place, or MISSING where an entry went; `_last`: what stands behind
    all that were there before.
    """

    __slots__ = ("_changed", "_dict", "_last", "_length")

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._dict = entries
        self._changed: dict[Any, Any] = {}
        self._last: dict[Any, Any] = {}
        self._length = len(entries)

    def finish(self, values: dict[Slot, Any], slot: Slot) -> None:
        """Does the changes to the dict and puts it in its place, unless that is not the draft's any more."""
        if values.get(slot) is not self:
            return
        for name, stored in self._changed.items():
            if stored is MISSING:
                del self._dict[name]
            else:
                self._dict[name] = stored
        self._dict.update(self._last)
        values[slot] = self._dict

    def __getitem__(self, name: Any) -> Any:
        found = self._last.get(name, MISSING)
        if found is MISSING:
            found = self._changed[name] if name in self._changed else self._dict[name]
        if found is MISSING:
            raise KeyError(name)
        return found

    def __setitem__(self, name: Any, stored: Any) -> None:
        if name in self._last or name not in self:
            self._length += name not in self._last
            self._last[name] = stored
        else:
            self._changed[name] = stored

    def __delitem__(self, name: Any) -> None:
        if name in self._last:
            del self._last[name]
        elif name in self:
            self._changed[name] = MISSING
        else:
            raise KeyError(name)
        self._length -= 1

    def __iter__(self) -> Iterator[Any]:
        changed = self._changed
        yield from (name for name in self._dict if changed.get(name) is not MISSING)
        yield from self._last

    def __reversed__(self) -> Iterator[Any]:
        changed = self._changed
        yield from reversed(self._last)
        yield from (name for name in reversed(self._dict) if changed.get(name) is not MISSING)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Draft({dict(self)!r})"
