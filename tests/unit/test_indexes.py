"""What the indexes of a key group keep: in proportion to what is there, whatever has come and gone before."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.state.key_group import KeyGroupState, WindowState
from holdfast.model.functions.grouping import build_grouping
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.time.timers import TimeDomain
from holdfast.testing.memory_runtime import MemoryRuntime
from holdfast.testing.stream import AddElements, AdvanceWatermark

FEW = 500
"""Traces and the like that are not worth removing, with room to spare."""


class Timers(hf.DoFn):
    """Does to its timer what its elements say: (verb, tag, time), and may fail after that."""

    DUE = hf.TimerSpec("due")
    SEEN = hf.BagStateSpec("seen")

    def process(self, element, due=hf.DoFn.TimerParam(DUE), seen=hf.DoFn.StateParam(SEEN)):
        for verb, tag, time in element[1]:
            if verb == "set":
                due.set(time, tag)
            elif verb == "clear":
                due.clear(tag)
            elif verb == "see":
                seen.add(bytes(1000))
            else:
                raise ValueError(verb)

    @hf.on_timer(DUE)
    def on_due(self, tag=hf.DoFn.DynamicTimerTagParam):
        yield tag


def runtime_of(fn: hf.DoFn, **options: Any) -> MemoryRuntime:
    return MemoryRuntime(lambda: build_step(fn, StepOptions(**options)), StepOptions())


def state_of(runtime: MemoryRuntime) -> KeyGroupState:
    """What the worker has in memory."""
    backend: Any = runtime._worker.backends[0]
    return backend._state


def feed(runtime: MemoryRuntime, *elements: Any, time: float = 0) -> None:
    runtime.play(AddElements(tuple((element, hf.Timestamp(time)) for element in elements)))


def size_of(index: Any) -> int:
    """All that an index holds, entries and traces."""
    return sum(len(index.placed_at(time)) for time in index._at) + len(index._times)


def test_dropped_windows_are_not_kept_alive():
    runtime = runtime_of(Timers(), windowing=hf.FixedWindows(10))
    gc.collect()
    before = sum(type(thing) is WindowState for thing in gc.get_objects())
    for n in range(50):
        # The timer is set for long after the end of its window, when it fires.
        feed(runtime, ("k", [("see", "", 0), ("set", "", 10**6), ("set", "x", 10**6)]), time=10 * n)
        runtime.play(AdvanceWatermark(hf.Timestamp(10 * n + 10)))
    assert runtime.metrics.windows_expired == 50
    assert runtime.metrics.timers_fired == 100
    gc.collect()
    assert sum(type(thing) is WindowState for thing in gc.get_objects()) <= before


def test_nothing_of_a_dropped_window_stays_in_the_index():
    runtime = runtime_of(Timers(), windowing=hf.FixedWindows(10))
    tags = [("set", f"t{n}", 10**6) for n in range(1000)]
    for n in range(20):
        feed(runtime, ("k", tags), time=10 * n)
        runtime.play(AdvanceWatermark(hf.Timestamp(10 * n + 10)))
    index = state_of(runtime).indexes[TimeDomain.WATERMARK]
    assert len(index) == 0
    assert size_of(index) <= FEW


@pytest.mark.parametrize("at_once", [True, False])
def test_timers_that_were_cleared_leave_nothing(at_once):
    runtime = runtime_of(Timers())
    orders = [(verb, f"t{n}", 1000 + n) for n in range(20_000) for verb in ("set", "clear")]
    feed(runtime, *([("k", orders)] if at_once else [("k", orders[n : n + 2]) for n in range(0, len(orders), 2)]))
    index = state_of(runtime).indexes[TimeDomain.WATERMARK]
    assert len(index) == 0
    assert size_of(index) <= FEW


def test_timers_that_are_brought_forward_have_one_entry_each():
    runtime = runtime_of(Timers())
    for time in range(100, 0, -1):
        feed(runtime, *((f"k{n}", [("set", "", time)]) for n in range(200)))
    index = state_of(runtime).indexes[TimeDomain.WATERMARK]
    assert len(index) == 200
    assert size_of(index) <= 2 * 200 + FEW
    runtime.play(AdvanceWatermark(hf.Timestamp(1)))
    assert runtime.metrics.timers_fired == 200


def test_timers_of_calls_that_were_taken_back_leave_nothing():
    runtime = runtime_of(Timers(), on_error="dead_letter")
    feed(runtime, ("k", [("set", "kept", 50), ("set", "moved", 60)]))
    feed(
        runtime,
        *(("k", [("set", f"t{n}", 10), ("clear", "kept", 0), ("set", "moved", 20), ("fail",) * 3]) for n in range(2_000)),
    )
    index = state_of(runtime).indexes[TimeDomain.WATERMARK]
    assert runtime.metrics.dead_letters == 2_000
    assert len(index) == 2
    assert size_of(index) <= FEW
    assert index.next_time == 50_000_000
    runtime.play(AdvanceWatermark(hf.Timestamp(55)))
    assert runtime.metrics.timers_fired == 1
    assert index.next_time == 60_000_000


def test_a_key_that_was_evicted_leaves_nothing():
    limits = hf.Limits(max_keys=10, policy="evict_oldest")
    runtime = runtime_of(Timers(), limits=limits)
    for first in range(0, 5_000, 500):
        feed(runtime, *((f"k{n}", [("set", "", 1000), ("set", "x", 2000)]) for n in range(first, first + 500)))
    index = state_of(runtime).indexes[TimeDomain.WATERMARK]
    assert len(index) == 20
    assert size_of(index) <= FEW


class Flags(hf.DoFn):
    """A cell with a time to live that comes and goes."""

    FLAG = hf.ValueStateSpec("flag", hf.BooleanCoder(), ttl=hf.Ttl(3600))

    def process(self, element, flag=hf.DoFn.StateParam(FLAG)):
        flag.clear()
        if element[1] != "clear":
            flag.write(True)
        if element[1] == "fail":
            raise ValueError


@pytest.mark.parametrize(("do", "left"), [("write", 100), ("fail", 0), ("clear", 0)])
def test_a_cell_that_comes_and_goes_has_one_entry(do, left):
    runtime = runtime_of(Flags(), on_error="dead_letter")
    for _ in range(50):
        feed(runtime, *((f"k{n}", do) for n in range(100)))
    assert sum(map(len, state_of(runtime).expiring.values())) <= 2 * left + FEW


def test_cells_of_dropped_windows_leave_the_index():
    runtime = runtime_of(Flags(), windowing=hf.FixedWindows(10))
    for n in range(100):
        feed(runtime, *((f"k{m}", "write") for m in range(50)), time=10 * n)
        runtime.play(AdvanceWatermark(hf.Timestamp(10 * n + 10)))
    assert sum(map(len, state_of(runtime).expiring.values())) <= FEW


def test_a_window_that_comes_and_goes_is_awaited_once():
    runtime = runtime_of(Flags(), windowing=hf.FixedWindows(10))
    for _ in range(1_000):
        feed(runtime, ("k", "clear"))
    assert len(state_of(runtime)._expiries) <= FEW


def test_windows_of_an_aggregation_that_have_ended_are_not_awaited():
    runtime = MemoryRuntime(
        lambda: build_grouping(hf.CombinePerKey(sum), StepOptions(windowing=hf.FixedWindows(10))), StepOptions()
    )
    for n in range(1_000):
        feed(runtime, ("k", 1), time=10 * n)
        runtime.play(AdvanceWatermark(hf.Timestamp(10 * n + 10)))
    assert len(runtime.outputs) == 1_000
    assert len(state_of(runtime)._expiries) <= FEW


def test_keys_that_went_by_themselves_are_not_kept_in_the_order_of_eviction():
    runtime = runtime_of(Flags(), limits=hf.Limits(max_keys=100, policy="evict_lru"))
    feed(runtime, *((f"first{n}", "write") for n in range(101)))
    feed(runtime, *((f"first{n}", "clear") for n in range(101)))
    for bundle in range(60):
        for do in ("write", "clear"):
            feed(runtime, *((f"{bundle}-{n}", do) for n in range(50)))
    assert runtime.metrics.keys_evicted == 1
    ledger = state_of(runtime).ledger
    assert ledger is not None
    assert len(ledger._index or ()) <= 2_000
