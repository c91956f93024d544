"""A new checkpoint from a savepoint, optionally with other partitions, key groups or backend.

The checkpoint is built under another name beside its path and moved there at the end. Its state is that after the
savepoint's micro-batch, and the next one has the number that it would have had: changing partitions uses up none. So a
planned micro-batch keeps its plan, and sinks that go by its number see no difference.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from pyspark.sql import SparkSession

from holdfast.checkpoint.destination import building, check_apart, check_free
from holdfast.checkpoint.files.choice import Files, copy_file, files_of, join
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.schema_paths import place_schemas
from holdfast.engine.backends.choice import BackendWord, own_backend
from holdfast.engine.stored.documents import Malformed, read_document
from holdfast.engine.stored.manifest import LOG_BACKENDS
from holdfast.errors import CheckpointError, CorruptState, HoldfastError
from holdfast.ops.move.regroup import regroup
from holdfast.ops.move.renumber import renumber
from holdfast.ops.move.repartition import repartition
from holdfast.ops.move.savepoint import savepoint_verify
from holdfast.ops.move.savepoint_file import Savepoint, savepoint_identity

__all__ = ["Restored", "reshape", "restored_from", "savepoint_restore"]

Report = Callable[[int, int], None]
_RESTORED_FILE = "holdfast/restored.json"
"""Says which savepoint a checkpoint was made from."""


class _RestoredNotice(msgspec.Struct, frozen=True):
    savepoint: str
    """Its identity: a savepoint can be moved."""
    path: str = ""
    batch: int = 0


@dataclass(frozen=True)
class Restored:
    """A checkpoint made from a savepoint."""

    checkpoint: str
    query_id: str
    batch: int
    """The last micro-batch; the job resumes with the next."""
    planned_batch: int | None
    partitions: int | None
    steps: dict[str, dict[str, object]]


def savepoint_restore(
    spark: SparkSession | None,
    savepoint: str,
    checkpoint: str,
    *,
    partitions: int | None = None,
    key_groups: int | None = None,
    backend: BackendWord | None = None,
    new_query_id: bool = False,
    report: Report = lambda done, total: None,
) -> Restored:
    """Makes a checkpoint from a savepoint, after checking all its files.

    `partitions`, `key_groups` and remote paths need a session. `backend`, "heap" or "disk" (or Flink's word), is what the
    manifest names from then on; the job's code decides what it runs on. `new_query_id` is for a second job beside the first;
    without it the query keeps its id, by which sinks recognise what they already have. `checkpoint` gets a whole checkpoint
    or, if anything fails, nothing.
    """
    if spark is None and (partitions is not None or key_groups is not None):
        raise HoldfastError("Changing partitions or key groups needs a Spark session.")
    target = files_of(spark, checkpoint)
    check_apart(savepoint, checkpoint)
    check_free(target, checkpoint)
    found, problems = savepoint_verify(spark, savepoint, report=report)
    if problems:
        raise CorruptState(
            f"The savepoint {found.path!r} is damaged: {problems[0]}",
            detail="\n".join(f"- {problem}" for problem in problems[1:]),
            todo="use another savepoint, or a copy of this one",
        )
    named = None if backend is None else own_backend(backend) or backend
    _check_backend(found, named)
    with building(target, checkpoint) as work:
        _copy(files_of(spark, savepoint), found, target, work)
        made = Checkpoint(target, work)
        place_schemas(made, work)
        if new_query_id:
            target.write(join(work, "metadata"), json.dumps({"id": str(uuid.uuid4())}, separators=(",", ":")).encode())
        if named is not None:
            _name_backend(made, named)
        if spark is not None:
            reshape(spark, work, found.batch, partitions=partitions, key_groups=key_groups)
        _add_plan(files_of(spark, savepoint), found, Checkpoint(target, work))
        place_schemas(made, checkpoint.rstrip("/"))
        notice = _RestoredNotice(savepoint_identity(files_of(spark, savepoint), found.path), found.path, found.batch)
        target.write(join(work, _RESTORED_FILE), msgspec.json.encode(notice))
    return _restored(open_checkpoint(spark, checkpoint), found)


def restored_from(files: Files, checkpoint: str) -> str | None:
    """The identity of the savepoint that a checkpoint was made from; None if it was not, or that is not known."""
    stored = files.read(join(checkpoint, _RESTORED_FILE))
    try:
        return None if stored is None else read_document(stored, _RestoredNotice).savepoint
    except Malformed:
        return None


def _check_backend(savepoint: Savepoint, backend: str | None) -> None:
    """Backends that share a log format can take over from each other; key groups adopt the new one by themselves."""
    if backend is None:
        return
    known = " and ".join(sorted(LOG_BACKENDS))
    if backend not in LOG_BACKENDS:
        raise CheckpointError(f"State cannot be restored for the backend {backend!r}.", todo=f"use {known}")
    for name, step in savepoint.steps.items():
        if step["backend"] not in LOG_BACKENDS:
            raise CheckpointError(
                f"The step {name!r} has its state in the backend {step['backend']!r}, which has its own format.",
                todo="restore it without changing the backend",
            )


def _copy(source: Files, savepoint: Savepoint, target: Files, work: str) -> None:
    """Copies everything but the plan of the next micro-batch, which a change of partitions would disturb."""
    for file in savepoint.files:
        if file.path != _plan_of(savepoint):
            copy_file(source, join(savepoint.path, file.path), target, join(work, file.path))


def _plan_of(savepoint: Savepoint) -> str | None:
    return None if savepoint.planned_batch is None else f"offsets/{savepoint.planned_batch}"


def _add_plan(source: Files, savepoint: Savepoint, made: Checkpoint) -> None:
    plan = _plan_of(savepoint)
    if plan is None or savepoint.planned_batch is None:
        return
    copy_file(source, join(savepoint.path, plan), made.files, join(made.path, plan))
    counts = [len(made.partitions_at(operator, savepoint.batch)) for operator in made.operators()]
    if counts:
        made.write_partition_count(savepoint.planned_batch, max(counts))


def _name_backend(made: Checkpoint, backend: str) -> None:
    steps = {name: {**step, "backend": backend} for name, step in made.manifest.get("steps", {}).items()}
    content = {**made.manifest, "steps": steps}
    if made.manifest:
        path = join(made.path, "holdfast", "manifest.json")
        made.files.write(path, json.dumps(content, indent=2, sort_keys=True).encode())


def reshape(
    spark: SparkSession, path: str, batch: int, *, partitions: int | None = None, key_groups: int | None = None
) -> None:
    """Changes key groups and partitions of a checkpoint that is not in use; its last micro-batch stays `batch`."""
    if key_groups is not None:
        regroup(spark, path, key_groups)
    made = open_checkpoint(spark, path)
    last = made.committed()[-1]
    counts = {len(made.partitions_at(operator, last)) for operator in made.operators()}
    if partitions is not None and counts and counts != {partitions}:
        repartition(spark, path, partitions)
        made = open_checkpoint(spark, path)
    if made.committed()[-1] != batch:
        renumber(made, batch)


def _restored(made: Checkpoint, savepoint: Savepoint) -> Restored:
    counts = [len(made.partitions_at(operator, savepoint.batch)) for operator in made.operators()]
    steps = made.manifest.get("steps", {})
    return Restored(
        checkpoint=made.path,
        query_id=made.query_id,
        batch=savepoint.batch,
        planned_batch=savepoint.planned_batch,
        partitions=max(counts, default=None),
        steps={name: {"backend": step["backend"], "key_groups": step["key_groups"]} for name, step in steps.items()},
    )
