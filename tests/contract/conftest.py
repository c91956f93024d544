"""Where the suite runs: on every runtime with every backend, through the one fixture `run`."""

from __future__ import annotations

import itertools
import sys
import zlib
from pathlib import Path

import pytest

import holdfast.testing

# Spark's workers import the suite's own helpers, and the examples' backends, from where the driver does.
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from lesson_store import CustomStateStore
from sqlite_backend import SqliteBackend

EXAMPLES = {"example": SqliteBackend, "lesson": CustomStateStore}
# Each of these takes dozens or hundreds of micro-batches.
LONG_ON_SPARK = (
    "test_state_does_not_pile_up",
    "test_state_is_bounded",
    "test_anomaly_model_speaks_only_when",
    "test_a_late_element_touches_no_state",
)
GRAPHS_BY_DAY = ("diamond",)
RUNTIMES = [(runtime, backend) for runtime in ("memory", "spark") for backend in ("heap", "disk", "example", "lesson")]


def pytest_collection_modifyitems(config, items):
    """On Spark an event costs a micro-batch, some hundred times what it costs in memory.

    There every test runs with its elements in one bundle, and the examples also with a crash after every element; the other
    ways of feeding are for the runtime in memory. Of those on Spark, `make test` has what `_is_by_day` says, and
    `make test-all` the rest; `make test-fast` has the heap in memory only. Of the backends in examples, which are two of a
    kind, one is for the night in memory too. A backend of one's own has no limits.
    """
    own = [item for item in items if "contract/" in item.nodeid]
    left_out = {item.nodeid for item in own if _is_left_out(item.nodeid)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
    for item in own:
        if "memory-lesson" in item.nodeid or ("spark-" in item.nodeid and not _is_by_day(item.nodeid)):
            item.add_marker("night")
        if "run" in item.fixturenames and "memory-heap" not in item.nodeid:
            item.add_marker("slow")


def _is_left_out(name):
    if ("-example" in name or "-lesson" in name) and "test_limits" in name:
        return True
    return "spark-" in name and "test_examples" not in name and ("apart" in name or "crashing" in name)


def _is_by_day(name):
    """Of the examples with crashes one in twelve with the heap, one in sixty with another backend. Of `test_seed_windows`
    one in six. Of the graphs one, with a restart. Of the other tests one in 120. All are chosen by name."""
    if any(long in name for long in LONG_ON_SPARK):
        return False
    if "test_examples" in name:
        return "crashing" in name and _is_one_in(12 if "spark-heap" in name else 60, name)
    if "test_graphs" in name:
        return "spark-heap" in name and "restarted" in name and any(graph in name for graph in GRAPHS_BY_DAY)
    return "spark-heap" in name and _is_one_in(6 if "test_seed_windows" in name else 120, name)


def _is_one_in(number, name):
    return zlib.crc32(name.encode()) % number == 0


class Run:
    """`holdfast.testing.run` on one runtime with one backend: Holdfast's own two, and the two of the examples."""

    def __init__(self, runtime, backend, folder):
        self.runtime, self.backend, self.folder = runtime, backend, folder
        self.runs = itertools.count()

    def __call__(self, *args, **options):
        return holdfast.testing.run(*args, runtime=self.runtime, backend=self.own_backend(), **options)

    def own_backend(self):
        """The backend for one step. Those of the examples have their state in files of their own each time."""
        if self.backend in EXAMPLES:
            return EXAMPLES[self.backend](str(self.folder / f"{next(self.runs)}"))
        return self.backend


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
