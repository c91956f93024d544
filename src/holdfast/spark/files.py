"""Files of a checkpoint, on any file system that Spark's Hadoop layer reaches.

Local paths are read and written with Python, without Spark. For others there is no public way from Python, so this
module, and it alone, goes through the session's JVM gateway. Hadoop's local file system keeps a `.name.crc` beside each
file and refuses to read what does not match it: those are neither listed nor copied, and are removed with what they are
about.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import hashlib
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError

__all__ = ["FileInfo", "Files", "copy_file", "files_of", "is_local", "join", "normalised", "read_file", "write_file"]


@dataclass(frozen=True)
class FileInfo:
    """A file or a directory."""

    name: str
    """The last part of its path, or from `walk` the path below where the walk began."""
    path: str
    size: int
    is_directory: bool
    modified_seconds: float


def join(path: str, *names: str) -> str:
    """A path below another."""
    return "/".join([path.rstrip("/"), *names])


def is_local(path: str) -> bool:
    """Whether a path is on this machine's own file system, for which no Spark is needed."""
    return _local(path) is not None


def normalised(path: str) -> str:
    """A path as Spark would write it: absolute, with its scheme, and nothing in it escaped."""
    local = _local(path)
    return path.rstrip("/") if local is None else f"file:{os.path.abspath(local)}"


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

    def walk(self, path: str) -> Iterator[FileInfo]:
        """All files below a directory, in the order of their names, which are given from there."""
        for entry in self.entries(path) or ():
            if not entry.is_directory:
                yield entry
                continue
            for below in self.walk(entry.path):
                yield FileInfo(f"{entry.name}/{below.name}", below.path, below.size, False, below.modified_seconds)


def files_of(spark: SparkSession | None, path: str) -> Files:
    """The files of the file system that a path is on. Only local ones need no session."""
    if _local(path) is not None:
        return _LOCAL
    if spark is None:
        raise HoldfastError(f"{path!r} is not a local path, and reading it needs a Spark session.")
    return _HadoopFiles(spark)


def copy_file(source: Files, path: str, target: Files, to: str) -> None:
    """Copies one file, also from one file system to another."""
    if isinstance(source, _LocalFiles) and isinstance(target, _LocalFiles):
        source.copy(path, to)
    elif isinstance(target, _HadoopFiles):
        target.copy(normalised(path), normalised(to))
    else:
        assert isinstance(source, _HadoopFiles)
        source.copy(normalised(path), normalised(to))


def read_file(spark: SparkSession | None, path: str) -> bytes | None:
    """The content of a file, or None if there is none."""
    return files_of(spark, path).read(path)


def write_file(spark: SparkSession | None, path: str, content: bytes) -> None:
    """Writes a file whole or not at all."""
    files_of(spark, path).write(path, content)


def _local(path: str) -> Path | None:
    """The path without its scheme, if it is local. Hadoop takes a path as it is written: nothing in it is escaped."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return Path(path)
    if scheme != "file":
        return None
    return Path("/" + rest.lstrip("/"))


_BLOCK_BYTES = 1 << 20

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems say that have no links between files."""


_OBJECT_STORES = ("s3", "s3a", "gs", "abfs", "abfss", "wasb", "wasbs", "oss")


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


class _LocalFiles(Files):
    def read(self, path: str) -> bytes | None:
        try:
            return self._path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, content: bytes) -> None:
        local = self._path(path)
        partial = self._written_beside(local, content)
        partial.replace(local)
        _checksum(local).unlink(missing_ok=True)

    def create(self, path: str, content: bytes) -> bool:
        local = self._path(path)
        partial = self._written_beside(local, content)
        try:
            os.link(partial, local)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._created_in_place(local, content)
        finally:
            partial.unlink()
        return True

    def entries(self, path: str) -> list[FileInfo] | None:
        local = self._path(path)
        if not local.is_dir():
            return None
        found = []
        for name in sorted(os.listdir(local)):
            if not (name.startswith(".") and name.endswith(".crc")):
                # A job that runs may remove it at any time.
                with contextlib.suppress(FileNotFoundError):
                    found.append(self._info(local / name, join(path, name)))
        return found

    def info(self, path: str) -> FileInfo | None:
        local = self._path(path)
        return self._info(local, path) if local.exists() else None

    def make_directory(self, path: str) -> None:
        self._path(path).mkdir(parents=True, exist_ok=True)

    def move(self, path: str, to: str) -> None:
        local, target = self._path(path), self._path(to)
        if target.exists():
            raise FileExistsError(to)
        target.parent.mkdir(parents=True, exist_ok=True)
        local.rename(target)
        if _checksum(local).exists():
            _checksum(local).rename(_checksum(target))

    def remove(self, path: str) -> None:
        local = self._path(path)
        if local.is_dir():
            shutil.rmtree(local)
        else:
            local.unlink(missing_ok=True)
            _checksum(local).unlink(missing_ok=True)

    def copy(self, path: str, to: str) -> None:
        target = self._path(to)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self._path(path), target)
        _checksum(target).unlink(missing_ok=True)

    def sha256(self, path: str) -> str:
        digest = hashlib.sha256()
        with self._path(path).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def side_checksums(self, path: str) -> bytes | None:
        return self.read(str(_checksum(self._path(path))))

    @staticmethod
    def _path(path: str) -> Path:
        local = _local(path)
        assert local is not None, path
        return local

    @staticmethod
    def _info(local: Path, path: str) -> FileInfo:
        status = local.stat()
        return FileInfo(local.name, path, status.st_size, local.is_dir(), status.st_mtime)

    @staticmethod
    def _created_in_place(local: Path, content: bytes) -> bool:
        """Where there are no links: a file that is created by one only, but can be seen before it is whole."""
        try:
            with local.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    @staticmethod
    def _written_beside(local: Path, content: bytes) -> Path:
        local.parent.mkdir(parents=True, exist_ok=True)
        partial = local.with_name(f".{local.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        return partial


_LOCAL = _LocalFiles()


class _HadoopFiles(Files):
    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._gateway = context._gateway
        self._jvm = context._jvm
        self._configuration = context._jsc.hadoopConfiguration()

    def read(self, path: str) -> bytes | None:
        system, hadoop_path = self._at(path)
        if not system.exists(hadoop_path):
            return None
        try:
            stream = system.open(hadoop_path)
        except Exception:
            if system.exists(hadoop_path):
                raise
            return None
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, path: str, content: bytes) -> None:
        system, hadoop_path = self._at(path)
        context = self._context(hadoop_path)
        if context is None:
            self._put(system.create(hadoop_path, True), content)
            return
        name = f".{hadoop_path.getName()}.{uuid.uuid4().hex}.tmp"
        partial = self._jvm.org.apache.hadoop.fs.Path(hadoop_path.getParent(), name)
        try:
            self._put(system.create(partial, True), content)
            context.rename(partial, hadoop_path, self._overwriting())
        except Exception:
            system.delete(partial, False)
            raise

    def _context(self, path: Any) -> Any:
        """What can put a file in another's place in one step; None of a file system that has no such thing."""
        if path.toUri().getScheme() in _OBJECT_STORES:
            # There a file is seen when it is whole, and to rename is to copy.
            return None
        try:
            return self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), self._configuration)
        except Exception:
            return None

    def _overwriting(self) -> Any:
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        return options

    def create(self, path: str, content: bytes) -> bool:
        system, hadoop_path = self._at(path)
        try:
            stream = system.create(hadoop_path, False)
        except Exception:
            if system.exists(hadoop_path):
                return False
            raise
        self._put(stream, content)
        return True

    def entries(self, path: str) -> list[FileInfo] | None:
        system, hadoop_path = self._at(path)
        if not system.exists(hadoop_path) or not system.getFileStatus(hadoop_path).isDirectory():
            return None
        found = [self._info(status, join(path, status.getPath().getName())) for status in system.listStatus(hadoop_path)]
        return sorted(found, key=lambda entry: entry.name)

    def info(self, path: str) -> FileInfo | None:
        system, hadoop_path = self._at(path)
        return self._info(system.getFileStatus(hadoop_path), path) if system.exists(hadoop_path) else None

    def make_directory(self, path: str) -> None:
        system, hadoop_path = self._at(path)
        system.mkdirs(hadoop_path)

    def move(self, path: str, to: str) -> None:
        system, hadoop_path = self._at(path)
        _, target = self._at(to)
        if system.exists(target):
            raise FileExistsError(to)
        system.mkdirs(target.getParent())
        if not system.rename(hadoop_path, target):
            raise OSError(f"{path} could not be moved to {to}")

    def remove(self, path: str) -> None:
        system, hadoop_path = self._at(path)
        system.delete(hadoop_path, True)

    def copy(self, path: str, to: str) -> None:
        source_system, source = self._at(path)
        target_system, target = self._at(to)
        if not source_system.exists(source):
            raise FileNotFoundError(path)
        utility = self._jvm.org.apache.hadoop.fs.FileUtil
        if not utility.copy(source_system, source, target_system, target, False, True, self._configuration):
            raise OSError(f"{path} could not be copied to {to}")

    def sha256(self, path: str) -> str:
        system, hadoop_path = self._at(path)
        digest = self._jvm.java.security.MessageDigest.getInstance("SHA-256")
        nowhere = self._jvm.java.io.OutputStream.nullOutputStream()
        into = self._jvm.java.security.DigestOutputStream(nowhere, digest)
        self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(system.open(hadoop_path), into, _BLOCK_BYTES, True)
        return bytes(digest.digest()).hex()

    @staticmethod
    def _put(stream: Any, content: bytes) -> None:
        try:
            stream.write(content)
        finally:
            stream.close()

    @staticmethod
    def _info(status: Any, path: str) -> FileInfo:
        directory, modified = bool(status.isDirectory()), status.getModificationTime() / 1000
        return FileInfo(status.getPath().getName(), path, int(status.getLen()), directory, modified)

    def _at(self, path: str) -> tuple[Any, Any]:
        hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
        return hadoop_path.getFileSystem(self._configuration), hadoop_path
