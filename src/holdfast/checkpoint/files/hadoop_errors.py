"""Hadoop's errors about file systems it cannot use, in our words: what is missing, and where to get it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import urlparse

from holdfast.errors import CheckpointError

__all__ = ["in_our_words"]

M = TypeVar("M", bound=Callable[..., Any])

_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "wasb": "org.apache.hadoop:hadoop-azure",
    "wasbs": "org.apache.hadoop:hadoop-azure",
    "oss": "org.apache.hadoop:hadoop-aliyun",
}
_MISSING = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError", "UnsupportedFileSystemException")
_OTHER_NAMES = {"s3": "s3a", "s3n": "s3a"}
"""Schemes that Hadoop no longer has, and their replacements."""


def in_our_words(method: M) -> M:
    """Makes a method whose first argument is a path raise CheckpointError instead of the JVM's errors."""

    @functools.wraps(method)
    def told(self: Any, path: str, *more: Any) -> Any:
        try:
            return method(self, path, *more)
        except Exception as error:
            thrown = getattr(error, "java_exception", None)
            if thrown is None:
                raise
            raise _told(path, thrown, self.hadoop_version) from error

    return cast(M, told)


def _told(path: str, thrown: Any, version: Callable[[], str]) -> CheckpointError:
    chain = list(_causes(thrown))
    said = next((message for _, message in reversed(chain) if message), chain[0][0])
    if any(name.endswith(_MISSING) or any(kind in message for kind in _MISSING) for name, message in chain):
        return _not_there(path, said, version())
    if any(name.endswith(("AccessControlException", "AccessDeniedException")) for name, _ in chain):
        return CheckpointError(
            f"Access to {path!r} was denied: {said}", todo="use credentials that may read and write there"
        )
    return CheckpointError(f"{path!r} could not be reached: {said}", todo="fix the cause and try again")


def _not_there(path: str, said: str, version: str) -> CheckpointError:
    scheme = urlparse(path).scheme
    other = _OTHER_NAMES.get(scheme)
    if other is not None:
        todo = f"write {other}:// instead of {scheme}://"
    elif scheme in _PACKAGES:
        package = f"{_PACKAGES[scheme]}:{version}"
        todo = (
            f"give Spark {package}: spark.jars.packages in the settings of your session or in spark-defaults.conf; for the "
            f'command line PYSPARK_SUBMIT_ARGS="--packages {package} pyspark-shell"'
        )
    elif scheme == "gs":
        todo = "give Spark the jar of Google's gcs-connector for Hadoop 3: spark.jars, or PYSPARK_SUBMIT_ARGS"
    else:
        todo = "check the spelling of the scheme; if it is right, give Spark the jars of its file system: spark.jars"
    return CheckpointError(f"Spark cannot reach {path!r}: it has no jars for {scheme}:// paths.", detail=said, todo=todo)


def _causes(thrown: Any) -> list[tuple[str, str]]:
    """The classes and messages of an exception and its causes."""
    found: list[tuple[str, str]] = []
    while thrown is not None and len(found) < 20:
        message = str(thrown.getMessage() or "").strip().splitlines()
        found.append((str(thrown.getClass().getName()), message[0] if message else ""))
        thrown = thrown.getCause()
    return found
