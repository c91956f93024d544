"""`holdfast savepoint ls`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from holdfast.cli.groups import savepoint
from holdfast.cli.output import AsJson, console, give, say, spark_for, table
from holdfast.ops.health.verify import Problem
from holdfast.ops.move.savepoint import list_savepoints
from holdfast.ops.move.savepoint_file import Savepoint

__all__: list[str] = []


@savepoint.command("ls")
def ls(
    path: Annotated[str, typer.Argument(metavar="DIR", help="A savepoint, or a directory of savepoints.")],
    as_json: AsJson = False,
) -> None:
    """List savepoints, the oldest first."""
    with spark_for(path) as spark:
        found, unusable = list_savepoints(spark, path)
    result = {"savepoints": [_row(made) for made in found], "unusable": [asdict(problem) for problem in unusable]}
    give(result, as_json, lambda: _show(found, unusable))


def _row(made: Savepoint) -> dict[str, Any]:
    content = asdict(made)
    content["files"] = len(made.files)
    return {**content, "bytes": made.size}


def _show(found: list[Savepoint], unusable: list[Problem]) -> None:
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
