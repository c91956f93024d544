"""How our errors travel from a worker to the driver: as text inside Spark's exception.

Spark passes a Python exception on as text. Users of a plain query should see our error and nothing else, so the worker asks
Spark to leave out its own frames. If the driver wants the whole error (`rebuilding`), as a job does, the text also has its
parts as JSON between two marks, and `uncarried` looks for them in whatever text Spark gives.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.spark.session.properties import local_property, task_property

__all__ = ["Shown", "WorkerFailure", "carried", "rebuilding", "uncarried"]

_MARKED = re.compile(r"<holdfast-error ([A-Za-z0-9+/=]+)>")
_WANTED = "holdfast.errors.rebuilt"
"""The local property of a Spark job whose driver rebuilds errors."""
_HIDE_FRAMES = "SPARK_HIDE_TRACEBACK"
"""Read by Spark's worker when it formats an exception. The worker then ends, so nothing else is affected."""

_PLAIN = (str, int, float, bool, type(None))


class WorkerFailure(Exception):
    """A HoldfastError on its way to a driver that rebuilds it."""


@contextlib.contextmanager
def rebuilding(spark: SparkSession) -> Iterator[None]:
    """Inside this block, errors of what this thread starts can be rebuilt with `uncarried`."""
    with local_property(spark, _WANTED, "true"):
        yield


@contextlib.contextmanager
def carried() -> Iterator[None]:
    """Inside this block, our errors raised in a worker reach the driver whole."""
    try:
        yield
    except HoldfastError as error:
        os.environ[_HIDE_FRAMES] = "1"
        if task_property(_WANTED) is None:
            raise error from None
        raise WorkerFailure(f"{error}\n<holdfast-error {_marked(error)}>") from None


def _marked(error: HoldfastError) -> str:
    parts = {
        "type": type(error).__name__,
        "what": error.what,
        "detail": error.detail,
        "todo": error.todo,
        "context": {name: value for name, value in error.context.items() if isinstance(value, _PLAIN)},
        "shown": {name: repr(value) for name, value in error.context.items() if not isinstance(value, _PLAIN)},
    }
    return base64.b64encode(json.dumps(parts).encode()).decode()


class Shown(str):
    """The repr of a value that stayed in the worker: a window, a key of several columns."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def uncarried(text: str) -> HoldfastError | None:
    """The error that this text carries, if any."""
    found = _MARKED.search(text)
    if found is None:
        return None
    try:
        parts: dict[str, Any] = json.loads(base64.b64decode(found.group(1)))
    except (binascii.Error, ValueError):
        # The text was cut off.
        return None
    parts["context"] |= {name: Shown(text) for name, text in parts.pop("shown").items()}
    error_class = getattr(errors, parts.pop("type"), HoldfastError)
    error: HoldfastError = error_class.__new__(error_class)
    HoldfastError.__init__(error, **parts)
    return error
