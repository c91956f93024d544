"""Is a checkpoint whole? Every file is checked, then every blob; what is damaged is named.

There are two levels. Files: their checksums and format, that none is missing in between, and that their sizes are those
recorded elsewhere. Blobs: the log of each key group is read from end to end; its tokens prove that every delta
is whole, unaltered and in order, and the key group must be where Spark's hash puts it, once. Blobs are read for the last
micro-batch whose files are whole; or for all retained ones, and then every key must also be in the right key group.

A micro-batch that is planned and not committed is normal: a job that was stopped or killed leaves it, and the next start
processes it. A commit that is empty or cut short is damage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.checkpoint.damage import damage
from holdfast.checkpoint.destination import LINKED
from holdfast.checkpoint.false_commits import false_commits, why_false
from holdfast.checkpoint.files.choice import files_of, join, normalised
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.pieces import PieceFinder
from holdfast.checkpoint.placement import misplaced
from holdfast.checkpoint.query_files import schema_name
from holdfast.checkpoint.replacement import MANIFEST_FILE, NEW_STATE, OLD_STATE, interrupted, left_over
from holdfast.checkpoint.turns import TURN_FILE
from holdfast.errors import CheckpointError, CorruptState
from holdfast.ops.upkeep.blob_check import BlobCheck, check_blobs, step_problems
from holdfast.ops.upkeep.key_check import misplaced_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Problem", "Verification", "checkpoint_to_verify", "checkpoint_verify"]


@dataclass(frozen=True)
class Problem:
    """Something damaged or missing."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}."


@dataclass
class Verification:
    """The result of verifying a checkpoint."""

    path: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is unusual but not damage."""
    last_whole_batch: int | None = None
    """The last committed micro-batch that is whole."""
    whole_batches: list[int] = field(default_factory=list)
    """Micro-batches whose files are whole, and the blobs too if they were read."""
    files: int = 0
    file_bytes: int = 0
    key_groups: int = 0
    """In the micro-batches that were read."""
    blobs: int = 0
    blob_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.problems

    def add(self, path: str, what: str) -> None:
        if all(problem.path != path for problem in self.problems):
            self.problems.append(Problem(path, what))


Report = Callable[[int, int], None]


def checkpoint_verify(
    spark: SparkSession | None,
    path: str,
    *,
    deep: bool = False,
    files_only: bool = False,
    report: Report = lambda done, total: None,
) -> Verification:
    """Checks every file of a checkpoint, and unless `files_only` the blobs of the last whole micro-batch.

    `deep` checks the blobs of every retained one. Raises CheckpointError if there is no checkpoint, or one of an unknown
    version; and without a session NeedsSpark, if only Spark can read the blobs.
    """
    checkpoint = checkpoint_to_verify(spark, path)
    found = Verification(checkpoint.path)
    _check_operations(checkpoint, found)
    _check_files(checkpoint, found, report)
    # What a running job commits after this has files that we have not seen.
    committed = checkpoint.committed()
    finder = _finder(checkpoint, found)
    if finder is None:
        return found
    _check_logs(checkpoint, finder, found)
    _check_schemas(checkpoint, finder, found)
    _check_manifest(checkpoint, finder, found)
    _check_partitions(checkpoint, finder, found)
    false = _check_commits(checkpoint, found)
    committed = [number for number in committed if number not in false]
    candidates = list(_whole_batches(checkpoint, finder, committed, found))
    if not files_only:
        candidates = _with_whole_blobs(spark, checkpoint, candidates, deep, found)
    found.whole_batches = sorted(candidates)
    found.last_whole_batch = max(candidates, default=None)
    return found


def checkpoint_to_verify(spark: SparkSession | None, path: str) -> Checkpoint:
    """Like `open_checkpoint`, but leaves damage to the report."""
    checkpoint = Checkpoint(files_of(spark, path), path.rstrip("/"))
    names = [entry.name for entry in checkpoint.files.entries(checkpoint.path) or ()]
    if checkpoint.files.info(checkpoint.path) is None:
        raise CheckpointError(f"There is nothing at {path!r}.", todo="give the job's checkpoint directory")
    if not {"metadata", "offsets", "commits"} & set(names):
        raise CheckpointError(
            f"{path!r} is not a checkpoint of a streaming query: it has no 'metadata' and 'offsets'.",
            todo="give the job's checkpoint directory",
        )
    with contextlib.suppress(CorruptState):
        _ = checkpoint.manifest
    return checkpoint


def _check_operations(checkpoint: Checkpoint, found: Verification) -> None:
    """Notes what a killed operation on the checkpoint has left."""
    files, path = checkpoint.files, checkpoint.path
    unfinished, left = interrupted(files, path), left_over(files, path)
    if unfinished is not None:
        found.add(join(path, OLD_STATE), f"{unfinished}; finish or undo it: holdfast checkpoint repair {path}")
    elif left is not None:
        found.notes.append(
            f"{left}, or is still running: holdfast checkpoint repair {path} removes it if nobody holds the lock."
        )


def _check_files(checkpoint: Checkpoint, found: Verification, report: Report) -> None:
    files = [file for file in checkpoint.files.walk(checkpoint.path) if _counts(file.name)]
    for done, file in enumerate(files):
        report(done, len(files))
        content = checkpoint.files.read(file.path)
        if content is None:
            # A running job has removed it.
            continue
        found.files += 1
        found.file_bytes += len(content)
        what = damage(checkpoint.files, file, content)
        if what is not None:
            found.add(file.path, what)
    try:
        _ = checkpoint.manifest
    except CorruptState as error:
        found.add(join(checkpoint.path, MANIFEST_FILE), error.what.partition(" is damaged: ")[2].rstrip("."))
    for link in checkpoint.files.links(checkpoint.path):
        found.add(link, LINKED)
    for name in ("metadata", "offsets", "commits"):
        if checkpoint.files.info(join(checkpoint.path, name)) is None:
            found.add(join(checkpoint.path, name), "it is missing")


def _counts(name: str) -> bool:
    """Whether a file is checked: not half-written files, the lock and its turn, nor an operation's working files."""
    others = ("holdfast/lock.json", TURN_FILE, OLD_STATE, NEW_STATE)
    return not name.rpartition("/")[2].startswith(".") and not name.startswith(others)


def _finder(checkpoint: Checkpoint, found: Verification) -> PieceFinder | None:
    try:
        return PieceFinder(checkpoint)
    except CorruptState as error:
        if found.is_whole:
            found.add(join(checkpoint.path, "state"), error.what)
    return None


def _check_logs(checkpoint: Checkpoint, finder: PieceFinder, found: Verification) -> None:
    # In this order: a running job plans before it commits, and commits before it plans the next.
    before, planned, committed = checkpoint.numbers("commits"), checkpoint.planned(), checkpoint.numbers("commits")
    for log, numbers in (("offsets", planned), ("commits", committed)):
        for number in _gaps(numbers):
            found.add(join(checkpoint.path, log, str(number)), "it is missing between others")
    for number in before:
        if number not in planned and number >= (planned or before)[0]:
            found.add(join(checkpoint.path, "offsets", str(number)), "it is missing, but the micro-batch is committed")
    for number in planned[:-1]:
        if number not in committed:
            found.add(join(checkpoint.path, "commits", str(number)), "it is missing, but the next micro-batch is planned")
    if not committed:
        found.notes.append("nothing has been committed yet.")
    open_batches = [number for number in planned if not committed or number > committed[-1]]
    for number in open_batches:
        if _is_rescaling(checkpoint, number):
            found.notes.append(
                f"micro-batch {number} is an unfinished change of the number of partitions: run holdfast rescale again."
            )
        else:
            found.notes.append(f"micro-batch {number} is planned and not committed: the next start of the job processes it.")
        with contextlib.suppress(CorruptState):
            for path in finder.missing_sources(number):
                found.add(path, f"it is missing, and the plan of micro-batch {number} needs it")


def _check_schemas(checkpoint: Checkpoint, finder: PieceFinder, found: Verification) -> None:
    """Operators' metadata names their schema files by absolute paths."""
    moved = False
    for operator in finder.operators:
        folder = join(operator.path, "_stateSchema")
        for content in checkpoint.operator_metadata(operator.number).values():
            for path in (path for store in content["stateStoreInfo"] for path in store.get("stateSchemaFilePaths", ())):
                try:
                    below = schema_name(operator.path, path)
                except CorruptState as error:
                    found.add(join(operator.path, "_metadata"), error.what.rstrip("."))
                    continue
                moved |= normalised(path) != normalised(join(folder, below))
                if checkpoint.files.info(join(folder, below)) is None:
                    found.add(join(folder, below), "it is missing, and the state cannot be read without it")
    if moved:
        found.notes.append("it was copied or moved here by hand: use a savepoint instead, which can be moved and restored.")


def _check_manifest(checkpoint: Checkpoint, finder: PieceFinder, found: Verification) -> None:
    there = checkpoint.files.info(join(checkpoint.path, MANIFEST_FILE)) is not None
    if not there and any(operator.is_a_step for operator in finder.operators):
        found.notes.append("it has steps but no manifest: its query was not started by hf.Job, or the manifest is gone.")


def _check_partitions(checkpoint: Checkpoint, finder: PieceFinder, found: Verification) -> None:
    """Checks that each partition of a step has its own key groups."""
    for operator in finder.operators:
        for path, what in misplaced(checkpoint.files, operator.path):
            found.add(path, what)


def _check_commits(checkpoint: Checkpoint, found: Verification) -> list[int]:
    """The commits of micro-batches that were never processed."""
    false = false_commits(checkpoint)
    for number in false:
        found.add(join(checkpoint.path, "commits", str(number)), f"it is false: {why_false(number)}")
    if false:
        found.notes.append(f"remove false commits: holdfast checkpoint repair {checkpoint.path}")
    return false


def _gaps(numbers: list[int]) -> list[int]:
    """For each gap in the numbers, the first and last missing one."""
    pairs = [(a + 1, b - 1) for a, b in pairwise(numbers) if b - a > 1]
    return sorted({number for pair in pairs for number in pair})


def _is_rescaling(checkpoint: Checkpoint, batch: int) -> bool:
    with contextlib.suppress(CorruptState):
        return checkpoint.changes_partitions(batch)
    return False


def _whole_batches(checkpoint: Checkpoint, finder: PieceFinder, committed: list[int], found: Verification) -> Iterator[int]:
    """The committed micro-batches whose files are all there and whole, last one first."""
    bad = {problem.path for problem in found.problems}
    oldest = _oldest_readable(checkpoint, finder, committed)
    for batch in reversed(committed):
        try:
            pieces = finder.pieces(batch)
        except CorruptState:
            # A damaged snapshot or log, which has been reported.
            continue
        sizes = {file.path: file.size for file in pieces.files}
        wrong = {path for path, size in pieces.sizes.items() if sizes.get(path, size) != size}
        for path in sorted(wrong):
            found.add(path, f"it has {sizes[path]} bytes where its snapshot says {pieces.sizes[path]}")
        gone = [path for path in pieces.missing if _is_needed(checkpoint, path)]
        if oldest is None or batch >= oldest:
            for path in gone:
                found.add(path, f"it is missing, and {_use(checkpoint, path)} micro-batch {batch} needs it")
        # Spark has removed what the oldest one started from, but its state is still whole.
        if not gone and not wrong and not _touches(bad, [*sizes, *pieces.missing]):
            yield batch


def _touches(bad: set[str], paths: list[str]) -> bool:
    """Whether one of these files is bad, or is in a bad directory."""
    return any(path in bad or path.rpartition("/")[0] in bad for path in paths)


def _is_needed(checkpoint: Checkpoint, path: str) -> bool:
    """Whether it belongs to state or sources. Gaps in the logs have been reported."""
    return path.startswith((join(checkpoint.path, "state"), join(checkpoint.path, "sources")))


def _use(checkpoint: Checkpoint, path: str) -> str:
    return "the state after" if path.startswith(join(checkpoint.path, "state")) else "resuming after"


def _oldest_readable(checkpoint: Checkpoint, finder: PieceFinder, committed: list[int]) -> int | None:
    """The first committed micro-batch with no state missing. What is missing before it was removed on purpose."""
    for batch in committed:
        with contextlib.suppress(CorruptState):
            missing = finder.pieces(batch).missing
            if not any(_is_needed(checkpoint, path) for path in missing):
                return batch
    return None


def _with_whole_blobs(
    spark: SparkSession | None, checkpoint: Checkpoint, batches: Iterable[int], deep: bool, found: Verification
) -> list[int]:
    """Reads the blobs of the last whole micro-batch, or of all; returns those that are whole or were not read."""
    kept = []
    waiting = list(batches)
    while waiting:
        batch = waiting.pop(0)
        steps = [operator for operator in checkpoint.operators() if operator.is_a_step]
        checks = [check_blobs(spark, checkpoint, operator, batch) for operator in steps]
        _count(found, checks)
        problems = [problem for check in checks for problem in check.problems]
        problems += step_problems(checkpoint, {step.path: check.steps for step, check in zip(steps, checks, strict=True)})
        if deep and not problems:
            problems += misplaced_keys(spark, checkpoint, batch)
        if problems and batch not in checkpoint.retained():
            found.notes.append(f"the state after micro-batch {batch} was removed while it was read: the job is running.")
            continue
        for path, what in problems:
            found.add(path, what)
        if not problems:
            kept.append(batch)
            if not deep:
                return kept + waiting
    return kept


def _count(found: Verification, checks: list[BlobCheck]) -> None:
    found.key_groups += sum(check.key_groups for check in checks)
    found.blobs += sum(check.blobs for check in checks)
    found.blob_bytes += sum(check.blob_bytes for check in checks)
