"""`holdfast state export CKPT DIR`: the state as Parquet, to look at, to edit and to start from."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.arguments import Batch, Checkpoint
from holdfast.cli.groups import state
from holdfast.cli.output import AsJson, give, quiet_spark, say, working
from holdfast.engine.stored.readable import counted

__all__ = ["export"]


@state.command("export")
def export(
    checkpoint: Checkpoint,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where to write; nothing may be there.")],
    batch: Batch = None,
    as_json: AsJson = False,
) -> None:
    """Write the state as Parquet files, which can be edited and imported."""
    from holdfast.ops.move.export import export_state

    with quiet_spark() as spark, working("Exporting") as report:
        made = export_state(spark, checkpoint, directory, batch=batch, report=report)
    result = {"export": made.path, "job": made.job, "batch": made.batch, "rows": made.rows}

    def show() -> None:
        for step, rows in made.rows.items():
            say(f"{step}: {counted(rows, 'cell')} after micro-batch {made.batch}")
        say(f"Make a checkpoint of it: holdfast state import {made.path} NEW_CKPT")

    give(result, as_json, show)
