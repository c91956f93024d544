"""Stored state as pages of rows, compared with another micro-batch, and as one key with its life."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from pydantic import JsonValue

from holdfast.errors import CheckpointError
from holdfast.ui.api.responses import (
    Cell,
    Declared,
    KeyLife,
    KeyState,
    KeyWindow,
    LifeEntry,
    Retained,
    Row,
    RowPage,
    StepState,
    StepStates,
)
from holdfast.ui.reading.jobs import WatchedJob
from holdfast.ui.reading.state import CellValue, StepInfo, WindowRow
from holdfast.ui.reading.texts import cut

__all__ = ["KEYS_MAX", "key_life", "key_state", "row_page", "step_states"]

KEYS_MAX = 200
_ROWS_MAX = 1_000
_COLUMNS_MAX = 100
_WINDOWS_MAX = 1_000
_TAGS_MAX = 10
_ENTRIES_MAX = 5_000
_RETAINED_MAX = 2_000
_TEXT_MAX = 400
_ADDRESS_KEY_MAX = 6_000
"""Of a key as part of an address, in which letters beyond ASCII take up to twelve."""
_JSON_MAX = 256 << 10


def step_states(job: WatchedJob, batch: int | None) -> StepStates:
    """The steps after a micro-batch, the last if none is given; nothing if nothing was committed."""
    retained = job.state.retained()
    if not retained:
        return StepStates(batch=None, retained=[], steps=[])
    at, steps = job.state.steps(batch)
    return StepStates(batch=at, retained=_retained(job, retained), steps=[_step(step) for step in steps])


def _step(step: StepInfo) -> StepState:
    cells = [
        Declared(name=_cut(cell.name), is_timer=cell.is_timer, doc=_cut(cell.doc)) for cell in step.cells[:_COLUMNS_MAX]
    ]
    return StepState(name=step.name, key=_cut(step.key), cells=cells, key_groups=step.key_groups, backend=_cut(step.backend))


def _retained(job: WatchedJob, batches: list[int]) -> list[Retained]:
    times = {record.batch: record.at_ms for record in job.tail.history.batches}
    return [Retained(batch=batch, at_ms=times.get(batch)) for batch in batches[-_RETAINED_MAX:]]


def row_page(
    job: WatchedJob, step: str, batch: int | None, compare: int | None, prefix: str, offset: int, limit: int
) -> RowPage:
    """A page of keys with their windows, each beside what it was after the other micro-batch."""
    state = job.state
    at, steps = state.steps(batch)
    declared = next((each for each in steps if each.name == step), None)
    if declared is None:
        raise CheckpointError(f"There is no step {step!r} after micro-batch {at}.", todo="choose one of the job's steps")
    page = state.page(step, at, prefix=prefix, offset=offset, limit=limit, compare=compare)
    names = dict.fromkeys([cell.name for cell in declared.cells])
    found = [_folded(row, set(names)) for row in page.rows]
    rows = list(map(_unchanged, found) if compare is None else _compared(found, page.before, set(names)))
    names.update(dict.fromkeys(name for row in rows for name in row.cells))
    columns = list(names)[:_COLUMNS_MAX]
    return RowPage(
        step=step,
        batch=at,
        compare=compare,
        columns=columns,
        rows=rows[:_ROWS_MAX],
        is_cut=len(rows) > _ROWS_MAX,
        offset=offset,
        keys=page.keys,
        more=page.more,
    )


def _folded(row: WindowRow, declared: set[str]) -> WindowRow:
    """A row in which timers and cells with tags, `name[tag]`, are one cell each, as they were declared."""
    cells: dict[str, CellValue] = {}
    tagged: dict[str, dict[str, CellValue]] = {}
    for name, value in row.cells.items():
        base, bracket, tag = name.partition("[")
        if bracket and name not in declared and base in declared:
            tagged.setdefault(base, {})[tag.removesuffix("]")] = value
        else:
            cells[name] = value
    for base, values in tagged.items():
        texts = [f"{tag}: {value.text}" for tag, value in list(values.items())[:_TAGS_MAX]]
        more = [f"… and {len(values) - _TAGS_MAX} more"] if len(values) > _TAGS_MAX else []
        whole = json.dumps([[tag, value.json] for tag, value in sorted(values.items())])
        cells[base] = CellValue("; ".join([*texts, *more]), whole)
    return WindowRow(row.key, row.window, cells)


def _unchanged(row: WindowRow) -> Row:
    return _row(row.key, row.window, "same", {name: _cell(value, "same") for name, value in row.cells.items()})


def _row(key: str, window: str, what: str, cells: dict[str, Cell]) -> Row:
    is_cut = len(quote(key[: _ADDRESS_KEY_MAX + 1], safe="")) > _ADDRESS_KEY_MAX
    shown = key[:_TEXT_MAX] if is_cut else key
    return Row(key=shown, key_text=_cut(key), is_key_cut=is_cut, window=window, what=what, cells=cells)


def _compared(rows: Iterable[WindowRow], other: Mapping[str, list[WindowRow]], declared: set[str]) -> Iterator[Row]:
    """Rows beside what they were after another micro-batch; windows that are gone come after those of their key."""
    before: dict[str, dict[str, WindowRow]] = {}
    ordered: dict[str, list[WindowRow]] = {}
    for row in rows:
        ordered.setdefault(row.key, []).append(row)
    for key, windows in ordered.items():
        before[key] = {row.window: _folded(row, declared) for row in other.get(key, ())}
        for row in windows:
            yield _beside(row, before[key].pop(row.window, None))
        for gone in before[key].values():
            cells = {name: Cell(text="", what="removed", old=_cut(value.text)) for name, value in gone.cells.items()}
            yield _row(key, gone.window, "removed", cells)


def _beside(row: WindowRow, before: WindowRow | None) -> Row:
    if before is None:
        cells = {name: _cell(value, "added") for name, value in row.cells.items()}
        return _row(row.key, row.window, "added", cells)
    found = {name: _cell_beside(value, before.cells.get(name)) for name, value in row.cells.items()}
    for name, value in before.cells.items():
        if name not in row.cells:
            found[name] = Cell(text="", what="removed", old=_cut(value.text))
    what = "same" if all(cell.what == "same" for cell in found.values()) else "changed"
    return _row(row.key, row.window, what, found)


def _cell_beside(value: CellValue, before: CellValue | None) -> Cell:
    if before is None:
        return _cell(value, "added")
    if before.json == value.json:
        return _cell(value, "same")
    return _cell(value, "changed", _cut(before.text))


def _cell(value: CellValue, what: str, old: str | None = None) -> Cell:
    return Cell(text=_cut(value.text), what=what, old=old, expires_at=value.expires_at)


def key_state(job: WatchedJob, step: str, key: str, batch: int | None) -> KeyState:
    """One key. Raises CheckpointError if it has no state."""
    at, rows = job.state.key(step, key, batch)
    if not rows:
        raise CheckpointError(
            f"The key {key!r} of {step!r} has no state after micro-batch {at}.", todo="see its life, or search for the key"
        )
    windows = [
        KeyWindow(
            window=row.window,
            cells={name: _value(value) for name, value in row.cells.items()},
            texts={name: _cut(value.text) for name, value in row.cells.items()},
            expires_at={name: value.expires_at for name, value in row.cells.items() if value.expires_at is not None},
        )
        for row in rows[:_WINDOWS_MAX]
    ]
    return KeyState(job=job.id, step=step, key=rows[0].key, batch=at, windows=windows, is_cut=len(rows) > _WINDOWS_MAX)


def _value(value: CellValue) -> JsonValue:
    """A value as JSON; a very large one by how long it is."""
    if len(value.json) > _JSON_MAX:
        return {"$too_long": len(value.json)}
    found: JsonValue = json.loads(value.json)
    return found


def key_life(job: WatchedJob, step: str, key: str) -> KeyLife:
    """What each retained micro-batch did to a key; the newest if there is too much."""
    changes = job.state.life(step, key)
    retained = _retained(job, job.state.retained())
    times = {each.batch: each.at_ms for each in retained}
    entries = [
        LifeEntry(
            batch=change.batch,
            at_ms=times.get(change.batch),
            window=change.window,
            cell=_cut(change.cell),
            what=change.what,
            old=_cut(change.old),
            new=_cut(change.new),
        )
        for change in changes[-_ENTRIES_MAX:]
    ]
    return KeyLife(
        step=step, key=key, key_text=_cut(key), retained=retained, entries=entries, is_cut=len(changes) > _ENTRIES_MAX
    )


def _cut(text: str) -> str:
    return cut(text, _TEXT_MAX)
