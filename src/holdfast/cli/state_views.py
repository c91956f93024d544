"""How state is laid out on a terminal: the cells of a step, the state of its keys, and what changed.

If it fits the terminal's width, state is a table with a row for each key and window and a column for each cell. Otherwise
each key and window gets a heading, with a line for each cell below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from holdfast.cli.output import console, say, size_text, table, text
from holdfast.engine.stored.readable import counted, visible

if TYPE_CHECKING:
    from holdfast.ops.inspect.schema import StepSchema
    from holdfast.ops.move.removing import Removed

__all__ = ["changes_table", "show_markdown", "show_removed", "show_schema", "show_step", "step_table"]

Entry = tuple[str, str]
"""A key and a window."""
_WIDEST = 10_000
_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}


def step_table(step: Any) -> Table:
    """The cells of a step, under a title with its totals."""
    title = (
        f"{step.step}: {counted(step.keys, 'key')} by {step.key}, {counted(step.timers, 'timer')}, "
        f"{counted(step.windows, 'window')} of {step.window_fn}, {size_text(step.blob_bytes)} stored in "
        f"{counted(step.key_groups, 'key group')} ({step.backend})"
    )
    made = Table(title=text(title), title_justify="left")
    for name in ("cell", "kind", "coder", "ttl"):
        made.add_column(name)
    for name in ("keys and windows", "bytes"):
        made.add_column(name, justify="right")
    has_docs = any(cell.doc for cell in step.cells)
    if has_docs:
        made.add_column("doc", overflow="fold")
    for cell in step.cells:
        row = (cell.name, cell.kind, cell.coder, cell.ttl or "", f"{cell.keys:,}", size_text(cell.bytes))
        made.add_row(*map(text, (*row, *([cell.doc or ""] if has_docs else []))))
    return made


def show_schema(steps: Iterable[StepSchema]) -> None:
    """Shows what each step keeps: its cells and its timers, under a line with what is so for all of it."""
    from holdfast.ops.inspect.schema_text import facts_of, kind_of

    for step in steps:
        console.print(text(step.step, "bold"))
        say("  " + "; ".join(f"{name}: {value}" for name, value in facts_of(step)))
        if step.cells:
            rows = [(cell.name, kind_of(cell), cell.coder, cell.ttl or "", cell.doc or "") for cell in step.cells]
            console.print(table("", ("cell", "kind", "coder", "ttl", "doc"), rows))
        if step.timers:
            timers = [(timer.name, timer.domain, timer.doc or "") for timer in step.timers]
            console.print(table("", ("timer", "follows", "doc"), timers))


def show_markdown(job: str | None, steps: Iterable[StepSchema]) -> None:
    """Shows the same as Markdown."""
    from holdfast.ops.inspect.schema_text import schema_markdown

    for line in schema_markdown(steps, job):
        say(line)


def show_step(step: str, batch: int, cells: list[Any], docs: Mapping[str, str] | None = None) -> None:
    """Shows the cells of a step, by key and window, and what their authors say of them."""
    entries: dict[Entry, dict[str, Any]] = {}
    for cell in cells:
        entries.setdefault((cell.key, cell.window), {})[cell.cell] = cell
    if not entries:
        say(f"{step}: nothing after micro-batch {batch}")
        return
    console.print(text(f"{step} after micro-batch {batch}", "bold"))
    wide = _as_table(entries)
    if console.measure(wide, options=console.options.update_width(_WIDEST)).maximum <= console.width:
        console.print(wide)
    else:
        for block in _as_blocks(entries):
            console.print(block)
    shown = {cell.cell.partition("[")[0] for cell in cells} | {cell.cell for cell in cells}
    for name, doc in (docs or {}).items():
        if name in shown:
            console.print(text(f"  {name}: {doc}", "dim"))


def show_removed(found: Removed) -> None:
    """Shows what goes, or has gone."""
    if not found.keys:
        say(f"Nothing in {found.checkpoint} matches after micro-batch {found.batch}; nothing is removed.")
        return
    for step in found.keys:
        show_step(step, found.batch, [cell for cell in found.cells if cell.step == step])
    if found.total > len(found.cells):
        say(f"These are the first {counted(len(found.cells), 'cell')} and timers. Use --limit for more.")
    verb = "removed" if found.done else "to remove"
    for step, keys in found.keys.items():
        say(f"{verb}: {step}, {counted(keys, 'key and window', 'keys and windows')}")
    say(f"{verb}: {counted(found.total, 'cell or timer', 'cells and timers')} in all")
    if found.planned_batch is not None:
        say(f"Micro-batch {found.planned_batch} is planned: the next start processes it over what is left.")


def _as_table(entries: dict[Entry, dict[str, Any]]) -> Table:
    """A row for each key and window, a column for each cell."""
    names = list(dict.fromkeys(name for cells in entries.values() for name in cells))
    windowed = any(window for _, window in entries)
    rows = []
    for (key, window), cells in entries.items():
        rows.append([key, *([window] if windowed else []), *(_content(cells.get(name)) for name in names)])
    return table("", ("key", *(["window"] if windowed else []), *names), rows)


def _as_blocks(entries: dict[Entry, dict[str, Any]]) -> Iterator[RenderableType]:
    """A heading for each key and window, and its cells below it at full length."""
    width = max(cell_len(visible(name)) for cells in entries.values() for name in cells)
    for (key, window), cells in entries.items():
        yield text(key, "cyan") + text(f"  {window}" if window else "", "dim")
        lines = Table.grid(padding=(0, 2))
        lines.add_column(width=min(width, console.width // 3), overflow="fold")
        lines.add_column(overflow="fold")
        for name, cell in cells.items():
            lines.add_row(text(name), text(_content(cell)))
        yield Padding(lines, (0, 0, 1, 2), expand=False)


def _content(cell: Any) -> str:
    if cell is None:
        return ""
    shown = f"⏱ {cell.text}" if cell.kind == "timer" else str(cell.text)
    return shown if cell.expires_at is None else f"{shown} (until {cell.expires_at})"


def changes_table(changes: list[Any], *, batches: bool = False) -> Table:
    """Changes as a table; with `batches`, each with its micro-batch."""
    made = Table()
    for name in (*(["batch"] if batches else []), "step", "key", "window", "cell", "", "before", "after"):
        made.add_column(name, overflow="fold")
    last = None
    for change in changes:
        leading = [] if not batches else [str(change.batch) if change.batch != last else ""]
        last = change.batch
        what = text(change.what, _STYLES[change.what])
        names = [text(part) for part in (*leading, change.step, change.key, change.window, change.cell)]
        made.add_row(*names, what, text(change.old), text(change.new))
    return made
