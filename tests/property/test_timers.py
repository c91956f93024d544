"""Timers against a plain dict and a sorted list: what fires, in which order, with which times, exactly once.

Elements and callbacks carry their decisions with them: an element is a list of orders (set, clear, or plan what the
callback of a timer is to do when it next fires). So the model can follow every decision, and knows nothing of indexes.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.engine.backends.heap import HeapOptions
from holdfast.engine.state import timers
from holdfast.engine.state.keys import key_of, slot_of, sort_slots
from holdfast.engine.state.timers import Entry, TimerIndex
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.model.state.specs import MapStateSpec
from holdfast.model.time.timers import TimeDomain, TimerSpec, on_timer
from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from holdfast.model.windows.ready import FixedWindows, GlobalWindow, GlobalWindows, SlidingWindows, WindowFn
from holdfast.testing.memory_runtime import HeapBackends, MemoryRuntime
from holdfast.testing.stream import AddElements, AdvanceProcessingTime, AdvanceWatermark, Crash
from tiers import examples

SETTINGS = settings(
    max_examples=examples(120), stateful_step_count=10, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

KEYS = ["a", 1, True]
TAGS = ["", "x", "y"]
NAMES = ["event", "other", "real"]
"""In the order in which the function declares them."""


class Clockwork(DoFn):
    """Does what it is told, and says what happened."""

    PLANS = MapStateSpec("plans")
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    OTHER = TimerSpec("other", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        plans=DoFn.StateParam(PLANS),
        event=DoFn.TimerParam(EVENT),
        other=DoFn.TimerParam(OTHER),
        real=DoFn.TimerParam(REAL),
    ):
        obey(element[1], plans, {"event": event, "other": other, "real": real})
        yield element[0], "element", "", None

    @on_timer(EVENT)
    def on_event(
        self,
        key=DoFn.KeyParam,
        time=DoFn.TimestampParam,
        tag=DoFn.DynamicTimerTagParam,
        plans=DoFn.StateParam(PLANS),
        event=DoFn.TimerParam(EVENT),
        other=DoFn.TimerParam(OTHER),
        real=DoFn.TimerParam(REAL),
    ):
        return fired(key, "event", tag, time, plans, {"event": event, "other": other, "real": real})

    @on_timer(OTHER)
    def on_other(
        self,
        key=DoFn.KeyParam,
        time=DoFn.TimestampParam,
        tag=DoFn.DynamicTimerTagParam,
        plans=DoFn.StateParam(PLANS),
        event=DoFn.TimerParam(EVENT),
        other=DoFn.TimerParam(OTHER),
        real=DoFn.TimerParam(REAL),
    ):
        return fired(key, "other", tag, time, plans, {"event": event, "other": other, "real": real})

    @on_timer(REAL)
    def on_real(
        self,
        key=DoFn.KeyParam,
        time=DoFn.TimestampParam,
        tag=DoFn.DynamicTimerTagParam,
        plans=DoFn.StateParam(PLANS),
        event=DoFn.TimerParam(EVENT),
        other=DoFn.TimerParam(OTHER),
        real=DoFn.TimerParam(REAL),
    ):
        return fired(key, "real", tag, time, plans, {"event": event, "other": other, "real": real})

    def on_window_expiration(self, key=DoFn.KeyParam, time=DoFn.TimestampParam):
        yield key, "expired", "", time


def obey(orders: Any, plans: Any, timers: dict[str, Any]) -> None:
    for verb, name, tag, more in orders:
        if verb == "set":
            timers[name].set(more, dynamic_timer_tag=tag)
        elif verb == "clear":
            timers[name].clear(dynamic_timer_tag=tag)
        else:
            plans.put((name, tag), more)


def fired(key: Any, name: str, tag: str, time: Timestamp, plans: Any, timers: dict[str, Any]) -> list[Any]:
    orders = plans.get((name, tag), [])
    plans.remove((name, tag))  # each plan is carried out once, so there is an end
    obey(orders, plans, timers)
    return [(key, name, tag, time)]


# --- the model ----------------------------------------------------------------------------------------------------


class KeyModel:
    """One key: for each window the times of its timers and its plans. Times in seconds."""

    def __init__(self, key: Any, lateness: int) -> None:
        self.key = key
        self.lateness = lateness
        self.timers: dict[Any, dict[tuple[str, str], int]] = {}
        self.plans: dict[Any, dict[tuple[str, str], Any]] = {}
        self.said: list[tuple[Any, Any, Any]] = []
        self.fired = self.dropped = 0

    def element(self, window: Any, time: int, orders: Any) -> None:
        self.obey(window, orders)
        self.say("element", "", None, window, time)

    def obey(self, window: Any, orders: Any) -> None:
        timers, plans = self.timers.setdefault(window, {}), self.plans.setdefault(window, {})
        for verb, name, tag, more in orders:
            if verb == "set":
                timers[name, tag] = more
            elif verb == "clear":
                timers.pop((name, tag), None)
            else:
                plans[name, tag] = more

    def say(self, what: str, tag: str, told: Any, window: Any, time: Any) -> None:
        self.said.append(((self.key, what, tag, told), Timestamp.of(time), window))

    def fire(self, window: Any, name: str, tag: str) -> None:
        time = self.timers[window].pop((name, tag))
        self.obey(window, self.plans[window].pop((name, tag), []))
        self.fired += 1
        self.say(name, tag, Timestamp(time), window, time)

    def advance(self, watermark: float, now: float) -> None:
        """Event time passes in order: at each time the timers, then the ends of windows; then processing time."""
        while True:
            expiry, ending = self.next_expiry()
            event = self.next_time(real=False)
            if event <= min(watermark, expiry):
                self.fire_at(event, real=False)
            elif expiry <= watermark:
                self.expire(ending, expiry)
            elif self.next_time(real=True) <= now:
                self.fire_at(self.next_time(real=True), real=True)
            else:
                return

    def next_time(self, real: bool) -> float:
        times = [t for ts in self.timers.values() for (name, _), t in ts.items() if (name == "real") is real]
        return min(times, default=float("inf"))

    def next_expiry(self) -> tuple[float, Any]:
        ends = [(w.end.micros / 1e6 + self.lateness, w) for w in self.timers if w != GlobalWindow()]
        return min(ends, default=(float("inf"), None))

    def fire_at(self, time: float, real: bool) -> None:
        """All that were set for that time; one that another has put off meanwhile does not fire now."""
        due = [
            (NAMES.index(name), tag, window_order(window), window)
            for window, timers in self.timers.items()
            for (name, tag), t in timers.items()
            if t == time and (name == "real") is real
        ]
        for place, tag, _, window in sorted(due, key=lambda d: d[:3]):
            if self.timers[window].get((NAMES[place], tag), float("inf")) <= time:
                self.fire(window, NAMES[place], tag)

    def expire(self, window: Any, expiry: float) -> None:
        timers = self.timers[window]
        for real, time, place, tag in sorted((n == "real", t, NAMES.index(n), tag) for (n, tag), t in timers.items()):
            assert real or time > expiry
            if timers.get((NAMES[place], tag)) == time:
                self.fire(window, NAMES[place], tag)
        while self.next_time(real=False) <= expiry:
            self.fire_at(self.next_time(real=False), real=False)
        self.dropped += len(timers)
        self.say("expired", "", window.max_timestamp(), window, window.max_timestamp())
        del self.timers[window], self.plans[window]

    def end(self) -> None:
        self.advance(1e18, 1e18)
        for window in self.timers:
            self.say("expired", "", window.max_timestamp(), window, window.max_timestamp())


def window_order(window: Any) -> tuple[int, int]:
    return (0, 0) if window == GlobalWindow() else (window.start.micros, window.end.micros)


def windows_of(window_fn: WindowFn, time: int) -> list[Any]:
    return list(window_fn.assign(WindowFn.AssignContext(Timestamp(time))))


# --- the machine --------------------------------------------------------------------------------------------------

times = st.sampled_from([-5, 0, 4, 5, 5, 10, 10, 12, 15, 20, 28])  # few, so that much falls on the same time


def orders(depth: int) -> Any:
    name, tag = st.sampled_from(NAMES), st.sampled_from(TAGS)
    kinds = [
        st.tuples(st.just("set"), name, tag, times),
        st.tuples(st.just("set"), name, tag, times),
        st.tuples(st.just("clear"), name, tag, st.none()),
    ]
    if depth:
        kinds.append(st.tuples(st.just("plan"), name, tag, orders(depth - 1)))
        kinds.append(st.tuples(st.just("plan"), name, tag, orders(depth - 1)))
    return st.lists(st.one_of(kinds), max_size=4)


ELEMENTS = st.lists(st.tuples(st.sampled_from(KEYS), orders(2), times), max_size=3)
WINDOWINGS = [GlobalWindows(), FixedWindows(10), SlidingWindows(10, 5)]


class TimerMachine(RuleBasedStateMachine):
    @initialize(
        window_fn=st.sampled_from(WINDOWINGS),
        lateness=st.sampled_from([0, 0, 3]),
        key_groups=st.sampled_from([1, 1, 2]),
        deltas_max=st.sampled_from([0, 2, 1000]),
    )
    def begin(self, window_fn: WindowFn, lateness: int, key_groups: int, deltas_max: int) -> None:
        self.window_fn = window_fn
        self.lateness = lateness
        step = build_step(
            Clockwork(), StepOptions(windowing=window_fn, allowed_lateness=lateness)
        )  # it keeps nothing itself
        options = HeapOptions(deltas_max=deltas_max)
        self.runtime = MemoryRuntime(lambda: step, StepOptions(key_groups=key_groups, backend=HeapBackends(options)))
        self.keys = {repr(key): KeyModel(key, lateness) for key in KEYS}
        self.watermark = float("-inf")
        self.now = 0
        self.late = 0

    # One rule, not many: Hypothesis leaves rules out at random, and without elements nothing happens.
    @rule(
        elements=ELEMENTS,
        watermark=st.one_of(st.none(), st.sampled_from([0, 1, 3, 5, 5, 10])),
        clock=st.one_of(st.none(), st.sampled_from([0, 1, 3, 5, 5, 10])),
        crashes=st.sampled_from([(), (0,), (1,), (0, 1, 2)]),
    )
    def micro_batches(self, elements: Any, watermark: Any, clock: Any, crashes: Any) -> None:
        if elements:
            self.elements(elements)
        if 0 in crashes:
            self.runtime.play(Crash())
        if watermark is not None:
            self.watermark_moves(watermark)
        if 1 in crashes:
            self.runtime.play(Crash())
        if clock is not None:
            self.processing_time_moves(clock)
        if 2 in crashes:
            self.runtime.play(Crash())

    def elements(self, elements: list[tuple[Any, Any, int]]) -> None:
        self.runtime.play(AddElements(tuple(((key, told), Timestamp(time)) for key, told, time in elements)))
        for key, told, time in elements:
            for window in windows_of(self.window_fn, time):
                if window.end.micros / 1e6 + self.lateness <= self.watermark and window != GlobalWindow():
                    self.late += 1
                else:
                    self.keys[repr(key)].element(window, time, told)
        self.advance()

    def watermark_moves(self, by: int) -> None:
        self.watermark = by - 5 if self.watermark == float("-inf") else self.watermark + by
        self.runtime.play(AdvanceWatermark(Timestamp(self.watermark)))
        self.advance()

    def processing_time_moves(self, by: int) -> None:
        self.now += by
        self.runtime.play(AdvanceProcessingTime(Duration(by)))
        self.advance()

    def advance(self) -> None:
        for model in self.keys.values():
            model.advance(self.watermark, self.now)

    def teardown(self) -> None:
        if not hasattr(self, "runtime"):
            return
        self.runtime.play(AdvanceWatermark(MAX_TIMESTAMP))
        for model in self.keys.values():
            model.end()
        self.all_is_as_modelled()
        assert not any(list(window.pending()) for state in self.runtime.load(None) for window in state.windows.values())

    @invariant()
    def all_is_as_modelled(self) -> None:
        said: dict[str, list[Any]] = {key: [] for key in self.keys}
        for output in self.runtime.outputs:
            said[repr(output.value[0])].append((output.value, output.timestamp, output.window))
        for key, model in self.keys.items():
            assert said[key] == model.said
        metrics = self.runtime.metrics
        assert metrics.timers_fired == sum(model.fired for model in self.keys.values())
        assert metrics.timers_dropped == sum(model.dropped for model in self.keys.values())
        assert metrics.late == self.late

    @invariant()
    def what_is_stored_is_as_modelled(self) -> None:
        stored: dict[str, dict[Any, Any]] = {key: {} for key in self.keys}
        for state in self.runtime.load(None):
            for window in state.windows.values():
                for entry, time in window.pending():
                    timers = stored[repr(key_of(entry.slot))].setdefault(window.window, {})
                    timers[NAMES[entry.timer], entry.tag] = time // 1_000_000
        for key, model in self.keys.items():
            assert stored[key] == {window: timers for window, timers in model.timers.items() if timers}


TestTimers = TimerMachine.TestCase
TestTimers.settings = SETTINGS


# --- what memory must not decide ----------------------------------------------------------------------------------


def said_by(*events: Any) -> list[tuple[str, str]]:
    runtime = MemoryRuntime(lambda: build_step(Clockwork()), StepOptions())
    for event in events:
        runtime.play(event)
    return [(name, tag) for _, name, tag, _ in (output.value for output in runtime.outputs) if name != "element"]


def told(*orders: Any) -> AddElements:
    return AddElements((((("a"), list(orders)), Timestamp(0)),))


def test_a_timer_that_returns_to_a_time_it_once_had_takes_its_turn():
    # The index still knows that the timer was once to fire at 10; it must not be looked at twice for that.
    events = [
        told(("set", "event", "", 10), ("set", "other", "", 10), ("set", "event", "", 5)),
        told(("plan", "event", "", [("set", "event", "", 10), ("plan", "event", "", [("set", "event", "", 7)])])),
        AdvanceWatermark(Timestamp(6)),
    ]
    rest = AdvanceWatermark(Timestamp(20))
    expected = [("event", ""), ("event", ""), ("other", ""), ("event", "")]
    assert said_by(*events, Crash(), rest) == expected
    assert said_by(*events, rest) == expected


def test_a_timer_that_was_put_off_and_brought_forward_takes_its_turn():
    # The index looks at "event/x" at 10, where it once was set; what counts is that it is set to 20 by then.
    events = [
        told(("set", "event", "x", 10), ("set", "event", "", 10), ("set", "other", "", 10)),
        told(("set", "event", "x", 20), ("plan", "event", "", [("set", "event", "x", 8)])),
    ]
    rest = AdvanceWatermark(Timestamp(15))
    expected = [("event", ""), ("other", ""), ("event", "x")]
    assert said_by(*events, Crash(), rest) == expected
    assert said_by(*events, rest) == expected


def test_a_timer_fires_once_its_time_is_reached_not_when_it_is_passed():
    assert said_by(told(("set", "event", "", -5)), AdvanceWatermark(MIN_TIMESTAMP)) == []
    assert said_by(told(("set", "event", "", -5)), AdvanceWatermark(Timestamp(-5).predecessor())) == []
    assert said_by(told(("set", "event", "", -5)), AdvanceWatermark(Timestamp(-5))) == [("event", "")]


# --- the parts ----------------------------------------------------------------------------------------------------

PLAIN_KEYS = st.one_of(
    st.integers(-300, 300), st.text(max_size=3), st.booleans(), st.tuples(st.integers(-3, 3)), st.floats(-2, 2)
)


@settings(SETTINGS, max_examples=examples(200))
@given(st.lists(PLAIN_KEYS, max_size=8), st.data())
def test_the_order_of_two_slots_does_not_depend_on_what_else_is_sorted(keys, data):
    slots = list({(type(slot).__name__, slot): slot for slot in map(slot_of, keys)}.values())
    some = [slot for slot in slots if data.draw(st.booleans())]
    assert sort_slots(some) == [slot for slot in sort_slots(slots) if slot in some]
    assert sort_slots(reversed(slots)) == sort_slots(slots)


SLOTS, WINDOWS = st.sampled_from("abc"), st.sampled_from([b"v", b"w"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), SLOTS, WINDOWS, st.integers(0, 6)),
        st.tuples(st.just("enter"), SLOTS, WINDOWS, st.integers(0, 6)),
        st.tuples(st.just("leave"), SLOTS, WINDOWS, st.none()),
        st.tuples(st.just("reset"), SLOTS, WINDOWS, st.one_of(st.none(), st.integers(0, 6))),
        st.tuples(st.just("drop"), st.just(""), WINDOWS, st.none()),
        st.tuples(st.just("take"), st.just(""), st.just(b""), st.integers(0, 6)),
    ),
    max_size=30,
)


@settings(SETTINGS, max_examples=examples(300))
@given(STEPS, st.sampled_from([0, 1, 100]), st.booleans())
def test_an_index_gives_each_entry_once_at_the_earliest_time_entered(steps, traces_min, looks):
    index = TimerIndex()
    model: dict[tuple[str, bytes], int] = {}
    with mock.patch.object(timers, "_TRACES_MIN", traces_min):
        for verb, slot, window, time in steps:
            if verb == "take":
                check_taken(index, model, time)
            else:
                arguments = () if verb in ("leave", "drop") else (time,)
                getattr(index, verb)(window if verb == "drop" else Entry(0, window, slot, ""), *arguments)
                follow(model, verb, (slot, window), time)
            if looks:
                assert index.next_time == min(model.values(), default=None)
            assert len(index) == len(model)
            assert index.traces + len(index) == sum(len(index.placed_at(time)) for time in index._at)
            assert index.traces <= len(index) + traces_min
        check_taken(index, model, 6)
    assert index.next_time is None


def follow(model: dict[tuple[str, bytes], int], verb: str, name: tuple[str, bytes], time: Any) -> None:
    """Does to a plain dict what the verb says."""
    if verb == "enter":
        model[name] = min(time, model.get(name, time))
    elif verb == "reset" and time is not None:
        model[name] = time
    elif verb == "drop":
        for gone in [other for other in model if other[1] == name[1]]:
            del model[gone]
    else:
        model.pop(name, None)


def check_taken(index: TimerIndex, model: dict[tuple[str, bytes], int], limit: int) -> None:
    taken = []
    while (batch := index.take(limit)) is not None:
        taken += [(batch[0], entry.slot, entry.window) for entry in batch[1]]
    due = sorted((at, *name) for name, at in model.items() if at <= limit)
    assert taken == due
    for _, *name in due:
        del model[tuple(name)]
