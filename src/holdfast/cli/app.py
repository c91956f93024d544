"""The command groups; each command file adds its own commands."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["app", "checkpoint", "savepoint", "state"]

_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="holdfast",
    help="Operate stateful streams: look inside checkpoints, go back in time, take savepoints, rescale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)
state = typer.Typer(help="Show, export and import state.", no_args_is_help=True, context_settings=_HELP)
checkpoint = typer.Typer(help="Look at a checkpoint as a whole.", no_args_is_help=True, context_settings=_HELP)
savepoint = typer.Typer(
    help="Make and restore self-contained copies of a checkpoint.", no_args_is_help=True, context_settings=_HELP
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        # The usual form, which scripts can parse.
        typer.echo(f"holdfast {version('holdfast')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Operate stateful streams: look inside checkpoints, go back in time, take savepoints, rescale."""


app.add_typer(state, name="state")
app.add_typer(checkpoint, name="checkpoint")
app.add_typer(savepoint, name="savepoint")
