"""`holdfast savepoint verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli.groups import savepoint
from holdfast.cli.output import AsJson, give, say, spark_for, working
from holdfast.engine.stored.readable import counted
from holdfast.ops.health.verify import Problem
from holdfast.ops.move.savepoint import verify_savepoint
from holdfast.ops.move.savepoint_file import Savepoint

__all__: list[str] = []


@savepoint.command("verify")
def verify(
    path: Annotated[str, typer.Argument(metavar="SAVEPOINT", help="The directory of a savepoint.")],
    as_json: AsJson = False,
) -> None:
    """Check every file of a savepoint; name those that are damaged, missing or too much."""
    with spark_for(path) as spark, working("Looking at files") as report:
        made, problems = verify_savepoint(spark, path, report=report)
    result = {"path": made.path, "batch": made.batch, "files": len(made.files), "bytes": made.size}
    give({**result, "problems": [asdict(p) for p in problems]}, as_json, lambda: _show(made, problems))
    if problems:
        raise typer.Exit(1)


def _show(made: Savepoint, problems: list[Problem]) -> None:
    for problem in problems:
        say(f"damaged: {problem}")
    verdict = "is damaged" if problems else "is whole"
    say(f"{made.path} {verdict}: {counted(len(made.files), 'file')} of {counted(made.size, 'byte')}.")
