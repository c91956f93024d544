"""`holdfast state`: show, describe, compare, remove, export and import state."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from holdfast import ops
from holdfast.cli.app import state
from holdfast.cli.arguments import Batch, Checkpoint, Limit, StepName, TrustPickle
from holdfast.cli.output import (
    AsJson,
    Report,
    check_confirmed,
    console,
    give,
    quiet_spark,
    say,
    with_spark_if_needed,
    working,
)
from holdfast.cli.state_views import changes_table, show_markdown, show_removed, show_schema, show_step, step_table
from holdfast.engine.stored.readable import counted
from holdfast.errors import InputError
from holdfast.model.extras import require_tools

if TYPE_CHECKING:
    from holdfast.ops.move.formats.choice import FormatName
    from holdfast.ops.move.merging import OnConflict

__all__ = ["diff", "export", "history", "import_", "ls", "rm", "schema", "show"]


@state.command("ls")
def ls(checkpoint: Checkpoint, batch: Batch = None, as_json: AsJson = False) -> None:
    """List steps and cells: kind, coder, TTL; keys, bytes, timers, retained micro-batches."""
    require_tools("holdfast state ls")
    from holdfast.checkpoint.layout import spans

    def read(spark: Any, report: Report) -> tuple[int, list[int], list[ops.StepSummary]]:
        place = ops.open_checkpoint(spark, checkpoint)
        at = place.check_batch(batch)
        return at, place.retained(), ops.state_ls(spark, checkpoint, at)

    at, retained, steps = with_spark_if_needed("Reading the state", read)
    result = {"checkpoint": checkpoint, "batch": at, "retained": retained, "steps": [asdict(step) for step in steps]}

    def tables() -> None:
        say(f"micro-batch {at}; state readable after {spans(retained)}")
        for step in steps:
            console.print(step_table(step))

    give(result, as_json, tables)


@state.command("schema")
def schema(
    checkpoint: Checkpoint,
    step: StepName = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print it as Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Describe what is kept: steps, windows, cells, kinds, coders, time to live, timers, and their descriptions."""
    require_tools("holdfast state schema")
    if markdown and as_json:
        raise InputError("--markdown and --json were both given.", todo="choose one")

    def read(spark: Any, report: Report) -> tuple[str | None, list[ops.StepSchema]]:
        steps = ops.state_schema(spark, checkpoint, step=step)
        return ops.open_checkpoint(spark, checkpoint).manifest.get("job"), steps

    job, steps = with_spark_if_needed("Reading the state", read)
    result = {"checkpoint": checkpoint, "job": job, "steps": [asdict(each) for each in steps]}
    give(result, as_json, lambda: show_markdown(job, steps) if markdown else show_schema(steps))


@state.command("show")
def show(
    checkpoint: Checkpoint,
    step: StepName = None,
    key: Annotated[str | None, typer.Option(help="Only this key; several columns as a JSON list.")] = None,
    cell: Annotated[str | None, typer.Option(help="Only this cell or timer.")] = None,
    window: Annotated[str | None, typer.Option(help="Only the window that contains this time.")] = None,
    batch: Batch = None,
    limit: Limit = 20,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Show the state: cells and timers of each key and window."""
    view = with_spark_if_needed(
        "Reading the state",
        lambda spark, report: ops.state_show(
            spark,
            checkpoint,
            step=step,
            key=key,
            cell=cell,
            window=window,
            batch=batch,
            limit=limit,
            trust_pickle=trust_pickle,
        ),
    )

    def tables() -> None:
        for name in view.step_names:
            show_step(name, view.batch, [shown for shown in view.cells if shown.step == name], view.docs.get(name, {}))
        if view.more:
            say(f"There is more: these are the first {limit} keys and windows of each step. Use --limit or --key.")

    give({"checkpoint": checkpoint, **asdict(view)}, as_json, tables)


@state.command("rm")
def rm(
    checkpoint: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a stopped job.")],
    step: StepName = None,
    key: Annotated[str | None, typer.Option(help="The key to remove; several columns as a JSON list.")] = None,
    cell: Annotated[str | None, typer.Option(help="Only this cell or timer.")] = None,
    window: Annotated[str | None, typer.Option(help="Only the window that contains this time.")] = None,
    where: Annotated[
        str | None, typer.Option(help="Only cells for which this is true: SQL over the columns of holdfast.ops.read_state.")
    ] = None,
    whole_keys: Annotated[
        bool, typer.Option("--whole-keys", help="Remove everything in the keys and windows with such a cell.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    limit: Limit = 20,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Remove state of a stopped job, which continues as if its function had cleared it."""

    def work(spark: Any, dry: bool) -> ops.Removed:
        return ops.remove_state(
            spark,
            checkpoint,
            step=step,
            key=key,
            cell=cell,
            window=window,
            where=where,
            whole_keys=whole_keys,
            dry_run=dry,
            limit=limit,
            trust_pickle=trust_pickle,
        )

    with quiet_spark() as spark:
        result = work(spark, dry=dry_run or not yes)
        if result.keys and not dry_run and not yes:
            check_confirmed(lambda: show_removed(result), as_json)
            result = work(spark, dry=False)
    give(asdict(result), as_json, lambda: show_removed(result))


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
    found = with_spark_if_needed(
        "Comparing",
        lambda spark, report: ops.state_diff(
            spark, checkpoint, from_batch, to_batch, step=step, key=key, limit=limit, trust_pickle=trust_pickle
        ),
    )

    def tables() -> None:
        say(f"{counted(found.total, 'change')} from micro-batch {from_batch} to {to_batch}")
        if found.changes:
            console.print(changes_table(found.changes))
        if found.total > len(found.changes):
            say(f"These are the first {len(found.changes)}. Use --limit for more.")

    result = {**asdict(found), "changes": [{**asdict(change), "what": change.what} for change in found.changes]}
    give(result, as_json, tables)


@state.command("history")
def history(
    checkpoint: Checkpoint,
    key: Annotated[str, typer.Option(help="The key; several columns as a JSON list.")],
    step: StepName = None,
    trust_pickle: TrustPickle = False,
    as_json: AsJson = False,
) -> None:
    """Show how each micro-batch changed a key's state."""
    changes = with_spark_if_needed(
        "Reading the history",
        lambda spark, report: ops.state_history(spark, checkpoint, key, step=step, trust_pickle=trust_pickle),
    )
    result = [{**asdict(change), "what": change.what} for change in changes]
    give(result, as_json, lambda: console.print(changes_table(changes, batches=True)))


@state.command("export")
def export(
    checkpoint: Checkpoint,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Where to write; must not exist.")],
    batch: Batch = None,
    form: Annotated[str, typer.Option("--format", help="parquet, avro or json; the rows are the same.")] = "parquet",
    as_json: AsJson = False,
) -> None:
    """Write the state as files that can be edited and imported."""
    name = cast("FormatName", form)  # `state_export` refuses any other word
    with quiet_spark() as spark, working("Exporting") as report:
        made = ops.state_export(spark, checkpoint, directory, batch=batch, format=name, report=report)
    result = {"export": made.path, "job": made.job, "batch": made.batch, "format": made.format, "rows": made.rows}

    def lines() -> None:
        for step, rows in made.rows.items():
            say(f"{step}: {counted(rows, 'cell')} after micro-batch {made.batch}")
        say(f"To make a checkpoint from it: holdfast state import {made.path} NEW_CKPT")

    give(result, as_json, lines)


@state.command("import")
def import_(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="What holdfast state export wrote.")],
    checkpoint: Annotated[
        str, typer.Argument(metavar="CKPT", help="A new checkpoint, or with --on-conflict an existing one.")
    ],
    on_conflict: Annotated[
        str | None,
        typer.Option(help="Import into an existing checkpoint; for cells that both have: fail, keep, replace or merge."),
    ] = None,
    key_groups: Annotated[
        int | None, typer.Option(min=1, help="Another number of key groups, for a new checkpoint.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import exported state into a checkpoint. Everything is checked before anything is written."""
    policy = cast("OnConflict | None", on_conflict)  # `state_import` refuses any other word
    with quiet_spark() as spark, working("Importing") as report:
        made = ops.state_import(spark, directory, checkpoint, on_conflict=policy, key_groups=key_groups, report=report)

    def lines() -> None:
        for step, rows in made.rows.items():
            say(f"{step}: {counted(rows, 'cell')} imported")
        say(f"A job on {made.checkpoint} resumes after micro-batch {made.batch}.")

    give(asdict(made), as_json, lines)
