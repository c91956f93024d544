"""Small files beside a checkpoint, on any file system that Spark's Hadoop layer reaches.

Local paths are read and written with Python. For others there is no public way from Python, so this module, and it
alone, goes through the session's JVM gateway.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession

__all__ = ["read_file", "write_file"]


def _local(path: str) -> Path | None:
    parsed = urlparse(path)
    if parsed.scheme in ("", "file"):
        return Path(unquote(parsed.path)) if parsed.scheme else Path(path)
    return None


def read_file(spark: SparkSession, path: str) -> bytes | None:
    """The content of a file, or None if there is none."""
    local = _local(path)
    if local is not None:
        return local.read_bytes() if local.exists() else None
    system, hadoop_path = _hadoop(spark, path)
    if not system.exists(hadoop_path):
        return None
    stream = system.open(hadoop_path)
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def write_file(spark: SparkSession, path: str, content: bytes) -> None:
    """Writes a file whole or not at all."""
    local = _local(path)
    if local is not None:
        local.parent.mkdir(parents=True, exist_ok=True)
        partial = local.with_name(f".{local.name}.{os.getpid()}.tmp")
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(local)
        return
    system, hadoop_path = _hadoop(spark, path)
    stream = system.create(hadoop_path, True)
    try:
        stream.write(content)
    finally:
        stream.close()


def _hadoop(spark: SparkSession, path: str) -> tuple[Any, Any]:
    context: Any = spark.sparkContext
    hadoop_path = context._jvm.org.apache.hadoop.fs.Path(path)
    return hadoop_path.getFileSystem(context._jsc.hadoopConfiguration()), hadoop_path
