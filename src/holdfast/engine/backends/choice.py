"""Which backend a step uses: one of Holdfast's own by name, or the user's by its factory."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal, cast, get_args

from holdfast.engine.backends.protocol import BackendFactory
from holdfast.model.functions.options import StepOptions

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendName",
    "BackendWord",
    "backend_name",
    "backend_of",
    "backend_problems",
    "own_backend",
]

BackendName = Literal["heap", "disk"]
"""Holdfast's own backends."""

BackendWord = Literal["heap", "disk", "hashmap", "rocksdb"]
"""The words for them: the last two are Flink's. They say where the working copy is; what is committed is in Spark's RocksDB
store whatever the backend."""

BACKENDS = get_args(BackendName)
_FLINKS: dict[str, BackendName] = {"hashmap": "heap", "rocksdb": "disk"}

Backend = BackendWord | BackendFactory
"""What `backend=` takes."""


def own_backend(word: str) -> BackendName | None:
    """The backend of Holdfast's own that a word stands for; None if there is none."""
    return _FLINKS.get(word) or cast(BackendName | None, word if word in BACKENDS else None)


def backend_of(options: StepOptions) -> BackendName | BackendFactory:
    """The backend of a step whose options have been checked."""
    if options.backend is None:
        return "heap"
    if isinstance(options.backend, str):
        return own_backend(options.backend) or cast(BackendName, options.backend)
    return cast(BackendFactory, options.backend)


def backend_name(backend: Backend) -> str:
    """The name that a manifest records."""
    return (own_backend(backend) or backend) if isinstance(backend, str) else backend.name


def backend_problems(backend: Any) -> Iterator[str]:
    """What is wrong with the given backend, in sentences. None is the default."""
    if backend is None:
        return
    if isinstance(backend, str):
        if own_backend(backend) is None:
            yield f"backend is {backend!r}; it can be {', '.join(map(repr, BACKENDS))}, or a factory of your own."
        return
    name, make = getattr(backend, "name", None), getattr(backend, "make", None)
    if name is None or not callable(make):
        yield (
            f"backend is {backend!r}; it can be {', '.join(map(repr, BACKENDS))}, or a factory of your own: an object with "
            "a name and make(layout, place)."
        )
        return
    yield from _name_problems(backend, name)
    if not _takes_two(make):
        if isinstance(backend, type):
            yield f"backend is the class {backend.__name__}; give an instance, {backend.__name__}(...)."
        else:
            yield f"make of the backend {backend!r} must take two arguments: make(layout, place)."


def _name_problems(backend: Any, name: Any) -> Iterator[str]:
    if isinstance(backend, type) and not isinstance(name, str):
        return
    if not isinstance(name, str) or not name:
        yield f"The name of the backend {backend!r} is {name!r}; it must be a string, since it is recorded with the state."
    elif own_backend(name) is not None:
        yield f"The name of the backend {backend!r} is {name!r}, which is one of Holdfast's own; choose another name."


def _takes_two(make: Any) -> bool:
    try:
        inspect.signature(make).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
