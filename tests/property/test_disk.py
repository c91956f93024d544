"""The disk backend under several workers of one machine and of others, with heap workers between them on the same log.

Workers share a file or have one of their own; bundles are abandoned, rolled back, run twice and run while the file is
locked; files are damaged and deleted; queries go back. Whatever was done before, a bundle must find what was committed,
fire what is due, and leave what a plain dict says.
"""

from __future__ import annotations

import contextlib
import copy
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.engine.backends import disk_file
from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HEAD, HeapBackend
from holdfast.engine.log.chain import SnapshotOptions
from holdfast.engine.log.head import Head
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.errors import CorruptState
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.state.specs import BagStateSpec, MapStateSpec, ValueStateSpec
from holdfast.model.time.timers import TimeDomain, TimerSpec, on_timer
from holdfast.model.windows.ready import FixedWindows
from holdfast.testing.memory_store import MemoryStore
from tiers import examples

SETTINGS = settings(
    max_examples=examples(40), stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
SECOND = 1_000_000
SIZE = 10


class Ledger(DoFn):
    """Does what its elements say, to cells whose deltas build upon what was there before."""

    TOTAL = ValueStateSpec("total")
    BAG = BagStateSpec("bag")
    MAP = MapStateSpec("map")
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        total=DoFn.StateParam(TOTAL),
        bag=DoFn.StateParam(BAG),
        names=DoFn.StateParam(MAP),
        event=DoFn.TimerParam(EVENT),
        real=DoFn.TimerParam(REAL),
    ):
        _, (verb, name, number) = element
        if verb == "write":
            total.write(number)
        elif verb == "add":
            bag.add(number)
        elif verb == "put":
            names.put(name, number)
        elif verb == "remove":
            names.remove(name)
        elif verb == "clear":
            for cell in (total, bag, names):
                cell.clear()
        elif verb == "event":
            event.set(number)
        elif verb == "real":
            real.set(number)

    @on_timer(EVENT)
    def on_event(self, key=DoFn.KeyParam, bag=DoFn.StateParam(BAG)):
        bag.add("event")
        yield key, "event"

    @on_timer(REAL)
    def on_real(self, key=DoFn.KeyParam, bag=DoFn.StateParam(BAG)):
        bag.add("real")
        yield key, "real"


STEP = build_step(Ledger(), StepOptions(windowing=FixedWindows(SIZE)))
LAYOUT = Layout(STEP)
CELLS = ("total", "bag", "map")
TIMERS = ("event", "real")

Content = dict[tuple[int, str, Any], Any]
"""(start of the window, cell or timer, key) → what it holds."""


def content_of(states: list[KeyGroupState]) -> Content:
    found: Content = {}
    for state in states:
        for window in state.windows.values():
            start = window.window.start.micros // SECOND
            for spec, table in zip(LAYOUT.cells, window.tables, strict=False):
                for key in table.values:
                    assert (start, spec.name, key) not in found
                    found[start, spec.name, key] = exact(table.reveal(key))
            for entry, time in window.pending():
                found[start, TIMERS[entry.timer], entry.slot] = time // SECOND
    return found


def exact(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def played(content: Content, bundle: Bundle) -> tuple[Content, list[Any]]:
    """What a bundle does, by the book: the content after it, and its outputs."""
    content = copy.deepcopy(content)
    outputs: list[Any] = []
    for key, (verb, name, number), time in bundle.elements:
        start = time // SIZE * SIZE
        if start + SIZE <= bundle.late:
            continue
        if verb in ("write", *TIMERS):
            content[start, "total" if verb == "write" else verb, key] = number
        elif verb == "add":
            content.setdefault((start, "bag", key), []).append(number)
        elif verb == "put":
            content.setdefault((start, "map", key), {})[name] = number
        elif verb == "remove":
            content.get((start, "map", key), {}).pop(name, None)
            if not content.get((start, "map", key), True):
                del content[start, "map", key]
        else:
            for cell in CELLS:
                content.pop((start, cell, key), None)
    timers = [place for place in content if place[1] in TIMERS]
    limits = {"event": bundle.watermark, "real": bundle.now}
    # Event time goes first, so a window that ends takes its timers of processing time with it. They fire all the same.
    for place in sorted(timers, key=lambda place: (TIMERS.index(place[1]), content[place], str(place[2]))):
        start, timer, key = place
        if content[place] <= limits[timer] or start + SIZE <= bundle.watermark:
            del content[place]
            content.setdefault((start, "bag", key), []).append(timer)
            outputs.append((key, timer))
    return {place: held for place, held in content.items() if place[0] + SIZE > bundle.watermark}, outputs


class Bundle:
    """What a bundle is given."""

    def __init__(self, elements: list[Any], late: int, watermark: int, now: int) -> None:
        self.elements = elements
        self.late, self.watermark, self.now = late, watermark, now

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.late * SECOND, self.watermark * SECOND, self.now * SECOND)


class Query:
    """A store, and what it held at each version."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.versions: list[tuple[dict[str, bytes], Content]] = [({}, {})]
        self.watermark = self.now = 0

    @property
    def content(self) -> Content:
        return self.versions[-1][1]

    def commit(self, content: Content) -> None:
        self.store.commit()
        self.versions.append((dict(self.store.committed), content))

    def back_to(self, version: int) -> None:
        del self.versions[version + 1 :]
        self.store = MemoryStore(self.versions[-1][0])


class Stop(Exception):
    """Something went wrong in the middle of a bundle."""


KEYS = ["a", "b", "c", 1, (2, "d")]
COMMANDS = st.tuples(
    st.sampled_from(KEYS),
    st.tuples(
        st.sampled_from(["write", "add", "add", "put", "put", "remove", "clear", "event", "event", "real"]),
        st.sampled_from("xyz"),
        st.integers(0, 300),
    ),
    st.integers(-5, 25),
)
OPTIONS = [
    {"deltas_max": 3, "segment_bytes_max": 1},
    {"delta_bytes_min": 300, "segment_bytes_max": 60},
    {"deltas_max": 0},
    {},
]
KINDS = [
    *["bundle"] * 6,
    "bundle_that_is_rolled_back",
    "bundle_that_is_abandoned",
    "bundle_whose_commit_fails",
    "bundle_that_runs_twice",
    "bundle_while_the_file_is_locked",
    *["query_goes_back"] * 2,
    "stores_change_places",
    "worker_is_replaced",
    "file_is_damaged",
    "file_is_deleted",
]
SHARED = (0, 1)
DISKS = (0, 1, 2)
workers = st.integers(0, 3)
"""Two that share a file, one with a file of its own, and one of the heap."""


class DiskMachine(RuleBasedStateMachine):
    @initialize(options=st.lists(st.sampled_from(OPTIONS), min_size=4, max_size=4))
    def begin(self, options: list[Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
        self.options = [SnapshotOptions(**option) for option in options]
        self.runner = make_runner(STEP, LAYOUT, {}, (), origins=True)
        self.workers: list[Any] = [self.make(worker) for worker in range(4)]
        self.queries = [Query(), Query()]
        self.is_damaged = False

    def teardown(self) -> None:
        for backend in getattr(self, "workers", ()):
            backend.release()
        if hasattr(self, "folder"):
            left = {path.name.partition("-")[0] for path in self.folder.iterdir()}
            shutil.rmtree(self.folder)
            assert left <= {"0.sqlite", "2.sqlite"}, f"files of their own are removed in the end, but there are {left}"

    def make(self, worker: int) -> Any:
        if worker in DISKS:
            return DiskBackend(LAYOUT, self.path_of(worker), self.options[worker], part_keys=2)
        return HeapBackend(LAYOUT, self.options[worker])

    def path_of(self, worker: int) -> Path:
        return self.folder / ("0.sqlite" if worker in SHARED else f"{worker}.sqlite")

    def bundle_of(self, query: Query, data: Any) -> Bundle:
        """The next bundle of a query: its clocks move, and its elements are near the watermark."""
        late = query.watermark
        query.watermark += data.draw(st.sampled_from([0, 0, 1, 3, 12]), label="watermark by")
        query.now += data.draw(st.sampled_from([0, 0, 1, 5]), label="now by")
        elements = []
        for key, (verb, name, number), ahead in data.draw(st.lists(COMMANDS, max_size=6), label="commands"):
            soon = {"event": late + number % 15, "real": query.now + number % 6}
            elements.append((key, (verb, name, soon.get(verb, number)), max(0, late + ahead)))
        return Bundle(elements, late, query.watermark, query.now)

    def run(self, backend: Any, store: MemoryStore, bundle: Bundle, fail_after: int | None = None) -> list[Any]:
        """A bundle up to its commit, after which the store may still be rolled back."""
        outputs: list[Any] = []

        def collect() -> None:
            if fail_after is not None and len(outputs) >= fail_after:
                raise Stop
            outputs.extend(output.value for output in self.runner.outputs())

        pairs = [(key, command) for key, command, _ in bundle.elements]
        elements = self.runner.elements(pairs, [time * SECOND for *_, time in bundle.elements])
        backend.open(store)
        run_bundle(backend, store, self.runner, elements, bundle.clocks, 0, collect)
        return outputs

    def attempt(self, worker: int, query: Query, bundle: Bundle) -> Content:
        """A bundle that went well, but for what becomes of the store."""
        expected, outputs = played(query.content, bundle)
        try:
            got = self.run(self.workers[worker], query.store, bundle)
        except CorruptState as error:
            # Damage may be found in the middle. Then the file is gone, and the next attempt is well.
            assert self.is_damaged
            if "working copy" not in str(error):
                raise
            self.workers[worker].abandon()
            query.store.rollback()
            got = self.run(self.workers[worker], query.store, bundle)
        assert sorted(got, key=str) == sorted(outputs, key=str)
        due = self.workers[worker].next_due(self.runner)
        waiting = [time for (_, cell, _), time in expected.items() if cell == "event"]
        waiting += [start + SIZE for start, *_ in expected]
        if waiting:
            assert due.event is not None
            assert bundle.watermark * SECOND < due.event <= min(waiting) * SECOND
        real = [time for (_, cell, _), time in expected.items() if cell == "real"]
        if real:
            assert due.real is not None
            assert bundle.now * SECOND < due.real <= min(real) * SECOND
        return expected

    # One rule, not many: Hypothesis leaves rules out at random, and without bundles nothing happens.
    @rule(kind=st.sampled_from(KINDS), worker=workers, query=st.sampled_from([0, 0, 0, 1]), data=st.data())
    def step(self, kind: str, worker: int, query: int, data: Any) -> None:
        getattr(self, kind)(worker, self.queries[query], data)

    def bundle(self, worker: int, query: Query, data: Any) -> None:
        query.commit(self.attempt(worker, query, self.bundle_of(query, data)))

    def bundle_that_is_rolled_back(self, worker: int, query: Query, data: Any) -> None:
        self.attempt(worker, query, self.bundle_of(query, data))
        query.store.rollback()

    def bundle_that_is_abandoned(self, worker: int, query: Query, data: Any) -> None:
        bundle = self.bundle_of(query, data)
        with contextlib.suppress(Stop, CorruptState):
            self.run(self.workers[worker], query.store, bundle, fail_after=data.draw(st.integers(0, 2), label="after"))
        if data.draw(st.booleans(), label="told"):
            self.workers[worker].abandon()
        query.store.rollback()

    def bundle_whose_commit_fails(self, worker: int, query: Query, data: Any) -> None:
        bundle = self.bundle_of(query, data)

        class Full(MemoryStore):
            def put(self, name: str, blob: bytes) -> None:
                raise Stop

        with contextlib.suppress(Stop, CorruptState):
            self.run(self.workers[worker], Full(query.store.committed), bundle)
        self.workers[worker].abandon()

    def bundle_that_runs_twice(self, worker: int, query: Query, data: Any) -> None:
        bundle = self.bundle_of(query, data)
        self.attempt(worker, query, bundle)
        token = Head.decode(query.store.get(HEAD)).token
        query.store.rollback()
        another = data.draw(st.sampled_from(DISKS) if worker in DISKS else st.just(worker), label="another")
        content = self.attempt(another, query, bundle)
        assert Head.decode(query.store.get(HEAD)).token == token
        query.commit(content)

    def bundle_while_the_file_is_locked(self, worker: int, query: Query, data: Any) -> None:
        path = self.path_of(worker)
        if worker not in DISKS or not path.exists() or self.is_damaged:
            return
        for each in DISKS:
            self.workers[each].abandon()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        self.bundle(worker, query, data)
        other.execute("ROLLBACK")
        other.close()

    def query_goes_back(self, worker: int, query: Query, data: Any) -> None:
        query.back_to(max(0, len(query.versions) - 1 - data.draw(st.integers(1, 4), label="back")))

    def stores_change_places(self, worker: int, query: Query, data: Any) -> None:
        self.queries.reverse()

    def worker_is_replaced(self, worker: int, query: Query, data: Any) -> None:
        self.workers[worker].release()
        self.workers[worker] = self.make(worker)

    def released(self, worker: int) -> Path | None:
        """The file of a worker, which nobody has open any more."""
        if worker not in DISKS:
            return None
        for each in SHARED if worker in SHARED else [worker]:
            self.workers[each].release()
        path = self.path_of(worker)
        return path if path.exists() else None

    def file_is_deleted(self, worker: int, query: Query, data: Any) -> None:
        path = self.path_of(worker)
        if worker in DISKS and (data.draw(st.booleans(), label="while it is open") or self.released(worker)):
            path.unlink(missing_ok=True)

    def file_is_damaged(self, worker: int, query: Query, data: Any) -> None:
        path = self.released(worker)
        if path is None:
            return
        self.is_damaged = True
        content = bytearray(path.read_bytes())
        how = data.draw(st.sampled_from(["cut", "garbage", "header", "tail"]))
        if how == "cut":
            del content[data.draw(st.integers(0, len(content))) :]
        elif how == "garbage":
            content = bytearray(b"\x5a" * len(content))
        elif how == "header":
            content[:100] = bytes(100)
        else:
            content[100:] = b"\xff" * (len(content) - 100)
        path.write_bytes(content)

    @invariant()
    def stores_have_what_was_committed(self) -> None:
        for query in getattr(self, "queries", ()):
            state = HeapBackend(LAYOUT).open(MemoryStore(query.store.committed))
            assert content_of([state]) == {place: exact(held) for place, held in query.content.items()}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(disk_file, "_LOCK_SECONDS", 0.0)


TestDisk = DiskMachine.TestCase
TestDisk.settings = SETTINGS
