"""Where the suite runs: on every runtime with every backend, through the one fixture `run`."""

from __future__ import annotations

import functools

import pytest

import holdfast.testing

RUNTIMES = [("memory", "heap")]


@pytest.fixture(params=RUNTIMES, ids="-".join)
def run(request):
    """`holdfast.testing.run` on one runtime with one backend."""
    runtime, backend = request.param
    return functools.partial(holdfast.testing.run, runtime=runtime, backend=backend)


def together(stream, elements):
    """All elements in one bundle."""
    return stream.add_elements(elements)


def apart(stream, elements):
    """Each element in a bundle of its own."""
    for element in elements:
        stream.add_elements([element])
    return stream


def crashing(stream, elements):
    """Each element in a bundle of its own, and all memory lost after it."""
    for element in elements:
        stream.add_elements([element]).crash()
    return stream


@pytest.fixture(params=[together, apart, crashing], ids=lambda way: way.__name__)
def feed(request):
    """Adds elements to a stream in one of three ways, which no result may depend on."""
    return request.param
