"""`holdfast rescale`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.checkpoint.files.choice import is_local
from holdfast.checkpoint.layout import find_checkpoint
from holdfast.cli.groups import app
from holdfast.cli.output import AsJson, give, quiet_spark, say, working
from holdfast.engine.stored.readable import counted
from holdfast.ops.move.rescale import Rescaled, rescale

__all__: list[str] = []


@app.command("rescale")
def rescale_command(
    path: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a job that is stopped.")],
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="How many partitions of state.")] = None,
    key_groups: Annotated[int | None, typer.Option("--key-groups", min=1, help="How many key groups a step.")] = None,
    as_json: AsJson = False,
) -> None:
    """Distribute the state of a checkpoint otherwise. Refuses while a job runs on it."""
    if partitions is None and key_groups is None:
        raise typer.BadParameter("give --partitions, --key-groups, or both")
    if is_local(path):
        # What is not there is told before Spark has been started.
        find_checkpoint(None, path)
    with quiet_spark() as spark, working("Rescaling"):
        done = rescale(spark, path, partitions=partitions, key_groups=key_groups)
    give(asdict(done), as_json, lambda: _show(done))


def _show(done: Rescaled) -> None:
    groups = ", ".join(f"{name} {count}" for name, count in done.key_groups.items()) or "none"
    spread = "no state" if done.partitions is None else counted(done.partitions, "partition")
    say(f"{done.checkpoint}: {spread}; key groups: {groups}. The last micro-batch is {done.batch}.")
