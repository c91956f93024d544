"""`holdfast run` and `holdfast stop`: starting and stopping a job."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from holdfast import ops
from holdfast.cli.app import app
from holdfast.cli.output import AsJson, give, say, spark_for, working
from holdfast.cli.script import run_script
from holdfast.errors import CheckpointError
from holdfast.model.extras import require_spark

__all__ = ["run", "stop"]

_WITH_VALUE = ("-s", "--savepoint", "-p", "--partitions")

Savepoint = Annotated[
    str | None,
    typer.Option(
        "-s", "--savepoint", metavar="SAVEPOINT", help="Start from this savepoint; continue if the job already has."
    ),
]
Partitions = Annotated[
    int | None, typer.Option("-p", "--partitions", min=1, help="With -s: the number of state partitions to start with.")
]


class RunCommand(TyperCommand):
    """Lets Flink's `-py` stand before the script."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _without_py(args))


def _without_py(arguments: list[str]) -> list[str]:
    """The arguments without a `-py` that stands before the script. What follows the script is the script's own."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] == "-py":
            return [*arguments[:at], *arguments[at + 1 :]]
        at += 2 if arguments[at] in _WITH_VALUE else 1
    return arguments


# Everything after the script belongs to it, even what looks like one of our options.
@app.command("run", cls=RunCommand, context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def run(
    script: Annotated[str, typer.Argument(metavar="JOB.py", help="The script that builds and runs the job.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="Arguments for the script.")] = None,
    savepoint: Savepoint = None,
    partitions: Partitions = None,
) -> None:
    """Run a job's script as python would, and return its exit code."""
    if savepoint is None:
        if partitions is not None:
            raise typer.BadParameter("it needs -s; for a checkpoint that exists there is: holdfast rescale", param_hint="-p")
        raise typer.Exit(run_script(script, arguments or []))
    raise typer.Exit(_run_from(savepoint, partitions, script, arguments or []))


def _run_from(savepoint: str, partitions: int | None, script: str, arguments: list[str]) -> int:
    require_spark("holdfast run -s")
    from holdfast.checkpoint.files.choice import files_of, is_local
    from holdfast.ops.move.begin_from import BeginFrom
    from holdfast.ops.move.savepoint_file import read_savepoint
    from holdfast.spark.job.beginning import beginning_with

    if is_local(savepoint):
        # What is no savepoint is told before the script does anything.
        try:
            read_savepoint(files_of(None, savepoint), savepoint)
        except CheckpointError as error:
            error.todo += "; if the job has begun from it already, leave out -s"
            raise
    begins = BeginFrom(savepoint, partitions)
    with beginning_with(begins):
        code = run_script(script, arguments)
    if code == 0 and not begins.used:
        raise CheckpointError(
            f"The script {script!r} has ended without starting a job: the savepoint {savepoint!r} was not used.",
            todo="start the job in the script itself: job.run()",
        )
    return code


@app.command("stop")
def stop(
    job: Annotated[str, typer.Argument(help="The job's checkpoint, or the name of a job on this machine.")],
    savepoint: Annotated[str | None, typer.Option(help="Save the state here once the job has stopped.")] = None,
    timeout: Annotated[float, typer.Option(help="Give up after this many seconds.", min=0)] = 300.0,
    as_json: AsJson = False,
) -> None:
    """Stop a running job at the end of its micro-batch, optionally with a savepoint."""
    from holdfast.checkpoint.running import find_running

    require_spark("holdfast stop")
    checkpoint = find_running(None, job)
    with spark_for(checkpoint, savepoint or checkpoint) as spark, working(f"Waiting for {job} to stop") as report:
        stopped = ops.stop(
            spark,
            job,
            savepoint=savepoint,
            timeout_seconds=timeout,
            report=lambda passed, of: report(int(passed), int(of)),
        )

    def show() -> None:
        batch = "before its first commit" if stopped.batch is None else f"after micro-batch {stopped.batch}"
        say(f"Stopped {stopped.job} {batch}, in {stopped.seconds:.1f} s.")
        if savepoint is not None:
            say(f"Its state is saved in {savepoint}.")

    give(asdict(stopped), as_json, show)
