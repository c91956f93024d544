"""How our errors travel from a worker to the driver: as text inside Spark's exception, from which they are rebuilt.

Spark passes a Python exception on as the text of its traceback. So the worker raises one whose message has the error's
parts as JSON between two marks, and the driver looks for the marks in whatever text Spark gives it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from holdfast import errors
from holdfast.errors import HoldfastError

__all__ = ["WorkerFailure", "carried", "uncarried"]

_MARKED = re.compile(r"<holdfast-error ([A-Za-z0-9+/=]+)>")


class WorkerFailure(Exception):
    """A HoldfastError on its way to the driver."""


@contextlib.contextmanager
def carried() -> Iterator[None]:
    """Whatever of ours is raised in here reaches the driver whole."""
    try:
        yield
    except HoldfastError as error:
        parts = {
            "type": type(error).__name__,
            "what": error.what,
            "detail": error.detail,
            "todo": error.todo,
            "context": {name: _plain(value) for name, value in error.context.items()},
        }
        marked = base64.b64encode(json.dumps(parts).encode()).decode()
        raise WorkerFailure(f"{error}\n<holdfast-error {marked}>") from None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def uncarried(text: str) -> HoldfastError | None:
    """The error that this text carries, if it does."""
    found = _MARKED.search(text)
    if found is None:
        return None
    parts = json.loads(base64.b64decode(found.group(1)))
    error_class = getattr(errors, parts.pop("type"), HoldfastError)
    error: HoldfastError = error_class.__new__(error_class)
    HoldfastError.__init__(error, **parts)
    return error
