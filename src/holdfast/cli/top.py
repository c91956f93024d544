"""`holdfast top`: jobs, live, in the terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from holdfast.cli.app import app
from holdfast.cli.output import spark_for
from holdfast.errors import InputError
from holdfast.model.extras import require_extra
from holdfast.watch.health.thresholds import Thresholds

__all__ = ["top"]


@app.command("top")
def top(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CKPT|JOB]...", help="Checkpoints, or names of jobs running here; all by default."),
    ] = None,
    thresholds: Annotated[
        str | None, typer.Option("--thresholds", metavar="FILE", help="Thresholds to use instead of the defaults, as TOML.")
    ] = None,
    every: Annotated[float, typer.Option("--every", help="Seconds between refreshes.", min=0.2)] = 1.0,
) -> None:
    """Watch jobs live: rates, durations, state, lag, hot keys, health."""
    require_extra("top", "textual", (3, 0), "holdfast top")
    from holdfast.checkpoint.running import find_running
    from holdfast.cli.top_app import TopApp
    from holdfast.cli.top_jobs import JobsLookedAt

    limits = None if thresholds is None else Thresholds.from_file(thresholds)
    checkpoints = [find_running(None, job) for job in jobs or ()]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("holdfast top needs a terminal.", todo="elsewhere: holdfast health CKPT, with --json for programs")
    with spark_for(*checkpoints) as spark:
        TopApp(JobsLookedAt(checkpoints, limits, spark=spark), every).run()
