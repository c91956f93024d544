"""`holdfast demo`: see it work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import app
from holdfast.model.extras import require_extra, require_spark

__all__ = ["demo"]

_PAYMENTS_MIN = 2_000
"""Fewer have no room for what is planted."""


@app.command("demo")
def demo(
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the job in a dashboard, and keep it running until Ctrl-C.")
    ] = False,
    payments: Annotated[int, typer.Option(min=_PAYMENTS_MIN, help="How many payments to generate.")] = 60_000,
    seed: Annotated[int, typer.Option(help="Generates different payments and different fraud.")] = 7,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to keep its files; a new temporary folder by default.")
    ] = None,
) -> None:
    """See it work: one Spark job with two fraud rules over generated payments, and a kill -9 halfway through."""
    require_spark("holdfast demo")
    if serve:
        require_extra("ui", "uvicorn", (0, 32), "holdfast demo --serve")
    from holdfast.demo.play import play

    if not play(seed, payments, folder, live=serve):
        raise typer.Exit(1)
