"""Paths as the whole cluster sees them: where a checkpoint is if its path names no file system.

Spark resolves such a path on the default file system of Hadoop's configuration. On one machine that is the local disk. On a
cluster it may be HDFS; if it is the local disk, every node would keep its part of the state on its own disk.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from holdfast.checkpoint.files.paths import is_local, join, local_path
from holdfast.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["resolved"]


def resolved(spark: SparkSession, path: str) -> str:
    """The path as Spark would resolve it. Raises CheckpointError if each node of a cluster would use its own disk.

    A path with `file:` is accepted: it may be a mount that all nodes share.
    """
    if not is_local(path) or _names_file_system(path):
        _check_absolute(path)
        return path
    default = _default_file_system(spark)
    if urlparse(default).scheme not in ("", "file"):
        location = local_path(path)
        assert location is not None
        return join(default, str(location.absolute()).lstrip("/"))
    master = str(spark.sparkContext.master)
    if not _on_one_machine(master):
        raise CheckpointError(
            f"The checkpoint {path!r} names no file system, and the default one is each machine's own disk: on a cluster "
            "every node would keep its part of the state to itself.",
            detail=f"The master is {master!r}, and fs.defaultFS is {default or 'file:///'!r}.",
            todo="give a path that all nodes share, such as hdfs://… or s3a://…; or "
            f"file://{path} if it is a mount that every node has",
        )
    if os.path.isfile(path):
        raise CheckpointError(f"The checkpoint {path!r} is a file; it must be a directory.", todo="give another path")
    # Made absolute now: the process may change its directory.
    return os.path.abspath(path)


def _check_absolute(path: str) -> None:
    """Raises CheckpointError if it is not clear where a path with `file:` leads: what looks like its first directory may be
    one in the present directory, or a host."""
    scheme, _, rest = path.partition(":")
    if scheme == "file" and (not rest.startswith("/") or (rest.startswith("//") and not rest.startswith("///"))):
        raise CheckpointError(
            f"The checkpoint {path!r} has no absolute path after 'file:'.",
            todo=f"write file:///{rest.lstrip('/')} if that is meant, or leave out 'file:'",
        )


def _names_file_system(path: str) -> bool:
    scheme, colon, _ = path.partition(":")
    return bool(colon) and "/" not in scheme


def _on_one_machine(master: str) -> bool:
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _default_file_system(spark: SparkSession) -> str:
    # Not in spark.conf if it comes from a core-site.xml.
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    return str(configuration.get("fs.defaultFS") or "")
