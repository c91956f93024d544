"""`holdfast state show CKPT`: the state, in whichever of two forms reads well in the width that there is.

If it fits, a table with a row for each key and window and a column for each cell. If not, a heading for each key and window,
and below it a line for each cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from holdfast.cli.arguments import Batch, Checkpoint, Limit, StepName, TrustPickle
from holdfast.cli.groups import state
from holdfast.cli.output import AsJson, console, give, quiet_spark, say, table, text, working
from holdfast.engine.stored.readable import visible

__all__ = ["show"]

Entry = tuple[str, str]
"""A key and a window."""
_WIDEST = 10_000


@state.command("show")
def show(
    checkpoint: Checkpoint,
    step: StepName = None,
    key: Annotated[str | None, typer.Option(help="Only this key; of several columns as a JSON list.")] = None,
    cell: Annotated[str | None, typer.Option(help="Only this cell or timer.")] = None,
    window: Annotated[str | None, typer.Option(help="Only the window that this time lies in.")] = None,
    batch: Batch = None,
    limit: Limit = 20,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Show the state: cells and timers of each key and window."""
    from holdfast.ops.inspect.showing import show_state

    with quiet_spark() as spark, working("Reading the state"):
        view = show_state(
            spark,
            checkpoint,
            step=step,
            key=key,
            cell=cell,
            window=window,
            batch=batch,
            limit=limit,
            trust_pickle=trust_pickle,
        )

    def tables() -> None:
        for name in view.step_names:
            _show_step(name, view.batch, [shown for shown in view.cells if shown.step == name])
        if view.more:
            say(f"There is more: of a step these are the first {limit} keys and windows (--limit); or look for one (--key).")

    give({"checkpoint": checkpoint, **asdict(view)}, as_json, tables)


def _show_step(step: str, batch: int, cells: list[Any]) -> None:
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


def _as_table(entries: dict[Entry, dict[str, Any]]) -> Table:
    """A row for each key and window, a column for each cell."""
    names = list(dict.fromkeys(name for cells in entries.values() for name in cells))
    windowed = any(window for _, window in entries)
    rows = []
    for (key, window), cells in entries.items():
        rows.append([key, *([window] if windowed else []), *(_content(cells.get(name)) for name in names)])
    return table("", ("key", *(["window"] if windowed else []), *names), rows)


def _as_blocks(entries: dict[Entry, dict[str, Any]]) -> Iterator[RenderableType]:
    """For each key and window a heading, and below it its cells, which are as long as they are."""
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
