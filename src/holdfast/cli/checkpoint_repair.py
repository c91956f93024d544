"""`holdfast checkpoint repair`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.checkpoint.layout import spans
from holdfast.cli.groups import checkpoint
from holdfast.cli.output import AsJson, console, give, spark_for
from holdfast.errors import InputError
from holdfast.ops.health.repair import Repair, plan_repair, repair_checkpoint

__all__: list[str] = []


@checkpoint.command("repair")
def repair(
    path: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a job that is stopped.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take back commits of micro-batches that nobody processed; finish an interrupted operation, or take it back."""
    with spark_for(path) as spark:
        plan = plan_repair(spark, path)
        if not plan.is_needed or dry_run:
            give({**asdict(plan), "done": False}, as_json, lambda: _show(plan, done=False))
            return
        if not yes:
            _ask(plan, as_json)
        done = repair_checkpoint(spark, path)
    give({**asdict(done), "done": True}, as_json, lambda: _show(done, done=True))


def _ask(plan: Repair, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise InputError("Nothing was done: nobody can be asked.", todo="say --yes, or --dry-run to see what would be done")
    _show(plan, done=False)
    typer.confirm("Do it?", abort=True)


def _show(plan: Repair, *, done: bool) -> None:
    lines = list(_lines(plan, done))
    if not plan.is_needed:
        lines.append(f"{plan.checkpoint}: there is nothing to repair.")
    if not plan.is_known:
        lines.append("Its query keeps no state: whether a commit is true cannot be known from the checkpoint.")
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _lines(plan: Repair, done: bool) -> list[str]:
    lines = []
    if plan.interrupted is not None:
        lines.append(f"{plan.checkpoint}: {plan.interrupted}.")
        if not done:
            lines.append("It is finished if the new state is in its place, else taken back. Then the commits are looked at.")
    if plan.false_commits:
        several = len(plan.false_commits) > 1
        which = f"micro-batch{'es' if several else ''} {spans(plan.false_commits)} {'are' if several else 'is'} committed"
        lines.append(f"{plan.checkpoint}: {which}, and nobody has processed {'them' if several else 'it'}.")
        lines += [f"{'removed' if done else 'to remove'}: {path}" for path in plan.removed]
        lines.append(f"The next start of the job processes micro-batch {plan.false_commits[0]}.")
    return lines
