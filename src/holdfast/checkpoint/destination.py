"""Makes a directory whole or not at all: it is built under another name beside its path, then moved there.

Source and destination must not overlap, and links that lead out of the source are not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator

from holdfast.checkpoint.files.choice import Files, normalised
from holdfast.checkpoint.files.paths import local_path
from holdfast.errors import CheckpointError

__all__ = ["LINKED", "UNFINISHED", "building", "check_apart", "check_free", "check_links", "not_written", "writing"]

LINKED = "it is a link, and links are not followed"

UNFINISHED = ".unfinished-"
"""Marks the name of a directory that is being built, or was left by a killed process."""


def check_free(files: Files, path: str) -> None:
    """Raises CheckpointError if there is anything at a path but an empty directory."""
    local = local_path(path)
    if local is not None and local.is_symlink():
        raise CheckpointError(f"{path!r} is a link.", todo="give the path that it leads to, or another")
    info = files.info(path)
    if info is None:
        return
    if not info.is_directory or files.entries(path):
        raise CheckpointError(f"There is something at {path!r} already.", todo="give a path where nothing exists")


def check_apart(source: str, destination: str) -> None:
    """Raises CheckpointError if one path is the other or lies in it, even through links."""
    here, there = _real(source), _real(destination)
    if here == there:
        raise CheckpointError(f"{source!r} and {destination!r} are the same directory.", todo="give another path")
    for inner, outer, names in ((there, here, (destination, source)), (here, there, (source, destination))):
        if inner.startswith(outer.rstrip("/") + "/"):
            raise CheckpointError(
                f"{names[0]!r} lies in {names[1]!r}: neither would be whole.", todo="give a path beside it, or elsewhere"
            )


def _real(path: str) -> str:
    local = local_path(path)
    return normalised(path) if local is None else os.path.realpath(local)


def check_links(files: Files, path: str) -> None:
    """Raises CheckpointError if there are links below a path: their targets are not part of it."""
    links = files.links(path)
    if links:
        raise CheckpointError(
            f"There are links in {path!r}, and links are not followed: {links[0]!r}.",
            detail="\n".join(f"- {link}" for link in links[1:]),
            todo="replace them with what they point to",
        )


@contextlib.contextmanager
def building(files: Files, path: str) -> Iterator[str]:
    """Yields a directory to fill, which is moved to `path` if all goes well, and removed if not.

    Raises CheckpointError if something is there already, or if the disk is full.
    """
    path = path.rstrip("/")
    check_free(files, path)
    work = f"{path}{UNFINISHED}{uuid.uuid4().hex[:8]}"
    try:
        files.make_directory(work)
        yield work
        # What it is made from may be removed next.
        files.make_durable(work)
        _make_way(files, path)
        files.move(work, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            files.remove(work)
        if isinstance(error, OSError):
            raise not_written(path, error) from error
        raise


def _make_way(files: Files, path: str) -> None:
    """Removes an empty directory. Another process may have put something there meanwhile, which must stay."""
    check_free(files, path)
    local = local_path(path)
    if local is None and files.info(path) is not None:
        files.remove(path)
    elif local is not None and local.exists():
        # Unlike a check and a removal, this is one thing.
        local.rmdir()


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Raises CheckpointError if what is at a path cannot be written in this block."""
    try:
        yield
    except ConnectionError:
        # Spark is gone, which is another thing.
        raise
    except OSError as error:
        raise not_written(path, error) from error


def not_written(path: str, error: OSError) -> CheckpointError:
    """What to raise if a directory, or something in it, cannot be written."""
    why = error.strerror or str(error)
    todo = "free some space there, or choose another path" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        todo = "choose a path that you may write to"
    if error.errno == errno.EBUSY:
        todo = "give a directory below it, if it is where a disk is mounted"
    detail = f"The file is {error.filename!r}." if error.filename else ""
    return CheckpointError(f"{path!r} could not be written: {why}.", detail=detail, todo=todo)
