"""Commits of micro-batches that were never processed, as proved by the state files.

Every stateful operator leaves a file of version N + 1 in every partition when micro-batch N is processed. A commit is false
if no partition of any operator has anything of that version or a later one, and all of them have the version before, whole.
If only some lack it, it was processed and its state was lost since: the commit is true. A query without state leaves no
trace of what was processed, so nothing can be said about its commits.
"""

from __future__ import annotations

from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.parts import Operator

__all__ = ["false_commits", "why_false"]


def false_commits(checkpoint: Checkpoint) -> list[int]:
    """The micro-batches that are committed but were not processed: the last ones, if any."""
    committed = checkpoint.committed()
    operators = checkpoint.operators()
    if not committed or not operators or checkpoint.missing_operators(operators):
        return []
    newest = max((store.newest for operator in operators for store in operator.partitions), default=0)
    false = [number for number in committed if number + 1 > newest]
    return false if false and _is_whole_before(checkpoint, operators, false[0]) else []


def _is_whole_before(checkpoint: Checkpoint, operators: list[Operator], batch: int) -> bool:
    """Whether the state that a micro-batch starts from exists, which proves that the files can be read at all."""
    if batch == 0:
        return not any(_has_files(checkpoint, operator) for operator in operators)
    return all(checkpoint.can_read(operator, batch - 1) for operator in operators)


def _has_files(checkpoint: Checkpoint, operator: Operator) -> bool:
    names = (file.name for store in operator.partitions for file in checkpoint.files.walk(store.path))
    return any(not name.startswith((".", "_metadata/")) for name in names)


def why_false(batch: int) -> str:
    return f"micro-batch {batch} was never processed: no operator has state of version {batch + 1}"
