"""Moves state that a tool left in a later micro-batch back to the micro-batch that it belongs to.

Spark changes the number of partitions in a micro-batch of its own, without input. But sinks go by micro-batch numbers, and a
planned one already has its number. So, in a copy not yet in use, the extra micro-batch is removed again: its state becomes
the state of the one before. State files carry their version in their names, not in their contents.
"""

from __future__ import annotations

from holdfast.checkpoint.files.choice import FileInfo, join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.parts import Operator, Partition
from holdfast.errors import CheckpointError

__all__ = ["renumber"]


def renumber(checkpoint: Checkpoint, batch: int) -> None:
    """Makes the state after the last committed micro-batch the state after `batch`, which is then the last one.

    Older state is removed. Not atomic: only for a checkpoint that is not in use.
    """
    last = checkpoint.committed()[-1]
    operators = checkpoint.operators()
    for operator in operators:
        _renumber_operator(checkpoint, operator, last, batch)
    counts = [len(checkpoint.partitions_at(operator, last)) for operator in operators]
    for number in range(batch + 1, last + 1):
        for log in ("commits", "offsets"):
            checkpoint.files.remove(join(checkpoint.path, log, str(number)))
    if counts:
        checkpoint.write_partition_count(batch, max(counts))


def _renumber_operator(checkpoint: Checkpoint, operator: Operator, last: int, batch: int) -> None:
    files = checkpoint.files
    used = checkpoint.partitions_at(operator, last)
    for store in operator.partitions:
        if store.number not in used:
            files.remove(join(operator.path, str(store.number)))
        else:
            _renumber_store(checkpoint, store, last + 1, last - batch)
    versions = checkpoint.operator_metadata(operator.number)
    if versions:
        content = versions[max(versions)]
        for number in versions:
            files.remove(join(operator.path, "_metadata", "v2", str(number)))
        checkpoint.write_operator_metadata(operator.number, batch, content)


def _renumber_store(checkpoint: Checkpoint, store: Partition, version: int, by: int) -> None:
    files = checkpoint.files
    chain = store.chain(version)
    base = max((v for v in store.snapshots if v <= version), default=0)
    if chain is None or base <= by:
        raise CheckpointError(f"The state in {store.path!r} cannot be moved to an earlier micro-batch.")
    needed = {file.path for file in chain} | {join(store.path, "SSTs", name) for name in _tables(checkpoint, store, base)}
    for kind in (store.snapshots, store.changelogs, store.tables):
        for file in kind.values():
            if file.path not in needed:
                files.remove(file.path)
    for file in chain:
        number, _, ending = file.name.partition(".")
        files.move(file.path, join(store.path, f"{int(number) - by}.{ending}"))


def _tables(checkpoint: Checkpoint, store: Partition, base: int) -> dict[str, int]:
    snapshot: FileInfo = store.snapshots[base]
    return checkpoint.table_names(snapshot)
