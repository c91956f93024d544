"""Keeps PySpark from writing to standard error what is raised anyway.

When an error of Spark has to do with a part of the user's query, such as a cast that fails, PySpark writes it to standard
error as a line of JSON, with a traceback, before anybody could have caught it. A job raises the error itself, in its words.
And what Spark's JVM is told by raising is logged with its traceback, whatever it means.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from pyspark.logger import PySparkLogger

__all__ = ["never_logged", "quiet"]

_CALLBACKS = "py4j.clientserver"
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

_here = threading.local()


class _Elsewhere(logging.Filter):
    """Lets through what other threads have to say."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_here, "is_quiet", False)


_elsewhere = _Elsewhere()


class _Others(logging.Filter):
    """Lets through records that are not of exceptions of some kind."""

    def __init__(self, kind: type[Exception]) -> None:
        super().__init__()
        self.kind = kind

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], self.kind))


def never_logged(kind: type[Exception]) -> None:
    """Exceptions of this kind are no failure if they leave a function that Spark has called; they are not logged as one."""
    logger = logging.getLogger(_CALLBACKS)
    if not any(isinstance(known, _Others) and known.kind is kind for known in logger.filters):
        logger.addFilter(_Others(kind))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """In this block, PySpark does not write errors that this thread is about to be given."""
    for name in _LOGGERS:
        # The same filter is added once only.
        PySparkLogger.getLogger(name).addFilter(_elsewhere)
    before, _here.is_quiet = getattr(_here, "is_quiet", False), True
    try:
        yield
    finally:
        _here.is_quiet = before
