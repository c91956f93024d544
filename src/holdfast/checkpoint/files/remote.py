"""Files of other file systems without Spark, through fsspec: for reading alone.

fsspec knows many file systems by the scheme of a path; each has a package of its own (`s3fs`, `gcsfs`, `adlfs`) with its own
credentials, which need not be Spark's. So what cannot be read here raises NeedsSpark, and the caller can let Spark do it. So
does everything that writes: Spark's way of replacing a file is the one that a running job trusts.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from holdfast.checkpoint.files.access import BLOCK_BYTES, FileInfo, Files
from holdfast.checkpoint.files.paths import join
from holdfast.errors import NeedsSpark

__all__ = ["RemoteFiles", "remote_files"]

_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")
"""What file systems call the time at which a file was written."""
_ABSENT = (FileNotFoundError, NotADirectoryError)


def remote_files(path: str) -> RemoteFiles:
    """The files of a path's file system. Raises NeedsSpark if fsspec, or its package for this one, is not installed."""
    try:
        import fsspec
    except ImportError:
        raise NeedsSpark(
            f"{path!r} is not a local path. Reading it without Spark needs fsspec, which is not installed.",
            todo="pip install 'holdfast[remote]' and fsspec's package for this file system, such as s3fs; or give a session",
        ) from None
    with _read_by_fsspec(path):
        fsspec.core.url_to_fs(path)
    return RemoteFiles()


class RemoteFiles(Files):
    """Reads what others write. Nothing is remembered of what was listed, since a running job changes it."""

    needs_spark = False

    def read(self, path: str) -> bytes | None:
        with _read_by_fsspec(path):
            system, inner = self._at(path)
            try:
                content: bytes = system.cat_file(inner)
            except (*_ABSENT, IsADirectoryError):
                return None
            return content

    def fetch(self, path: str, to: Path) -> bool:
        with _read_by_fsspec(path):
            system, inner = self._at(path)
            if not system.isfile(inner):
                return False
            with contextlib.suppress(FileNotFoundError):
                with system.open(inner, "rb") as stored, to.open("wb") as copy:
                    while block := stored.read(BLOCK_BYTES):
                        copy.write(block)
                return True
            # It has gone in between.
            return False

    def entries(self, path: str) -> list[FileInfo] | None:
        with _read_by_fsspec(path):
            system, inner = self._at(path)
            try:
                listed = system.ls(inner, detail=True)
            except _ABSENT:
                return None
            own = inner.rstrip("/")
            # An object store may list a folder within itself; some list a file as what is in it.
            below = [each for each in listed if each["name"].rstrip("/") != own]
            if not below and any(each["type"] != "directory" for each in listed):
                return None
            found = [_info(each, join(path, _last(each["name"]))) for each in below]
        return sorted((each for each in found if not _is_checksum(each.name)), key=lambda entry: entry.name)

    def info(self, path: str) -> FileInfo | None:
        with _read_by_fsspec(path):
            system, inner = self._at(path)
            try:
                return _info(system.info(inner), path)
            except _ABSENT:
                return None

    def sha256(self, path: str) -> str:
        digest = hashlib.sha256()
        with _read_by_fsspec(path):
            system, inner = self._at(path)
            with system.open(inner, "rb") as file:
                while block := file.read(BLOCK_BYTES):
                    digest.update(block)
        return digest.hexdigest()

    def write(self, path: str, content: bytes) -> None:
        _refuse(path)

    def create(self, path: str, content: bytes) -> bool:
        _refuse(path)

    def make_directory(self, path: str) -> None:
        _refuse(path)

    def move(self, path: str, to: str) -> None:
        _refuse(path)

    def remove(self, path: str) -> None:
        _refuse(path)

    @staticmethod
    def _at(path: str) -> tuple[Any, str]:
        import fsspec

        system, inner = fsspec.core.url_to_fs(path)
        system.invalidate_cache(inner)
        return system, str(inner)


def _refuse(path: str) -> NoReturn:
    raise NeedsSpark(f"{path!r} is not a local path; changing it needs a Spark session.")


@contextlib.contextmanager
def _read_by_fsspec(path: str) -> Iterator[None]:
    """What goes wrong becomes NeedsSpark: each file system has errors of its own, and Spark may have other credentials."""
    try:
        yield
    except NeedsSpark:
        raise
    except Exception as error:
        what = (str(error).strip() or type(error).__name__).partition("\n")[0]
        raise NeedsSpark(
            f"{path!r} cannot be read without Spark: {what:.300}",
            todo="install fsspec's package for this file system and give it credentials, or give a Spark session",
        ) from error


def _info(told: Any, path: str) -> FileInfo:
    is_directory = told["type"] == "directory"
    return FileInfo(_last(told["name"]), path, int(told.get("size") or 0), is_directory, _modified(told))


def _modified(told: Any) -> float:
    """Seconds since 1970; 0 if it is not told, as of folders in object stores."""
    for name in _TIMES:
        when = told.get(name)
        if isinstance(when, (int, float)):
            return float(when)
        if isinstance(when, str):
            with contextlib.suppress(ValueError):
                when = datetime.datetime.fromisoformat(when.replace("Z", "+00:00"))
        if isinstance(when, datetime.datetime):
            return when.timestamp()
    return 0.0


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _is_checksum(name: str) -> bool:
    """Whether it is one of those that Hadoop keeps beside files of a mounted disk."""
    return name.startswith(".") and name.endswith(".crc")
