"""Other state for a checkpoint whose job is stopped. In place, and nothing is lost whenever it is interrupted.

The new state is made in a copy, below `holdfast/` in the checkpoint, which then takes the place of the old one by two
renames. Between them there is no state; whoever has the lock next, a job or a tool, puts the old state back or, after them,
does what is left (`checkpoint/replacement.py`). The state after earlier micro-batches is gone then; the numbers of
micro-batches stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from holdfast.checkpoint.destination import building, check_links
from holdfast.checkpoint.files.choice import copy_file, join
from holdfast.checkpoint.layout import Checkpoint
from holdfast.checkpoint.pieces import whole_pieces
from holdfast.checkpoint.replacement import NEW_STATE, OLD_STATE, finish_replacing
from holdfast.errors import CorruptState
from holdfast.ops.move.restore import place_schemas

__all__ = ["replacing_state"]


@contextlib.contextmanager
def replacing_state(checkpoint: Checkpoint) -> Iterator[tuple[Checkpoint, int]]:
    """A copy of the checkpoint after its last committed micro-batch, to be changed, and the number of that. The state and
    the manifest of the copy become the checkpoint's own when all went well. The lock is the caller's to hold."""
    files, batch = checkpoint.files, checkpoint.check_batch(None)
    if batch != checkpoint.committed()[-1]:
        raise CorruptState(
            f"The state after the last micro-batch of {checkpoint.path!r} is not whole.",
            todo=f"see what is: holdfast checkpoint verify {checkpoint.path}",
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
