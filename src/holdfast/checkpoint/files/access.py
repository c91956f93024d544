"""What there is to do with files, whatever file system they are on."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["BLOCK_BYTES", "FileInfo", "Files"]

BLOCK_BYTES = 1 << 20
"""How much of a large file is read at a time."""


@dataclass(frozen=True)
class FileInfo:
    """A file or a directory."""

    name: str
    """The last part of its path, or from `walk` the path below where the walk began."""
    path: str
    size: int
    is_directory: bool
    modified_seconds: float


class Files(abc.ABC):
    """What there is to do with files. Paths are whole: with the scheme, if they have one."""

    @abc.abstractmethod
    def read(self, path: str) -> bytes | None:
        """The content of a file, or None if there is none."""

    @abc.abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Writes a file whole or not at all."""

    @abc.abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Writes a file if there is none, and says whether. Of two that try, one succeeds."""

    @abc.abstractmethod
    def entries(self, path: str) -> list[FileInfo] | None:
        """What is in a directory, sorted by name; None if there is no such directory."""

    @abc.abstractmethod
    def info(self, path: str) -> FileInfo | None:
        """What is at a path, if anything."""

    @abc.abstractmethod
    def make_directory(self, path: str) -> None:
        """Makes a directory with those above it."""

    @abc.abstractmethod
    def move(self, path: str, to: str) -> None:
        """Gives a file or directory another path on the same file system, where nothing may be."""

    @abc.abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a directory with all that is in it; nothing happens if there is none."""

    @abc.abstractmethod
    def sha256(self, path: str) -> str:
        """The SHA-256 of a file, in hexadecimal."""

    def side_checksums(self, path: str) -> bytes | None:
        """What Hadoop keeps beside a file of the local file system to tell whether it is whole; None if there is nothing."""
        return None

    def links(self, path: str) -> list[str]:
        """The links below a directory, which lead elsewhere; of a file system without links none."""
        return []

    def walk(self, path: str) -> Iterator[FileInfo]:
        """All files below a directory, in the order of their names, which are given from there."""
        for entry in self.entries(path) or ():
            if not entry.is_directory:
                yield entry
                continue
            for below in self.walk(entry.path):
                yield FileInfo(f"{entry.name}/{below.name}", below.path, below.size, False, below.modified_seconds)
