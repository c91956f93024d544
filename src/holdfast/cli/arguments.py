"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Batch", "Checkpoint", "Limit", "StepName", "TrustPickle"]

Checkpoint = Annotated[str, typer.Argument(metavar="CKPT", help="The job's checkpoint directory.")]
Batch = Annotated[int | None, typer.Option("--batch", help="The micro-batch to look at; the last one by default.")]
StepName = Annotated[str | None, typer.Option("--step", help="Only this step.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Show at most this many.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Decode pickles. They can run any code, so only for state you trust.")
]
