"""Files of any file system that Spark's Hadoop layer reaches.

There is no public way to them from Python, so this module, and it alone, goes through the session's JVM gateway.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any

from holdfast.checkpoint.files.access import BLOCK_BYTES, FileInfo, Files
from holdfast.checkpoint.files.hadoop_errors import in_our_words
from holdfast.checkpoint.files.paths import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HadoopFiles"]

_OBJECT_STORES = ("s3", "s3a", "gs", "abfs", "abfss", "wasb", "wasbs", "oss")
_TRIES = 5
_AGAIN_SECONDS = 0.05


class HadoopFiles(Files):
    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._gateway = context._gateway
        self._jvm = context._jvm
        self._configuration = context._jsc.hadoopConfiguration()

    @in_our_words
    def read(self, path: str) -> bytes | None:
        for _ in range(_TRIES - 1):
            # Reading may fail while the file is being replaced: some file systems keep checksums beside a file, which do
            # not match for a moment, and others remove the file being read.
            with contextlib.suppress(Exception):
                return self._content(path)
            time.sleep(_AGAIN_SECONDS)
        return self._content(path)

    def _content(self, path: str) -> bytes | None:
        system, hadoop_path = self._at(path)
        if not system.exists(hadoop_path):
            return None
        try:
            stream = system.open(hadoop_path)
        except Exception:
            if system.exists(hadoop_path) and not system.getFileStatus(hadoop_path).isDirectory():
                raise
            return None
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    @in_our_words
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
        """What can replace a file atomically; None on a file system that cannot."""
        if path.toUri().getScheme() in _OBJECT_STORES:
            # There a file becomes visible when it is whole, and renaming means copying.
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

    @in_our_words
    def create(self, path: str, content: bytes) -> bool:
        system, hadoop_path = self._at(path)
        try:
            stream = system.create(hadoop_path, False)
        except Exception as error:
            # It may be gone again by now, where a file is renewed by removing it first.
            if "FileAlreadyExistsException" in str(error) or system.exists(hadoop_path):
                return False
            raise
        self._put(stream, content)
        return True

    @in_our_words
    def entries(self, path: str) -> list[FileInfo] | None:
        system, hadoop_path = self._at(path)
        if not system.exists(hadoop_path) or not system.getFileStatus(hadoop_path).isDirectory():
            return None
        found = [self._info(status, join(path, status.getPath().getName())) for status in system.listStatus(hadoop_path)]
        return sorted(found, key=lambda entry: entry.name)

    @in_our_words
    def info(self, path: str) -> FileInfo | None:
        system, hadoop_path = self._at(path)
        return self._info(system.getFileStatus(hadoop_path), path) if system.exists(hadoop_path) else None

    @in_our_words
    def make_directory(self, path: str) -> None:
        system, hadoop_path = self._at(path)
        system.mkdirs(hadoop_path)

    @in_our_words
    def move(self, path: str, to: str) -> None:
        system, hadoop_path = self._at(path)
        _, target = self._at(to)
        if system.exists(target):
            raise FileExistsError(to)
        system.mkdirs(target.getParent())
        if not system.rename(hadoop_path, target):
            raise OSError(f"{path} could not be moved to {to}")

    @in_our_words
    def remove(self, path: str) -> None:
        system, hadoop_path = self._at(path)
        system.delete(hadoop_path, True)

    @in_our_words
    def copy(self, path: str, to: str) -> None:
        source_system, source = self._at(path)
        target_system, target = self._at(to)
        if not source_system.exists(source):
            raise FileNotFoundError(path)
        utility = self._jvm.org.apache.hadoop.fs.FileUtil
        if not utility.copy(source_system, source, target_system, target, False, True, self._configuration):
            raise OSError(f"{path} could not be copied to {to}")

    @in_our_words
    def sha256(self, path: str) -> str:
        system, hadoop_path = self._at(path)
        digest = self._jvm.java.security.MessageDigest.getInstance("SHA-256")
        nowhere = self._jvm.java.io.OutputStream.nullOutputStream()
        into = self._jvm.java.security.DigestOutputStream(nowhere, digest)
        self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(system.open(hadoop_path), into, BLOCK_BYTES, True)
        return bytes(digest.digest()).hex()

    def hadoop_version(self) -> str:
        return str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion())

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

    def qualified(self, path: str) -> str:
        """A path as Spark resolves it: complete, with its file system's scheme."""
        system, hadoop_path = self._at(path)
        return str(hadoop_path.makeQualified(system.getUri(), system.getWorkingDirectory()).toString())

    def _at(self, path: str) -> tuple[Any, Any]:
        hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
        return hadoop_path.getFileSystem(self._configuration), hadoop_path
