"""`holdfast state diff CKPT --from A --to B`: what changed between two micro-batches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli.arguments import Checkpoint, Limit, StepName, TrustPickle
from holdfast.cli.groups import state
from holdfast.cli.output import AsJson, console, give, quiet_spark, say, text, working
from holdfast.engine.stored.readable import counted

__all__ = ["changes_table", "diff"]

_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}


@state.command("diff")
def diff(
    checkpoint: Checkpoint,
    from_batch: Annotated[int, typer.Option("--from", help="The earlier micro-batch.")],
    to_batch: Annotated[int, typer.Option("--to", help="The later micro-batch.")],
    step: StepName = None,
    key: Annotated[str | None, typer.Option(help="Only this key.")] = None,
    limit: Limit = 100,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two micro-batches."""
    from holdfast.ops.inspect.compare import diff_state

    with quiet_spark() as spark, working("Comparing"):
        found = diff_state(
            spark, checkpoint, from_batch, to_batch, step=step, key=key, limit=limit, trust_pickle=trust_pickle
        )

    def show() -> None:
        say(f"{counted(found.total, 'change')} from micro-batch {from_batch} to {to_batch}")
        if found.changes:
            console.print(changes_table(found.changes))
        if found.total > len(found.changes):
            say(f"These are the first {len(found.changes)} (--limit).")

    result = {**asdict(found), "changes": [{**asdict(change), "what": change.what} for change in found.changes]}
    give(result, as_json, show)


def changes_table(changes: list[Any], *, batches: bool = False) -> Table:
    """Changes as a table, with the micro-batch of each if there are several."""
    table = Table()
    for name in (*(["batch"] if batches else []), "step", "key", "window", "cell", "", "before", "after"):
        table.add_column(name, overflow="fold")
    last = None
    for change in changes:
        leading = [] if not batches else [str(change.batch) if change.batch != last else ""]
        last = change.batch
        what = text(change.what, _STYLES[change.what])
        names = [text(part) for part in (*leading, change.step, change.key, change.window, change.cell)]
        table.add_row(*names, what, text(change.old), text(change.new))
    return table
