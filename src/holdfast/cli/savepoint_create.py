"""`holdfast savepoint create`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli.groups import savepoint
from holdfast.cli.output import AsJson, give, say, spark_for, working
from holdfast.engine.stored.readable import counted
from holdfast.ops.move.savepoint import create_savepoint
from holdfast.ops.move.savepoint_file import Savepoint

__all__: list[str] = []


@savepoint.command("create")
def create(
    path: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a job, running or stopped.")],
    destination: Annotated[str, typer.Argument(metavar="DEST", help="Where the savepoint is to be; nothing may be there.")],
    batch: Annotated[int | None, typer.Option("--batch", min=0, help="After which micro-batch; else the last.")] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a checkpoint as it is after a committed micro-batch, to keep, to move and to start from."""
    with spark_for(path, destination) as spark, working("Copying") as report:
        made = create_savepoint(spark, path, destination, batch=batch, report=report)
    give(asdict(made), as_json, lambda: _show(made))


def _show(made: Savepoint) -> None:
    plan = f", with the plan of micro-batch {made.planned_batch}" if made.planned_batch is not None else ""
    files = f"{counted(len(made.files), 'file')} of {counted(made.size, 'byte')}"
    say(f"{made.path}: {made.job or 'a query'} after micro-batch {made.batch}{plan}; {files}.")
