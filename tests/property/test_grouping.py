"""Groupings: what must not matter does not, and plain models say the same.

It must not matter which of the two ways runs a grouping, whether elements were combined before they came, how they were
divided among tasks, in which order they came, and whether a worker died in between.
"""

from __future__ import annotations

import decimal
import functools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    CombineFn,
    CombinePerKey,
    Count,
    FixedWindows,
    GlobalWindows,
    GroupByKey,
    HoldfastError,
    Max,
    Mean,
    Min,
    OrFinally,
    PaneInfoTiming,
    Repeatedly,
    Sessions,
    SlidingWindows,
    Sum,
    TimestampedValue,
    UserCodeError,
)
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.state.key_group import Layout
from holdfast.model.aggregate.triggers import DefaultTrigger, Moment
from holdfast.model.functions.grouping import Grouping, build_grouping
from holdfast.model.functions.options import StepOptions
from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP
from holdfast.spark.stages.lifting import LiftedReader, Lifting, can_lift
from holdfast.spark.types.rows import ElementReader
from holdfast.testing import Results, TestStream, run
from holdfast.testing.memory_store import MemoryStore
from tiers import examples

SETTINGS = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
SECOND = 1_000_000
MODES = st.sampled_from([AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])


class Histogram(CombineFn):
    """How often each value, or field, came; changes its accumulators in place."""

    def __init__(self, field: str | None = None) -> None:
        self.of = field

    def create_accumulator(self) -> dict[Any, int]:
        return {}

    def add_input(self, mutable_accumulator: dict[Any, int], element: Any) -> dict[Any, int]:
        value = element if self.of is None else getattr(element, self.of)
        mutable_accumulator[value] = mutable_accumulator.get(value, 0) + 1
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Any) -> dict[Any, int]:
        first, *others = accumulators
        for other in others:
            for value, count in other.items():
                first[value] = first.get(value, 0) + count
        return first

    def extract_output(self, accumulator: dict[Any, int]) -> list[tuple[Any, int]]:
        return sorted(accumulator.items(), key=repr)


# --- scripts ------------------------------------------------------------------------------------------------------


KEYS = ["a", "b", 3]
ELEMENTS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-9, 9), st.integers(0, 40)), min_size=1, max_size=6)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("elements"), ELEMENTS),
        st.tuples(st.just("elements"), ELEMENTS),
        st.tuples(st.just("watermark"), st.integers(0, 15)),
        st.tuples(st.just("clock"), st.integers(0, 5)),
        st.tuples(st.just("crash")),
    ),
    min_size=1,
    max_size=12,
)
WHOLE = st.sampled_from([FixedWindows(10), FixedWindows(7, offset=3), SlidingWindows(10, 5), SlidingWindows(6, 4, 1)])
SESSIONS = st.sampled_from([Sessions(3), Sessions(8)])


def stream_of(events: list[Any], *, end: bool = True, crashes: bool = True) -> TestStream:
    stream = TestStream()
    watermark = 0
    for kind, *more in events:
        if kind == "elements":
            stream.add_elements([TimestampedValue((key, value), time) for key, value, time in more[0]])
        elif kind == "watermark":
            watermark += more[0]
            stream.advance_watermark_to(watermark)
        elif kind == "clock":
            stream.advance_processing_time(more[0])
        elif crashes:
            stream.crash()
    return stream.advance_watermark_to_infinity() if end else stream


def by_key(results: Results) -> dict[Any, list[Any]]:
    """All results of each key, in order."""
    found: dict[Any, list[Any]] = {}
    for output in results:
        if output.tag == "main":
            found.setdefault(output.value[0], []).append(output)
    return found


# --- both ways of running -----------------------------------------------------------------------------------------


@contextmanager
def one_way_only() -> Iterator[None]:
    """Groupings run as a function with cells and timers, even where whole windows or sessions would do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grouping, "keeps_whole_windows", property(lambda self: False))
        patch.setattr(Grouping, "keeps_sessions", property(lambda self: False))
        yield


@SETTINGS
@given(
    events=EVENTS,
    windowing=st.one_of(WHOLE, st.just(GlobalWindows()), SESSIONS),
    lateness=st.sampled_from([0, 0, 3, 20]),
    mode=MODES,
    transform=st.sampled_from([GroupByKey(), CombinePerKey(sum), CombinePerKey({"n": Count(), "seen": Histogram()})]),
    end=st.booleans(),
)
def test_columns_and_the_function_with_timers_give_the_same(events, windowing, lateness, mode, transform, end):
    stream = stream_of(events, end=end)
    options: Any = {"windowing": windowing, "allowed_lateness": lateness, "accumulation_mode": mode, "outputs": ["late"]}
    one = run(transform, stream, **options)
    with one_way_only():
        other = run(transform, stream, **options)
        left = other.keys()
    assert by_key(one) == by_key(other)
    assert Counter(one.tagged("late")) == Counter(other.tagged("late"))
    assert one.metrics.late == other.metrics.late
    assert one.keys() == left
    assert not (end and left)


@SETTINGS
@given(
    before=EVENTS,
    after=EVENTS,
    windowing=SESSIONS,
    lateness=st.sampled_from([0, 0, 3, 20]),
    mode=MODES,
    names=st.permutations(["n", "seen", "mean"]),
    backend=st.sampled_from(["heap", "disk"]),
)
def test_sessions_that_the_function_stored_go_on_as_columns(before, after, windowing, lateness, mode, names, backend):
    options: Any = {"windowing": windowing, "allowed_lateness": lateness, "accumulation_mode": mode, "outputs": ["late"]}
    options |= {"backend": backend, "name": "step"}
    combiners: Any = {"n": Count(), "seen": Histogram(), "mean": Mean()}
    transform = CombinePerKey(combiners)
    with one_way_only():
        stored = run(transform, stream_of(before, end=False), **options)
        expected = run(transform, stream_of(after), start_from=stored, **options)
    # The order in which the results are named does not matter.
    named = CombinePerKey({name: combiners[name] for name in names})
    found = run(named, stream_of(after), start_from=stored, **options)
    assert by_key(found) == by_key(expected)
    assert Counter(found.tagged("late")) == Counter(expected.tagged("late"))
    assert found.keys() == []


@SETTINGS
@given(events=EVENTS, windowing=WHOLE, mode=MODES)
def test_without_lateness_a_late_part_changes_nothing(events, windowing, mode):
    stream = stream_of(events)
    one = run(CombinePerKey(sum), stream, windowing=windowing)
    trigger = AfterWatermark(late=Repeatedly(AfterCount(2)))
    other = run(CombinePerKey(sum), stream, windowing=windowing, trigger=trigger, accumulation_mode=mode)
    assert by_key(one) == by_key(other)


ANY_TRIGGER = st.sampled_from(
    [
        DefaultTrigger(),
        Repeatedly(AfterCount(2)),
        AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
        AfterWatermark(early=AfterProcessingTime(2), late=Repeatedly(AfterCount(2))),
        Always(),
        Repeatedly(AfterAny(AfterCount(3), AfterProcessingTime(3))),
        Repeatedly(AfterAll(AfterCount(2), AfterProcessingTime(1))),
        AfterEach(AfterCount(1), Repeatedly(AfterCount(3))),
        Repeatedly(OrFinally(Repeatedly(AfterCount(2)), AfterCount(5))),
    ]
)
ANY_WINDOWS = st.one_of(WHOLE, st.sampled_from([GlobalWindows(), Sessions(5)]))


@SETTINGS
@given(events=EVENTS, windowing=ANY_WINDOWS, lateness=st.sampled_from([0, 6]), mode=MODES, trigger=ANY_TRIGGER)
def test_a_crash_leaves_no_trace(events, windowing, lateness, mode, trigger):
    options: Any = {"windowing": windowing, "allowed_lateness": lateness, "trigger": trigger, "accumulation_mode": mode}
    for transform in (GroupByKey(), CombinePerKey(Histogram())):
        without = run(transform, stream_of(events, crashes=False), **options)
        spread = [event for one in events for event in (one, ("crash",))]
        assert by_key(run(transform, stream_of(spread), **options)) == by_key(without)


@SETTINGS
@given(events=EVENTS, windowing=ANY_WINDOWS, lateness=st.sampled_from([0, 6]), trigger=ANY_TRIGGER)
def test_discarding_panes_hold_each_element_exactly_once(events, windowing, lateness, trigger):
    stream = stream_of(events)
    options: Any = {"windowing": windowing, "allowed_lateness": lateness, "outputs": ["late"]}
    out = run(GroupByKey(), stream, trigger=trigger, accumulation_mode="discarding", **options)
    given_out = Counter((key, value) for key, values in out.values for value in values)
    late = Counter(out.tagged("late"))
    assert late.total() == out.metrics.late
    came: Counter[Any] = Counter()
    for kind, *more in events:
        for key, value, time in more[0] if kind == "elements" else ():
            came[key, value] += _window_count(windowing, time)
    assert given_out + late == came
    assert out.keys() == []


def _window_count(windowing: Any, time: int) -> int:
    return len(windowing.assign_micros(time * SECOND)) if hasattr(windowing, "assign_micros") else 1


@SETTINGS
@given(events=EVENTS, windowing=WHOLE, lateness=st.sampled_from([0, 6]), trigger=ANY_TRIGGER)
def test_an_accumulating_pane_is_all_discarding_panes_so_far(events, windowing, lateness, trigger):
    stream = stream_of(events)
    options: Any = {"windowing": windowing, "allowed_lateness": lateness, "trigger": trigger}
    discarding = run(GroupByKey(), stream, accumulation_mode="discarding", **options)
    accumulating = run(GroupByKey(), stream, accumulation_mode="accumulating", **options)
    so_far: dict[Any, list[Any]] = {}
    summed: dict[Any, list[Any]] = {}
    for output in discarding:
        key, values = output.value
        so_far[key, output.window] = so_far.get((key, output.window), []) + values
        summed.setdefault((key, output.window), []).append(so_far[key, output.window])
    shown: dict[Any, list[Any]] = {}
    for output in accumulating:
        key, values = output.value
        panes = shown.setdefault((key, output.window), [])
        # The result at the window's end may confirm an earlier one; a discarding pane would be empty.
        if not (output.pane.timing is PaneInfoTiming.ON_TIME and panes and panes[-1] == values):
            panes.append(values)
    assert shown == summed


@SETTINGS
@given(events=EVENTS, windowing=WHOLE, lateness=st.sampled_from([0, 6]), mode=MODES, trigger=ANY_TRIGGER)
def test_panes_are_numbered(events, windowing, lateness, mode, trigger):
    options: Any = {"windowing": windowing, "allowed_lateness": lateness, "trigger": trigger, "accumulation_mode": mode}
    panes: dict[Any, list[Any]] = {}
    for output in run(CombinePerKey(sum), stream_of(events), **options):
        panes.setdefault((output.value[0], output.window), []).append(output.pane)
    for of_window in panes.values():
        assert [pane.index for pane in of_window] == list(range(len(of_window)))
        assert [pane.is_first for pane in of_window] == [True] + [False] * (len(of_window) - 1)
        assert not any(pane.is_last for pane in of_window[:-1])
        timings = [pane.timing for pane in of_window]
        assert timings == sorted(timings)
        assert timings.count(PaneInfoTiming.ON_TIME) <= 1
        early = timings.count(PaneInfoTiming.EARLY)
        assert [pane.nonspeculative_index for pane in of_window] == [max(0, i - early) for i in range(len(of_window))]


# --- lifting ------------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How the elements of a test are columns."""

    keys: tuple[pa.DataType, ...]
    value_names: tuple[str, ...]
    values: tuple[pa.DataType, ...]
    named: bool

    @property
    def reader(self) -> ElementReader:
        types = (pa.int64(),) * len(self.value_names)
        return ElementReader(
            timed=True, keys=len(self.keys), value_names=self.value_names, value_types=types, named=self.named
        )

    def chunk(self, rows: list[Any]) -> pa.RecordBatch:
        """Rows are (key columns, value columns, seconds)."""
        columns = [pa.array([0] * len(rows), pa.int32()), pa.array([time * SECOND for *_, time in rows], pa.int64())]
        columns += [pa.array([keys[i] for keys, *_ in rows], kind) for i, kind in enumerate(self.keys)]
        columns += [pa.array([values[i] for _, values, _ in rows], kind) for i, kind in enumerate(self.values)]
        names = ["group", "time", *(f"k{i}" for i in range(len(self.keys))), *(f"v{i}" for i in range(len(self.values)))]
        return pa.RecordBatch.from_arrays(columns, names=names)


class Played(NamedTuple):
    outputs: dict[Any, list[Any]]
    late: int
    elements: int


class Lifted:
    """Plays bundles of parts: as elements, or each part combined beforehand, as a task would do it."""

    def __init__(self, transform: CombinePerKey, shape: Shape, *, lift: bool, **options: Any) -> None:
        self._make = functools.partial(build_grouping, transform, StepOptions(**options))
        self._shape = shape
        self._lift = lift
        step = self._make()
        assert step.grouping is not None
        window_fn = step.grouping.windowing.window_fn
        assert can_lift(window_fn, list(shape.keys))
        self._lifting = Lifting(transform, window_fn, shape.reader, "step")
        self._reader = LiftedReader(shape.reader, merging=window_fn.is_merging())
        self._store = MemoryStore()
        self._watermark = MIN_TIMESTAMP.micros
        self._outputs: dict[Any, list[Any]] = {}
        self._late = self._elements = 0

    def play(self, events: list[Any]) -> Played:
        for kind, more in events:
            if kind == "both":
                # As on Spark: the watermark has moved when the elements come.
                self._watermark = max(self._watermark, 0) + more[0] * SECOND
                self._bundle([part for part in more[1] if part], Clocks(self._watermark, self._watermark, 0))
            elif kind == "watermark":
                late, self._watermark = self._watermark, max(self._watermark, 0) + more * SECOND
                self._bundle([], Clocks(late, self._watermark, 0))
            else:
                self._bundle([part for part in more if part], Clocks(self._watermark, self._watermark, 0))
        self._bundle([], Clocks(self._watermark, MAX_TIMESTAMP.micros, 0, final=True))
        return Played(self._outputs, self._late, self._elements)

    def _bundle(self, parts: list[Any], clocks: Clocks) -> None:
        # Nothing is kept between bundles but what was committed.
        step = self._make()
        layout = Layout(step)
        runner = make_runner(step, layout, {}, (), origins=True)
        backend = HeapBackend(layout)
        state = backend.open(self._store)
        block = self._intake(runner, parts)
        runner.run(state, block, clocks, 0)
        for output in runner.outputs():
            key, result = output.value
            self._outputs.setdefault(repr(key), []).append((repr(result), output.window, output.pane))
        backend.commit(self._store)
        self._store.commit()
        self._late += runner.metrics.late
        self._elements += runner.metrics.elements

    def _intake(self, runner: Any, parts: list[Any]) -> Any:
        batches = [self._shape.chunk(part) for part in parts]
        columns = runner.step.grouping.columns
        if self._lift:
            lifted = [_without_group(self._lifting.lift(batch)) for batch in batches]
            return self._reader.intake(runner, lifted, columns, 0)
        return self._shape.reader.intake(runner, [_without_group(batch) for batch in batches], columns, 0)


def _without_group(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(list(range(1, batch.num_columns)))


LIFTED_WINDOWS = st.sampled_from(
    [GlobalWindows(), FixedWindows(10, offset=4), SlidingWindows(10, 5), SlidingWindows(10, 4, 1), Sessions(6)]
)
LIFTED_TRIGGERS = st.sampled_from([None, None, Repeatedly(AfterCount(3)), AfterWatermark(AfterCount(2), AfterCount(1))])

TEXT_KEYS = st.tuples(st.sampled_from(["x", "y", ""]))
NUMBER_KEYS = st.tuples(st.sampled_from([-1, 0, 2**40]))
PAIR_KEYS = st.tuples(st.sampled_from(["x", None]), st.sampled_from([1, 2]))
SMALL = st.integers(-9, 9)
LARGE = st.one_of(SMALL, st.integers(2**62, 2**63 - 1), st.integers(-(2**63), -(2**62)))

BARE = {"sum": sum, "Sum": Sum(), "Count": Count(), "Mean": Mean(), "Min": Min(), "Max": Max(), "seen": Histogram()}
FIELDS = {
    "rows": Count(),
    "n": Count("n"),
    "Sum": Sum("n"),
    "Mean": Mean("n"),
    "Min": Min("n"),
    "Max": Max("n"),
    "of": Max("of"),
}
INT64 = pa.int64()
CASES: dict[str, Any] = {
    "text-ints": (Shape((pa.string(),), ("v",), (INT64,), False), TEXT_KEYS, st.tuples(SMALL), BARE),
    "number-large": (Shape((INT64,), ("v",), (INT64,), False), NUMBER_KEYS, st.tuples(LARGE), BARE),
    "pair-fields": (
        Shape((pa.string(), pa.int32()), ("n", "of"), (INT64, pa.int32()), True),
        PAIR_KEYS,
        st.tuples(st.one_of(st.none(), LARGE), st.one_of(st.none(), SMALL)),
        FIELDS,
    ),
    "text-fields": (
        Shape((pa.string(),), ("n", "of"), (INT64, INT64), True),
        TEXT_KEYS,
        st.tuples(st.one_of(st.none(), SMALL), SMALL),
        {**FIELDS, "seen": Histogram("of")},
    ),
}


def bundles(keys: Any, values: Any) -> Any:
    part = st.lists(st.tuples(keys, values, st.integers(0, 40)), max_size=5)
    return st.lists(
        st.one_of(
            st.tuples(st.just("elements"), st.lists(part, min_size=1, max_size=3)),
            st.tuples(st.just("elements"), st.lists(part, min_size=1, max_size=3)),
            st.tuples(st.just("watermark"), st.integers(0, 15)),
        ),
        min_size=1,
        max_size=6,
    )


@pytest.mark.parametrize("case", CASES)
@settings(SETTINGS, max_examples=examples(40))
@given(data=st.data(), windowing=LIFTED_WINDOWS, lateness=st.sampled_from([0, 8]), trigger=LIFTED_TRIGGERS, mode=MODES)
def test_lifted_elements_give_what_the_elements_give(case, data, windowing, lateness, trigger, mode):
    shape, keys, values, combiners = CASES[case]
    events = data.draw(bundles(keys, values), label="events")
    names = data.draw(st.lists(st.sampled_from(sorted(combiners)), min_size=1, max_size=3, unique=True), label="results")
    transform = CombinePerKey({name: combiners[name] for name in names})
    options = {"windowing": windowing, "allowed_lateness": lateness, "trigger": trigger, "accumulation_mode": mode}
    lifted = Lifted(transform, shape, lift=True, **options).play(events)
    unlifted = Lifted(transform, shape, lift=False, **options).play(events)
    assert lifted == unlifted


@SETTINGS
@given(events=bundles(TEXT_KEYS, st.tuples(SMALL)), windowing=LIFTED_WINDOWS, data=st.data())
def test_how_elements_are_divided_among_tasks_does_not_matter(events, windowing, data):
    together = [(kind, [[row for part in more for row in part]] if kind == "elements" else more) for kind, more in events]
    divided = []
    for kind, more in together:
        if kind == "elements":
            places = data.draw(st.lists(st.integers(0, 2), min_size=len(more[0]), max_size=len(more[0])), label="task")
            tasks = [[row for row, place in zip(more[0], places, strict=True) if place == task] for task in range(3)]
            divided.append((kind, tasks))
        else:
            divided.append((kind, more))
    shape = CASES["text-ints"][0]
    one, other = (
        Lifted(CombinePerKey(BARE), shape, lift=True, windowing=windowing, allowed_lateness=5).play(each)
        for each in (together, divided)
    )
    assert one == other


def rows_of(*values, time=7):
    """One task's elements of the key x."""
    return [(("x",), (value,), time) for value in values]


def both(transform, kind, events, **options):
    """The results of the key x, lifted and as elements."""
    shape = Shape((pa.string(),), ("v",), (kind,), False)
    lifted, unlifted = (Lifted(transform, shape, lift=lift, **options).play(events) for lift in (True, False))
    assert lifted == unlifted
    return [result for result, *_ in lifted.outputs["'x'"]]


@contextmanager
def all_ways() -> Iterator[None]:
    """Groupings run as they do."""
    yield


PARTS = st.lists(st.lists(st.tuples(TEXT_KEYS, st.tuples(SMALL), st.integers(0, 40)), max_size=5), min_size=1, max_size=3)
JUMPS = st.lists(
    st.one_of(
        st.tuples(st.just("elements"), PARTS),
        st.tuples(st.just("both"), st.tuples(st.integers(0, 15), PARTS)),
        st.tuples(st.just("watermark"), st.integers(0, 15)),
    ),
    min_size=1,
    max_size=8,
)


@settings(SETTINGS, max_examples=examples(250))
@given(
    events=JUMPS,
    windowing=SESSIONS,
    lateness=st.sampled_from([0, 0, 3, 20]),
    mode=MODES,
    names=st.sets(st.sampled_from(sorted(BARE)), min_size=1),
)
def test_sessions_as_columns_give_what_the_function_with_timers_gives(events, windowing, lateness, mode, names):
    """With a watermark that moves between bundles or with them, lifted and not."""
    chosen: Any = {name: BARE[name] for name in sorted(names)}
    transform = CombinePerKey(chosen)
    options: Any = {"windowing": windowing, "allowed_lateness": lateness, "accumulation_mode": mode}
    shape = CASES["text-ints"][0]
    played = []
    for lift in (True, False):
        for way in (all_ways, one_way_only):
            with way():
                played.append(Lifted(transform, shape, lift=lift, **options).play(events))
    assert played == [played[-1]] * 4


@pytest.mark.parametrize("windowing", [FixedWindows(10), Sessions(5)], ids=repr)
def test_accumulators_that_are_not_plain_numbers_are_merged_in_several_bundles(windowing):
    amount = decimal.Decimal("0.10")
    events = [("elements", [rows_of(amount), rows_of(amount)]), ("elements", [rows_of(amount)])]
    found = both(CombinePerKey(Sum()), pa.decimal128(10, 2), events, windowing=windowing)
    assert found == [repr(decimal.Decimal("0.30"))]


@pytest.mark.parametrize("windowing", [FixedWindows(10), Sessions(5)], ids=repr)
@pytest.mark.parametrize("fn", [sum, Sum()], ids=["sum", "Sum"])
def test_sums_go_beyond_64_bits(windowing, fn):
    large = 2**63 - 1
    events = [("elements", [rows_of(large, large), rows_of(large)]), ("elements", [rows_of(large)])]
    assert both(CombinePerKey(fn), pa.int64(), events, windowing=windowing) == [repr(4 * large)]


FIRST, LAST = MIN_TIMESTAMP.micros // SECOND + 1, MAX_TIMESTAMP.micros // SECOND - 1


@pytest.mark.parametrize("times", [(FIRST, 1_700_000_000), (FIRST, LAST - 10), (0, LAST - 10), (FIRST, 0), (0, LAST)])
@pytest.mark.parametrize(
    "windowing", [Sessions(5), FixedWindows(10), FixedWindows(2**40), SlidingWindows(10, 5), SlidingWindows(9, 6)], ids=repr
)
def test_times_at_both_ends_of_time(times, windowing):
    """They are in the same windows, or refused in the same words, lifted or not."""
    shape = Shape((pa.string(),), ("v",), (pa.int64(),), False)
    came = []
    for lift in (True, False):
        try:
            events = [("elements", [[row for time in times for row in rows_of(1, time=time)]])]
            came.append(Lifted(CombinePerKey(sum), shape, lift=lift, windowing=windowing).play(events))
        except HoldfastError as refused:
            came.append(refused.what)
    assert came[0] == came[1]


def test_an_accumulator_that_came_for_several_windows_is_not_shared_by_them():
    events = [("elements", [rows_of(1)]), ("elements", [rows_of(2)]), ("elements", [rows_of(3)])]
    for trigger in (None, Always()):
        options: Any = {"trigger": trigger, "accumulation_mode": "accumulating"}
        found = both(CombinePerKey(Histogram()), pa.int64(), events, windowing=SlidingWindows(10, 5), **options)
        assert found[-2:] == ["[(1, 1), (2, 1), (3, 1)]"] * 2


def test_none_is_left_out_of_fields_only():
    """Of bare values it is one that cannot be added, lifted or not."""
    shape = Shape((pa.string(),), ("v",), (pa.int64(),), False)
    for lift in (True, False):
        with pytest.raises(UserCodeError, match="TypeError"):
            Lifted(CombinePerKey(Sum()), shape, lift=lift, windowing=FixedWindows(10)).play(
                [("elements", [rows_of(1, None)])]
            )


# --- sessions -----------------------------------------------------------------------------------------------------


def sessions_of(times: list[int], gap: int) -> list[tuple[int, int]]:
    """Start and end of each session: sorted times, cut where two are a gap or more apart."""
    found: list[tuple[int, int]] = []
    for time in sorted(times):
        if found and time < found[-1][1]:
            found[-1] = (found[-1][0], time + gap)
        else:
            found.append((time, time + gap))
    return found


@SETTINGS
@given(
    elements=st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 60)), min_size=1, max_size=20),
    gap=st.integers(1, 12),
    data=st.data(),
)
def test_sessions_do_not_depend_on_the_order_of_arrival(elements, gap, data):
    arrivals = data.draw(st.permutations(elements), label="arrivals")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(arrivals))), label="cuts"))
    stream = TestStream()
    for start, end in zip([0, *cuts], [*cuts, len(arrivals)], strict=True):
        stream.add_elements([TimestampedValue((key, time), time) for key, time in arrivals[start:end]])
        if data.draw(st.booleans(), label="crash"):
            stream.crash()
    transform = CombinePerKey({"n": Count(), "seen": Histogram()})
    out = run(transform, stream.advance_watermark_to_infinity(), windowing=Sessions(gap))
    found: dict[Any, list[Any]] = {}
    for output in out:
        key, result = output.value
        found.setdefault(key, []).append((int(output.window.start), int(output.window.end), result))
    expected: dict[Any, list[Any]] = {}
    for key in {key for key, _ in elements}:
        times = [time for other, time in elements if other == key]
        for start, end in sessions_of(times, gap):
            inside = Counter(time for time in times if start <= time < end)
            result = {"n": inside.total(), "seen": sorted(inside.items(), key=repr)}
            expected.setdefault(key, []).append((start, end, result))
    assert {key: sorted(sessions, key=lambda s: s[:2]) for key, sessions in found.items()} == expected
    assert out.keys() == []


@SETTINGS
@given(events=EVENTS, gap=st.integers(1, 12), lateness=st.sampled_from([0, 6]))
def test_sessions_with_a_moving_watermark_against_a_model(events, gap, lateness):
    """The model keeps for each key sessions as [start, end, new values]; it closes them when the watermark has passed."""
    out = run(
        GroupByKey(), stream_of(events), windowing=Sessions(gap), allowed_lateness=lateness, accumulation_mode="discarding"
    )
    late = 0
    opened: dict[Any, list[list[Any]]] = {}
    closed: Counter[Any] = Counter()
    watermark = None

    def settle(limit: float) -> None:
        for key, sessions in opened.items():
            for session in sessions:
                if session[1] <= limit and session[2]:
                    closed[key, session[0], session[1], tuple(sorted(session[2]))] += 1
                    session[2] = []
            opened[key] = [session for session in sessions if session[1] + lateness > limit]

    for kind, *more in events:
        if kind == "watermark":
            watermark = (watermark or 0) + more[0]
            settle(watermark)
        if kind != "elements":
            continue
        for key in {key for key, *_ in more[0]}:
            fresh = [[time, time + gap, [value]] for other, value, time in more[0] if other == key]
            merged: list[list[Any]] = []
            for start, end, values in sorted([*opened.get(key, []), *fresh], key=lambda s: (s[0], s[1])):
                if merged and start < merged[-1][1]:
                    merged[-1] = [merged[-1][0], max(end, merged[-1][1]), merged[-1][2] + values]
                else:
                    merged.append([start, end, values])
            for session in merged:
                if watermark is not None and session[1] + lateness <= watermark:
                    late += len(session[2])
            opened[key] = [s for s in merged if watermark is None or s[1] + lateness > watermark]
        if watermark is not None:
            settle(watermark)
    settle(float("inf"))
    found: Counter[Any] = Counter()
    for output in out:
        key, values = output.value
        found[key, int(output.window.start), int(output.window.end), tuple(sorted(values))] += 1
    assert found == closed
    assert out.metrics.late == late


# --- triggers -----------------------------------------------------------------------------------------------------


COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=12)
NEVER = Moment(watermark=0, now=0, end=10**12)


def firings(trigger: Any, counts: list[int]) -> list[int]:
    """In which bundles a trigger fires, until it finishes."""
    state, fired = trigger.start(), []
    for place, count in enumerate(counts):
        state = trigger.on_elements(state, count, NEVER)
        if trigger.should_fire(state, NEVER):
            fired.append(place)
            state, finished = trigger.on_fire(state, NEVER)
            if finished:
                break
    return fired


def counted(counts: list[int], n: int) -> list[int]:
    """The same for Repeatedly(AfterCount(n)): a plain counter that begins anew."""
    total, fired = 0, []
    for place, count in enumerate(counts):
        total += count
        if total >= n:
            fired.append(place)
            total = 0
    return fired


@given(counts=COUNTS, n=st.integers(1, 8))
def test_after_count_against_a_counter(counts, n):
    assert firings(Repeatedly(AfterCount(n)), counts) == counted(counts, n)
    assert firings(AfterCount(n), counts) == counted(counts, n)[:1]


@given(counts=COUNTS, n=st.integers(1, 8), m=st.integers(1, 8))
def test_any_and_all_of_counts_are_the_smaller_and_the_larger(counts, n, m):
    assert firings(Repeatedly(AfterAny(AfterCount(n), AfterCount(m))), counts) == counted(counts, min(n, m))
    assert firings(Repeatedly(AfterAll(AfterCount(n), AfterCount(m))), counts) == counted(counts, max(n, m))


@given(counts=COUNTS, n=st.integers(1, 8), m=st.integers(1, 8))
def test_one_after_the_other(counts, n, m):
    first = counted(counts, n)[:1]
    rest = [first[0] + 1 + place for place in counted(counts[first[0] + 1 :], m)] if first else []
    assert firings(AfterEach(AfterCount(n), Repeatedly(AfterCount(m))), counts) == first + rest


@given(counts=COUNTS, n=st.integers(1, 4), stop=st.integers(1, 20))
def test_until_another_fires(counts, n, stop):
    end = next((place for place in range(len(counts)) if sum(counts[: place + 1]) >= stop), None)
    repeated = counted(counts, n)
    expected = repeated if end is None else [place for place in repeated if place < end] + [end]
    assert firings(OrFinally(Repeatedly(AfterCount(n)), AfterCount(stop)), counts) == expected


@given(left=COUNTS, right=COUNTS, n=st.integers(1, 60))
def test_merged_counts_are_the_count_of_all(left, right, n):
    trigger = AfterCount(n)
    states = [functools.reduce(lambda state, c: trigger.on_elements(state, c, NEVER), side, 0) for side in (left, right)]
    assert trigger.should_fire(trigger.merge(states), NEVER) == (sum(left) + sum(right) >= n)


@given(nows=st.lists(st.integers(0, 100), min_size=1, max_size=5), delay=st.integers(0, 9))
def test_merged_delays_run_from_the_first_element(nows, delay):
    trigger = AfterProcessingTime(delay)
    states = [trigger.on_elements(trigger.start(), 1, Moment(0, now, 10**12)) for now in nows]
    merged = trigger.merge([trigger.start(), *states])
    due = min(nows) + delay * SECOND
    assert trigger.wake(merged, NEVER).real == due
    assert trigger.should_fire(merged, Moment(0, due, 10**12))
    assert not trigger.should_fire(merged, Moment(0, due - 1, 10**12))


@given(trigger=ANY_TRIGGER, data=st.data())
def test_merging_keeps_the_shape_of_a_state(trigger, data):
    """A merged state can be used as any other, and merging one state changes nothing."""
    states = []
    for _ in range(data.draw(st.integers(1, 3), label="windows")):
        state = trigger.start()
        for count in data.draw(st.lists(st.integers(1, 3), max_size=3), label="counts"):
            state = trigger.on_elements(state, count, NEVER)
            if trigger.should_fire(state, NEVER):
                state, finished = trigger.on_fire(state, NEVER)
                assert not finished
        states.append(state)
    assert trigger.merge(states[:1]) == states[0]
    merged = trigger.merge(states)
    after = trigger.on_elements(merged, 100, NEVER)
    later = Moment(watermark=0, now=100 * SECOND, end=10**12)
    wakes = trigger.wake(after, NEVER)
    assert trigger.should_fire(after, later) or wakes.event is not None


@given(one=ANY_TRIGGER, other=ANY_TRIGGER)
def test_equal_triggers_have_equal_hashes(one, other):
    assert (one == other) == (one.describe() == other.describe())
    if one == other:
        assert hash(one) == hash(other)


def test_the_default_trigger_by_its_parts_is_the_default_trigger():
    spelled = AfterWatermark(late=AfterCount(1))
    assert spelled == DefaultTrigger()
    assert hash(spelled) == hash(DefaultTrigger())
