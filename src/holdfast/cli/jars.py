"""`holdfast jars`: what Spark needs beside its own jars."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast import ops
from holdfast.cli.app import app
from holdfast.cli.output import AsJson, give, say, working

__all__ = ["jars"]


@app.command("jars")
def jars(
    connector: Annotated[str, typer.Argument(help="The connector: kafka.")] = "kafka",
    repository: Annotated[
        str | None, typer.Option(metavar="URL", help="A Maven repository to use instead of Maven Central.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Fetch nothing; exit code 1 if something is missing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch the jars that Spark needs for Kafka, once. hf.session() finds them."""
    with working("Fetching") as report:
        found = ops.jars(connector, repository=repository, fetch=not list_only, report=report)

    def show() -> None:
        for file in found.files:
            say(f"{file.status:8} {file.path}")
        if found.is_complete:
            say("hf.session() uses them. For a session of your own, give Spark this setting when it starts:")
            say(f"spark.jars={found.setting}")

    give({**asdict(found), "complete": found.is_complete, "spark.jars": found.setting}, as_json, show)
    if not found.is_complete:
        raise typer.Exit(1)
