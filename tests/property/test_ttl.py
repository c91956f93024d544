"""Cells with a time to live against a plain dict, whatever the clocks do, and whoever runs the bundles.

Sweeps remove a few cells in each bundle here, so that what has expired stays about. Workers that have been there all along
and workers that are fresh in every bundle must write the same deltas.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HEAD, HeapBackend
from holdfast.engine.log.chain import SnapshotOptions
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.step_runner import StepRunner
from holdfast.engine.state import sweeping
from holdfast.engine.state.key_group import Layout
from holdfast.engine.state.sweeping import sweep_budget
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.step import build_step
from holdfast.model.state.specs import BagStateSpec, ValueStateSpec
from holdfast.model.state.ttl import Ttl
from holdfast.model.time.timestamps import MIN_TIMESTAMP
from holdfast.testing.memory_store import MemoryStore
from tiers import examples

SETTINGS = settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
TTL = 20_000_000
"""In microseconds: a lump is 78,125 of them."""
NEVER = MIN_TIMESTAMP.micros

actions = st.sampled_from(["write", "write", "write", "read", "clear", "add"])
times = st.builds(
    lambda quarter, more: quarter * TTL // 4 + more, st.integers(0, 3), st.sampled_from([0, 1, 999, 50_000, 100_001])
)
elements = st.lists(st.tuples(st.integers(0, 5), actions, times), max_size=8)
ticks = st.sampled_from([0, 50_000, TTL // 4, TTL])
bundles = st.lists(st.tuples(elements, ticks, ticks), min_size=4, max_size=12)
ttls = st.builds(
    Ttl,
    st.just(TTL / 1e6),
    refresh=st.sampled_from(["write", "read"]),
    time=st.sampled_from(["processing", "event"]),
)


@pytest.fixture(autouse=True)
def _sweeps_are_small(monkeypatch):
    monkeypatch.setattr(sweeping, "SWEEP_MIN", 2)
    monkeypatch.setattr(sweeping, "_PER_ELEMENT", 0)


def function(ttl: Ttl) -> DoFn:
    class Fading(DoFn):
        """Does what its elements say, and tells what it sees then."""

        LAST = ValueStateSpec("last", ttl=ttl)
        ALL = BagStateSpec("all", ttl=ttl)

        def process(self, element, last=DoFn.StateParam(LAST), everything=DoFn.StateParam(ALL)):
            key, (action, number) = element
            if action == "write":
                last.write(number)
            elif action == "read":
                yield key, last.read()
            elif action == "add":
                everything.add(number)
                yield key, sorted(everything.read())
            else:
                last.clear()

    return Fading()


class Model:
    """The same with a dict: (cell, key) → what it has, and when it was last touched."""

    def __init__(self, ttl: Ttl) -> None:
        self.ttl = ttl
        self.held: dict[tuple[str, int], tuple[Any, int]] = {}

    def bundle(self, some: Any, watermark: int, now: int) -> list[Any]:
        seen = []
        self.now = watermark if self.ttl.in_event_time else now
        for number, (key, action, time) in enumerate(some):
            touched = max(watermark, time) if self.ttl.in_event_time else now
            touched += -touched % 1_000
            if action == "write":
                self.put("last", key, number, touched)
            elif action == "read":
                value, _ = self.alive("last", key)
                seen.append((key, value))
                if value is not None and self.ttl.refresh == "read":
                    self.put("last", key, value, touched)
            elif action == "add":
                values, _ = self.alive("all", key)
                self.put("all", key, [*(values or []), number], touched)
                seen.append((key, sorted(self.held["all", key][0])))
            else:
                self.held.pop(("last", key), None)
        return seen

    def alive(self, cell: str, key: int) -> tuple[Any, int]:
        value, stamp = self.held.get((cell, key), (None, NEVER))
        if value is not None and stamp != NEVER and stamp + TTL <= self.now:
            del self.held[cell, key]
            return None, NEVER
        return value, stamp

    def put(self, cell: str, key: int, value: Any, touched: int) -> None:
        _, stamp = self.alive(cell, key)
        self.held[cell, key] = value, max(stamp, touched)

    def living(self) -> set[tuple[str, int]]:
        """What nothing may have removed."""
        return {place for place, (_, stamp) in self.held.items() if stamp == NEVER or stamp + TTL > self.now}


class Worker:
    def __init__(self, ttl: Ttl, path: Path | None) -> None:
        step = build_step(function(ttl))
        self.layout = Layout(step)
        self.runner = StepRunner(step, self.layout, {}, origins=False)
        options = SnapshotOptions(deltas_max=5)
        self.backend: Any = HeapBackend(self.layout, options)
        if path is not None:
            self.backend = DiskBackend(self.layout, path, options, part_keys=3)

    def bundle(self, store: MemoryStore, some: Any, watermark: int, now: int) -> tuple[list[Any], Any]:
        self.backend.open(store)
        pairs = [(key, (action, number)) for number, (key, action, _) in enumerate(some)]
        taken = self.runner.elements(pairs, [time for *_, time in some])
        outputs: list[Any] = []
        clocks = Clocks(watermark, watermark, now)
        metrics = run_bundle(
            self.backend, store, self.runner, taken, clocks, 0, lambda: outputs.extend(self.runner.collector.items)
        )
        store.commit()
        return outputs, metrics


def held_in(ttl: Ttl, store: MemoryStore) -> set[tuple[str, int]]:
    """What is stored, as a worker sees it that has nothing to do with the others."""
    found = set()
    for state in Worker(ttl, None).backend.everything(store):
        for window in state.windows.values():
            found |= {("last", key) for key in window.tables[0].values}
            found |= {("all", key) for key in window.tables[1].values}
            assert window.stamps(0).values.keys() == window.tables[0].values.keys()
            assert window.stamps(1).values.keys() == window.tables[1].values.keys()
    return found


def play(ttl: Ttl, script: Any, path: Path | None, *, fresh: bool) -> tuple[list[Any], bytes | None]:
    """Plays a script beside the model; gives all outputs, and the head of the log, which stands for all deltas."""
    model, store, worker = Model(ttl), MemoryStore(), Worker(ttl, path)
    watermark, now = NEVER, 0
    told: list[Any] = []
    for some, by_watermark, by_now in script:
        now += by_now
        if by_watermark:
            watermark = by_watermark if watermark == NEVER else watermark + by_watermark
        if fresh:
            worker.backend.release()
            worker = Worker(ttl, None if path is None else path.with_name(f"{len(told)}-{now}-{watermark}"))
        outputs, metrics = worker.bundle(store, some, watermark, now)
        expected = model.bundle(some, watermark, now)
        if path is None:
            assert outputs == expected
        assert sorted(outputs, key=repr) == sorted(expected, key=repr)
        assert model.living() <= held_in(ttl, store)
        swept = metrics.cells_expired
        assert swept <= sweep_budget(0) * len(worker.layout.stamps) + len(some)
        told.append((outputs, swept))
    # What has expired goes in the end, a few cells in each bundle.
    last = max(now, watermark, 2 * TTL) + 3 * TTL
    for _ in range(30):
        worker.bundle(store, [], last, last)
        last += TTL
    assert not held_in(ttl, store)
    worker.backend.release()
    return told, store.get(HEAD)


@SETTINGS
@given(ttls, bundles)
def test_the_heap_does_what_a_dict_does_in_any_worker(ttl, script):
    assert play(ttl, script, None, fresh=False) == play(ttl, script, None, fresh=True)


@settings(SETTINGS, max_examples=examples(25))
@given(ttls, bundles)
def test_the_disk_does_what_a_dict_does_in_any_worker(ttl, script):
    with tempfile.TemporaryDirectory() as folder:
        one = play(ttl, script, Path(folder) / "one", fresh=False)
        assert one == play(ttl, script, Path(folder) / "many", fresh=True)


def test_a_key_that_was_touched_again_goes_with_those_of_its_time():
    """Its place in the index of an old worker is another than in that of a fresh one."""
    # 5 comes first and expires with 1; of the two cells that a sweep removes, one is 0.
    script = [
        ([(5, "write", 0)], 1_000, 0),
        ([(1, "write", TTL // 4), (0, "write", TTL // 4)], 0, 0),
        ([(5, "write", TTL // 4)], 0, 0),
        ([], TTL, 0),
        ([], TTL // 4, 0),
        ([], 50_000, 0),
    ]
    ttl = Ttl(TTL / 1e6, time="event")
    told, head = play(ttl, script, None, fresh=False)
    assert [swept for _, swept in told] == [0, 0, 0, 0, 2, 1]
    assert (told, head) == play(ttl, script, None, fresh=True)
