"""How Spark renames the files of a local checkpoint.

By default Spark uses Hadoop's `FileContext`, which asks whether either path is a link, and Hadoop's local file system starts
a process for that each time: about forty in a micro-batch, a third of the time of a small one. Spark's other way,
`FileSystem`, writes the same temporary files and renames them by the same call, without asking; Spark itself falls back to
it on file systems that have no `FileContext`. We choose it for local sessions, and for jobs with a local checkpoint on other
sessions.

The name of the class is not public, so we list it by version; for unknown versions, Spark's default stays.
"""

from __future__ import annotations

import pyspark
from pyspark.sql import SparkSession

from holdfast.checkpoint.files.paths import is_local

__all__ = ["file_settings", "local_file_settings"]

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
_BY_VERSION = {"4.3": f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"}


def local_file_settings() -> dict[str, str]:
    """Settings for a session whose checkpoints are usually local."""
    known = _BY_VERSION.get(".".join(pyspark.__version__.split(".")[:2]))
    return {} if known is None else {_MANAGER: known}


def file_settings(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """Settings for a query with this checkpoint on any session; none if the session has chosen another way."""
    return local_file_settings() if is_local(checkpoint) and spark.conf.get(_MANAGER, None) is None else {}
