"""State as text: what a cell of a key is called, its value, and its window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.engine.stored.readable import time_text
from holdfast.engine.stored.reading import OpaqueWindow
from holdfast.engine.tables import Slot, Table
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.bounded import GlobalWindow

__all__ = ["named_values", "window_text"]


def named_values(table: Table, slot: Slot) -> Iterator[tuple[str, Any]]:
    """The name and value of a key's cell; for a timer with tags, one for each tag."""
    name, entry = table.spec.name, table.values[slot]
    if name.startswith("~timer:"):
        yield name.removeprefix("~timer:"), Timestamp(micros=entry)
    elif name.startswith("~tags:"):
        for tag, micros in entry.items():
            yield f"{name.removeprefix('~tags:')}[{tag}]", Timestamp(micros=micros)
    else:
        yield name, table.reveal(slot)


def window_text(window: Any) -> str:
    """A window as text; empty for the global one."""
    if isinstance(window, GlobalWindow):
        return ""
    if isinstance(window, OpaqueWindow):
        return repr(window)
    return f"{time_text(window.start)} to {time_text(window.end)}"
