"""The log of a key group, under several workers, failed attempts, rollbacks, mixed-up stores and damaged bytes.

Whatever was done before, a worker that opens a store must see what was committed there, or say which blob is damaged.
The model of a store is the plain content at each of its versions.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.engine.backends.heap import HEAD, HeapBackend, HeapOptions, delta_name, segment_name
from holdfast.engine.log.blob import DELTA, SEGMENT, read_blob
from holdfast.engine.log.head import NO_TOKEN, Head
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.tables import Focus, make_cell
from holdfast.errors import CorruptState
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.state.specs import BagStateSpec, MapStateSpec, ValueStateSpec
from holdfast.model.time.timers import TimerSpec, on_timer
from holdfast.model.windows.ready import FixedWindows, IntervalWindow
from holdfast.testing.memory_store import MemoryStore
from tiers import examples

SETTINGS = settings(
    max_examples=examples(250), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

WINDOWS = [IntervalWindow(0, 10), IntervalWindow(10, 20)]


class Kept(DoFn):
    """Cells whose deltas build upon what was there before: a delta that is lost or applied twice shows."""

    TOTAL = ValueStateSpec("total")
    BAG = BagStateSpec("bag")
    MAP = MapStateSpec("map")
    TIMER = TimerSpec("timer")

    def process(
        self,
        element,
        total=DoFn.StateParam(TOTAL),
        bag=DoFn.StateParam(BAG),
        names=DoFn.StateParam(MAP),
        timer=DoFn.TimerParam(TIMER),
    ):
        pass

    @on_timer(TIMER)
    def on_time(self):
        pass


LAYOUT = Layout(build_step(Kept(), StepOptions(windowing=FixedWindows(10))))

Content = dict[tuple[int, str, str], Any]
"""(window, cell, key) → what it holds."""


def content_of(state: KeyGroupState) -> Content:
    return {
        (WINDOWS.index(window.window), spec.name, key): exact(table.reveal(key))
        for window in state.windows.values()
        for spec, table in zip(LAYOUT.cells, window.tables, strict=False)
        for key in table.values
    }


def exact(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def expected(content: Content) -> Content:
    return {place: exact(held) for place, held in content.items()}


# --- what a bundle does -------------------------------------------------------------------------------------------

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["write", "add", "add", "put", "put", "remove", "clear", "clear all", "drop window"]),
        st.integers(0, 1),
        st.sampled_from("ab"),
        st.sampled_from("xyz"),
        st.integers(0, 300),
    ),
    max_size=5,
)


def change(state: KeyGroupState, changes: list[Any]) -> None:
    focus = Focus()
    cells: list[Any] = [make_cell(spec, focus, None) for spec in LAYOUT.cells]
    total, bag, names = cells
    for verb, place, key, name, number in changes:
        window = state.window(WINDOWS[place])
        for cell, table in zip(cells, window.tables, strict=False):
            cell.attach(table)
        focus.key = key
        if verb == "write":
            total.write(number)
        elif verb == "add":
            bag.add(number)
        elif verb == "put":
            names.put(name, number)
        elif verb == "remove":
            names.remove(name)
        elif verb == "clear":
            bag.clear()
        elif verb == "clear all":
            for cell in (total, bag, names):
                cell.clear()
        else:
            state.drop(window)


def changed(content: Content, changes: list[Any]) -> Content:
    content = copy.deepcopy(content)
    for verb, place, key, name, number in changes:
        if verb == "write":
            content[place, "total", key] = number
        elif verb == "add":
            content.setdefault((place, "bag", key), []).append(number)
        elif verb == "put":
            content.setdefault((place, "map", key), {})[name] = number
        elif verb == "remove":
            content.get((place, "map", key), {}).pop(name, None)
            if not content.get((place, "map", key), True):
                del content[place, "map", key]
        elif verb == "clear":
            content.pop((place, "bag", key), None)
        elif verb == "clear all":
            for cell in ("total", "bag", "map"):
                content.pop((place, cell, key), None)
        else:
            content = {where: held for where, held in content.items() if where[0] != place}
    return content


# --- the machine --------------------------------------------------------------------------------------------------


class Query:
    """A store, and what it held at each version: the stored blobs and their meaning."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.versions: list[tuple[dict[str, bytes], Content]] = [({}, {})]

    @property
    def content(self) -> Content:
        return self.versions[-1][1]

    def commit(self, content: Content) -> None:
        self.store.commit()
        self.versions.append((dict(self.store.committed), content))

    def back_to(self, version: int) -> None:
        del self.versions[version + 1 :]
        self.store = MemoryStore(self.versions[-1][0])


class FailingStore(MemoryStore):
    """Refuses a write, the n-th."""

    def __init__(self, blobs: dict[str, bytes], writes: int) -> None:
        super().__init__(blobs)
        self.writes = writes

    def put(self, name: str, blob: bytes) -> None:
        if self.writes == 0:
            raise OSError("no room")
        self.writes -= 1
        super().put(name, blob)


OPTIONS = [
    {"deltas_max": 3, "segment_bytes_max": 1},
    {"delta_bytes_min": 300, "segment_bytes_max": 60},
    {"deltas_max": 0},
    {},
]

workers = st.integers(0, 2)
any_worker = st.integers(0, 3)
"""The last is a fresh one."""
queries = st.sampled_from([0, 0, 0, 1])
KINDS = [
    *["bundle"] * 5,
    "bundle_without_changes",
    "bundle_that_is_rolled_back",
    "bundle_that_is_abandoned",
    "bundle_whose_commit_fails",
    "bundle_that_runs_twice",
    *["query_goes_back"] * 2,
    "stores_change_places",
    "worker_is_replaced",
    "look",
    *["damage"] * 4,
    *["blob_of_another_state"] * 2,
]


class LogMachine(RuleBasedStateMachine):
    @initialize(options=st.lists(st.sampled_from(OPTIONS), min_size=3, max_size=3))
    def begin(self, options: list[Any]) -> None:
        self.options = [HeapOptions(**option) for option in options]
        self.workers = [HeapBackend(LAYOUT, option) for option in self.options]
        self.queries = [Query(), Query()]
        self.ever: dict[str, set[bytes]] = {}
        """All blobs that were ever written under a name, in any store, committed or not."""

    def attempt(self, worker: int, query: int, changes: list[Any]) -> tuple[HeapBackend, MemoryStore]:
        """A bundle up to its commit, after which the store may still be rolled back."""
        backend, store = self.workers[worker], self.queries[query].store
        state = backend.open(store)
        assert content_of(state) == expected(self.queries[query].content)
        change(state, changes)
        return backend, store

    def remember(self, store: MemoryStore) -> None:
        for name, blob in store.items():
            self.ever.setdefault(name, set()).add(blob)

    # One rule, not many: Hypothesis leaves rules out at random, and without bundles nothing happens.
    @rule(kind=st.sampled_from(KINDS), worker=workers, query=queries, data=st.data())
    def step(self, kind: str, worker: int, query: int, data: Any) -> None:
        getattr(self, kind)(worker, query, data)

    def bundle(self, worker: int, query: int, data: Any) -> None:
        changes = data.draw(CHANGES)
        backend, store = self.attempt(worker, query, changes)
        backend.commit(store)
        self.remember(store)
        self.queries[query].commit(changed(self.queries[query].content, changes))

    def bundle_without_changes(self, worker: int, query: int, data: Any) -> None:
        backend, store = self.attempt(worker, query, [])
        before = dict(store.items())
        commit = backend.commit(store)
        assert (commit.delta_bytes, commit.snapshot_bytes) == (0, 0)
        assert dict(store.items()) == before

    def bundle_that_is_rolled_back(self, worker: int, query: int, data: Any) -> None:
        backend, store = self.attempt(worker, query, data.draw(CHANGES))
        backend.commit(store)
        self.remember(store)
        store.rollback()

    def bundle_that_is_abandoned(self, worker: int, query: int, data: Any) -> None:
        backend, store = self.attempt(worker, query, data.draw(CHANGES))
        if data.draw(st.booleans(), label="told"):
            backend.abandon()
        store.rollback()

    def bundle_whose_commit_fails(self, worker: int, query: int, data: Any) -> None:
        backend, store = self.attempt(worker, query, data.draw(CHANGES))
        failing = FailingStore(store.committed, data.draw(st.integers(0, 3), label="writes"))
        with contextlib.suppress(OSError):  # there may be room after all; but nothing of it is committed
            backend.commit(failing)

    def bundle_that_runs_twice(self, worker: int, query: int, data: Any) -> None:
        changes = data.draw(CHANGES)
        backend, store = self.attempt(worker, query, changes)
        backend.commit(store)
        token = Head.decode(store.get(HEAD)).token
        store.rollback()
        backend, store = self.attempt(data.draw(workers, label="another"), query, changes)
        backend.commit(store)
        assert Head.decode(store.get(HEAD)).token == token
        self.remember(store)
        self.queries[query].commit(changed(self.queries[query].content, changes))

    def query_goes_back(self, worker: int, query: int, data: Any) -> None:
        back = data.draw(st.integers(1, 4), label="back")
        self.queries[query].back_to(max(0, len(self.queries[query].versions) - 1 - back))

    def stores_change_places(self, worker: int, query: int, data: Any) -> None:
        self.queries.reverse()

    def worker_is_replaced(self, worker: int, query: int, data: Any) -> None:
        self.workers[worker] = HeapBackend(LAYOUT, self.options[worker])

    def look(self, worker: int, query: int, data: Any) -> None:
        self.attempt(worker, query, [])

    # Damage: what is done to a copy of the stored bytes. No worker may be the worse for it afterwards.

    def damage(self, worker: int, query: int, data: Any) -> None:
        blobs = dict(self.queries[query].store.committed)
        if not blobs:
            return
        how = data.draw(st.sampled_from(["flip", "truncate", "lengthen", "remove", "swap", "duplicate", "empty"]))
        name = data.draw(st.sampled_from(sorted(blobs)))
        damaged = {name}
        if how == "flip":
            place = data.draw(st.integers(0, len(blobs[name]) - 1))
            flipped = blobs[name][place] ^ data.draw(st.integers(1, 255))
            blobs[name] = blobs[name][:place] + bytes([flipped]) + blobs[name][place + 1 :]
        elif how == "truncate":
            blobs[name] = blobs[name][: data.draw(st.integers(0, len(blobs[name]) - 1))]
        elif how == "lengthen":
            blobs[name] += data.draw(st.binary(min_size=1, max_size=4))
        elif how == "remove":
            del blobs[name]
        elif how == "empty":
            blobs[name] = b""
        else:
            others = [other for other in sorted(blobs) if blobs[other] != blobs[name]]
            if not others:
                return
            other = data.draw(st.sampled_from(others))
            blobs[name], blobs[other] = blobs[other], blobs[name] if how == "swap" else blobs[other]
            damaged |= {other} if how == "swap" else set()
        self.opens_right_or_refuses(data.draw(any_worker), query, blobs, damaged)

    def blob_of_another_state(self, worker: int, query: int, data: Any) -> None:
        """A blob that is whole, but of this store's past, of an attempt that failed, or of the other store."""
        foreign = self.foreign(query)
        if foreign:
            name, blob = data.draw(st.sampled_from(foreign))
            blobs = self.queries[query].store.committed | {name: blob}
            self.opens_right_or_refuses(data.draw(any_worker), query, blobs, None)

    def foreign(self, query: int) -> list[tuple[str, bytes]]:
        """Blobs that could be mistaken for those of a store. Not the head: one of the past is just a past state."""
        blobs = self.queries[query].store.committed
        return sorted((name, b) for name in blobs.keys() - {HEAD} for b in self.ever.get(name, set()) - {blobs[name]})

    def opens_right_or_refuses(self, worker: int, query: int, blobs: dict[str, bytes], damaged: Any) -> None:
        """A fourth worker is a fresh one, which needs every blob."""
        fresh = worker == len(self.workers)
        backend = HeapBackend(LAYOUT) if fresh else self.workers[worker]
        refusal = None
        try:
            state = backend.open(MemoryStore(blobs))
        except CorruptState as refused:
            refusal = str(refused)
        if refusal is None:
            assert not fresh or not blobs
            assert content_of(state) == expected(self.queries[query].content)
        elif damaged is not None:
            assert any(repr(name) in refusal for name in damaged)

    @invariant()
    def stores_are_whole(self) -> None:
        for query in self.queries:
            is_whole(query.store.committed)


def is_whole(blobs: dict[str, bytes]) -> None:
    """The store holds exactly what its head says, and the deltas are one chain."""
    head = Head.decode(blobs.get(HEAD))
    deltas = [delta_name(sequence) for sequence in range(head.base + 1, head.last + 1)]
    segments = [segment_name(head.base, part) for part in range(head.parts)]
    assert set(blobs) == ({HEAD, *deltas, *segments} if blobs else set())
    assert head.delta_bytes == sum(len(blobs[name]) for name in deltas)
    assert head.snapshot_bytes == sum(len(blobs[name]) for name in segments)
    for part, name in enumerate(segments):
        blob = read_blob(blobs[name], name)
        assert blob[:4] == (SEGMENT, head.base, part, head.base_token)
    token = head.base_token
    for sequence, name in enumerate(deltas, head.base + 1):
        blob = read_blob(blobs[name], name)
        assert blob[:4] == (DELTA, sequence, 0, token)
        token = blob.token
    assert token == head.token
    if head.base == 0:
        assert head.base_token == NO_TOKEN


TestLog = LogMachine.TestCase
TestLog.settings = SETTINGS
