"""`holdfast checkpoint verify`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.checkpoint.files.choice import is_local
from holdfast.checkpoint.layout import spans
from holdfast.cli.groups import checkpoint
from holdfast.cli.output import AsJson, give, quiet_spark, say, working
from holdfast.engine.stored.readable import counted
from holdfast.ops.health.verify import Verification, checkpoint_to_verify, verify_checkpoint

__all__: list[str] = []


@checkpoint.command("verify")
def verify(
    path: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a job.")],
    deep: Annotated[bool, typer.Option("--deep", help="Read the state after every retained micro-batch.")] = False,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Look at the files only, without starting Spark.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every file and every blob; name what is damaged, and the last micro-batch that is whole."""
    if is_local(path):
        # What is not there is told before Spark has been started.
        checkpoint_to_verify(None, path)
    if files_only:
        with working("Looking at files") as report:
            found = verify_checkpoint(None, path, report=report)
    else:
        with quiet_spark() as spark, working("Looking at files and blobs") as report:
            found = verify_checkpoint(spark, path, deep=deep, report=report)
    give({**asdict(found), "is_whole": found.is_whole}, as_json, lambda: _show(found))
    if not found.is_whole:
        raise typer.Exit(1)


def _show(found: Verification) -> None:
    for problem in found.problems:
        say(f"damaged: {problem}")
    for note in found.notes:
        say(f"note: {note}")
    last = "none" if found.last_whole_batch is None else str(found.last_whole_batch)
    files, blobs = counted(found.files, "file"), counted(found.blobs, "blob")
    say(
        f"{files} of {counted(found.file_bytes, 'byte')}, {blobs} in {counted(found.key_groups, 'key group')} of "
        f"{counted(found.blob_bytes, 'byte')}. Whole micro-batches: {spans(found.whole_batches)}. The last: {last}."
    )
    say("The checkpoint is whole." if found.is_whole else "The checkpoint is damaged.")
