"""Stored state by `StateReader`, which needs no Spark, as the dashboard wants it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.ops.inspect.showing import ShownCell
from holdfast.ops.inspect.state_reader import StateReader
from holdfast.ops.inspect.state_reader import StepInfo as Stored
from holdfast.ui.reading.state import CellInfo, CellValue, KeyChange, Page, StepInfo, WindowRow

__all__ = ["StoredState"]


class StoredState:
    """The state in one checkpoint."""

    def __init__(self, checkpoint: str, *, trust_pickle: bool = False) -> None:
        self._reader = StateReader(checkpoint, trust_pickle=trust_pickle)

    def retained(self) -> list[int]:
        return self._reader.batches()

    def steps(self, batch: int | None) -> tuple[int, list[StepInfo]]:
        at = self._at(batch)
        return at, [
            StepInfo(
                step.name,
                [CellInfo(name, is_timer, step.docs.get(name, "")) for name, is_timer in _declared(step)],
                step.key,
                step.key_groups,
                step.backend,
            )
            for step in self._reader.steps(at)
        ]

    def page(self, step: str, batch: int, *, prefix: str, offset: int, limit: int, compare: int | None) -> Page:
        page = self._reader.page(step, batch=batch, prefix=prefix, offset=offset, limit=limit, compare=compare)
        rows = [row for key in page.keys for row in _rows(key.key, key.cells)]
        before: dict[str, list[WindowRow]] = {}
        for key in page.keys:
            # A key whose windows are spread comes once for each of its key groups.
            before.setdefault(key.key, []).extend(_rows(key.key, key.before))
        return Page(rows, len(page.keys), page.more, before)

    def count(self, step: str, batch: int, *, prefix: str) -> int:
        return self._reader.count(step, batch=batch, prefix=prefix)

    def key(self, step: str, key: str, batch: int | None) -> tuple[int, list[WindowRow]]:
        at = self._at(batch)
        cells = self._reader.key(step, key, batch=at)
        return at, _rows(cells[0].key if cells else key, cells)

    def life(self, step: str, key: str) -> list[KeyChange]:
        return [
            KeyChange(change.batch or 0, change.window, change.cell, change.what, change.old, change.new)
            for change in self._reader.history(step, key)
        ]

    def _at(self, batch: int | None) -> int:
        """The micro-batch that is meant, so that several questions are about the same one."""
        if batch is not None:
            return batch
        retained = self._reader.batches()
        return retained[-1] if retained else 0


def _declared(step: Stored) -> Iterator[tuple[str, bool]]:
    """The cells and timers of a step; whether each is a timer."""
    yield from ((name, False) for name in step.cells)
    yield from ((name, True) for name in step.timers)


def _rows(key: str, cells: Iterable[ShownCell]) -> list[WindowRow]:
    """The cells of a key, window by window."""
    windows: dict[str, dict[str, CellValue]] = {}
    for cell in cells:
        windows.setdefault(cell.window, {})[cell.cell] = CellValue(cell.text, cell.value, cell.expires_at)
    return [WindowRow(key, window, found) for window, found in windows.items()]
