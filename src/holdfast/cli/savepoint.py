"""`holdfast savepoint`: self-contained copies of a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from holdfast import ops
from holdfast.cli.app import savepoint
from holdfast.cli.output import AsJson, console, give, say, spark_for, table, working
from holdfast.engine.stored.readable import counted
from holdfast.model.extras import require_spark

if TYPE_CHECKING:
    from holdfast.engine.backends.choice import BackendWord
    from holdfast.ops.move.restore import Restored
    from holdfast.ops.move.savepoint_file import Savepoint
    from holdfast.ops.upkeep.verify import Problem

__all__ = ["create", "ls", "restore", "verify"]

Directory = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="The directory of a savepoint.")]


@savepoint.command("create")
def create(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The checkpoint of a job, running or stopped; or the name of a running one.")
    ],
    destination: Annotated[str, typer.Argument(metavar="DEST", help="Where to write the savepoint; must not exist.")],
    batch: Annotated[
        int | None, typer.Option("--batch", min=0, help="The micro-batch to save after; the last one by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a checkpoint as of a committed micro-batch, to keep, move or start from. Short: holdfast savepoint JOB DEST."""
    from holdfast.checkpoint.running import checkpoint_of

    require_spark("holdfast savepoint create")
    path = checkpoint_of(None, job)
    with spark_for(path, destination) as spark, working("Copying") as report:
        made = ops.savepoint_create(spark, path, destination, batch=batch, report=report)
    give(asdict(made), as_json, lambda: _show_made(made))


def _show_made(made: Savepoint) -> None:
    plan = f", with the plan of micro-batch {made.planned_batch}" if made.planned_batch is not None else ""
    files = f"{counted(len(made.files), 'file')} of {counted(made.size, 'byte')}"
    say(f"{made.path}: {made.job or 'a query'} after micro-batch {made.batch}{plan}; {files}.")


@savepoint.command("ls")
def ls(
    path: Annotated[str, typer.Argument(metavar="DIR", help="A savepoint, or a directory of savepoints.")],
    as_json: AsJson = False,
) -> None:
    """List savepoints, oldest first."""
    with spark_for(path) as spark:
        found, unusable = ops.savepoint_ls(spark, path)
    result = {"savepoints": [_row(made) for made in found], "unusable": [asdict(problem) for problem in unusable]}
    give(result, as_json, lambda: _show_all(found, unusable))


def _row(made: Savepoint) -> dict[str, Any]:
    content = asdict(made)
    content["files"] = len(made.files)
    return {**content, "bytes": made.size}


def _show_all(found: list[Savepoint], unusable: list[Problem]) -> None:
    rows = []
    for made in found:
        steps = ", ".join(f"{name} ({step['backend']}, {step['key_groups']})" for name, step in made.steps.items())
        row = (made.path, made.job, made.batch, made.created_at, steps, made.partitions, made.size)
        rows.append(["" if value is None else value for value in row])
    columns = ("savepoint", "job", "micro-batch", "created at", "steps", "partitions", "bytes")
    if found:
        console.print(table("", columns, rows))
    else:
        say("No savepoints.")
    for problem in unusable:
        say(f"not usable: {problem}")


@savepoint.command("verify")
def verify(path: Directory, as_json: AsJson = False) -> None:
    """Check every file of a savepoint; name those that are damaged, missing or extra."""
    with spark_for(path) as spark, working("Checking files") as report:
        made, problems = ops.savepoint_verify(spark, path, report=report)
    result = {"path": made.path, "batch": made.batch, "files": len(made.files), "bytes": made.size}
    give({**result, "problems": [asdict(p) for p in problems]}, as_json, lambda: _show_verdict(made, problems))
    if problems:
        raise typer.Exit(1)


def _show_verdict(made: Savepoint, problems: list[Problem]) -> None:
    for problem in problems:
        say(f"damaged: {problem}")
    verdict = "is damaged" if problems else "is whole"
    say(f"{made.path} {verdict}: {counted(len(made.files), 'file')} of {counted(made.size, 'byte')}.")


@savepoint.command("restore")
def restore(
    path: Directory,
    checkpoint: Annotated[str, typer.Argument(metavar="NEW_CKPT", help="The checkpoint to create; must not exist.")],
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="The number of state partitions.")] = None,
    key_groups: Annotated[int | None, typer.Option("--key-groups", min=1, help="The number of key groups per step.")] = None,
    backend: Annotated[str | None, typer.Option("--backend", help="The backend: heap or disk.")] = None,
    new_query_id: Annotated[bool, typer.Option("--new-query-id", help="For a second job beside the old one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a checkpoint from a savepoint, after checking all its files."""
    from holdfast.checkpoint.files.choice import files_of, is_local
    from holdfast.ops.move.savepoint_file import read_savepoint

    require_spark("holdfast savepoint restore")
    if is_local(path):
        # A missing path is reported before Spark starts.
        read_savepoint(files_of(None, path), path)
    reshaped = partitions is not None or key_groups is not None
    with spark_for(path, checkpoint, always=reshaped) as spark, working("Restoring") as report:
        made = ops.savepoint_restore(
            spark,
            path,
            checkpoint,
            partitions=partitions,
            key_groups=key_groups,
            backend=cast("BackendWord | None", backend),  # `restore` refuses any other word
            new_query_id=new_query_id,
            report=report,
        )
    give(asdict(made), as_json, lambda: _show_restored(made))


def _show_restored(made: Restored) -> None:
    spread = "" if made.partitions is None else f", in {counted(made.partitions, 'partition')}"
    say(f"{made.checkpoint}: the job resumes after micro-batch {made.batch}{spread}. Its query id is {made.query_id}.")
