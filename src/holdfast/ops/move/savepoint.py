"""Savepoints: copies of a checkpoint at a committed micro-batch, to keep, move or start from.

A savepoint holds everything a job needs to resume and refers to nothing outside, so it can be moved or copied by any means.
A running job is not disturbed: Spark never alters a checkpoint file, it only adds new ones and removes old ones. If one is
removed before it has been copied, the copy starts again at the micro-batch that is last by then.

If the next micro-batch has been planned, its plan is part of the savepoint, whether it has run or not: a plan is never
altered. So that micro-batch, which may have reached a sink, comes again with the same rows and the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

import pyspark
from pyspark.sql import SparkSession

from holdfast.checkpoint.damage import damage
from holdfast.checkpoint.destination import LINKED, UNFINISHED, building, check_apart, check_links
from holdfast.checkpoint.files.choice import FileInfo, Files, copy_file, files_of, join
from holdfast.checkpoint.layout import Checkpoint, open_checkpoint
from holdfast.checkpoint.pieces import PieceFinder, whole_pieces
from holdfast.checkpoint.placement import misplaced
from holdfast.checkpoint.replacement import MANIFEST_FILE
from holdfast.errors import CheckpointError, CorruptState
from holdfast.ops.move.savepoint_file import (
    SAVEPOINT_FILE,
    Savepoint,
    SavepointFile,
    holdfast_version,
    read_savepoint,
    write_savepoint,
)
from holdfast.ops.upkeep.verify import Problem

__all__ = ["savepoint_create", "savepoint_ls", "savepoint_verify"]

Report = Callable[[int, int], None]
_TRIES = 5


def savepoint_create(
    spark: SparkSession | None,
    checkpoint: str,
    destination: str,
    *,
    batch: int | None = None,
    report: Report = lambda done, total: None,
) -> Savepoint:
    """Copies a checkpoint as of a committed micro-batch: the given one, or the last.

    `destination` gets a whole savepoint or, if anything fails, nothing. Only remote paths need a session. Raises
    CorruptState if what would be copied is damaged.
    """
    check_apart(checkpoint, destination)
    for attempt in range(_TRIES):
        source = open_checkpoint(spark, checkpoint)
        check_links(source.files, source.path)
        try:
            return _created(spark, source, destination, batch, report)
        except _Vanished as vanished:
            last = attempt == _TRIES - 1
            if batch is not None or last:
                raise _gone(source, batch, vanished) from None
    raise AssertionError("the last attempt returns or raises")


class _Vanished(Exception):
    """A file that a job removed before it was copied."""


def _gone(source: Checkpoint, batch: int | None, vanished: _Vanished) -> CheckpointError:
    which = "the last micro-batch" if batch is None else f"micro-batch {batch}"
    return CheckpointError(
        f"The job removed what is needed of {which} of {source.path!r} while it was being copied.",
        detail=f"It is {str(vanished)!r}.",
        todo="leave out --batch, or keep more micro-batches: hf.Job(retained_batches=...)",
    )


def _created(
    spark: SparkSession | None, source: Checkpoint, destination: str, batch: int | None, report: Report
) -> Savepoint:
    number = source.check_batch(batch)
    # Before the pieces: a source records a plan's input before the plan is written.
    planned = _planned(source, number)
    try:
        pieces = whole_pieces(source, number, planned=planned is not None)
    except CorruptState:
        if number in source.retained():
            raise
        raise _Vanished(f"a file of micro-batch {number}") from None
    _check_places(source)
    if planned is not None:
        pieces.append(planned)
    target = files_of(spark, destination)
    with building(target, destination) as work:
        copied = []
        for done, piece in enumerate(pieces):
            report(done, len(pieces))
            copied.append(_copied(source, piece, target, work))
        savepoint = _described(source, number, planned is not None, copied)
        write_savepoint(target, work, savepoint)
    return replace(savepoint, path=destination.rstrip("/"))


def _check_places(source: Checkpoint) -> None:
    problems = [problem for operator in source.operators() for problem in misplaced(source.files, operator.path)]
    if problems:
        raise CorruptState(
            f"State in {source.path!r} is in the wrong partition.",
            detail="\n".join(f"- {path}: {what}" for path, what in problems),
            todo="put the partitions back, or restore a savepoint",
        )


def _planned(source: Checkpoint, batch: int) -> FileInfo | None:
    """The plan of the next micro-batch."""
    name = f"offsets/{batch + 1}"
    info = source.files.info(join(source.path, name))
    if info is None or source.changes_partitions(batch + 1):
        return None
    return replace(info, name=name)


def _copied(source: Checkpoint, piece: FileInfo, target: Files, work: str) -> SavepointFile:
    what = _damage(source.files, piece)
    if what is not None:
        raise CorruptState(
            f"{piece.path!r} is damaged: {what}.", todo=f"see what is whole: holdfast checkpoint verify {source.path}"
        )
    place = join(work, piece.name)
    try:
        copy_file(source.files, piece.path, target, place)
    except FileNotFoundError:
        raise _Vanished(piece.path) from None
    return SavepointFile(piece.name, piece.size, target.sha256(place))


def _damage(files: Files, piece: FileInfo) -> str | None:
    if piece.name.endswith(".sst") and files.side_checksums(piece.path) is None:
        # Large, and RocksDB checks its own checksums when it reads.
        return None
    content = files.read(piece.path)
    if content is None:
        raise _Vanished(piece.path)
    return damage(files, piece, content)


def _described(source: Checkpoint, batch: int, with_plan: bool, copied: list[SavepointFile]) -> Savepoint:
    steps = source.manifest.get("steps", {})
    counts = [len(source.partitions_at(operator, batch)) for operator in source.operators()]
    return Savepoint(
        path="",
        job=source.manifest.get("job"),
        query_id=source.query_id,
        batch=batch,
        planned_batch=batch + 1 if with_plan else None,
        watermark_millis=source.next_watermark_millis(batch),
        partitions=max(counts, default=None),
        steps={name: {"backend": step["backend"], "key_groups": step["key_groups"]} for name, step in steps.items()},
        checkpoint=source.path,
        created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        spark_version=pyspark.__version__,
        holdfast_version=holdfast_version(),
        files=copied,
    )


def savepoint_ls(spark: SparkSession | None, path: str) -> tuple[list[Savepoint], list[Problem]]:
    """The savepoint at a path, or those in a directory, oldest first; and entries that cannot be used as one."""
    files = files_of(spark, path)
    path = path.rstrip("/")
    if files.info(join(path, SAVEPOINT_FILE)) is not None:
        return [read_savepoint(files, path)], []
    entries = files.entries(path)
    if entries is None:
        raise CheckpointError(f"There is no directory {path!r}.", todo="give a savepoint, or a directory of savepoints")
    found, unusable = [], []
    for entry in entries:
        if not entry.is_directory:
            continue
        if UNFINISHED in entry.name:
            unusable.append(Problem(entry.path, "it is unfinished: it is still being written, or its writer was killed"))
        elif files.info(join(entry.path, SAVEPOINT_FILE)) is not None:
            try:
                found.append(read_savepoint(files, entry.path))
            except (CheckpointError, CorruptState) as error:
                unusable.append(Problem(entry.path, error.what.rstrip(".")))
    return sorted(found, key=lambda savepoint: (savepoint.created_at, savepoint.path)), unusable


def savepoint_verify(
    spark: SparkSession | None, path: str, *, report: Report = lambda done, total: None
) -> tuple[Savepoint, list[Problem]]:
    """The savepoint at a path, and each of its files that is damaged, missing or extra.

    Also files that its steps, partitions and sources require, but that were never part of it.
    """
    files = files_of(spark, path)
    savepoint = read_savepoint(files, path)
    problems = list(_problems(files, savepoint, report))
    return savepoint, problems or list(_lacking(files, savepoint))


def _problems(files: Files, savepoint: Savepoint, report: Report) -> Iterator[Problem]:
    links = files.links(savepoint.path)
    yield from (Problem(link, LINKED) for link in links)
    if links:
        return
    found = {file.name: file for file in files.walk(savepoint.path)}
    for done, expected in enumerate(savepoint.files):
        report(done, len(savepoint.files))
        path = join(savepoint.path, expected.path)
        here = found.pop(expected.path, None)
        if here is None:
            yield Problem(path, "it is missing")
        elif here.size != expected.bytes:
            yield Problem(path, f"it has {here.size} bytes, not {expected.bytes}")
        elif files.sha256(path) != expected.sha256:
            yield Problem(path, "its bytes do not match its checksum")
    found.pop(SAVEPOINT_FILE, None)
    for name in sorted(found):
        yield Problem(join(savepoint.path, name), "it does not belong to the savepoint")


def _lacking(files: Files, savepoint: Savepoint) -> Iterator[Problem]:
    """What a job that resumes from an unaltered savepoint would not find."""
    copy = Checkpoint(files, savepoint.path)
    if savepoint.steps and copy.manifest.get("steps", {}).keys() != savepoint.steps.keys():
        yield Problem(join(savepoint.path, MANIFEST_FILE), "it is not the manifest of the savepoint's steps")
    try:
        missing = PieceFinder(copy).missing(savepoint.batch, planned=savepoint.planned_batch is not None)
    except CorruptState as error:
        yield Problem(savepoint.path, error.what.rstrip("."))
        return
    for path in missing:
        yield Problem(path, "it is missing, and was not there when the savepoint was taken")
    for operator in copy.operators():
        for path, what in misplaced(files, operator.path):
            yield Problem(path, what)
