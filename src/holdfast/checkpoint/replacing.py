"""Replaces the state of a stopped job's checkpoint, in place. Nothing is lost if it is interrupted at any point.

The new state is made in a copy, below `holdfast/` in the checkpoint, which then replaces the old one by two renames. Between
them there is no state: the next holder of the lock, a job or a tool, puts the old state back. After them, it does what is
left (`checkpoint/replacement.py`). State after earlier micro-batches is gone then; micro-batch numbers stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from holdfast.checkpoint.destination import building, check_links
from holdfast.checkpoint.files.choice import copy_file, join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.pieces import whole_pieces
from holdfast.checkpoint.replacement import NEW_STATE, OLD_STATE, finish_replacing
from holdfast.checkpoint.schema_paths import place_schemas
from holdfast.errors import CorruptState

__all__ = ["replacing_state"]


@contextlib.contextmanager
def replacing_state(checkpoint: Checkpoint) -> Iterator[tuple[Checkpoint, int]]:
    """Yields a copy of the checkpoint after its last committed micro-batch, to be changed, and that micro-batch's number. If
    all goes well, the copy's state and manifest become the checkpoint's own. The caller must hold the lock."""
    files, batch = checkpoint.files, checkpoint.check_batch(None)
    if batch != checkpoint.committed()[-1]:
        raise CorruptState(
            f"The state after the last micro-batch of {checkpoint.path!r} is incomplete.",
            todo=f"see what is whole: holdfast checkpoint verify {checkpoint.path}",
        )
    check_links(files, checkpoint.path)
    with building(files, join(checkpoint.path, NEW_STATE)) as work:
        for piece in whole_pieces(checkpoint, batch):
            copy_file(files, piece.path, files, join(work, piece.name))
        made = Checkpoint(files, work)
        place_schemas(made, work)
        yield made, batch
        place_schemas(made, checkpoint.path)
    files.move(join(checkpoint.path, "state"), join(checkpoint.path, OLD_STATE))
    files.move(join(checkpoint.path, NEW_STATE, "state"), join(checkpoint.path, "state"))
    finish_replacing(files, checkpoint.path)
