"""Which backend a step uses: one of Holdfast's own by name, or the user's by its factory."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal, cast, get_args

from holdfast.engine.backends.protocol import BackendFactory
from holdfast.model.functions.options import StepOptions

__all__ = ["BACKENDS", "Backend", "BackendName", "backend_name", "backend_of", "backend_problems"]

BackendName = Literal["heap", "disk"]
"""Holdfast's own backends."""

BACKENDS = get_args(BackendName)

Backend = BackendName | BackendFactory
"""What `backend=` takes."""


def backend_of(options: StepOptions) -> Backend:
    """The backend of a step whose options have been checked."""
    return cast(Backend, options.backend)


def backend_name(backend: Backend) -> str:
    """The name that a manifest records."""
    return backend if isinstance(backend, str) else backend.name


def backend_problems(backend: Any) -> Iterator[str]:
    """What is wrong with the given backend, in sentences."""
    if isinstance(backend, str):
        if backend not in BACKENDS:
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
    elif name in BACKENDS:
        yield f"The name of the backend {backend!r} is {name!r}, which is one of Holdfast's own; choose another name."


def _takes_two(make: Any) -> bool:
    try:
        inspect.signature(make).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
