"""`holdfast doctor`: whether this machine can run jobs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast import ops
from holdfast.cli.app import app
from holdfast.cli.output import AsJson, console, give, say, text, working

__all__ = ["doctor"]

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


@app.command("doctor")
def doctor(
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not try to start a Spark session.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check Java, Spark, libraries, memory, disk and network, with advice; exit code 1 if something is missing."""
    from holdfast.ops.upkeep.doctor import FAILED

    def show(check: ops.Check) -> None:
        console.print(text(f"{check.status:8}", _STYLES[check.status]) + text(f"{check.name}: {check.found}"))
        if check.advice:
            say(f"          {check.advice}")

    checks = []
    with working("Looking"):
        for check in ops.doctor(with_spark=not no_spark):
            checks.append(check)
            if not as_json:
                show(check)
    is_well = all(check.status != FAILED for check in checks)
    give({"ok": is_well, "checks": [asdict(check) for check in checks]}, as_json, lambda: None)
    if not is_well:
        raise typer.Exit(1)
