"""`holdfast state ls CKPT`: the steps, their cells, and how much there is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from holdfast.cli.arguments import Batch, Checkpoint
from holdfast.cli.groups import state
from holdfast.cli.output import AsJson, console, give, quiet_spark, say, size_text, text, working
from holdfast.engine.stored.readable import counted

__all__ = ["ls"]


@state.command("ls")
def ls(checkpoint: Checkpoint, batch: Batch = None, as_json: AsJson = False) -> None:
    """List steps and cells: kind, coder, TTL; keys, bytes, timers, retained micro-batches."""
    from holdfast.checkpoint.layout import open_checkpoint, spans
    from holdfast.ops.inspect.summary import summarise

    with quiet_spark() as spark, working("Reading the state"):
        place = open_checkpoint(spark, checkpoint)
        at = place.check_batch(batch)
        retained = place.retained()
        steps = summarise(spark, checkpoint, at)
    result = {"checkpoint": checkpoint, "batch": at, "retained": retained, "steps": [asdict(step) for step in steps]}

    def show() -> None:
        say(f"micro-batch {at}; state can be read after {spans(retained)}")
        for step in steps:
            console.print(_table(step))

    give(result, as_json, show)


def _table(step: Any) -> Table:
    title = (
        f"{step.step}: {counted(step.keys, 'key')} by {step.key}, {counted(step.timers, 'timer')}, "
        f"{counted(step.windows, 'window')} of {step.window_fn}, {size_text(step.blob_bytes)} stored in "
        f"{counted(step.key_groups, 'key group')} ({step.backend})"
    )
    table = Table(title=text(title), title_justify="left")
    for name in ("cell", "kind", "coder", "ttl"):
        table.add_column(name)
    for name in ("keys and windows", "bytes"):
        table.add_column(name, justify="right")
    for cell in step.cells:
        row = (cell.name, cell.kind, cell.coder, cell.ttl or "", f"{cell.keys:,}", size_text(cell.bytes))
        table.add_row(*map(text, row))
    return table
