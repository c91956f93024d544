"""`holdfast state show CKPT`: the state as a table, cells down, key and window across."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.arguments import Batch, Checkpoint, Limit, StepName, TrustPickle
from holdfast.cli.groups import state
from holdfast.cli.output import AsJson, console, give, quiet_spark, working

__all__ = ["show"]

_COLUMN_WIDTH = 30


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
    """Show the state: cells down, key and window across."""
    from holdfast.ops.showing import show_state

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
            cells = [shown for shown in view.cells if shown.step == name]
            for table in _tables(name, view.batch, cells):
                console.print(table)
        if view.more:
            console.print(f"There is more: this is the first {limit} keys and windows (--limit), or look for one (--key).")

    give({"checkpoint": checkpoint, **asdict(view)}, as_json, tables)


def _tables(step: str, batch: int, cells: list[Any]) -> Iterator[Table]:
    """As many tables as it takes for the columns to fit beside each other."""
    columns = list(dict.fromkeys((cell.key, cell.window) for cell in cells))
    names = list(dict.fromkeys(cell.cell for cell in cells))
    values = {(cell.cell, cell.key, cell.window): cell for cell in cells}
    beside = max(1, (console.width - _COLUMN_WIDTH) // _COLUMN_WIDTH)
    if not columns:
        yield Table(title=f"{step}: nothing after micro-batch {batch}", title_justify="left")
    for first in range(0, len(columns), beside):
        part = columns[first : first + beside]
        title = f"{step} after micro-batch {batch}" if first == 0 else None
        table = Table(title=title, title_justify="left")
        table.add_column("cell")
        for key, window in part:
            table.add_column(Text(f"{key}\n{window}" if window else key), overflow="fold")
        for name in names:
            found = [values.get((name, *column)) for column in part]
            if any(cell is not None for cell in found):
                table.add_row(Text(name), *(Text(_content(cell)) for cell in found))
        yield table


def _content(cell: Any) -> str:
    if cell is None:
        return ""
    text = f"⏱ {cell.text}" if cell.kind == "timer" else str(cell.text)
    return text if cell.expires_at is None else f"{text}\n(until {cell.expires_at})"
