"""Coders that pickle: for values nothing else can take.

To unpickle is to run code that the bytes name. Their descriptions say "opaque", and no tool decodes them
unless it is told to trust whoever wrote the bytes.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from holdfast.errors import CoderError
from holdfast.model.coders.base import BuiltinCoder

__all__ = ["CloudpickleCoder", "PickleCoder"]

_PROTOCOL = 5


class PickleCoder(BuiltinCoder):
    """Anything that can be pickled. Its bytes depend on the classes being importable where they are read."""

    short_name = "pickle"
    is_pickle = True

    def encode(self, value: Any) -> bytes:
        try:
            return self._dumps(value)
        except Exception as error:
            raise self.misfit(value, f"{type(error).__name__}: {error}") from error

    def decode(self, data: bytes) -> Any:
        try:
            return pickle.loads(data)
        except Exception as error:
            raise self.damaged(data, error) from error

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "opaque": True}

    def _dumps(self, value: Any) -> bytes:
        return pickle.dumps(value, protocol=_PROTOCOL)


class CloudpickleCoder(PickleCoder):
    """As PickleCoder, for lambdas and classes of a notebook too. Needs the package cloudpickle."""

    short_name = "cloudpickle"

    def __init__(self) -> None:
        _cloudpickle()

    def _dumps(self, value: Any) -> bytes:
        data: bytes = _cloudpickle().dumps(value, protocol=_PROTOCOL)
        return data


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError as error:
        raise CoderError(
            "The coder 'cloudpickle' cannot be used: the package cloudpickle is not installed.",
            todo="Install cloudpickle, or use PickleCoder.",
        ) from error
