"""`holdfast advise` and `holdfast rescale`: measure state, recommend settings, and redistribute it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast import ops
from holdfast.cli.app import app
from holdfast.cli.arguments import Checkpoint
from holdfast.cli.output import AsJson, console, give, quiet_spark, say, size_text, table, text, working
from holdfast.engine.stored.readable import counted

if TYPE_CHECKING:
    from holdfast.ops.move.rescale import Rescaled
    from holdfast.ops.upkeep.advise import Advice, StateSize

__all__ = ["advise", "rescale"]


@app.command("advise")
def advise(
    checkpoint: Checkpoint,
    interval: Annotated[float | None, typer.Option(help="How often you want results, in seconds.", min=0.001)] = None,
    recovery_target: Annotated[float, typer.Option(help="How long recovery may take, in seconds.", min=0.001)] = 60.0,
    overhead: Annotated[float, typer.Option(help="What share of the time checkpoints may take.", min=0.001, max=1)] = 0.1,
    history: Annotated[float, typer.Option(help="How far back you want to be able to go, in seconds.", min=0)] = 3600.0,
    workers: Annotated[int | None, typer.Option(help="How many Python workers there are.", min=1)] = None,
    worker_memory: Annotated[
        float, typer.Option(help="How much state a worker may keep in memory, in GB.", min=0.001)
    ] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint; recommend trigger, retention, partitions, key groups, backend and TTL."""
    from holdfast.checkpoint.files.choice import is_local

    goals = ops.Goals(interval, recovery_target, overhead, history, workers, int(worker_memory * (1 << 30)))
    if is_local(checkpoint):
        # A wrong path is reported before Spark starts.
        ops.open_checkpoint(None, checkpoint).check_batch(None)
    with quiet_spark() as spark, working("Measuring"):
        found = ops.advise(spark, checkpoint, goals)
    give(found.as_dict(), as_json, lambda: _show_advice(found))


_SIZE = ("step", "keys", "bytes per key", "versions", "size", "in a day")


def _show_advice(found: Advice) -> None:
    console.print(table("State size = keys x bytes per key x versions", _SIZE, [_size_row(size) for size in found.sizes]))
    for line in _sharing(found):
        say(line)
    if found.interval is None:
        say("No micro-batch could be timed: a copy's files do not show when they were written.")
    else:
        console.print(table("Checkpoint interval = cost / (duration x tolerance)", ("", ""), _interval_rows(found)))
    for advised in found.recommendations:
        of = f" of {advised.step}" if advised.step else ""
        change = f"{advised.now} -> {advised.recommended}" if advised.is_a_change else f"{advised.now}, unchanged"
        console.print(text(f"{advised.setting}{of}: ", "bold") + text(change))
        say(f"    {advised.why}.")


def _sharing(found: Advice) -> list[str]:
    """Which steps share an operator, and so its files."""
    groups = {tuple(sorted([step.step, *step.shares_with])) for step in found.measured.steps if step.shares_with}
    return [
        f"{', '.join(names)} share an operator: the size of its files is divided among them by what each stores."
        for names in sorted(groups)
    ]


def _size_row(size: StateSize) -> tuple[str, ...]:
    later = "?" if size.bytes_in_a_day is None else size_text(size.bytes_in_a_day)
    return size.step, f"{size.keys:,}", f"{size.bytes_per_key:.0f}", f"{size.versions:.2f}", size_text(size.bytes), later


def _interval_rows(found: Advice) -> list[tuple[str, str]]:
    interval, measured = found.interval, found.measured
    assert interval is not None
    longest = "any" if interval.longest_seconds is None else f"{interval.longest_seconds:.1f} s"
    verdict = "one checkpoint for each is affordable" if interval.interval_batches <= 1 else "checkpoints cost too much"
    return [
        (
            "cost of a checkpoint",
            f"{interval.cost_seconds:.2f} s, the shortest of {counted(measured.batches, 'micro-batch', 'micro-batches')}",
        ),
        ("duration of a micro-batch", f"{interval.duration_seconds:.2f} s"),
        ("tolerance", f"{interval.tolerance:.1f} micro-batches"),
        ("interval", f"{interval.interval_batches:.3f} micro-batches: {verdict}"),
        ("so one every", f"{interval.shortest_seconds:.1f} s or more, {longest} at most"),
        ("recovery", f"{size_text(measured.restore_bytes)} to read, {measured.restore_seconds:.2f} s"),
    ]


@app.command("rescale")
def rescale(
    path: Annotated[str, typer.Argument(metavar="CKPT", help="The checkpoint of a stopped job.")],
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="The number of state partitions.")] = None,
    key_groups: Annotated[int | None, typer.Option("--key-groups", min=1, help="The number of key groups per step.")] = None,
    as_json: AsJson = False,
) -> None:
    """Redistribute the state of a checkpoint. Refuses while a job runs on it."""
    from holdfast.checkpoint.files.choice import is_local
    from holdfast.checkpoint.layout import find_checkpoint

    if partitions is None and key_groups is None:
        raise typer.BadParameter("give --partitions, --key-groups, or both")
    if is_local(path):
        # A missing path is reported before Spark starts.
        find_checkpoint(None, path)
    with quiet_spark() as spark, working("Rescaling"):
        done = ops.rescale(spark, path, partitions=partitions, key_groups=key_groups)
    give(asdict(done), as_json, lambda: _show_rescaled(done))


def _show_rescaled(done: Rescaled) -> None:
    groups = ", ".join(f"{name} {count}" for name, count in done.key_groups.items()) or "none"
    spread = "no state" if done.partitions is None else counted(done.partitions, "partition")
    say(f"{done.checkpoint}: {spread}; key groups: {groups}. The last micro-batch is {done.batch}.")
