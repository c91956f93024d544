"""Coders that pickle: for values that no other coder takes.

Unpickling runs code that the bytes name. The descriptions of these coders say "opaque", and no tool decodes
their values unless it is told to trust whoever wrote the bytes.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import typing
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from holdfast.errors import CoderError
from holdfast.model.coders.base import BuiltinCoder

__all__ = ["CloudpickleCoder", "PickleCoder"]

_PROTOCOL = 5
_MAIN = "__main__"
_COPIES = ("cloudpickle", "pyspark.cloudpickle")
"""Where cloudpickle may be found: the package, or the copy inside PySpark."""
_ELSEWHERE = (
    "Use CloudpickleCoder(), which stores the class along with its values; or put the class into a module of its own, "
    "which the workers can import."
)


class PickleCoder(BuiltinCoder[Any]):
    """Anything that can be pickled. Its classes must be importable where the bytes are read.

    So values of classes defined in the script itself, `__main__`, are refused: a worker has another `__main__`.
    """

    short_name = "pickle"
    is_pickle = True

    def encode(self, value: object) -> bytes:
        try:
            data = self._dumps(value)
        except Exception as error:
            raise self.misfit(value, f"{type(error).__name__}: {error}", self._advice(error)) from error
        return data

    def decode(self, data: bytes) -> Any:
        try:
            return self._loads(data)
        except Exception as error:
            raise self.damaged(data, error) from error

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "opaque": True}

    def _dumps(self, value: Any) -> bytes:
        try:
            data = pickle.dumps(value, protocol=_PROTOCOL)
        except (pickle.PicklingError, AttributeError):
            # In a worker, where the names of a script's classes cannot be resolved.
            _Names(io.BytesIO(), protocol=_PROTOCOL).dump(value)
            raise
        # It may be just a text among the values.
        if _MAIN.encode() in data:
            _Names(io.BytesIO(), protocol=_PROTOCOL).dump(value)
        return data

    def _loads(self, data: bytes) -> Any:
        return pickle.loads(data)

    def _advice(self, error: Exception) -> str:
        """What to do about a class that cannot be found by its name, here or in a worker."""
        is_lost = isinstance(error, (pickle.PicklingError, AttributeError, ImportError))
        return _ELSEWHERE if is_lost else ""


class CloudpickleCoder(PickleCoder):
    """Like PickleCoder, but also takes lambdas and classes of a script or notebook. Needs cloudpickle or PySpark."""

    short_name = "cloudpickle"

    def __init__(self) -> None:
        _cloudpickle()

    def _dumps(self, value: Any) -> bytes:
        data: bytes = _cloudpickle().dumps(value, protocol=_PROTOCOL)
        return data

    def _loads(self, data: bytes) -> Any:
        return _Unpickler(io.BytesIO(data)).load()

    def _advice(self, error: Exception) -> str:
        return ""


class _Names(pickle.Pickler):
    """Refuses what would be pickled as a name in `__main__`."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, (type, FunctionType)) and thing.__module__ == _MAIN:
            kind = "class" if isinstance(thing, type) else "function"
            raise pickle.PicklingError(
                f"the {kind} {thing.__qualname__} is defined in the script itself, which no worker can import"
            )
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Reads what any copy of cloudpickle wrote, using the copy found here."""

    def find_class(self, module: str, name: str) -> Any:
        for copy in _COPIES:
            if module == copy or module.startswith(f"{copy}."):
                return getattr(importlib.import_module(_cloudpickle().__name__ + module[len(copy) :]), name)
        return super().find_class(module, name)


def _cloudpickle() -> Any:
    """PySpark's copy where Spark is in use, since it sent the functions here and knows their classes; otherwise any."""
    copies = reversed(_COPIES) if "pyspark" in sys.modules else iter(_COPIES)
    for name in copies:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise CoderError(
        "The coder 'cloudpickle' cannot be used: neither the package cloudpickle nor PySpark, which has it, is installed.",
        todo="Install cloudpickle, or use PickleCoder.",
    )


def annotation_problems(coder: object, annotation: Any, what: str) -> Iterator[str]:
    """Problems with values whose declared class is in `__main__` and would be pickled by name."""
    if not _pickles_by_name(coder):
        return
    for cls in dict.fromkeys(_classes_in(annotation)):
        if cls.__module__ == _MAIN:
            name = cls.__qualname__
            yield f"{what} {name} and stored with PickleCoder, but no worker can import {name} from the script. {_ELSEWHERE}"


def _pickles_by_name(coder: object) -> bool:
    """Whether a coder, or one of its parts, is a PickleCoder."""
    if type(coder) is PickleCoder:
        return True
    if isinstance(coder, (list, tuple)):
        return any(map(_pickles_by_name, coder))
    return isinstance(coder, BuiltinCoder) and _pickles_by_name(coder._arguments())


def _classes_in(annotation: Any) -> Iterator[type[Any]]:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _classes_in(part)
