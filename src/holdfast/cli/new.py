"""`holdfast new`: a project to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import app
from holdfast.cli.output import AsJson, console, give, say, table
from holdfast.errors import InputError
from holdfast.starter.project import make_project
from holdfast.starter.templates import templates

__all__ = ["new"]

_USUAL = "velocity"


@app.command("new")
def new(
    name: Annotated[str | None, typer.Argument(help="The name of the project and its folder.")] = None,
    template: Annotated[
        str, typer.Option("--from", metavar="RECIPE", help="The recipe to start from; see --list.")
    ] = _USUAL,
    parent: Annotated[
        Path, typer.Option("--in", metavar="DIR", help="Where to create its folder; here by default.")
    ] = Path(),
    list_only: Annotated[bool, typer.Option("--list", help="List the recipes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a project: a function, its tests, a job, and the files a repository needs."""
    if list_only:
        _list(as_json)
        return
    if name is None:
        raise InputError("NAME is missing.", todo="for example: holdfast new card-alerts")
    folder = make_project(name, template, parent)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def show() -> None:
        for file in files:
            say(f"{folder / file}")
        say("")
        say(f"Next: cd {folder}, and see its README.md.")

    give({"folder": str(folder), "template": template, "files": files}, as_json, show)


def _list(as_json: bool) -> None:
    found = templates().values()

    def show() -> None:
        console.print(table("", ("recipe", "a project that"), [(one.name, one.summary) for one in found]))

    give([{"name": template.name, "summary": template.summary} for template in found], as_json, show)
