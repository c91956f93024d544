"""What must not grow: a bundle looks at the windows that it touches, and equal texts are in memory once."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

from holdfast import (
    DoFn,
    FixedWindows,
    Limits,
    MapStateSpec,
    SetStateSpec,
    TimeDomain,
    TimerSpec,
    Ttl,
    ValueStateSpec,
    on_timer,
)
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.tables.series import Series
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.ops.move.merging import merged
from holdfast.testing.memory_store import MemoryStore

SECOND = 1_000_000


class Fading(DoFn):
    LAST = ValueStateSpec("last", ttl=Ttl(1_000_000, time="event"))

    def process(self, element, last=DoFn.StateParam(LAST)):
        last.write(element[1])


class Keeping(DoFn):
    NAMES = MapStateSpec("names")
    SEEN = SetStateSpec("seen")
    RING = TimerSpec("ring", TimeDomain.WATERMARK)

    def process(self, element, names=DoFn.StateParam(NAMES), seen=DoFn.StateParam(SEEN), ring=DoFn.TimerParam(RING)):
        for number in range(element[1]):
            names.put(f"name {number}", number)
            seen.add(number)
        ring.set(100)

    @on_timer(RING)
    def on_ring(self):
        pass


class Unread(dict[Any, Any]):
    """A dict in which things are looked up, but that nobody goes through, except for a few from its end."""

    def __iter__(self) -> Any:
        raise AssertionError("someone goes through all of it")

    def values(self) -> Any:
        return FromTheEnd(self)

    keys = items = __iter__


class FromTheEnd:
    def __init__(self, whole: dict[Any, Any]) -> None:
        self._whole = whole

    def __reversed__(self) -> Any:
        return reversed(dict.values(self._whole))


class Rig:
    def __init__(self, fn: Any, **options: Any) -> None:
        step = build_step(fn, StepOptions(**options))
        self.layout = Layout(step)
        self.runner: Any = make_runner(step, self.layout, {}, (), origins=False)
        self.runner.setup()
        self.store = MemoryStore()
        self.backend = HeapBackend(self.layout)

    def bundle(self, elements: list[tuple[str, Any, int]]) -> KeyGroupState:
        state = self.backend.open(self.store)
        taken = self.runner.elements([(key, value) for key, value, _ in elements], [time * SECOND for *_, time in elements])
        run_bundle(self.backend, self.store, self.runner, taken, Clocks(0, 0, 0), 0, lambda: None)
        self.store.commit()
        return state


@pytest.mark.parametrize("policy", ["fail", "evict_lru", "evict_oldest"])
def test_a_bundle_goes_through_no_windows_but_those_that_it_touches(policy, monkeypatch):
    # Without the check of all tests, which looks at all windows.
    monkeypatch.setattr(KeyGroupState, "settle", inspect.unwrap(KeyGroupState.settle))
    rig = Rig(Fading(), windowing=FixedWindows(10), limits=Limits(max_keys=1_000, policy=policy))
    state = rig.bundle([(f"k{number}", number, 10 * number) for number in range(50)])
    ledger = state.ledger
    assert ledger is not None
    state.windows, ledger._held = Unread(state.windows), Unread(ledger._held)
    rig.bundle([("k7", 1, 70), ("k1000", 1, 71)])
    assert ledger.keys == 51
    assert len(state.expiring[True]) == 51


def test_all_of_a_long_list_is_not_a_copy():
    series = Series(range(100_000), list(range(100_000)))
    assert sum(map(sys.getsizeof, (series.times, series.values))) < 1_000
    assert list(series.times) == list(series.values) == list(range(100_000))
    assert len(series.times) == 100_000
    assert 99_999 in series.values
    assert -1 not in series.times


def test_names_and_keys_that_were_read_are_in_memory_once():
    rig = Rig(Keeping())
    rig.bundle([("a", 3, 0), ("b", 3, 0)])
    (window,) = HeapBackend(rig.layout).open(rig.store).windows.values()
    names, seen, ring, _ = window.tables
    first, second = (list(map(id, entries)) for entries in names.values.values())
    assert first == second
    assert list(map(id, names.values)) == list(map(id, seen.values)) == list(map(id, ring.values))


@pytest.mark.parametrize(("members", "kind"), [(1, tuple), (8, tuple), (9, set), (100, set)])
def test_a_set_of_few_is_a_tuple(members, kind):
    rig = Rig(Keeping())
    for state in (rig.bundle([("a", members, 0)]), HeapBackend(rig.layout).open(rig.store)):
        (window,) = state.windows.values()
        table = window.tables[1]
        assert type(table.values["a"]) is kind
        assert table.reveal("a") == set(range(members))


def test_sets_and_long_lists_can_be_merged():
    rig = Rig(Keeping())
    (window,) = rig.bundle([("a", 5, 0)]).windows.values()
    _, seen, *_ = window.tables
    both = merged(seen, "set", None, seen.values["a"], seen.unpack(seen.pack((4, 7))))
    assert both == {0, 1, 2, 3, 4, 7}
    assert seen.unpack(seen.pack(both)) == tuple(sorted(both))
    lists = merged(seen, "ordered_list", None, Series(range(0, 6_000, 2), list("x" * 3_000)), Series([3], ["y"]))
    assert list(zip(lists.times, lists.values, strict=True))[:4] == [(0, "x"), (2, "x"), (3, "y"), (4, "x")]
    assert len(lists) == 3_001
