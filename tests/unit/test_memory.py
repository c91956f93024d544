"""How much memory a key group takes by its own account, beside what Python's allocator says."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.backends.heap import HeapBackend, HeapOptions
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.intake import Elements
from holdfast.engine.run.step_runner import StepRunner
from holdfast.engine.state import memory
from holdfast.engine.state.key_group import Layout
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.testing.memory_store import MemoryStore

# Under tracemalloc everything is several times slower.
pytestmark = pytest.mark.slow

SPECS: dict[str, Any] = {
    "value": hf.ValueStateSpec,
    "bag": hf.BagStateSpec,
    "set": hf.SetStateSpec,
    "map": lambda name, coder, **more: hf.MapStateSpec(name, hf.StrUtf8Coder(), coder, **more),
    "ordered": hf.OrderedListStateSpec,
    "combining": lambda name, coder, **more: hf.CombiningStateSpec(name, hf.PlainCoder(), list_of_all(), **more),
}
VALUES: dict[str, tuple[Any, Any]] = {
    "small integers": (hf.VarIntCoder(), lambda n: n % 100),
    "integers": (hf.VarIntCoder(), lambda n: n + 10**6),
    "floats": (hf.FloatCoder(), lambda n: n + 0.5),
    "texts": (None, lambda n: f"value-{n:010}"),
    "tuples": (None, lambda n: (n + 1000, f"v{n}", (n / 3,))),
    "dicts": (None, lambda n: {"a": n, "b": f"v{n}"}),
    "bytes": (hf.BytesCoder(), lambda n: bytes(200) + n.to_bytes(8, "big")),
    "times": (None, lambda n: hf.Timestamp(n)),
}
BY_DAY = ("integers", "dicts")


def list_of_all() -> Any:
    class All(hf.CombineFn):
        def create_accumulator(self):
            return ()

        def add_input(self, mutable_accumulator, element):
            return (*mutable_accumulator, element)

        def merge_accumulators(self, accumulators):
            return sum(accumulators, ())

        def extract_output(self, accumulator):
            return accumulator

    return All()


def filling(kind: str, coder: Any, make: Any, **more: Any) -> hf.DoFn:
    """A function that puts as many values into its cell as an element says."""
    spec = SPECS[kind]("cell", coder, **more)
    count = iter(range(10**9))

    class Filling(hf.DoFn):
        def process(self, element, cell=hf.DoFn.StateParam(spec)):
            for n in range(element[1]):
                put(kind, cell, n, make(next(count)))

    return Filling()


def put(kind: str, cell: Any, n: int, value: Any) -> None:
    if kind == "value":
        cell.write(value)
    elif kind == "map":
        cell.put(f"name{n:05}", value)
    elif kind == "ordered":
        cell.add((hf.Timestamp(micros=n * 1000 + 10**12), value))
    else:
        cell.add(value)


class Group:
    """One key group, with what it takes by its own account and by the allocator's."""

    def __init__(self, fn: Any, **options: Any) -> None:
        step = build_step(fn, StepOptions(**options))
        layout = Layout(step)
        self.runner = StepRunner(step, layout, {}, origins=False)
        self.backend = HeapBackend(layout, HeapOptions(deltas_max=10**6, delta_bytes_min=10**9))
        self.store = MemoryStore()
        gc.collect()
        # What the process has loaded before need not be looked at again, at each of the many collections that follow.
        gc.freeze()
        tracemalloc.start()

    def bundle(self, elements: list[tuple[Any, Any]], times: list[int] | None = None, watermark: int = 0) -> None:
        state = self.backend.open(self.store)
        given = Elements.of(elements, times or [0] * len(elements))
        if self.runner.limiter is not None:
            self.runner.limiter.begin()
        self.runner.run(state, given, Clocks(watermark, watermark, 0), 0)
        if self.runner.limiter is not None:
            self.runner.limiter.note_uses(state, given.slots)
            self.runner.limiter.account(state)
            self.backend.limit(self.runner.limiter)
        self.backend.commit(self.store)

    @property
    def taken(self) -> int:
        gc.collect()
        self.runner.metrics = None  # type: ignore[assignment]
        self.runner.collector = None  # type: ignore[assignment]
        return tracemalloc.get_traced_memory()[0] - sum(len(data) for _, data in self.store.items())


@pytest.fixture
def group():
    yield Group
    if tracemalloc.is_tracing():
        tracemalloc.stop()
    gc.unfreeze()


def keys(count: int, each: int) -> list[tuple[str, int]]:
    return [(f"key-{n:07}", each) for n in range(count)]


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((2_000, 1), id="small"),
        pytest.param((250, 10), id="middling", marks=pytest.mark.night),
        pytest.param((8, 300), id="large", marks=pytest.mark.night),
    ],
)
@pytest.mark.parametrize(
    "values", [*BY_DAY, *(pytest.param(name, marks=pytest.mark.night) for name in VALUES if name not in BY_DAY)]
)
@pytest.mark.parametrize("kind", SPECS)
def test_what_a_key_group_takes_is_about_what_it_says(group, kind, values, shape):
    if (kind, values) == ("set", "dicts"):
        pytest.skip("a dict is no member of a set")
    if kind in ("value", "combining") and shape[1] != 1:
        pytest.skip("one value a key")
    made = group(filling(kind, *VALUES[values]))
    made.bundle(keys(*shape))
    assert made.backend.memory_bytes == pytest.approx(made.taken, rel=0.25, abs=20_000)
    read_again = HeapBackend(made.backend._layout)
    before = tracemalloc.get_traced_memory()[0]
    read_again.open(MemoryStore(dict(made.store.items())))
    gc.collect()
    assert read_again.memory_bytes == pytest.approx(tracemalloc.get_traced_memory()[0] - before, rel=0.25, abs=20_000)


def test_one_key_with_much_among_many_with_little(group):
    made = group(filling("set", *VALUES["texts"]))
    made.bundle([*keys(3_000, 1), ("heavy", 30_000), *keys(3_000, 1)])
    assert made.backend.memory_bytes == pytest.approx(made.taken, rel=0.25)


def test_it_follows_one_key_that_grows_bundle_by_bundle(group):
    made = group(filling("bag", *VALUES["integers"]))
    made.bundle(keys(2_000, 1))
    for _ in range(30):
        made.bundle([("key-0000001", 500)])
        assert made.backend.memory_bytes == pytest.approx(made.taken, rel=0.35)


def test_it_follows_what_is_written_again_and_again(group):
    made = group(filling("value", *VALUES["texts"]))
    for _ in range(20):
        made.bundle(keys(2_000, 1))
        assert made.backend.memory_bytes == pytest.approx(made.taken, rel=0.25)


class Alarms(hf.DoFn):
    DUE = hf.TimerSpec("due")
    SEEN = hf.BagStateSpec("seen", hf.VarIntCoder())

    def process(self, element, due=hf.DoFn.TimerParam(DUE), seen=hf.DoFn.StateParam(SEEN)):
        for n in range(element[1]):
            due.set(10**6 + n, f"tag-{n:06}")
        seen.add(1000)

    @hf.on_timer(DUE)
    def on_due(self):
        pass


def test_timers_and_their_index_count(group):
    made = group(Alarms())
    made.bundle(keys(200, 50))
    assert made.backend.memory_bytes == pytest.approx(made.taken, rel=0.25)


def test_windows_and_their_end_count(group):
    made = group(Alarms(), windowing=hf.FixedWindows(10))
    elements = keys(20, 3)
    for n in range(100):
        made.bundle(elements, [n * 10_000_000] * len(elements))
    full = made.backend.memory_bytes
    assert full == pytest.approx(made.taken, rel=0.25)
    made.bundle([], [], 99 * 10_000_000)
    assert made.backend.memory_bytes < full / 10
    assert made.backend.memory_bytes == pytest.approx(made.taken, rel=0.5, abs=100_000)


def test_cells_with_a_time_to_live_and_limits_count(group):
    fn = filling("bag", *VALUES["texts"], ttl=hf.Ttl(3600))
    made = group(fn, limits=hf.Limits(max_keys=4_000, policy="evict_lru"))
    made.bundle(keys(5_000, 2))
    assert made.backend.memory_bytes == pytest.approx(made.taken, rel=0.25)


def test_nothing_is_measured_while_little_changes(group, monkeypatch):
    measured: list[Any] = []
    really = memory.measured

    def noting(state):
        measured.append(state)
        return really(state)

    monkeypatch.setattr(memory, "measured", noting)
    made = group(filling("bag", *VALUES["integers"]))
    made.bundle(keys(5_000, 10))
    assert made.backend.memory_bytes == made.backend.memory_bytes
    for n in range(100):
        made.bundle([(f"key-{n:07}", 1)])
        assert made.backend.memory_bytes > 0
    assert len(measured) <= 2


def test_what_was_released_takes_nothing(group):
    made = group(filling("set", *VALUES["texts"]))
    made.bundle(keys(1_000, 5))
    assert made.backend.memory_bytes > 100_000
    made.backend.release()
    assert made.backend.memory_bytes < 5_000
