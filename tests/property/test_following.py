"""A copy that catches up with what other workers did is like one that is read anew, and does the same with what comes.

Workers take turns on one store, in any order, with bundles that fail, and bundles that are lost after they ran, among them.
Whenever one of them opens the store, all that it derives from the state must be what a fresh worker derives. And what comes
of each bundle, outputs and stored bytes, must be what comes of it in a fresh worker.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.engine.backends.heap import HeapBackend, HeapOptions
from holdfast.engine.log.chain import read_head
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.keys import slot_from_bytes
from holdfast.engine.state.ledger import Ledger
from holdfast.model.aggregate.combiners import Count, Max
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.grouping import CombinePerKey, build_grouping
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import Step, build_step
from holdfast.model.state.limits import Limits
from holdfast.model.state.specs import BagStateSpec, MapStateSpec, ValueStateSpec
from holdfast.model.state.ttl import Ttl
from holdfast.model.time.timers import TimeDomain, TimerSpec, on_timer
from holdfast.model.time.timestamps import Duration
from holdfast.model.windows.ready import FixedWindows, GlobalWindows, Sessions
from holdfast.testing.memory_store import MemoryStore
from tiers import examples

SETTINGS = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])

SECOND = 1_000_000
OPTIONS = HeapOptions(delta_bytes_min=3_000)
TAGS = ["", "x", "y"]


class Failed(Exception):
    pass


class Busy(DoFn):
    """Does what its elements say: (verb, name, number)."""

    TOTAL = ValueStateSpec("total", ttl=Ttl(5))
    SEEN = BagStateSpec("seen", ttl=Ttl(7, time="event"))
    NAMES = MapStateSpec("names")
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        total=DoFn.StateParam(TOTAL),
        seen=DoFn.StateParam(SEEN),
        names=DoFn.StateParam(NAMES),
        event=DoFn.TimerParam(EVENT),
        real=DoFn.TimerParam(REAL),
    ):
        verb, name, number = element[1]
        if verb == "write":
            total.write(number)
        elif verb == "add":
            seen.add(number)
        elif verb == "put":
            names.put(name, number)
        elif verb == "clear":
            for cell in (total, seen, names):
                cell.clear()
        elif verb == "set event":
            event.set(number, name)
        elif verb == "set real":
            real.set(number, name)
        elif verb == "clear timers":
            event.clear(name)
            real.clear(name)
        elif verb == "fail":
            raise Failed

    @on_timer(EVENT)
    def on_event(self, names=DoFn.StateParam(NAMES), real=DoFn.TimerParam(REAL)):
        names.put("fired", 1)
        real.set(40)

    @on_timer(REAL)
    def on_real(self, total=DoFn.StateParam(TOTAL)):
        total.clear()


LATE = Duration.of(6)
IN_ORDER = {"allowed_lateness": Duration.of(3), "requires_time_sorted_input": True}
LETTERS = {"on_error": "dead_letter", "outputs": ["late", "dead_letter"]}
STEPS: dict[str, StepOptions] = {
    "global": StepOptions(windowing=GlobalWindows()),
    "windows": StepOptions(windowing=FixedWindows(10)),
    "in order": StepOptions(windowing=FixedWindows(10), **IN_ORDER),
    "limits": StepOptions(windowing=FixedWindows(10), limits=Limits(max_keys=3, policy="evict_lru")),
    "oldest": StepOptions(windowing=GlobalWindows(), limits=Limits(max_bytes=400, policy="evict_oldest")),
    "everything": StepOptions(
        windowing=FixedWindows(10), limits=Limits(max_keys=3, policy="evict_lru"), **IN_ORDER, **LETTERS
    ),
}
AGGREGATIONS: dict[str, StepOptions] = {
    "whole windows": StepOptions(windowing=FixedWindows(10), allowed_lateness=LATE),
    "sessions": StepOptions(windowing=Sessions(4), allowed_lateness=LATE, accumulation_mode="accumulating"),
    "sessions one by one": StepOptions(windowing=Sessions(4), allowed_lateness=LATE, **LETTERS),
}
COMBINERS = {"n": Count(), "last": Max()}


def built(name: str) -> Step:
    if name in STEPS:
        return build_step(Busy(), STEPS[name])
    return build_grouping(CombinePerKey(COMBINERS), AGGREGATIONS[name])


ELEMENTS = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.tuples(
            st.sampled_from(
                ["write", "write", "add", "put", "clear", "set event", "set real", "clear timers"] * 3 + ["fail"]
            ),
            st.sampled_from(TAGS),
            st.integers(0, 60),
        ),
        st.integers(0, 40),
    ),
    max_size=6,
)
FATES = st.sampled_from(["committed"] * 9 + ["lost"])
BUNDLES = st.lists(
    st.tuples(st.integers(0, 2), ELEMENTS, st.integers(0, 8), st.integers(0, 4), FATES), min_size=2, max_size=14
)
"""(worker, elements with times, how far the watermark moves, how far the clock does, what becomes of it)."""


def indexed(state: KeyGroupState) -> dict[Any, dict[Any, int]]:
    """For each domain, when each timer is checked; what the index keeps must agree with itself."""
    found = {}
    for domain, index in state.indexes.items():
        entered = {entry: time for entries in index._entered.values() for entry, time in entries.items()}
        assert len(entered) == len(index)
        assert all(entry in index.placed_at(time) for entry, time in entered.items())
        assert sorted(index._at) == sorted(index._times)
        found[domain] = entered
    return found


def expiring(state: KeyGroupState) -> dict[Any, int]:
    """When each cell is first looked at."""
    found: dict[Any, int] = {}
    for in_event_time, index in state.expiring.items():
        places = [(time, *place, slot) for time, at in index._at.items() for place, slots in at.items() for slot in slots]
        places += [(piece.time, piece.window, piece.cell, slot) for piece in index._queue for slot in piece.slots]
        assert len(index) == len(places)
        for time, window, cell, slot in places:
            name = (in_event_time, window, cell, slot)
            found[name] = min(time, found.get(name, time))
    return found


def content(state: KeyGroupState) -> Any:
    return {
        data: [{slot: table.reveal(slot) for slot in table.values} for table in window.tables]
        for data, window in state.windows.items()
        # The global window may be there with nothing in it.
        if data or window.entries()
    }


def check(state: KeyGroupState, store: MemoryStore, layout: Layout) -> None:
    fresh = HeapBackend(layout).open(MemoryStore(dict(store.committed)))
    assert content(state) == content(fresh)
    assert state.entries == sum(window.entries() for window in fresh.windows.values())
    assert state._counted_expiring == sum(window.counted_expiring for window in state.windows.values())
    for window in state.windows.values():
        if window not in state.active_windows():
            expiring_cells = sum(len(window.tables[cell].values) for cell in layout.stamps)
            assert (window.counted, window.counted_expiring) == (window.entries(), expiring_cells)
    assert state.next_expiry() == fresh.next_expiry()
    for domain, times in indexed(state).items():
        wanted = indexed(fresh)[domain]
        assert times.keys() == wanted.keys()
        assert all(time <= wanted[entry] for entry, time in times.items())
    looked_at, wanted_at = expiring(state), expiring(fresh)
    assert looked_at.keys() >= wanted_at.keys()
    assert all(looked_at[name] <= time for name, time in wanted_at.items())
    if state.ledger is not None:
        counted = Ledger.of(fresh)
        assert (state.ledger.keys, state.ledger.total) == (counted.keys, counted.total)
        assert state.ledger.sizes == counted.sizes
        held, wanted_held = (
            {data: sizes for data, sizes in ledger._held.items() if sizes} for ledger in (state.ledger, counted)
        )
        assert held == wanted_held
        if state.ledger._index is not None:
            entered: dict[Any, int] = {}
            for age, data in state.ledger._index._heap:
                slot = slot_from_bytes(data)
                entered[slot] = min(age, entered.get(slot, age))
            assert all(entered[slot] <= fresh.age_of(slot) for slot in counted.sizes)


class Worker:
    def __init__(self, step: Step) -> None:
        self.layout = Layout(step)
        self.runner: Any = make_runner(step, self.layout, {}, (), origins=True)
        self.backend = HeapBackend(self.layout, OPTIONS)
        self.runner.setup()

    def bundle(self, store: MemoryStore, elements: Any, clocks: Clocks, batch: int, fate: str = "committed") -> Any:
        """What came of it: outputs, and the token of the state, which follows from all that was ever stored."""
        state = self.backend.open(store)
        check(state, store, self.layout)
        taken = self.runner.elements([(key, order) for key, order, _ in elements], [time * SECOND for *_, time in elements])
        outputs: list[Any] = []
        try:
            run_bundle(self.backend, store, self.runner, taken, clocks, batch, lambda: outputs.extend(self.runner.outputs()))
        except Exception as error:
            self.backend.abandon()
            store.rollback()
            return type(error)
        token = read_head(store).token
        if fate == "committed":
            store.commit()
        else:
            # The copy in memory takes it for stored.
            store.rollback()
        return outputs, token


@pytest.mark.parametrize("name", [*STEPS, *AGGREGATIONS])
@given(bundles=BUNDLES)
@SETTINGS
def test_whoever_catches_up_is_like_a_fresh_worker(name, bundles):
    workers = [Worker(built(name)) for _ in range(3)]
    other = Worker(built(name))
    store, watermark, now = MemoryStore(), 0, 0
    for batch, (who, elements, moved, passed, fate) in enumerate(bundles):
        late, watermark, now = watermark, watermark + moved * SECOND, now + passed * SECOND
        clocks = Clocks(late, watermark, now)
        other.backend = HeapBackend(other.layout, OPTIONS)
        expected = other.bundle(MemoryStore(dict(store.committed)), elements, clocks, batch)
        assert workers[who].bundle(store, elements, clocks, batch, fate) == expected
    for worker in workers:
        check(worker.backend.open(store), store, worker.layout)
    if len({who for who, *_ in bundles}) > 1 and len(store.committed) > 2:
        assert sum(worker.backend.catch_ups + worker.backend.loads for worker in workers)


FORGOTTEN = [
    (0, [("a", ("write", "", 1), 15)]),
    (0, [("b", ("write", "", 1), 15), ("c", ("write", "", 1), 15)]),
    (0, [("a", ("write", "", 1), 5)]),
    (0, [("d", ("write", "", 1), 15)]),
    (10, []),
    (0, [("e", ("write", "", 1), 15)]),
]


def test_who_used_a_key_last_is_known_to_all_when_its_window_has_ended():
    """The window in which a key was used last ends before the others that it is in."""
    left = []
    for fresh in (False, True):
        store, worker, watermark = MemoryStore(), Worker(built("limits")), 0
        for batch, (moved, elements) in enumerate(FORGOTTEN):
            late, watermark = watermark, watermark + moved * SECOND
            worker = Worker(built("limits")) if fresh else worker
            worker.bundle(store, elements, Clocks(late, watermark, 0), batch)
        left.append(content(worker.backend.open(store)))
    assert left[0] == left[1]


def test_a_window_that_comes_again_has_only_its_new_keys_in_the_ledger():
    """A watermark that goes back is no part of any runtime; the ledger does not depend on that."""
    store, first, second = MemoryStore(), Worker(built("limits")), Worker(built("limits"))
    second.bundle(store, [("a", ("write", "", 1), 5), ("b", ("write", "", 1), 25)], Clocks(0, 0, 0), 0)
    first.bundle(store, [("b", ("write", "", 1), 25)], Clocks(0, 0, 0), 1)
    second.bundle(store, [], Clocks(0, 10 * SECOND, 0), 2)
    second.bundle(store, [("c", ("write", "", 1), 5)], Clocks(0, 0, 0), 3)
    check(first.backend.open(store), store, first.layout)
