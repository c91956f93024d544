"""`holdfast state import DIR CKPT`: exported state, edited or not, into a new checkpoint or one that exists."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer

from holdfast.cli.groups import state
from holdfast.cli.output import AsJson, give, quiet_spark, say, working
from holdfast.engine.stored.readable import counted

if TYPE_CHECKING:
    from holdfast.ops.move.merging import OnConflict

__all__ = ["import_"]


@state.command("import")
def import_(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="What holdfast state export has written.")],
    checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="A new checkpoint, or with --on-conflict an old one.")],
    on_conflict: Annotated[
        str | None,
        typer.Option(help="Import into a checkpoint that exists; for cells that both have: fail, keep, replace or merge."),
    ] = None,
    key_groups: Annotated[int | None, typer.Option(min=1, help="Another number of key groups, of a new checkpoint.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make exported state the state of a checkpoint. Everything is checked before anything is written."""
    from holdfast.ops.move.importing import import_state

    policy = cast("OnConflict | None", on_conflict)  # any other word is refused there
    with quiet_spark() as spark, working("Importing") as report:
        made = import_state(spark, directory, checkpoint, on_conflict=policy, key_groups=key_groups, report=report)

    def show() -> None:
        for step, rows in made.rows.items():
            say(f"{step}: {counted(rows, 'cell')} imported")
        say(f"A job on {made.checkpoint} goes on after micro-batch {made.batch}.")

    give(asdict(made), as_json, show)
