"""Whole scripts through the engine: what must not matter does not, and a plain interpreter says the same.

Crashes, the number of key groups and calls that raise must leave no trace in outputs, state and counters.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.engine.backends.disk import DiskBackend
from holdfast.engine.backends.heap import HEAD, HeapOptions
from holdfast.engine.backends.protocol import Place
from holdfast.engine.log.head import Head
from holdfast.engine.run.outputs import Output
from holdfast.engine.state.key_group import Layout
from holdfast.engine.state.keys import key_of
from holdfast.engine.state.ledger import Ledger
from holdfast.errors import LimitExceeded
from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.functions.dofn import DoFn, TaggedOutput
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import LATE_TAG, MAIN_TAG, build_step
from holdfast.model.metrics import Metrics
from holdfast.model.state.limits import Limits
from holdfast.model.state.specs import (
    BagStateSpec,
    CombiningStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    SetStateSpec,
    ValueStateSpec,
)
from holdfast.model.time.timers import TimeDomain, TimerSpec, on_timer
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import FixedWindows, GlobalWindow, GlobalWindows, SlidingWindows, WindowFn
from holdfast.model.windows.values import TimestampedValue
from holdfast.testing import Results, TestStream, run
from holdfast.testing.memory_runtime import DiskFiles, HeapBackends, MemoryRuntime
from tiers import examples

SETTINGS = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])

KEYS = ["a", "b", 1, True, ("a", 2)]


# --- scripts ------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A script, and how to run it. An event is ('elements', [...]), ('watermark', by), ('clock', by) or ('end',)."""

    events: list[Any]
    windowing: WindowFn
    lateness: int
    time_sorted: bool


ELEMENTS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=5)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("elements"), ELEMENTS),
        st.tuples(st.just("elements"), ELEMENTS),
        st.tuples(st.just("watermark"), st.integers(0, 9)),
        st.tuples(st.just("clock"), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=12,
)
WINDOWINGS = st.sampled_from([GlobalWindows(), FixedWindows(10), SlidingWindows(10, 5)])


@st.composite
def cases(draw: Any, sorting: bool = True) -> Case:
    events = draw(EVENTS) + ([("end",)] if draw(st.booleans()) else [])
    time_sorted = sorting and draw(st.booleans())
    return Case(events, draw(WINDOWINGS), draw(st.sampled_from([0, 0, 4])), time_sorted)


def stream_of(events: list[Any], crashes: set[int] = frozenset()) -> TestStream:  # type: ignore[assignment]
    """The script, with a crash before each of the events at these places."""
    stream = TestStream()
    watermark = 0
    for place, (kind, *more) in enumerate(events):
        if place in crashes:
            stream.crash()
        if kind == "elements":
            stream.add_elements([TimestampedValue((key, value), time) for key, value, time in more[0]])
        elif kind == "watermark":
            watermark += more[0]
            stream.advance_watermark_to(watermark)
        elif kind == "clock":
            stream.advance_processing_time(more[0])
        else:
            stream.advance_watermark_to_infinity()
    return stream.crash() if len(events) in crashes else stream


def play(fn: DoFn, case: Case, *, crashes: Any = (), events: Any = None, **options: Any) -> Results:
    return run(
        fn,
        stream_of(case.events if events is None else events, set(crashes)),
        windowing=case.windowing,
        allowed_lateness=case.lateness,
        requires_time_sorted_input=case.time_sorted,
        **options,
    )


def outputs_by_key(results: Iterable[Output]) -> dict[str, list[Any]]:
    by_key: dict[str, list[Any]] = {}
    for output in results:
        by_key.setdefault(repr(output.value[0]), []).append(output)
    return by_key


def state_of(results: Results) -> dict[Any, Any]:
    """All that is stored, hidden cells included: (window, cell, key) → what it holds."""
    return {
        (window.data, spec.name, repr(key_of(slot))): exact(table.reveal(slot))
        for state in results._load(None)  # one reading for all keys
        for window in state.windows.values()
        for spec, table in zip(state.layout.specs, window.tables, strict=True)
        for slot in table.values
    }


def exact(value: Any) -> Any:
    """With the order of a dict, which `==` does not look at."""
    return list(value.items()) if isinstance(value, dict) else value


def metrics_of(results: Results, *without: str) -> dict[str, Any]:
    # How often state was read, how many bundles had nothing to do, and how large a snapshot is, memory does decide.
    left_out = {"loads", "catch_ups", "bundles", "snapshot_bytes", *without}
    names = [name for name in results.metrics.names() if name not in left_out and not name.endswith("_micros")]
    counted = {name: results.metrics[name] for name in names}
    return counted | dict(results.metrics.user.counters)


# --- a function that uses everything ------------------------------------------------------------------------------


class Gather(CombineFn):
    """Keeps its input in a list that it changes in place."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, mutable_accumulator: list[Any], element: Any) -> list[Any]:
        mutable_accumulator.append(element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Any) -> list[Any]:
        return [item for accumulator in accumulators for item in accumulator]

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        return accumulator


class Refused(Exception):
    """What the function raises on purpose."""


class Busy(DoFn):
    """Uses every kind of cell, both clocks and tags. What it does next depends on what it finds.

    With `trouble`, "raise" makes it fail in the midst of some calls, "quiet" makes it do nothing in those callbacks
    that would have failed.
    """

    LAST = ValueStateSpec("last")
    ALL = BagStateSpec("all")
    DISTINCT = SetStateSpec("distinct")
    COUNTS = MapStateSpec("counts")
    RECENT = OrderedListStateSpec("recent")
    SUM = CombiningStateSpec("sum", sum)
    GATHERED = CombiningStateSpec("gathered", Gather())
    FLUSH = TimerSpec("flush", TimeDomain.WATERMARK)
    NAP = TimerSpec("nap", TimeDomain.REAL_TIME)

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble

    def process(
        self,
        element,
        time=DoFn.TimestampParam,
        window=DoFn.WindowParam,
        last=DoFn.StateParam(LAST),
        everything=DoFn.StateParam(ALL),
        distinct=DoFn.StateParam(DISTINCT),
        counts=DoFn.StateParam(COUNTS),
        recent=DoFn.StateParam(RECENT),
        total=DoFn.StateParam(SUM),
        gathered=DoFn.StateParam(GATHERED),
        flush=DoFn.TimerParam(FLUSH),
        nap=DoFn.TimerParam(NAP),
    ):
        key, value = element
        before = last.read() or {"values": []}
        yield key, "found", value, before, sorted(distinct.read()), counts.items(), recent.read(), total.read()
        before["values"].append(value)  # changes nothing, unless it is written
        if value % 2:
            last.write({"values": before["values"][-3:], "window": str(window)})
        elif value % 8 == 0:
            last.clear()
        everything.add([value])
        distinct.add(value % 5)
        distinct.remove(value % 4)
        counts.put(value % 3, [counts.get(value % 3, [0])[0] + 1])
        if value % 7 == 0:
            counts.remove((value + 1) % 3)
            everything.clear()
        recent.add((time, {"value": value}))
        recent.clear_range(0, value % 6)
        total.add(value)
        gathered.add(value)
        if value % 10 == 9:
            gathered.clear()
        flush.set(time + value % 8)
        flush.set(time + value % 11, dynamic_timer_tag=f"t{value % 2}")
        nap.set(Timestamp.now() + value % 6, dynamic_timer_tag=f"n{value % 3}")
        if value % 13 == 0:
            flush.clear()
            nap.clear(dynamic_timer_tag="n0")
        if self.trouble == "raise" and is_refused(value):
            raise Refused(value)
        yield key, "all", list(everything.read()), gathered.read()
        if value % 4 == 0:
            yield TaggedOutput("fours", (key, value))

    @on_timer(FLUSH)
    def on_flush(
        self,
        key=DoFn.KeyParam,
        time=DoFn.TimestampParam,
        tag=DoFn.DynamicTimerTagParam,
        everything=DoFn.StateParam(ALL),
        counts=DoFn.StateParam(COUNTS),
        distinct=DoFn.StateParam(DISTINCT),
        total=DoFn.StateParam(SUM),
        flush=DoFn.TimerParam(FLUSH),
        nap=DoFn.TimerParam(NAP),
    ):
        fails = total.read() % 5 == 4
        if fails and self.trouble == "quiet":
            return
        yield key, "flush", tag, time, list(everything.read()), counts.read()
        everything.clear()
        counts.put("flushed", [int(time)])
        distinct.clear()
        if total.read() % 3 == 0:
            total.add(1)
            flush.set(time + 2)
            nap.set(time + 1)
        if fails and self.trouble == "raise":
            raise Refused(tag)

    @on_timer(NAP)
    def on_nap(
        self,
        key=DoFn.KeyParam,
        time=DoFn.TimestampParam,
        tag=DoFn.DynamicTimerTagParam,
        recent=DoFn.StateParam(RECENT),
        total=DoFn.StateParam(SUM),
        flush=DoFn.TimerParam(FLUSH),
    ):
        yield key, "nap", tag, time, recent.read_range(2, 20)
        recent.clear_range(5, 8)
        if total.read() % 2:
            total.add(1)
            flush.set(time, dynamic_timer_tag="t1")

    def on_window_expiration(self, key=DoFn.KeyParam, last=DoFn.StateParam(LAST), gathered=DoFn.StateParam(GATHERED)):
        yield key, "expired", last.read(), gathered.read()


def is_refused(value: int) -> bool:
    return value % 5 == 3


# --- what must not matter -----------------------------------------------------------------------------------------


@SETTINGS
@given(cases(), st.sets(st.integers(0, 13)), st.integers(1, 5))
def test_crashes_leave_no_trace(case, crashes, key_groups):
    without = play(Busy(), case, key_groups=key_groups)
    crashed = play(Busy(), case, key_groups=key_groups, crashes=crashes)
    assert list(crashed) == list(without)
    assert state_of(crashed) == state_of(without)
    assert metrics_of(crashed) == metrics_of(without)


@SETTINGS
@given(cases(), st.sets(st.integers(0, 13)))
def test_crashes_leave_no_trace_in_the_log(case, crashes):
    tokens = []
    for crashing in (set(), crashes):
        step = build_step(
            Busy(),
            StepOptions(
                windowing=case.windowing,
                allowed_lateness=case.lateness,
                requires_time_sorted_input=case.time_sorted,
            ),
        )
        options = HeapOptions(deltas_max=2, segment_bytes_max=200)
        runtime = MemoryRuntime(lambda step=step: step, StepOptions(key_groups=2, backend=HeapBackends(options)))  # type: ignore[misc]
        for event in stream_of(case.events, crashing).events:
            runtime.play(event)
        tokens.append([Head.decode(store.get(HEAD)).token for store in runtime.stores])
    assert tokens[0] == tokens[1]


@SETTINGS
@given(cases(), st.integers(2, 5))
def test_the_number_of_key_groups_does_not_matter_to_a_key(case, key_groups):
    one = play(Busy(), case)
    many = play(Busy(), case, key_groups=key_groups)
    assert outputs_by_key(many) == outputs_by_key(one)
    assert state_of(many) == state_of(one)
    # Each key group has windows of its own, and a log of its own.
    assert metrics_of(many, "windows_expired", "delta_bytes") == metrics_of(one, "windows_expired", "delta_bytes")


class Sparse(DoFn):
    """Often leaves nothing behind, so that windows come to hold nothing."""

    VALUE = ValueStateSpec("value")
    TIMER = TimerSpec("timer")

    def process(self, element, value=DoFn.StateParam(VALUE), timer=DoFn.TimerParam(TIMER)):
        Metrics.counter("sparse", "calls").inc()
        if element[1] % 3 == 0:
            value.write(element[1])
        elif element[1] % 3 == 1:
            value.clear()
        if element[1] % 4 == 3:
            timer.set(element[1])
        elif element[1] % 4 == 1:
            timer.clear()
        yield element[0], value.read()

    @on_timer(TIMER)
    def on_time(self, key=DoFn.KeyParam, value=DoFn.StateParam(VALUE)):
        yield key, value.read()
        value.clear()


@SETTINGS
@given(cases(sorting=False), st.sets(st.integers(0, 13)))
def test_crashes_leave_no_trace_where_windows_come_to_hold_nothing(case, crashes):
    without = play(Sparse(), case)
    crashed = play(Sparse(), case, crashes=crashes)
    assert list(crashed) == list(without)
    assert state_of(crashed) == state_of(without)
    assert metrics_of(crashed) == metrics_of(without)


@pytest.mark.parametrize("values", [[0, 1], [2], [0, 2, 1], [1]])
@pytest.mark.parametrize("deltas_max", [0, 1000])
def test_a_window_that_holds_nothing_does_not_expire(values, deltas_max):
    # 0 writes, 1 clears, 2 does neither. What memory alone knows of a window must not show.
    events = [("elements", [("b", value, 0)]) for value in values] + [("watermark", 50)]
    for crashes in ([], range(len(events) + 1)):
        step = build_step(Sparse(), StepOptions(windowing=FixedWindows(10)))
        options = HeapOptions(deltas_max=deltas_max)
        runtime = MemoryRuntime(lambda step=step: step, StepOptions(backend=HeapBackends(options)))  # type: ignore[misc]
        for event in stream_of(events, set(crashes)).events:
            runtime.play(event)
        assert runtime.metrics.windows_expired == 0


# --- limits -------------------------------------------------------------------------------------------------------


POLICIES = ["fail", "evict_lru", "evict_oldest", "over_limit"]
LIMITS = st.builds(
    Limits,
    max_keys=st.none() | st.integers(1, 4),
    max_bytes=st.none() | st.integers(100, 2_000),
    max_bytes_per_key=st.none() | st.integers(50, 1_000),
    max_bag_size=st.integers(1, 3),
    policy=st.sampled_from(POLICIES),
)


def limited(case: Case, limits: Limits, **options: Any) -> tuple[Any, ...]:
    """What came of it: outputs by key, state and counters, or that it failed."""
    try:
        results = play(Busy(), case, limits=limits, **options)
    except LimitExceeded:
        return ("failed",)
    counters = [results.metrics[name] for name in ("keys_evicted", "elements_evicted", "over_limit")]
    return outputs_by_key(results), state_of(results), counters


@SETTINGS
@given(cases(), LIMITS, st.sets(st.integers(0, 13)), st.integers(1, 3))
def test_crashes_do_not_matter_to_limits(case, limits, crashes, key_groups):
    without = limited(case, limits, key_groups=key_groups)
    assert limited(case, limits, key_groups=key_groups, crashes=crashes) == without


COMES_IN_THREE_WINDOWS = Case(
    [("elements", [("a", 0, 0)]), ("elements", [("b", 0, 5), ("b", 0, 0)])], SlidingWindows(10, 5), 0, False
)


@settings(SETTINGS, max_examples=examples(30))
@given(cases(), LIMITS, st.sets(st.integers(0, 13)))
@example(COMES_IN_THREE_WINDOWS, Limits(max_bag_size=1, policy="evict_oldest"), set())
def test_backends_keep_limits_alike(case, limits, crashes):
    without = limited(case, limits)
    assert limited(case, limits, backend="disk") == without
    assert limited(case, limits, backend="disk", crashes=crashes) == without


class TwoMachines(DiskFiles):
    """After each crash the other machine goes on, with files that are behind."""

    # Of the class: a worker gets a copy of the object.
    turns = itertools.count()

    def make(self, layout: Layout, place: Place) -> DiskBackend:
        machine = self._folder / str(next(self.turns) % 2)
        return DiskBackend(layout, machine / f"{place.name}.sqlite", part_keys=2)


@settings(SETTINGS, max_examples=examples(30))
@given(cases(), LIMITS, st.sets(st.integers(0, 13)))
def test_a_file_that_is_behind_catches_up_with_the_limits(case, limits, crashes):
    def step() -> Any:
        options = StepOptions(
            windowing=case.windowing,
            allowed_lateness=case.lateness,
            requires_time_sorted_input=case.time_sorted,
            limits=limits,
        )
        return build_step(Busy(), options)

    heads = []
    for backend in (TwoMachines(), DiskFiles()):
        runtime = MemoryRuntime(step, StepOptions(backend=backend))
        with contextlib.suppress(LimitExceeded):
            for event in stream_of(case.events, crashes).events:
                runtime.play(event)
        runtime.finish()
        backend.close()
        heads.append(runtime.stores[0].committed.get(HEAD))
    assert heads[0] == heads[1]


@settings(SETTINGS, max_examples=examples(30))
@given(cases(), LIMITS, st.integers(0, 12))
def test_disk_goes_on_within_the_limits_from_what_heap_wrote(case, limits, place):
    first = case._replace(events=[event for event in case.events[:place] if event[0] != "end"])
    try:
        before = play(Busy(), first, limits=limits)
    except LimitExceeded:
        return
    rest = case._replace(events=case.events[place:])
    heap, disk = (limited(rest, limits, backend=backend, start_from=before) for backend in ("heap", "disk"))
    assert disk == heap


@SETTINGS
@given(cases(), LIMITS)
def test_what_is_kept_is_within_the_limits(case, limits):
    try:
        results = play(Busy(), case, limits=limits)
    except LimitExceeded:
        return
    [state] = results._load(None)
    ledger = Ledger.of(state)
    assert limits.max_keys is None or ledger.keys <= limits.max_keys
    if limits.policy != "over_limit":
        assert limits.max_bytes is None or ledger.total <= limits.max_bytes
        assert all(size <= (limits.max_bytes_per_key or size) for size in ledger.sizes.values())
    for window in state.windows.values():
        bag = window.tables[state.layout.positions["all"]]
        assert all(len(entry) <= limits.max_bag_size for entry in bag.values.values())


# --- calls that raise ---------------------------------------------------------------------------------------------


def processed(state: dict[Any, Any]) -> dict[Any, Any]:
    """Without the elements that are still held back: among them are some that will raise."""
    return {place: held for place, held in state.items() if place[1] != "~held"}


@SETTINGS
@given(cases(), st.sets(st.integers(0, 13)), st.integers(1, 3))
def test_calls_that_raise_leave_no_trace(case, crashes, key_groups):
    kept = [
        (kind, [element for element in more[0] if not is_refused(element[1])]) if kind == "elements" else (kind, *more)
        for kind, *more in case.events
    ]
    raising = play(Busy("raise"), case, on_error="dead_letter", key_groups=key_groups, crashes=crashes)
    never = play(Busy("quiet"), case, events=kept, key_groups=key_groups)
    assert [output for output in raising if output.tag != "dead_letter"] == list(never)
    assert processed(state_of(raising)) == processed(state_of(never))
    assert raising.metrics.timers_fired == never.metrics.timers_fired
    letters = raising.tagged("dead_letter")
    assert raising.metrics.dead_letters == len(letters)
    assert all(letter.error.startswith("Refused") for letter in letters)
    refused = [letter for letter in letters if letter.method == "process"]
    assert all(is_refused(letter.value) for letter in refused)
    assert raising.metrics.calls == never.metrics.calls + len(refused)


# --- a plain interpreter ------------------------------------------------------------------------------------------


class Tally(DoFn):
    """Counts, tells the count when the watermark has passed the last element by 4 s, and what is left at the end."""

    COUNT = ValueStateSpec("count")
    TELL = TimerSpec("tell")

    def process(self, element, time=DoFn.TimestampParam, count=DoFn.StateParam(COUNT), tell=DoFn.TimerParam(TELL)):
        count.write((count.read() or 0) + 1)
        tell.set(time + 4)
        yield element[0], "counted", count.read()

    @on_timer(TELL)
    def on_tell(self, key=DoFn.KeyParam, count=DoFn.StateParam(COUNT)):
        yield key, "told", count.read()
        count.clear()

    def on_window_expiration(self, key=DoFn.KeyParam, count=DoFn.StateParam(COUNT)):
        yield key, "left", count.read()


class Interpreter:
    """What Tally means, said once more without an engine."""

    def __init__(self, window_fn: WindowFn, lateness: int) -> None:
        self.window_fn = window_fn
        self.lateness = lateness
        self.watermark = float("-inf")
        self.cells: dict[tuple[str, Any], dict[str, Any]] = {}
        self.said: dict[str, list[Any]] = {}
        self.late: list[Any] = []
        self.fired = self.expired = self.calls = 0

    def say(self, key: Any, what: str, value: Any, time: Any, window: Any) -> None:
        self.said.setdefault(repr(key), []).append(Output((key, what, value), Timestamp.of(time), window, MAIN_TAG))

    def play(self, kind: str, argument: Any = None) -> None:
        if kind == "elements":
            for key, value, time in argument:
                self.element(key, value, time)
        elif kind == "watermark":
            self.watermark = max(self.watermark, 0) + argument
        elif kind == "end":
            self.watermark = 1e15
        self.advance()
        if kind == "end":
            for (_, window), cell in self.cells.items():
                self.say(cell["key"], "left", cell["count"], window.max_timestamp(), window)

    def element(self, key: Any, value: Any, time: int) -> None:
        for window in self.window_fn.assign(WindowFn.AssignContext(Timestamp(time))):
            if self.expiry(window) <= self.watermark:
                self.late.append(((key, value), Timestamp(time), window, LATE_TAG))
                continue
            self.calls += 1
            cell = self.cells.setdefault((repr(key), window), {"key": key, "count": None, "timer": None})
            cell["count"] = (cell["count"] or 0) + 1
            cell["timer"] = time + 4
            self.say(key, "counted", cell["count"], time, window)

    def expiry(self, window: Any) -> float:
        return float("inf") if window == GlobalWindow() else window.end.micros / 1e6 + self.lateness

    def advance(self) -> None:
        """Everything that is due, in order of time: timers before the ends of windows."""
        while True:
            due = [(cell["timer"], 0, order(window), name) for (name, window), cell in self.timed()]
            due += [(self.expiry(window), 1, order(window), name) for name, window in self.cells]
            if not due or min(due)[0] > self.watermark:
                return
            time, ends, place, name = min(due)
            window = next(window for n, window in self.cells if n == name and order(window) == place)
            if ends:
                self.expire(window)
            else:
                self.tell(self.cells[name, window], window, time)

    def timed(self) -> list[Any]:
        return [(place, cell) for place, cell in self.cells.items() if cell["timer"] is not None]

    def tell(self, cell: dict[str, Any], window: Any, time: float) -> None:
        cell["timer"] = None
        self.fired += 1
        self.say(cell["key"], "told", cell["count"], time, window)
        cell["count"] = None

    def expire(self, window: Any) -> None:
        """Timers that are still set fire once, though their time has not come."""
        self.expired += 1
        ending = [cell for (_, w), cell in self.cells.items() if w == window]
        for cell in ending:
            if cell["timer"] is not None:
                self.tell(cell, window, cell["timer"])
            self.say(cell["key"], "left", cell["count"], window.max_timestamp(), window)
        self.cells = {place: cell for place, cell in self.cells.items() if place[1] != window}


def order(window: Any) -> tuple[int, int]:
    return (0, 0) if window == GlobalWindow() else (window.start.micros, window.end.micros)


@settings(SETTINGS, max_examples=examples(150))
@given(cases(sorting=False), st.sets(st.integers(0, 13)), st.integers(1, 4))
def test_a_counter_does_what_a_plain_interpreter_does(case, crashes, key_groups):
    results = play(Tally(), case, crashes=crashes, key_groups=key_groups, outputs=["late"])
    interpreter = Interpreter(case.windowing, case.lateness)
    for event in case.events:
        interpreter.play(*event)
    assert outputs_by_key(output for output in results if output.tag == MAIN_TAG) == interpreter.said
    late = [output for output in results if output.tag == LATE_TAG]
    assert Counter(map(repr, late)) == Counter(repr(Output(*output)) for output in interpreter.late)
    assert results.metrics.late == len(interpreter.late)
    assert results.metrics.calls == interpreter.calls
    assert results.metrics.timers_fired == interpreter.fired
    assert results.metrics.elements == sum(len(more[0]) for kind, *more in case.events if kind == "elements")
    if key_groups == 1:
        assert results.metrics.windows_expired == interpreter.expired
    for key in KEYS:
        held = {w: {"count": c["count"]} for (k, w), c in interpreter.cells.items() if k == repr(key) and c["count"]}
        found = results.state(key)
        assert (found if case.windowing != GlobalWindows() else {GlobalWindow(): found} if found else {}) == held
        timers = [("tell", "", w, Timestamp(c["timer"])) for (k, w), c in interpreter.timed() if k == repr(key)]
        assert sorted(results.timers(key), key=repr) == sorted(timers, key=repr)


@SETTINGS
@given(cases(), st.integers(1, 3))
def test_elements_that_are_sorted_come_by_time_and_only_when_it_is_time(case, key_groups):
    case = case._replace(time_sorted=True)
    results = play(Tally(), case, key_groups=key_groups, outputs=["late"])
    watermark = sum(more[0] for kind, *more in case.events if kind == "watermark")
    ended = case.events[-1] == ("end",)
    for outputs in outputs_by_key(results).values():
        for window in {output.window for output in outputs}:
            counted = [o.timestamp for o in outputs if o.window == window and o.value[1] == "counted"]
            assert counted == sorted(counted)
            assert ended or all(time.micros / 1e6 + case.lateness <= watermark for time in counted)
    if ended:
        assert results.metrics.calls + results.metrics.late == sum(
            len(case.windowing.assign(WindowFn.AssignContext(Timestamp(time))))
            for kind, *more in case.events
            if kind == "elements"
            for _, _, time in more[0]
        )
