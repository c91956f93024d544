"""The command groups; each command file adds its own commands."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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


class _Savepoint(TyperGroup):
    """`holdfast savepoint JOB DEST` is short for `savepoint create JOB DEST`."""

    # Any: the types are those of the command-line library below Typer, which Typer brings along.
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = [argument for argument in args if not argument.startswith("-")]
        # With more than a job and a place, what looks like a command is one that was mistyped.
        mistyped = len(names) > 2 and difflib.get_close_matches(names[0], self.commands)
        if len(names) > 1 and names[0] not in self.commands and not mistyped:
            args = ["create", *args]
        return super().resolve_command(ctx, args)


savepoint = typer.Typer(
    cls=_Savepoint,
    help="Make and restore self-contained copies of a checkpoint. `savepoint JOB DEST` is short for `savepoint create`.",
    no_args_is_help=True,
    context_settings=_HELP,
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
