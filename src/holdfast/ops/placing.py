"""Making a directory that is whole or not there: it is built under another name beside its place, and then moved there."""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections.abc import Iterator

from holdfast.errors import CheckpointError
from holdfast.spark.files import Files

__all__ = ["UNFINISHED", "building", "check_free"]

UNFINISHED = ".unfinished-"
"""In the name of a directory that is being built, or that somebody who was killed has left."""


def check_free(files: Files, path: str) -> None:
    """Raises CheckpointError if there is anything at a path but an empty directory."""
    info = files.info(path)
    if info is None:
        return
    if not info.is_directory or files.entries(path):
        raise CheckpointError(f"There is something at {path!r} already.", todo="give a path where nothing is")


@contextlib.contextmanager
def building(files: Files, path: str) -> Iterator[str]:
    """A directory to fill, which is at `path` when all went well, and gone if not.

    Raises CheckpointError if something is there already, or if what is written does not fit there.
    """
    path = path.rstrip("/")
    check_free(files, path)
    work = f"{path}{UNFINISHED}{uuid.uuid4().hex[:8]}"
    try:
        files.make_directory(work)
        yield work
        if files.info(path) is not None:
            files.remove(path)
        files.move(work, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            files.remove(work)
        if isinstance(error, OSError):
            raise _not_written(path, error) from error
        raise


def _not_written(path: str, error: OSError) -> CheckpointError:
    why = error.strerror or str(error)
    todo = "make room there, or choose another place" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    if isinstance(error, PermissionError):
        todo = "choose a place where you may write"
    detail = f"The file is {error.filename!r}." if error.filename else ""
    return CheckpointError(f"{path!r} could not be written: {why}.", detail=detail, todo=todo)
