"""How Spark puts the files of a local checkpoint in their place.

Spark's way by default, through Hadoop's `FileContext`, asks whether either path is a link, for which Hadoop's local file
system starts a process each time: some forty in a micro-batch, a third of what a small one takes. Spark's other way,
through `FileSystem`, writes the same temporary files and renames them by the same call, without asking; it is what Spark
itself falls back to on file systems that have no `FileContext`. It is chosen for local sessions, and for jobs with a local
checkpoint on other sessions.

The name of the class is not public, so it is known by version; where it is not known, Spark's default stays.
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
    """Settings for a session whose checkpoints are local as a rule."""
    known = _BY_VERSION.get(".".join(pyspark.__version__.split(".")[:2]))
    return {} if known is None else {_MANAGER: known}


def file_settings(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """Settings for a query with this checkpoint on any session; none if another way was chosen there."""
    return local_file_settings() if is_local(checkpoint) and spark.conf.get(_MANAGER, None) is None else {}
