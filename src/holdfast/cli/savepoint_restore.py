"""`holdfast savepoint restore`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.checkpoint.files.choice import files_of, is_local
from holdfast.cli.groups import savepoint
from holdfast.cli.output import AsJson, give, say, spark_for, working
from holdfast.engine.stored.readable import counted
from holdfast.ops.move.restore import Restored, restore_savepoint
from holdfast.ops.move.savepoint_file import read_savepoint

if TYPE_CHECKING:
    from holdfast.engine.backends.choice import BackendName

__all__: list[str] = []


@savepoint.command("restore")
def restore(
    path: Annotated[str, typer.Argument(metavar="SAVEPOINT", help="The directory of a savepoint.")],
    checkpoint: Annotated[str, typer.Argument(metavar="NEW_CKPT", help="The checkpoint to make; nothing may be there.")],
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="How many partitions of state.")] = None,
    key_groups: Annotated[int | None, typer.Option("--key-groups", min=1, help="How many key groups a step.")] = None,
    backend: Annotated[str | None, typer.Option("--backend", help="heap or disk.")] = None,
    new_query_id: Annotated[bool, typer.Option("--new-query-id", help="For a job beside the old one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a new checkpoint from a savepoint, after checking every file of it."""
    if is_local(path):
        # What is not there is told before Spark has been started.
        read_savepoint(files_of(None, path), path)
    reshaped = partitions is not None or key_groups is not None
    with spark_for(path, checkpoint, always=reshaped) as spark, working("Restoring") as report:
        made = restore_savepoint(
            spark,
            path,
            checkpoint,
            partitions=partitions,
            key_groups=key_groups,
            backend=cast("BackendName | None", backend),  # any other word is refused there
            new_query_id=new_query_id,
            report=report,
        )
    give(asdict(made), as_json, lambda: _show(made))


def _show(made: Restored) -> None:
    spread = "" if made.partitions is None else f", in {counted(made.partitions, 'partition')}"
    say(f"{made.checkpoint}: the job goes on after micro-batch {made.batch}{spread}. Its query id is {made.query_id}.")
