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

from holdfast import errors
from holdfast.errors import HoldfastError

__all__ = ["Shown", "WorkerFailure", "carried", "uncarried"]

_MARKED = re.compile(r"<holdfast-error ([A-Za-z0-9+/=]+)>")


_PLAIN = (str, int, float, bool, type(None))


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
            "context": {name: value for name, value in error.context.items() if isinstance(value, _PLAIN)},
            "shown": {name: repr(value) for name, value in error.context.items() if not isinstance(value, _PLAIN)},
        }
        marked = base64.b64encode(json.dumps(parts).encode()).decode()
        raise WorkerFailure(f"{error}\n<holdfast-error {marked}>") from None


class Shown(str):
    """How a value of the worker looks, which itself did not travel: a window, a key of several columns."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def uncarried(text: str) -> HoldfastError | None:
    """The error that this text carries, if it does."""
    found = _MARKED.search(text)
    if found is None:
        return None
    parts = json.loads(base64.b64decode(found.group(1)))
    parts["context"] |= {name: Shown(text) for name, text in parts.pop("shown").items()}
    error_class = getattr(errors, parts.pop("type"), HoldfastError)
    error: HoldfastError = error_class.__new__(error_class)
    HoldfastError.__init__(error, **parts)
    return error
