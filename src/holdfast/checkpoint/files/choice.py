"""Files of a checkpoint, wherever it is: local ones are read and written with Python, others through Spark's JVM, or read
through fsspec where there is no session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.checkpoint.files.access import FileInfo, Files
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.files.paths import is_local, join, normalised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FileInfo", "Files", "copy_file", "files_of", "is_local", "join", "normalised", "read_file", "write_file"]

_LOCAL = LocalFiles()


def files_of(spark: SparkSession | None, path: str) -> Files:
    """The files of a path's file system: local ones; with a session those that Spark reaches; without one those that fsspec
    reaches, for reading alone. Raises NeedsSpark if it reaches none."""
    if is_local(path):
        return _LOCAL
    # Whoever reads local files alone needs neither.
    if spark is None:
        from holdfast.checkpoint.files.remote import remote_files

        return remote_files(path)
    from holdfast.checkpoint.files.hadoop import HadoopFiles

    return HadoopFiles(spark)


def copy_file(source: Files, path: str, target: Files, to: str) -> None:
    """Copies one file, even between file systems."""
    if isinstance(source, LocalFiles) and isinstance(target, LocalFiles):
        source.copy(path, to)
        return
    from holdfast.checkpoint.files.hadoop import HadoopFiles

    remote = target if isinstance(target, HadoopFiles) else source
    assert isinstance(remote, HadoopFiles)
    remote.copy(normalised(path), normalised(to))


def read_file(spark: SparkSession | None, path: str) -> bytes | None:
    """The content of a file, or None if there is none."""
    return files_of(spark, path).read(path)


def write_file(spark: SparkSession | None, path: str, content: bytes) -> None:
    """Writes a file whole or not at all."""
    files_of(spark, path).write(path, content)
