"""Drafts: a dict as changed by a call that may still be rolled back.

An entry cannot be put back at its old position in a dict, and finding that position takes time proportional to the size of
the dict. So a call that removes something works on a draft: the dict stays as it is, and the changes are recorded beside it.
When the call is over, `finish` applies them to the dict; after a rollback the draft is simply ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from holdfast.engine.tables.base import MISSING, Slot

__all__ = ["Draft"]


class Draft(MutableMapping[Any, Any]):
    """A dict with pending changes, in the order that it will have.

    `_changed`: entries with a new value at their old position, or MISSING for removed ones; `_last`: entries that come
    after all the old ones.
    """

    __slots__ = ("_changed", "_dict", "_last", "_length")

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._dict = entries
        self._changed: dict[Any, Any] = {}
        self._last: dict[Any, Any] = {}
        self._length = len(entries)

    def finish(self, values: dict[Slot, Any], slot: Slot) -> None:
        """Applies the changes to the dict and replaces the draft by it, unless something else has replaced the draft."""
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
