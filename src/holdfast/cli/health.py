"""`holdfast health`: whether a job is well, once or again and again."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.live import Live

from holdfast.cli.app import app
from holdfast.cli.health_view import health_view
from holdfast.cli.output import AsJson, console, give, spark_for
from holdfast.watch.health.report import Health, Level
from holdfast.watch.health.thresholds import Thresholds

__all__ = ["health"]

EXIT_CODES = {Level.OK: 0, Level.UNKNOWN: 0, Level.WARNING: 3, Level.CRITICAL: 4}


@app.command("health")
def health(
    job: Annotated[str, typer.Argument(metavar="CKPT|JOB", help="The job's checkpoint, or its name if it runs here.")],
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    thresholds: Annotated[
        str | None, typer.Option("--thresholds", metavar="FILE", help="Thresholds to use instead of the defaults, as TOML.")
    ] = None,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print metrics in Prometheus' text format.")] = False,
    every: Annotated[float, typer.Option("--every", help="With --watch: seconds between refreshes.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Judge a job's health by its history. Exit code: 0 healthy or not known yet, 3 warning, 4 critical."""
    from holdfast.checkpoint.running import find_running
    from holdfast.ops.upkeep.health import Watched

    if watch + prometheus + as_json > 1:
        raise typer.BadParameter("--watch, --prometheus and --json exclude each other")
    limits = None if thresholds is None else Thresholds.from_file(thresholds)
    # A name is looked up first: it may stand for a checkpoint that needs Spark.
    checkpoint = find_running(None, job)
    with spark_for(checkpoint) as spark, Watched(job if spark is None else checkpoint, spark=spark) as watched:
        if watch:
            found = _watch(lambda: watched.judge(limits), every)
        else:
            found = watched.judge(limits)
            if prometheus:
                from holdfast.watch.outlets.prometheus import prometheus_text

                sys.stdout.write(prometheus_text(watched.tail.history, found))
            else:
                give(found.as_dict(), as_json, lambda: console.print(health_view(found)))
    raise typer.Exit(EXIT_CODES[found.level])


def _watch(judge: Callable[[], Health], every: float) -> Health:
    """Shows it anew until Ctrl-C; returns what was last seen."""
    found = judge()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    try:
        with live or contextlib.nullcontext():
            while True:
                if live is not None:
                    live.update(health_view(found), refresh=True)
                else:
                    console.print(health_view(found))
                time.sleep(every)
                found = judge()
    except KeyboardInterrupt:
        return found
