"""Elements in order of event time: they wait for the watermark, in the state."""

from __future__ import annotations

import functools

import pytest

from holdfast import BagStateSpec, DoFn, FixedWindows, SlidingWindows, TimerSpec, on_timer
from holdfast.testing import TestStream

from .reading import at, by_key, stamped


class Follows(DoFn):
    """Gives each value together with those before it; a timer five seconds after each does too."""

    SEEN = BagStateSpec("seen")
    LATER = TimerSpec("later")

    def process(self, element, time=DoFn.TimestampParam, seen=DoFn.StateParam(SEEN), later=DoFn.TimerParam(LATER)):
        key, value = element
        seen.add(value)
        later.set(time + 5)
        yield key, list(seen.read())

    @on_timer(LATER)
    def on_later(self, key=DoFn.KeyParam, seen=DoFn.StateParam(SEEN)):
        yield key, "timer", list(seen.read())


@pytest.fixture
def run_sorted(run):
    return functools.partial(run, requires_time_sorted_input=True)


def test_elements_wait_for_the_watermark(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "a", 10), ("j", "b", 10)))
    out = run_sorted(Follows(), stream.advance_watermark_to(9.999999))
    assert len(out) == 0
    assert out.metrics.calls == 0
    assert by_key(run_sorted(Follows(), stream.crash().advance_watermark_to(10))) == {"k": [["a"]], "j": [["b"]]}


def test_elements_come_in_order_of_time_across_bundles_and_crashes(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "d", 14), ("k", "a", 11), ("j", "x", 13)))
    feed(stream, at(("k", "b", 12), ("k", "e", 15), ("j", "w", 12), ("k", "c", 13)))
    out = run_sorted(Follows(), stream.advance_watermark_to(14))
    assert by_key(out) == {
        "k": [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]],
        "j": [["w"], ["w", "x"]],
    }
    out = run_sorted(Follows(), feed(stream, at(("k", "late but not too late", 14))).advance_watermark_to(15))
    assert by_key(out)["k"][4:] == [
        ["a", "b", "c", "d", "late but not too late"],
        ["a", "b", "c", "d", "late but not too late", "e"],
    ]
    assert out.metrics.late == 0


def test_elements_of_one_time_stay_in_order_of_arrival(run_sorted, feed):
    stream = feed(TestStream(), at(*[("k", value, 5) for value in "cab"])).advance_watermark_to(5)
    assert by_key(run_sorted(Follows(), stream))["k"][-1] == ["c", "a", "b"]


def test_outputs_carry_the_time_of_their_element(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "b", 8), ("k", "a", 7))).advance_watermark_to(9)
    assert [time for _, time, _ in stamped(run_sorted(Follows(), stream))["k"]] == [7.0, 8.0]


def test_timers_fire_between_the_elements(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "b", 20), ("k", "a", 10), ("k", "c", 25))).advance_watermark_to(100)
    assert by_key(run_sorted(Follows(), stream))["k"] == [
        ["a"],
        ("timer", ["a"]),
        ["a", "b"],
        ["a", "b", "c"],
        ("timer", ["a", "b", "c"]),
    ]


def test_an_element_behind_the_watermark_is_late(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "a", 10))).advance_watermark_to(10)
    feed(stream, at(("k", "too late", 9), ("k", "in time", 10)))
    out = run_sorted(Follows(), stream, outputs=["late"])
    assert by_key(out) == {"k": [["a"], ["a", "in time"]]}
    assert by_key(out, "late") == {"k": ["too late"]}
    assert out.metrics.late == 1
    assert out.state("k") == {"seen": ["a", "in time"]}


def test_with_allowed_lateness_elements_wait_that_much_longer(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "b", 10))).advance_watermark_to(13)
    feed(stream, at(("k", "a", 9)))
    assert len(run_sorted(Follows(), stream, allowed_lateness=5)) == 0
    out = run_sorted(Follows(), stream.advance_watermark_to(15), allowed_lateness=5)
    # The timer of "a" was for 14; it did not wait for the lateness.
    assert by_key(out)["k"][:3] == [["a"], ("timer", ["a"]), ["a", "b"]]


def test_every_window_has_its_own_order(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "c", 12), ("k", "b", 7), ("k", "a", 3))).advance_watermark_to(13)
    out = run_sorted(Follows(), stream, windowing=SlidingWindows(10, 5))
    values = {}
    for value, _, window in stamped(out)["k"]:
        if value[0] != "timer":
            values.setdefault(window, []).append(value[-1])
    assert values == {(-5.0, 5.0): ["a"], (0.0, 10.0): ["a", "b"], (5.0, 15.0): ["b", "c"], (10.0, 20.0): ["c"]}


def test_elements_come_before_the_end_of_their_window(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "b", 9), ("k", "a", 8))).advance_watermark_to(100)
    out = run_sorted(Follows(), stream, windowing=FixedWindows(10))
    assert by_key(out)["k"][:2] == [["a"], ["a", "b"]]
    assert out.keys() == []


def test_at_the_end_of_the_input_all_come(run_sorted, feed):
    stream = feed(TestStream(), at(("k", "b", 10**6), ("k", "a", 10**5))).advance_watermark_to_infinity()
    out = run_sorted(Follows(), stream)
    assert [value[-1] for value in by_key(out)["k"] if value[0] != "timer"] == ["a", "b"]


def test_what_waits_is_not_shown_as_a_cell(run_sorted, feed):
    out = run_sorted(Follows(), feed(TestStream(), at(("k", "a", 10))))
    assert out.state("k") == {}
    assert out.keys() == ["k"]


def test_waiting_values_come_back_as_they_were(run_sorted, feed):
    value = {"a": [1, (2.0, None)], "b": {"c"}}
    out = run_sorted(Follows(), feed(TestStream(), at(("k", value, 10))).advance_watermark_to(10))
    assert out.state("k") == {"seen": [value]}
