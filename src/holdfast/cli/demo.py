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
    payments: Annotated[int, typer.Option(min=_PAYMENTS_MIN, help="How many payments there are.")] = 60_000,
    seed: Annotated[int, typer.Option(help="Other payments, and others that are fraud.")] = 7,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to keep its files; a new temporary folder by default.")
    ] = None,
) -> None:
    """See it work: two fraud rules over generated payments in one job on Spark, and a kill -9 half way through."""
    require_spark("holdfast demo")
    if serve:
        require_extra("ui", "uvicorn", (0, 32), "holdfast demo --serve")
    from holdfast.demo.play import play

    if not play(seed, payments, folder, live=serve):
        raise typer.Exit(1)
