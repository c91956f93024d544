"""Files that a running job may remove while somebody reads them."""

from __future__ import annotations

from holdfast.checkpoint.files.access import Files
from holdfast.errors import CorruptState

__all__ = ["Vanished", "content_of", "missing"]


class Vanished(CorruptState):
    """A file that was listed and is gone: a running job has removed it, or it was lost. Whoever listed it looks again."""


def content_of(files: Files, path: str) -> bytes:
    """The content of a file. Raises Vanished if it is not there."""
    content = files.read(path)
    if content is None:
        raise missing(path)
    return content


def missing(path: str) -> Vanished:
    return Vanished(
        f"{path!r} is missing.", todo="see what is whole: holdfast checkpoint verify, with the checkpoint's path"
    )
