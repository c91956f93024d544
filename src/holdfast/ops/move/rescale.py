"""Changes the number of partitions or key groups of a stopped job's checkpoint, in place.

Nothing is lost if it is interrupted at any point.

*Partitions.* This relies on the order in which Spark works (see `ops/move/repartition.py`): files of older micro-batches are
never altered, and the new micro-batch counts once its commit exists. If it fails, what it has written is removed again, the
plan last: while the plan exists Spark starts no query, and once it is gone nothing of the attempt is left. If the process is
killed, the plan stays; the next call finishes it, or with another number removes it and starts over.

*Key groups.* They are regrouped in a copy, which then replaces the state (`checkpoint/replacing.py`). State after earlier
micro-batches is gone then; micro-batch numbers stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import join
from holdfast.checkpoint.layout import Checkpoint, find_checkpoint, open_checkpoint
from holdfast.checkpoint.lock import holding
from holdfast.checkpoint.parts import Partition
from holdfast.checkpoint.pieces import whole_pieces
from holdfast.checkpoint.replacement import finish_replacing
from holdfast.checkpoint.replacing import replacing_state
from holdfast.errors import CheckpointError
from holdfast.ops.move.repartition import no_task_runs, repartition
from holdfast.ops.move.restore import reshape

__all__ = ["Rescaled", "rescale"]

_WAIT_SECONDS = 30.0


@dataclass(frozen=True)
class Rescaled:
    """How a checkpoint's state is distributed now."""

    checkpoint: str
    batch: int
    """The last committed micro-batch; changing the number of partitions uses one."""
    partitions: int | None
    key_groups: dict[str, int]
    """By step."""


def rescale(
    spark: SparkSession, checkpoint: str, *, partitions: int | None = None, key_groups: int | None = None
) -> Rescaled:
    """Changes the number of partitions or key groups of the state.

    Change key groups in the code too (`key_groups=`); the number of partitions is stored only in the checkpoint. Raises
    CheckpointLocked while a job runs on the checkpoint, and CheckpointError, with a way out, if its last micro-batch is
    planned and not committed.
    """
    place = find_checkpoint(spark, checkpoint)
    with holding(spark, checkpoint, "holdfast rescale"):
        finish_replacing(place.files, place.path)
        found = open_checkpoint(spark, checkpoint)
        unfinished = _unfinished(found)
        if partitions is not None:
            _check_plan(found, unfinished)
            _check_whole(found)
            _repartition(spark, found, partitions, unfinished)
        elif unfinished is not None:
            raise _must_finish(found, unfinished)
        if key_groups is not None:
            _regroup(spark, open_checkpoint(spark, checkpoint), key_groups)
        return _rescaled(open_checkpoint(spark, checkpoint))


def _unfinished(checkpoint: Checkpoint) -> int | None:
    """The number of partitions that an earlier, killed attempt was changing to."""
    committed = checkpoint.committed()
    last = checkpoint.planned()[-1:]
    if not committed or last == committed[-1:]:
        return None
    return checkpoint.offsets(last[0]).partitions if checkpoint.changes_partitions(last[0]) else None


def _check_plan(checkpoint: Checkpoint, unfinished: int | None) -> None:
    committed, planned = checkpoint.committed(), checkpoint.planned()
    if not committed:
        raise CheckpointError(
            f"{checkpoint.path!r} has no committed micro-batch.", todo="let the job commit a micro-batch first"
        )
    if planned[-1] != committed[-1] and unfinished is None:
        raise CheckpointError(
            f"Micro-batch {planned[-1]} of {checkpoint.path!r} is planned and not committed.",
            detail="It may have reached a sink. Changing partitions would take its number, and its rows would come twice.",
            todo="run the job with trigger='available now', which ends after a committed micro-batch; or take a savepoint "
            "and restore it, which keeps the plan: holdfast savepoint restore ... --partitions ...",
        )


def _check_whole(checkpoint: Checkpoint) -> None:
    """Checks what Spark will read, so that a damaged file is named before anything is written."""
    whole_pieces(checkpoint, checkpoint.committed()[-1])


def _must_finish(checkpoint: Checkpoint, partitions: int) -> CheckpointError:
    return CheckpointError(
        f"An earlier change of {checkpoint.path!r} to {partitions} partitions was not finished.",
        todo=f"finish it first: holdfast rescale {checkpoint.path} --partitions {partitions}",
    )


def _repartition(spark: SparkSession, checkpoint: Checkpoint, partitions: int, unfinished: int | None) -> None:
    if unfinished is not None and unfinished != partitions:
        _undo(checkpoint)
    batch = checkpoint.committed()[-1]
    counts = {len(checkpoint.partitions_at(operator, batch)) for operator in checkpoint.operators()}
    if not counts:
        raise CheckpointError(f"There is no state in {checkpoint.path!r}: its query has no step that keeps any.")
    if counts == {partitions}:
        return
    try:
        repartition(spark, checkpoint.path, partitions)
    except CheckpointError as error:
        if no_task_runs(spark, _WAIT_SECONDS):
            _undo(open_checkpoint(spark, checkpoint.path))
        else:
            error.todo = f"fix the cause and finish it: holdfast rescale {checkpoint.path} --partitions {partitions}"
        raise


def _undo(checkpoint: Checkpoint) -> None:
    """Removes what an attempt has written, including half-written files, its plan last."""
    batch = checkpoint.committed()[-1] + 1
    if batch in checkpoint.planned():
        for operator in checkpoint.operators():
            for store in operator.partitions:
                _undo_store(checkpoint, store, batch + 1)
            metadata = join(operator.path, "_metadata", "v2")
            _remove_begun(checkpoint, metadata, batch)
            checkpoint.files.remove(join(metadata, str(batch)))
    for log in ("commits", "offsets"):
        _remove_begun(checkpoint, join(checkpoint.path, log), batch)
    checkpoint.files.remove(join(checkpoint.path, "offsets", str(batch)))


def _undo_store(checkpoint: Checkpoint, store: Partition, version: int) -> None:
    kept = [snapshot for number, snapshot in store.snapshots.items() if number != version]
    if not kept and store.changelogs.keys() <= {version}:
        checkpoint.files.remove(store.path)
        return
    named = {name for snapshot in kept for name in checkpoint.table_names(snapshot)}
    for name, table in store.tables.items():
        if name not in named:
            checkpoint.files.remove(table.path)
    for kind in (store.snapshots, store.changelogs):
        if version in kind:
            checkpoint.files.remove(kind[version].path)
    _remove_begun(checkpoint, store.path, version)


def _remove_begun(checkpoint: Checkpoint, folder: str, number: int) -> None:
    """Removes half-written files of a number, by their temporary names."""
    for entry in checkpoint.files.entries(folder) or ():
        if entry.name.startswith(f".{number}."):
            checkpoint.files.remove(entry.path)


def _regroup(spark: SparkSession, checkpoint: Checkpoint, key_groups: int) -> None:
    with replacing_state(checkpoint) as (copy, batch):
        reshape(spark, copy.path, batch, key_groups=key_groups)


def _rescaled(checkpoint: Checkpoint) -> Rescaled:
    batch = checkpoint.committed()[-1]
    counts = [len(checkpoint.partitions_at(operator, batch)) for operator in checkpoint.operators()]
    groups = {name: int(step["key_groups"]) for name, step in checkpoint.manifest.get("steps", {}).items()}
    return Rescaled(checkpoint.path, batch, max(counts, default=None), groups)
