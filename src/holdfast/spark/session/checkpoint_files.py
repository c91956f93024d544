"""How Spark renames the files of a local checkpoint.

By default Spark uses Hadoop's `FileContext`, which asks whether either path is a link, and Hadoop's local file system starts
a process for that each time: about forty in a micro-batch, a third of the time of a small one. Spark's other way,
`FileSystem`, writes the same temporary files and renames them by the same call, without asking; Spark itself falls back to
it on file systems that have no `FileContext`. We choose it for local sessions, and for jobs with a local checkpoint on other
sessions.

A replay of a micro-batch writes files of state that an attempt before it may have left, and must replace them: it need not
come to the same bytes. Hadoop's `LocalFileSystem` does. But the jars of Hive, which Spark brings along, register another
class for local files, whose `rename` leaves a file that is there as it is, and Spark takes that for success. So we name
Hadoop's class when a session starts, and where a session has the other one, Spark's default stays.

The name of the class is not public, so we list it by version; for unknown versions, Spark's default stays.
"""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.sql import SparkSession

from holdfast.checkpoint.files.paths import is_local

__all__ = ["file_settings", "keep_safe", "local_file_settings"]

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
_BY_VERSION = {"4.3": f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"}
_DEFAULT = f"{_PACKAGE}.FileContextBasedCheckpointFileManager"
_LOCAL_FILES = "spark.hadoop.fs.file.impl"
_REPLACES = "org.apache.hadoop.fs.LocalFileSystem"


def local_file_settings() -> dict[str, str]:
    """Settings for a new session whose checkpoints are usually local."""
    known = _known_manager()
    return {} if known is None else {_MANAGER: known, _LOCAL_FILES: _REPLACES}


def keep_safe(spark: SparkSession) -> None:
    """Takes back the setting for a session that had been started before, in whose JVM it would be wrong."""
    if spark.conf.get(_MANAGER, None) == _known_manager() and not _replaces_files(spark):
        spark.conf.unset(_MANAGER)


def file_settings(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """Settings for a query with this checkpoint on any session, whose choice stays unless state could be lost by it."""
    known, chosen = _known_manager(), spark.conf.get(_MANAGER, None)
    if known is None or not is_local(checkpoint) or chosen not in (None, known):
        return {}
    if _replaces_files(spark):
        return {_MANAGER: known}
    return {} if chosen is None else {_MANAGER: _DEFAULT}


def _known_manager() -> str | None:
    return _BY_VERSION.get(".".join(pyspark.__version__.split(".")[:2]))


def _replaces_files(spark: SparkSession) -> bool:
    """Whether a file that is renamed takes the place of one that is there, for local files in this JVM."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    files = jvm.org.apache.hadoop.fs.Path("file:///").getFileSystem(context.hadoopConfiguration())
    return bool(files.getClass().getName() == _REPLACES)
