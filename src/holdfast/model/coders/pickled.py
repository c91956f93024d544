"""Coders that pickle: for values nothing else can take.

To unpickle is to run code that the bytes name. Their descriptions say "opaque", and no tool decodes them
unless it is told to trust whoever wrote the bytes.
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
"""Where cloudpickle may be: the package, or the copy that PySpark brings along."""
_ELSEWHERE = (
    "Use CloudpickleCoder(), which stores the class along with its values; or put the class into a module of its own, "
    "which the workers can import."
)


class PickleCoder(BuiltinCoder[Any]):
    """Anything that can be pickled. Its bytes depend on the classes being importable where they are read.

    So a value of a class of the script itself, `__main__`, is refused: a worker's `__main__` is another one.
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
            # In a worker, where the names of a script's classes lead nowhere.
            _Names(io.BytesIO(), protocol=_PROTOCOL).dump(value)
            raise
        # It may be no more than a text among the values.
        if _MAIN.encode() in data:
            _Names(io.BytesIO(), protocol=_PROTOCOL).dump(value)
        return data

    def _loads(self, data: bytes) -> Any:
        return pickle.loads(data)

    def _advice(self, error: Exception) -> str:
        """What a class that is not found by its name, here or in a worker, needs."""
        is_lost = isinstance(error, (pickle.PicklingError, AttributeError, ImportError))
        return _ELSEWHERE if is_lost else ""


class CloudpickleCoder(PickleCoder):
    """As PickleCoder, for lambdas and classes of a script or notebook too. Needs the package cloudpickle, or PySpark."""

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
    """Refuses what a pickle would take from `__main__` by its name."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, (type, FunctionType)) and thing.__module__ == _MAIN:
            kind = "class" if isinstance(thing, type) else "function"
            raise pickle.PicklingError(
                f"the {kind} {thing.__qualname__} is of the script itself, which no worker can import"
            )
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Reads what any copy of cloudpickle wrote with the one that is here."""

    def find_class(self, module: str, name: str) -> Any:
        for copy in _COPIES:
            if module == copy or module.startswith(f"{copy}."):
                return getattr(importlib.import_module(_cloudpickle().__name__ + module[len(copy) :]), name)
        return super().find_class(module, name)


def _cloudpickle() -> Any:
    """PySpark's copy where Spark is in use: it brought the functions here, and knows their classes. Else any."""
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
    """Of values that are declared to be of a class of `__main__`, and would be pickled by its name: that they cannot be."""
    if not _pickles_by_name(coder):
        return
    for cls in dict.fromkeys(_classes_in(annotation)):
        if cls.__module__ == _MAIN:
            name = cls.__qualname__
            yield f"{what} {name} and stored with PickleCoder, but no worker can import {name} from the script. {_ELSEWHERE}"


def _pickles_by_name(coder: object) -> bool:
    """Whether a coder, or one that it is made of, is a PickleCoder."""
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
