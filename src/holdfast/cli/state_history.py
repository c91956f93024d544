"""`holdfast state history CKPT --key K`: what each retained micro-batch changed of a key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli.arguments import Checkpoint, StepName, TrustPickle
from holdfast.cli.groups import state
from holdfast.cli.output import AsJson, console, give, quiet_spark, working
from holdfast.cli.state_diff import changes_table

__all__ = ["history"]


@state.command("history")
def history(
    checkpoint: Checkpoint,
    key: Annotated[str, typer.Option(help="The key; of several columns as a JSON list.")],
    step: StepName = None,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Show what each micro-batch changed of a key."""
    from holdfast.ops.inspect.compare import state_history

    with quiet_spark() as spark, working("Reading the history"):
        changes = state_history(spark, checkpoint, key, step=step, trust_pickle=trust_pickle)
    result = [{**asdict(change), "what": change.what} for change in changes]
    give(result, as_json, lambda: console.print(changes_table(changes, batches=True)))
