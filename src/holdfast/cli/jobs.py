"""`holdfast run` and `holdfast stop`: a job from its start to its end."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast import ops
from holdfast.cli.app import app
from holdfast.cli.output import AsJson, give, say, spark_for, working
from holdfast.cli.script import run_script

__all__ = ["run", "stop"]


# Everything after the script is the script's, also what looks like an option of ours.
@app.command("run", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def run(
    script: Annotated[str, typer.Argument(metavar="JOB.py", help="The script that builds and runs the job.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="What the script is given.")] = None,
) -> None:
    """Run a job's script as python would; its exit code is passed on."""
    raise typer.Exit(run_script(script, arguments or []))


@app.command("stop")
def stop(
    job: Annotated[str, typer.Argument(help="The job's checkpoint, or the name of a job that runs here.")],
    savepoint: Annotated[str | None, typer.Option(help="Save the state there when the job has stopped.")] = None,
    timeout: Annotated[float, typer.Option(help="Give up after so many seconds.", min=0)] = 300.0,
    as_json: AsJson = False,
) -> None:
    """Stop a running job at the end of its micro-batch, with a savepoint if wanted."""
    from holdfast.ops.move.stopping import find_running

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
        batch = "nothing committed" if stopped.batch is None else f"after micro-batch {stopped.batch}"
        say(f"Stopped {stopped.job} {batch}, in {stopped.seconds:.1f} s.")
        if savepoint is not None:
            say(f"Its state is saved in {savepoint}.")

    give(asdict(stopped), as_json, show)
