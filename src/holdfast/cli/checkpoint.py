"""`holdfast checkpoint`: show, verify and repair a checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import ops
from holdfast.cli.app import checkpoint as group
from holdfast.cli.arguments import Batch, Checkpoint
from holdfast.cli.output import (
    AsJson,
    check_confirmed,
    console,
    give,
    say,
    size_text,
    spark_for,
    table,
    with_spark_if_needed,
    working,
)
from holdfast.engine.stored.readable import counted
from holdfast.model.extras import require_tools

if TYPE_CHECKING:
    from holdfast.ops.inspect.overview import OperatorOverview, Overview
    from holdfast.ops.upkeep.repair import Repair
    from holdfast.ops.upkeep.verify import Verification

__all__ = ["repair", "show", "verify"]

_STATE_TITLE = "State, by version (micro-batch N leaves version N + 1)"
_STATE = ("operator", "partitions", "snapshots", "size", "changelogs", "size")


@group.command("show")
def show(checkpoint: Checkpoint, batch: Batch = None, as_json: AsJson = False) -> None:
    """Show source offsets, commits, watermark, state versions and sizes, and who is using it."""
    with spark_for(checkpoint) as spark, working("Reading the checkpoint"):
        found = ops.checkpoint_show(spark, checkpoint, batch=batch)
    give(found.as_dict(), as_json, lambda: _show_overview(found))


def _show_overview(found: Overview) -> None:
    console.print(table("Checkpoint", ("", found.checkpoint), _facts(found)))
    if found.sources:
        columns = ("source", f"offset before micro-batch {found.batch}", "after it")
        rows = [(source.number, _text(source.before), _text(source.after)) for source in found.sources]
        console.print(table("Sources", columns, rows))
    if found.steps:
        steps = [(s.name, s.backend, s.key_groups, ", ".join(s.cells), ", ".join(s.timers)) for s in found.steps]
        console.print(table("Steps", ("step", "backend", "key groups", "cells", "timers"), steps))
    if found.operators:
        console.print(table(_STATE_TITLE, _STATE, map(_operator, found.operators)))
    sizes = [(kind, size_text(size)) for kind, size in found.sizes.items()]
    console.print(table("Sizes", ("kind", "size"), [*sizes, ("all", size_text(sum(found.sizes.values())))]))


def _facts(found: Overview) -> list[tuple[str, str]]:
    from holdfast.checkpoint.layout import spans

    user = found.used_by
    used = (
        "nobody" if user is None else f"{user['owner']} on {user['host']}, process {user['process']}, since {user['since']}"
    )
    facts = [("job", found.job or "unknown: it was not run by hf.Job"), ("query", found.query_id), ("used by", used)]
    if found.batch is None:
        return [*facts, ("micro-batches", "none planned yet")]
    facts += [
        ("micro-batch", f"{found.batch} ({'committed' if found.is_committed else 'not committed'}), of {found.batch_time}"),
        ("watermark", f"{found.watermark or 'none yet'}, then {found.next_watermark or 'none yet'}"),
        ("partitions", str(found.partitions or "?")),
        ("committed", spans(found.committed)),
        ("state readable after", spans(found.retained)),
    ]
    if found.planned:
        facts.append(("planned, not committed", f"{spans(found.planned)}; the next start processes it"))
    return facts


def _operator(operator: OperatorOverview) -> tuple[str, ...]:
    from holdfast.checkpoint.layout import spans

    steps = f"{counted(len(operator.steps), 'step')}: {', '.join(operator.steps)}" if operator.steps else "a step"
    return (
        f"{operator.number}: {steps if operator.is_a_step else operator.name}",
        str(operator.partitions),
        spans(operator.snapshots),
        size_text(operator.snapshot_bytes),
        spans(operator.changelogs),
        size_text(operator.changelog_bytes),
    )


def _text(offset: Any) -> str:
    return "-" if offset is None else offset if isinstance(offset, str) else json.dumps(offset)


@group.command("verify")
def verify(
    path: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a job.")],
    deep: Annotated[bool, typer.Option("--deep", help="Read the state after every retained micro-batch.")] = False,
    files_only: Annotated[bool, typer.Option("--files-only", help="Check only the files, not the blobs in them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check every file and blob; report damage, and the last intact micro-batch."""
    require_tools("holdfast checkpoint verify")
    from holdfast.checkpoint.files.choice import is_local
    from holdfast.ops.upkeep.verify import checkpoint_to_verify

    if is_local(path):
        # A missing path is reported before Spark starts.
        checkpoint_to_verify(None, path)
    found = with_spark_if_needed(
        "Checking files" if files_only else "Checking files and blobs",
        lambda spark, report: ops.checkpoint_verify(spark, path, deep=deep, files_only=files_only, report=report),
    )
    give({**asdict(found), "is_whole": found.is_whole}, as_json, lambda: _show_verification(found))
    if not found.is_whole:
        raise typer.Exit(1)


def _show_verification(found: Verification) -> None:
    from holdfast.checkpoint.layout import spans

    for problem in found.problems:
        say(f"damaged: {problem}")
    for note in found.notes:
        say(f"note: {note}")
    last = "none" if found.last_whole_batch is None else str(found.last_whole_batch)
    files, blobs = counted(found.files, "file"), counted(found.blobs, "blob")
    say(
        f"{files} of {counted(found.file_bytes, 'byte')}, {blobs} in {counted(found.key_groups, 'key group')} of "
        f"{counted(found.blob_bytes, 'byte')}. Whole micro-batches: {spans(found.whole_batches)}; the last is {last}."
    )
    say("The checkpoint is whole." if found.is_whole else "The checkpoint is damaged.")


@group.command("repair")
def repair(
    path: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a stopped job.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove commits of micro-batches that were never processed; finish or undo an interrupted operation."""
    with spark_for(path) as spark:
        plan = ops.checkpoint_repair(spark, path, dry_run=True)
        if not plan.is_needed or dry_run:
            give({**asdict(plan), "done": False}, as_json, lambda: _show_repair(plan, done=False))
            return
        if not yes:
            check_confirmed(lambda: _show_repair(plan, done=False), as_json)
        done = ops.checkpoint_repair(spark, path)
    give({**asdict(done), "done": True}, as_json, lambda: _show_repair(done, done=True))


def _show_repair(plan: Repair, *, done: bool) -> None:
    lines = list(_repair_lines(plan, done))
    if not plan.is_needed:
        lines.append(f"{plan.checkpoint}: there is nothing to repair.")
    if not plan.is_known:
        lines.append("Its query keeps no state, so the checkpoint cannot show whether a commit is true.")
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _repair_lines(plan: Repair, done: bool) -> list[str]:
    from holdfast.checkpoint.layout import spans

    lines = []
    if plan.interrupted is not None:
        lines.append(f"{plan.checkpoint}: {plan.interrupted}.")
        if not done:
            lines.append("It is finished if the new state is in place, otherwise undone. Then the commits are checked.")
    if plan.false_commits:
        several = len(plan.false_commits) > 1
        which = f"micro-batch{'es' if several else ''} {spans(plan.false_commits)} {'are' if several else 'is'} committed"
        lines.append(f"{plan.checkpoint}: {which}, but {'were' if several else 'was'} never processed.")
        lines += [f"{'removed' if done else 'to remove'}: {path}" for path in plan.removed]
        lines.append(f"The next start of the job processes micro-batch {plan.false_commits[0]}.")
    return lines
