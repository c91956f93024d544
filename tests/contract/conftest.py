"""Where the suite runs: on every runtime with every backend, through the one fixture `run`."""

from __future__ import annotations

import itertools
import os
import sys
import zlib
from pathlib import Path

import pytest

import holdfast.testing

# Spark's workers import the suite's own helpers, and the example's backend, from where the driver does.
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from sqlite_backend import SqliteBackend

_EVERYTHING = os.environ.get("HOLDFAST_CONTRACT") == "all"

RUNTIMES = [(runtime, backend) for runtime in ("memory", "spark") for backend in ("heap", "disk", "example")]


def pytest_collection_modifyitems(config, items):
    """On Spark an event costs a micro-batch, some hundred times what it costs in memory. There the examples run with a
    crash after every element (a few of them on the other backends too), those of windows as they are, and of every other
    test with its elements in one bundle one in fourteen, chosen by name; with HOLDFAST_CONTRACT=all all of these. A backend
    of one's own has no limits."""
    left_out = [item for item in items if _is_left_out(item.nodeid)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _is_left_out(item.nodeid)]


def _is_left_out(name):
    if "contract/" not in name:
        return False
    if "-example" in name and "test_limits" in name:
        return True
    if "spark-" not in name:
        return False
    if "test_examples" in name:
        whole = _EVERYTHING or ("crashing" in name and "spark-heap" in name)
        return not whole and ("crashing" not in name or not _is_one_in(4, name))
    if "apart" in name or "crashing" in name:
        return True
    whole = _EVERYTHING or ("test_seed_windows" in name and "spark-heap" in name)
    return not whole and not ("spark-heap" in name and _is_one_in(14, name))


def _is_one_in(number, name):
    return zlib.crc32(name.encode()) % number == 0


class Run:
    """`holdfast.testing.run` on one runtime with one backend: Holdfast's own two, and the one of the examples."""

    def __init__(self, runtime, backend, folder):
        self.runtime, self.backend, self.folder = runtime, backend, folder
        self.runs = itertools.count()

    def __call__(self, *args, **options):
        backend = self.backend
        if backend == "example":
            # Each run has its state in files of its own.
            backend = SqliteBackend(str(self.folder / f"{next(self.runs)}"))
        return holdfast.testing.run(*args, runtime=self.runtime, backend=backend, **options)


@pytest.fixture(params=RUNTIMES, ids="-".join)
def run(request, tmp_path):
    runtime, backend = request.param
    return Run(runtime, backend, tmp_path)


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
