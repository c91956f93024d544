"""What attempts have left that were stopped or killed.

State of a micro-batch that was never committed: Spark runs that micro-batch again, from the state before it, and writes the
same versions of state once more. The second attempt need not come to the same bytes. Files of the first must not be mixed
with those of the second: a snapshot of the first would be read with the changes that follow the second. So they are removed
before a job goes on. If not even the first micro-batch was committed, there is no state at all.

A log entry that was being written when the first micro-batch began: Spark would take a checkpoint with nothing else in its
logs for that of another query, and refuse to start.
"""

from __future__ import annotations

import re

from holdfast.checkpoint.files.choice import Files, join
from holdfast.checkpoint.query_files import number_of

__all__ = ["has_begun", "remove_leftovers", "remove_uncommitted_state"]

_VERSION = re.compile(r"(\d+)\.(?:changelog|zip)")
_LOGS = ("offsets", "commits")


def remove_leftovers(files: Files, checkpoint: str) -> None:
    """Removes all that no micro-batch needs. The caller must hold the lock."""
    if not has_begun(files, checkpoint):
        # With the descriptions of operators, which need not be those that the code has by now.
        files.remove(join(checkpoint, "state"))
    remove_uncommitted_state(files, checkpoint)
    _remove_unfinished_entries(files, checkpoint)


def has_begun(files: Files, checkpoint: str) -> bool:
    """Whether there can be state: a micro-batch is committed, or was, since a later one than the first is planned."""
    planned, committed = (_numbers(files, join(checkpoint, log)) for log in _LOGS)
    return bool(committed) or max(planned, default=0) > 0


def _remove_unfinished_entries(files: Files, checkpoint: str) -> None:
    """Removes entries of the logs that were never finished, if there are no others. They are hidden until then."""
    folders = [join(checkpoint, log) for log in _LOGS]
    if any(_numbers(files, folder) for folder in folders):
        return
    for folder in folders:
        for entry in files.entries(folder) or ():
            if entry.name.startswith(".") and not entry.is_directory:
                files.remove(entry.path)


def remove_uncommitted_state(files: Files, checkpoint: str) -> None:
    """Removes the versions of state that follow the last committed micro-batch. The caller must hold the lock."""
    planned, committed = (_numbers(files, join(checkpoint, log)) for log in _LOGS)
    version = max(planned & committed, default=-1) + 1
    for operator in _numbers(files, join(checkpoint, "state")):
        for partition in _numbers(files, join(checkpoint, "state", str(operator))):
            for entry in files.entries(join(checkpoint, "state", str(operator), str(partition))) or ():
                found = _VERSION.fullmatch(entry.name)
                if found is not None and not entry.is_directory and int(found[1]) > version:
                    files.remove(entry.path)


def _numbers(files: Files, folder: str) -> set[int]:
    return {number for entry in files.entries(folder) or () if (number := number_of(entry.name)) is not None}
