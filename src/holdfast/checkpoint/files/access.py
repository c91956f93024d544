"""File operations, on any file system."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BLOCK_BYTES", "FileInfo", "Files"]

BLOCK_BYTES = 1 << 20
"""How much of a large file is read at a time."""


@dataclass(frozen=True)
class FileInfo:
    """A file or a directory."""

    name: str
    """The last part of its path; from `walk`, the path relative to its root."""
    path: str
    size: int
    is_directory: bool
    modified_seconds: float


class Files(abc.ABC):
    """File operations. Paths are complete, including their scheme if they have one."""

    needs_spark = True
    """Whether reading goes through a Spark session. Then state is read by Spark as well."""

    @abc.abstractmethod
    def read(self, path: str) -> bytes | None:
        """The content of a file, or None if there is none."""

    def fetch(self, path: str, to: Path) -> bool:
        """Copies a file to this machine; returns whether there was one."""
        content = self.read(path)
        if content is not None:
            to.write_bytes(content)
        return content is not None

    @abc.abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Writes a file whole or not at all."""

    appends_in_place = False
    """Whether appending costs as much as what is appended. Else the whole file is written anew."""

    def append(self, path: str, content: bytes) -> None:
        """Adds to a file, which is made if there is none. Only one may append to a file at a time. A reader may see the
        beginning of what is added, and so may everybody after a crash."""
        self.write(path, (self.read(path) or b"") + content)

    @abc.abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Writes a file if there is none; returns whether it did. If two try, one succeeds."""

    @abc.abstractmethod
    def entries(self, path: str) -> list[FileInfo] | None:
        """What is in a directory, sorted by name; None if there is no such directory."""

    @abc.abstractmethod
    def info(self, path: str) -> FileInfo | None:
        """What is at a path, if anything."""

    @abc.abstractmethod
    def make_directory(self, path: str) -> None:
        """Makes a directory and its parents."""

    @abc.abstractmethod
    def move(self, path: str, to: str) -> None:
        """Moves a file or directory to another path on the same file system, which must not exist."""

    @abc.abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a directory with its content; does nothing if there is none."""

    def make_durable(self, path: str) -> None:  # noqa: B027
        """Has everything below a directory outlast a loss of power, where that is not so already."""

    @abc.abstractmethod
    def sha256(self, path: str) -> str:
        """The SHA-256 of a file, in hexadecimal."""

    def side_checksums(self, path: str) -> bytes | None:
        """The checksums that Hadoop keeps beside a file of the local file system; None if there are none."""
        return None

    def links(self, path: str) -> list[str]:
        """The links below a directory; none on a file system without links."""
        return []

    def walk(self, path: str) -> Iterator[FileInfo]:
        """All files below a directory, in order of their names relative to it."""
        for entry in self.entries(path) or ():
            if not entry.is_directory:
                yield entry
                continue
            for below in self.walk(entry.path):
                yield FileInfo(f"{entry.name}/{below.name}", below.path, below.size, False, below.modified_seconds)
