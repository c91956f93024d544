"""`holdfast checkpoint show`: a checkpoint as a whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast.cli.arguments import Batch, Checkpoint
from holdfast.cli.groups import checkpoint as group
from holdfast.cli.output import AsJson, console, give, size_text, spark_for, table, working

if TYPE_CHECKING:
    from holdfast.ops.inspect.overview import OperatorOverview, Overview

__all__ = ["show"]

_STATE_TITLE = "State, by version (micro-batch N leaves version N + 1)"
_STATE = ("operator", "partitions", "snapshots of", "size", "changelogs of", "size")


@group.command()
def show(checkpoint: Checkpoint, batch: Batch = None, as_json: AsJson = False) -> None:
    """Show offsets by source, commits, watermark, versions and sizes of the state, and who is using it."""
    from holdfast.ops.inspect.overview import overview

    with spark_for(checkpoint) as spark, working("Reading the checkpoint"):
        found = overview(spark, checkpoint, batch=batch)
    give(found.as_dict(), as_json, lambda: _show(found))


def _show(found: Overview) -> None:
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
    facts = [("job", found.job or "not known: it was not run by a Job"), ("query", found.query_id), ("used by", used)]
    if found.batch is None:
        return [*facts, ("micro-batches", "none has been planned")]
    facts += [
        ("micro-batch", f"{found.batch} ({'committed' if found.is_committed else 'not committed'}), of {found.batch_time}"),
        ("watermark", f"{found.watermark or 'none yet'}, then {found.next_watermark or 'none yet'}"),
        ("partitions", str(found.partitions or "?")),
        ("committed", spans(found.committed)),
        ("state can be read of", spans(found.retained)),
    ]
    if found.planned:
        facts.append(("begun, not committed", f"{spans(found.planned)}; the next start does it again"))
    return facts


def _operator(operator: OperatorOverview) -> tuple[str, ...]:
    from holdfast.checkpoint.layout import spans

    return (
        f"{operator.number}: {'a step' if operator.is_a_step else operator.name}",
        str(operator.partitions),
        spans(operator.snapshots),
        size_text(operator.snapshot_bytes),
        spans(operator.changelogs),
        size_text(operator.changelog_bytes),
    )


def _text(offset: Any) -> str:
    return "-" if offset is None else offset if isinstance(offset, str) else json.dumps(offset)
