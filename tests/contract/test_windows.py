"""Windows: each has its own cells and timers, and ends in a fixed order."""

from __future__ import annotations

import pytest

from holdfast import (
    BagStateSpec,
    CombiningStateSpec,
    DoFn,
    Duration,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    SlidingWindows,
    TimeDomain,
    TimerSpec,
    ValueStateSpec,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import GLOBAL, at, by_key, span, stamped


class WindowCount(DoFn):
    """Counts by key and window, and says which window that was."""

    COUNT = CombiningStateSpec("count", sum)

    def process(self, element, window=DoFn.WindowParam, count=DoFn.StateParam(COUNT)):
        count.add(1)
        yield element[0], span(window), count.read()


def counts(out, key="k"):
    """The counts of each window, in order."""
    found = {}
    for window, count in by_key(out)[key]:
        found.setdefault(window, []).append(count)
    return found


class EvenAndOdd(NonMergingWindowFn):
    """Two windows for each ten seconds, by the value of the element; none for negative values."""

    def assign(self, assign_context):
        _, value = assign_context.element
        if value < 0:
            return []
        start = int(assign_context.timestamp) // 10 * 10
        return [IntervalWindow(start, start + (10 if value % 2 else 20))]


class TestAssignment:
    def test_global(self, run, feed):
        out = run(WindowCount(), feed(TestStream(), at(("k", 1, 5), ("k", 2, 500))))
        assert counts(out) == {GLOBAL: [1, 2]}

    def test_global_by_name(self, run, feed):
        out = run(WindowCount(), feed(TestStream(), at(("k", 1, 5), ("k", 2, 500))), windowing=GlobalWindows())
        assert counts(out) == {GLOBAL: [1, 2]}

    def test_fixed(self, run, feed):
        elements = at(*[("k", 1, time) for time in (0, 9.999999, 10, 5, -1, 19)])
        out = run(WindowCount(), feed(TestStream(), elements), windowing=FixedWindows(10))
        assert counts(out) == {(0.0, 10.0): [1, 2, 3], (10.0, 20.0): [1, 2], (-10.0, 0.0): [1]}

    def test_fixed_with_an_offset(self, run, feed):
        elements = at(*[("k", 1, time) for time in (2, 3, 12.5)])
        out = run(WindowCount(), feed(TestStream(), elements), windowing=FixedWindows(10, offset=3))
        assert counts(out) == {(-7.0, 3.0): [1], (3.0, 13.0): [1, 2]}

    def test_sliding_calls_once_for_each_window_with_its_cells(self, run, feed):
        elements = at(("k", "a", 7), ("k", "b", 12), ("j", "c", 12))
        out = run(WindowCount(), feed(TestStream(), elements), windowing=SlidingWindows(10, 5))
        assert counts(out) == {(0.0, 10.0): [1], (5.0, 15.0): [1, 2], (10.0, 20.0): [1]}
        assert counts(out, "j") == {(5.0, 15.0): [1], (10.0, 20.0): [1]}
        assert out.metrics.elements == 3
        assert out.metrics.calls == 6

    def test_sliding_outputs_carry_the_window_of_their_call(self, run, feed):
        out = run(WindowCount(), feed(TestStream(), at(("k", "a", 7))), windowing=SlidingWindows(10, 5))
        for (window, _), time, carried in stamped(out)["k"]:
            assert window == carried
            assert time == 7.0

    def test_sliding_with_gaps_leaves_elements_out(self, run, feed):
        elements = at(*[("k", 1, time) for time in (4, 6, 11)])
        out = run(WindowCount(), feed(TestStream(), elements), windowing=SlidingWindows(5, 10))
        assert counts(out) == {(0.0, 5.0): [1], (10.0, 15.0): [1]}

    def test_a_window_function_of_ones_own(self, run, feed):
        elements = at(*[("k", value, 5) for value in (1, 2, 3, 4, -1)])
        out = run(WindowCount(), feed(TestStream(), elements), windowing=EvenAndOdd())
        assert counts(out) == {(0.0, 10.0): [1, 2], (0.0, 20.0): [1, 2]}


class Diary(DoFn):
    """Writes down what is called at the end of a window, and what the cells hold then."""

    VALUES = BagStateSpec("values")
    AT_END = TimerSpec("at_end")
    EARLY = TimerSpec("early")
    BEYOND = TimerSpec("beyond")
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        window=DoFn.WindowParam,
        values=DoFn.StateParam(VALUES),
        at_end=DoFn.TimerParam(AT_END),
        early=DoFn.TimerParam(EARLY),
        beyond=DoFn.TimerParam(BEYOND),
        real=DoFn.TimerParam(REAL),
    ):
        values.add(element[1])
        at_end.set(window.end)
        early.set(window.end - 5)
        beyond.set(window.end + 1000)
        real.set(5000)

    @on_timer(AT_END)
    def on_end(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "at_end", list(values.read())
        values.add("end")

    @on_timer(EARLY)
    def on_early(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "early", list(values.read())

    @on_timer(BEYOND)
    def on_beyond(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "beyond", list(values.read())
        values.add("beyond")

    @on_timer(REAL)
    def on_real(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "real", list(values.read())
        values.add("real")

    def on_window_expiration(
        self,
        key=DoFn.KeyParam,
        window=DoFn.WindowParam,
        time=DoFn.TimestampParam,
        values=DoFn.StateParam(VALUES),
    ):
        yield key, "expired", list(values.read()), span(window), float(time)
        values.add("after")


class TestExpiry:
    def test_timers_then_expiration_then_the_state_goes(self, run, feed):
        stream = feed(TestStream(), at(("k", 1, 1), ("k", 2, 2))).advance_watermark_to(9)
        before = run(Diary(), stream, windowing=FixedWindows(10))
        assert by_key(before) == {"k": [("early", [1, 2])]}
        assert before.state("k", IntervalWindow(0, 10)) == {"values": [1, 2]}
        out = run(Diary(), stream.crash().advance_watermark_to(10), windowing=FixedWindows(10))
        assert by_key(out)["k"][1:] == [
            ("at_end", [1, 2]),
            ("beyond", [1, 2, "end"]),
            ("real", [1, 2, "end", "beyond"]),
            ("expired", [1, 2, "end", "beyond", "real"], (0.0, 10.0), 9.999999),
        ]
        assert out.state("k") == {}
        assert out.timers("k") == []
        assert out.keys() == []
        assert out.metrics.windows_expired == 1

    def test_outputs_carry_the_window_and_the_time_asked_for(self, run, feed):
        out = run(Diary(), feed(TestStream(), at(("k", 1, 1))).advance_watermark_to(10), windowing=FixedWindows(10))
        assert [(time, window) for _, time, window in stamped(out)["k"]] == [
            (5.0, (0.0, 10.0)),
            (10.0, (0.0, 10.0)),
            (1010.0, (0.0, 10.0)),
            (5000.0, (0.0, 10.0)),
            (9.999999, (0.0, 10.0)),
        ]

    def test_a_window_ends_without_new_data_for_its_keys(self, run, feed):
        stream = feed(TestStream(), at(("k", 1, 1), ("j", 2, 2)))
        stream.add_elements(at(("other", 3, 15))).advance_watermark_to(10)
        out = run(Diary(), stream, windowing=FixedWindows(10))
        assert [what for what, *_ in by_key(out)["k"]] == ["early", "at_end", "beyond", "real", "expired"]
        assert [what for what, *_ in by_key(out)["j"]] == ["early", "at_end", "beyond", "real", "expired"]
        assert out.state("k") == out.state("j") == {}
        assert out.state("other", IntervalWindow(10, 20)) == {"values": [3]}

    def test_a_window_ends_once(self, run, feed):
        stream = feed(TestStream(), at(("k", 1, 1))).advance_watermark_to(10).crash().advance_watermark_to(11)
        out = run(Diary(), stream.advance_watermark_to_infinity(), windowing=FixedWindows(10))
        assert [what for what, *_ in by_key(out)["k"]].count("expired") == 1

    def test_allowed_lateness_puts_the_end_off(self, run, feed):
        stream = feed(TestStream(), at(("k", 1, 1))).advance_watermark_to(29)
        out = run(Diary(), stream, windowing=FixedWindows(10), allowed_lateness=Duration(20))
        assert by_key(out)["k"] == [("early", [1]), ("at_end", [1])]
        assert out.state("k", IntervalWindow(0, 10)) == {"values": [1, "end"]}
        out = run(Diary(), stream.crash().advance_watermark_to(30), windowing=FixedWindows(10), allowed_lateness=20)
        assert [what for what, *_ in by_key(out)["k"]] == ["early", "at_end", "beyond", "real", "expired"]
        assert out.state("k") == {}

    def test_windows_end_one_by_one(self, run, feed):
        stream = feed(TestStream(), at(("k", "b", 15), ("k", "a", 5))).advance_watermark_to(10)
        out = run(Diary(), stream, windowing=FixedWindows(10))
        expired = [rest for rest in by_key(out)["k"] if rest[0] == "expired"]
        assert [window for _, _, window, _ in expired] == [(0.0, 10.0)]
        assert out.state("k", IntervalWindow(10, 20)) == {"values": ["b"]}

    def test_windows_that_end_together_end_earliest_first(self, run, feed):
        stream = feed(TestStream(), at(*[("k", time, time) for time in (25, 5, 15)])).advance_watermark_to(100)
        out = run(Diary(), stream, windowing=FixedWindows(10))
        expired = [rest for rest in by_key(out)["k"] if rest[0] == "expired"]
        assert [window for _, _, window, _ in expired] == [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)]

    def test_each_sliding_window_ends_at_its_own_time(self, run, feed):
        stream = feed(TestStream(), at(("k", 1, 7))).advance_watermark_to(10)
        out = run(Diary(), stream, windowing=SlidingWindows(10, 5))
        assert [rest[2] for rest in by_key(out)["k"] if rest[0] == "expired"] == [(0.0, 10.0)]
        assert {span(window) for window in out.state("k")} == {(5.0, 15.0)}
        out = run(Diary(), stream.crash().advance_watermark_to(15), windowing=SlidingWindows(10, 5))
        assert [rest[2] for rest in by_key(out)["k"] if rest[0] == "expired"] == [(0.0, 10.0), (5.0, 15.0)]
        assert out.state("k") == {}

    def test_the_global_window_does_not_end(self, run, feed):
        out = run(Diary(), feed(TestStream(), at(("k", 1, 1))).advance_watermark_to(10**10))
        assert by_key(out) == {}
        assert out.state("k") == {"values": [1]}

    def test_a_window_of_ones_own_ends_too(self, run, feed):
        stream = feed(TestStream(), at(("k", 1, 5), ("k", 2, 5))).advance_watermark_to(10)
        out = run(Diary(), stream, windowing=EvenAndOdd())
        assert [rest[2] for rest in by_key(out)["k"] if rest[0] == "expired"] == [(0.0, 10.0)]
        assert {span(window) for window in out.state("k")} == {(0.0, 20.0)}


@pytest.mark.parametrize("windowing", [FixedWindows(10), SlidingWindows(10, 5)], ids=["fixed", "sliding"])
@pytest.mark.parametrize("lateness", [0, 3])
def test_the_steps_of_the_watermark_change_nothing(run, windowing, lateness):
    elements = at(*[(key, f"{key}{time}", time) for time in (1, 4, 9, 12, 26) for key in ("k", "j")])
    leap = TestStream().add_elements(elements).advance_watermark_to(50)
    steps = TestStream().add_elements(elements)
    for time in range(1, 51, 7):
        steps.advance_watermark_to(time)
    steps.advance_watermark_to(50)
    one, many = (run(Diary(), stream, windowing=windowing, allowed_lateness=lateness) for stream in (leap, steps))
    assert stamped(one) == stamped(many)
    assert one.keys() == many.keys() == []


class OnlyExpiration(DoFn):
    """Has no timer, and no cell that holds anything for odd values."""

    LAST = ValueStateSpec("last")

    def process(self, element, last=DoFn.StateParam(LAST)):
        if element[1] % 2 == 0:
            last.write(element[1])

    def on_window_expiration(self, key=DoFn.KeyParam, last=DoFn.StateParam(LAST)):
        return [(key, last.read())]


def test_expiration_comes_for_every_key_that_had_an_element(run, feed):
    stream = feed(TestStream(), at(("a", 1, 1), ("b", 2, 2), ("c", 4, 15))).advance_watermark_to(10)
    out = run(OnlyExpiration(), stream, windowing=FixedWindows(10))
    assert by_key(out) == {"a": [None], "b": [2]}


class SetsItselfAtTheEnd(DoFn):
    """Its callback sets the timer again, to a time that the window does not live to see."""

    LOOP = TimerSpec("loop")

    def process(self, element, loop=DoFn.TimerParam(LOOP)):
        loop.set(10)

    @on_timer(LOOP)
    def on_loop(self, key=DoFn.KeyParam, time=DoFn.TimestampParam, loop=DoFn.TimerParam(LOOP)):
        yield key, float(time)
        loop.set(time + 100)


def test_a_timer_that_outlives_its_window_is_fired_once_and_what_it_sets_is_dropped(run, feed):
    stream = feed(TestStream(), at(("k", 1, 1))).advance_watermark_to(10)
    out = run(SetsItselfAtTheEnd(), stream, windowing=FixedWindows(10))
    assert by_key(out) == {"k": [10.0, 110.0]}
    assert out.metrics.timers_dropped == 1
    assert by_key(run(SetsItselfAtTheEnd(), stream.advance_watermark_to(1000), windowing=FixedWindows(10))) == {
        "k": [10.0, 110.0]
    }


class EverySeven(DoFn):
    """A loop that knows nothing of windows; the time of its first round is the element's value."""

    LOOP = TimerSpec("loop")

    def process(self, element, loop=DoFn.TimerParam(LOOP)):
        loop.set(element[1])

    @on_timer(LOOP)
    def on_loop(self, key=DoFn.KeyParam, time=DoFn.TimestampParam, loop=DoFn.TimerParam(LOOP)):
        yield key, float(time)
        loop.set(time + 7)

    def on_window_expiration(self, key=DoFn.KeyParam, window=DoFn.WindowParam):
        yield key, span(window)


@pytest.mark.parametrize("steps", [[102], [1000], [96, 100, 103, 1000], [99, 101, 102]], ids=str)
def test_a_loop_goes_on_up_to_the_end_of_its_window_however_the_watermark_comes(run, feed, steps):
    stream = feed(TestStream(), at(("k", 75, 5)))
    for time in steps:
        stream.advance_watermark_to(time)
    out = run(EverySeven(), stream, windowing=FixedWindows(100))
    # 103 was set when the window ended. 110 was set by what fired then: it has no window any more.
    assert by_key(out) == {"k": [75.0, 82.0, 89.0, 96.0, 103.0, (0.0, 100.0)]}
    assert out.metrics.timers_dropped == 1
    assert out.keys() == []


@pytest.mark.parametrize("steps", [[120], [1000], [99, 106, 110, 111, 1000]], ids=str)
def test_a_loop_goes_on_while_late_elements_are_waited_for(run, feed, steps):
    stream = feed(TestStream(), at(("k", 75, 5)))
    for time in steps:
        stream.advance_watermark_to(time)
    out = run(EverySeven(), stream, windowing=FixedWindows(100), allowed_lateness=10)
    assert by_key(out) == {"k": [75.0, 82.0, 89.0, 96.0, 103.0, 110.0, 117.0, (0.0, 100.0)]}
    assert out.metrics.timers_dropped == 1


def test_the_end_of_a_window_comes_between_the_timers_of_another(run, feed):
    stream = feed(TestStream(), at(("k", 95, 5), ("k", 97, 105))).advance_watermark_to(120)
    out = run(EverySeven(), stream, windowing=FixedWindows(100))
    assert by_key(out) == {"k": [95.0, 97.0, 102.0, (0.0, 100.0), 104.0, 111.0, 118.0]}


@pytest.mark.parametrize("windowing", [FixedWindows(10), SlidingWindows(20, 10)], ids=repr)
def test_state_does_not_pile_up(run, windowing):
    stream = TestStream()
    for start in range(0, 500, 10):
        stream.add_elements(at(("k", start, start), ("j", start, start + 5))).advance_watermark_to(start + 10)
    out = run(WindowCount(), stream.advance_watermark_to(600), windowing=windowing)
    assert out.keys() == []
    assert out.metrics.late == 0
