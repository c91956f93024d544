"""What a job checks before it starts: that the state it resumes from is complete and in the right partitions.

Spark itself finds some of this in the first micro-batch, with less clear messages, and some of it never. Only file names are
checked, and one or two small files of each partition.
"""

from __future__ import annotations

import re

from holdfast.checkpoint.files.choice import Files, join
from holdfast.checkpoint.placement import described, misplaced
from holdfast.checkpoint.query_files import OffsetsHead, in_form, log_lines, number_of
from holdfast.engine.stored.documents import read_document
from holdfast.errors import CheckpointError, CorruptState, HoldfastError

__all__ = ["check_start"]

_FOREIGN = re.compile(r"\d+(_.*)?\.(delta|snapshot)|\d+_.*\.(zip|changelog)")


def check_start(files: Files, checkpoint: str, wanted: int) -> None:
    """Raises CheckpointError after an unfinished change of partitions, and CorruptState if state that a job with at least
    so many stateful operators resumes from is missing or in the wrong partition."""
    planned, committed = (_numbers(files, join(checkpoint, log)) for log in ("offsets", "commits"))
    _check_logs(checkpoint, planned, committed)
    done = sorted(set(planned) & set(committed))
    if not done:
        return
    if planned[-1] > done[-1]:
        _check_partitions(files, checkpoint, done[-1], planned[-1])
    numbers = _numbers(files, join(checkpoint, "state"))
    if len(numbers) < wanted:
        gone = [number for number in range(wanted) if number not in numbers]
        raise _missing(checkpoint, done[-1], [join(checkpoint, "state", str(number)) for number in gone])
    operators = [join(checkpoint, "state", str(number)) for number in numbers]
    _check_versions(files, checkpoint, operators, done[-1])
    problems = [problem for operator in operators for problem in misplaced(files, operator)]
    if problems:
        raise _in_wrong_places(checkpoint, problems)


def _check_logs(checkpoint: str, planned: list[int], committed: list[int]) -> None:
    """Spark plans a micro-batch once the one before it is committed. If an entry is missing, it would go on from an earlier
    one, and what follows would be removed as if it had never been committed."""
    last_plan, last_commit = (numbers[-1] if numbers else -1 for numbers in (planned, committed))
    if last_plan - 1 <= last_commit <= last_plan:
        return
    lost = join("offsets", str(last_commit)) if last_commit > last_plan else join("commits", str(last_plan - 1))
    raise CorruptState(
        f"{join(checkpoint, lost)!r} is missing: micro-batch {max(last_plan, last_commit)} cannot have been without it.",
        todo=f"put it back from a copy, or restore a savepoint; see what is whole: holdfast checkpoint verify {checkpoint}",
    )


def _numbers(files: Files, folder: str) -> list[int]:
    return sorted(number for entry in files.entries(folder) or () if (number := number_of(entry.name)) is not None)


def _check_partitions(files: Files, checkpoint: str, committed: int, planned: int) -> None:
    """A plan with another number of partitions is an unfinished change of that number."""
    before, after = (_partitions(files, join(checkpoint, "offsets", str(number))) for number in (committed, planned))
    if before is not None and after is not None and before != after:
        raise CheckpointError(
            f"A change of {checkpoint!r} from {before} to {after} partitions was not finished.",
            todo=f"finish it: holdfast rescale {checkpoint} --partitions {after}; or undo it: --partitions {before}",
        )


def _partitions(files: Files, path: str) -> int | None:
    with in_form(path):
        return read_document(log_lines(files.read(path) or b"", path)[0], OffsetsHead).partitions


def _check_versions(files: Files, checkpoint: str, operators: list[str], batch: int) -> None:
    """Every partition of every step must have a file for the version that the last micro-batch left."""
    wanted = {f"{batch + 1}.zip", f"{batch + 1}.changelog"}
    lacking, held = [], 0
    for operator in operators:
        known = described(files, operator)
        for number in range(known.partitions if known is not None and known.is_a_step else 0):
            names = {entry.name for entry in files.entries(join(operator, str(number))) or ()}
            if any(_FOREIGN.fullmatch(name) for name in names):
                # Spark can name its files in other ways, which we do not use.
                return
            held += bool(wanted & names)
            if not wanted & names:
                lacking.append(join(operator, str(number), f"{batch + 1}.changelog"))
    if lacking:
        raise _missing(checkpoint, batch, lacking, is_false=not held)


def _missing(checkpoint: str, batch: int, paths: list[str], *, is_false: bool = False) -> HoldfastError:
    verify = f"see what is whole: holdfast checkpoint verify {checkpoint}"
    repair = f"if it was never processed, remove the commit: holdfast checkpoint repair {checkpoint}"
    return CorruptState(
        f"Micro-batch {batch} is committed, but the state after it is not in {checkpoint!r}: {paths[0]!r} is missing.",
        detail="\n".join(f"- {path}" for path in paths[1:]),
        todo=repair if is_false else verify,
    )


def _in_wrong_places(checkpoint: str, problems: list[tuple[str, str]]) -> CorruptState:
    return CorruptState(
        f"State in {checkpoint!r} is in the wrong partition, and its keys would start from nothing.",
        detail="\n".join(f"- {path}: {what}" for path, what in problems),
        todo="put the partitions back, or restore a savepoint",
    )
