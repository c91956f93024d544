"""The join of two streams by key and time: who meets whom, who comes out alone, and what is kept."""

from __future__ import annotations

import pytest

import holdfast as hf
import holdfast.testing
from holdfast import IntervalJoin
from holdfast.testing import TestStream

from .reading import at, by_key


def left(name, time, key="k"):
    return at((key, ("left", name), time))[0]


def right(name, time, key="k"):
    return at((key, ("right", name), time))[0]


def met(results, key="k"):
    return sorted(by_key(results).get(key, []), key=repr)


def test_those_within_meet(run, feed):
    elements = [left("a", 100), right("x", 90), right("y", 110), right("z", 111), left("b", 115), right("o", 100, "other")]
    stream = feed(TestStream(), elements).advance_watermark_to_infinity()
    results = run(IntervalJoin("10 seconds"), stream)
    assert met(results) == [("a", "x"), ("a", "y"), ("b", "y"), ("b", "z")]
    assert met(results, "other") == []
    assert results.keys() == []


@pytest.mark.parametrize(
    ("within", "meets"),
    [
        (("-10 seconds", 0), ["at", "before"]),
        ((0, "10 seconds"), ["after", "at"]),
        ((5, 10), ["after"]),
        (("-10 seconds", "-5 seconds"), ["before"]),
        ((0, 0), ["at"]),
        (0, ["at"]),
    ],
    ids=str,
)
def test_bounds(run, within, meets):
    stream = TestStream().add_elements([left("l", 100), right("before", 95), right("at", 100), right("after", 105)])
    results = run(IntervalJoin(within), stream.advance_watermark_to_infinity())
    assert sorted(partner for _, partner in met(results)) == meets
    assert results.keys() == []


@pytest.mark.parametrize(
    ("how", "alone"),
    [
        ("inner", []),
        ("left", [("l", None)]),
        ("right", [(None, "r")]),
        ("outer", [("l", None), (None, "r")]),
        ("full", [("l", None), (None, "r")]),
    ],
)
def test_those_that_met_none(run, feed, how, alone):
    elements = [left("l", 100), right("r", 120), left("a", 200), right("b", 205), left("c", 210), left("d", 210)]
    stream = feed(TestStream(), elements).advance_watermark_to_infinity()
    results = run(IntervalJoin(10, how), stream)
    assert met(results) == sorted([("a", "b"), ("c", "b"), ("d", "b"), *alone], key=repr)
    assert results.keys() == []


def test_they_come_when_the_watermark_is_past(run):
    stream = TestStream().add_elements([left("l", 100), left("m", 103)]).advance_watermark_to(110)
    results = run(IntervalJoin(10, "left"), stream)
    assert results.values == []
    assert results.state("k")["left"] == [(100, "l"), (103, "m")]
    results = run(IntervalJoin(10, "left"), stream.advance_watermark_to(111))
    assert results.values == [("k", "l", None)]
    assert results.state("k")["left"] == [(103, "m")]
    assert results.state("k")["left_alone"] == [(103, True)]
    results = run(IntervalJoin(10, "left"), stream.crash().advance_watermark_to(114))
    assert results.values == [("k", "l", None), ("k", "m", None)]
    assert results.keys() == []


def test_a_row_goes_when_nothing_can_meet_it_any_more(run):
    stream = TestStream().add_elements([left("l", 100), right("r", 100)]).advance_watermark_to(101)
    results = run(IntervalJoin((0, 60), "outer"), stream)
    assert set(results.state("k")) == {"left", "horizon"}, "no left row at 100 or before can come any more"
    [(name, _, _, when)] = results.timers("k")
    assert (name, when) == ("due", hf.Timestamp(160, 1))


def test_state_is_bounded(run):
    stream = TestStream()
    for second in range(0, 200, 20):
        stream.add_elements([left(second, second), right(second, second + 3)])
        stream.advance_watermark_to(second)
    results = run(IntervalJoin(5, "outer"), stream)
    assert met(results) == sorted([(second, second) for second in range(0, 200, 20)], key=repr)
    assert len(results.state("k")["left"]) == 1
    assert len(results.state("k")["right"]) == 1


def test_a_late_row_meets_what_is_kept(run):
    stream = TestStream().add_elements([right("kept", 100), right("gone", 85)]).advance_watermark_to(100)
    stream.add_elements([left("late", 92), left("very late", 50), right("on time", 101)])
    results = run(IntervalJoin(10, "left"), stream)
    assert met(results) == [("late", "kept"), ("late", "on time"), ("very late", None)]
    assert [row for _, row in results.state("k")["left"]] == ["late"]


def test_a_late_row_does_not_make_others_lonely(run):
    """The partner of both is gone, and only the first has met it."""
    stream = TestStream().add_elements([left("first", 100), right("r", 90)]).advance_watermark_to(105)
    stream.add_elements([left("second", 100)]).advance_watermark_to_infinity()
    results = run(IntervalJoin(10, "left"), stream)
    assert met(results) == [("first", "r")]


def test_rows_far_apart_in_one_key(run):
    """After one of them has gone, the timer finds the next."""
    stream = TestStream().add_elements([left("a", 1), left("b", 10_000), left("c", 90_000)])
    for watermark in (5, 500, 10_001, 20_000, 90_000, 90_001):
        stream.advance_watermark_to(watermark)
    results = run(IntervalJoin(0, "left"), stream)
    assert results.values == [("k", "a", None), ("k", "b", None), ("k", "c", None)]
    assert results.keys() == []
    assert results.metrics.timers_fired == 3


def test_what_is_no_row_of_a_side(run):
    with pytest.raises(hf.InputError, match="name the side of the row"):
        run(IntervalJoin(10), TestStream().add_elements([("k", "row")]))
    results = run(IntervalJoin(10), TestStream().add_elements([("k", ("middle", 1))]), on_error="dead_letter")
    assert [letter.value for letter in results.tagged("dead_letter")] == [("middle", 1)]


@pytest.mark.parametrize(
    ("within", "how", "says"),
    [
        ("soon", "inner", "within has 'soon', which is not a duration"),
        ("-5 seconds", "inner", "a single duration cannot be negative"),
        ((10, 5), "inner", "the lower bound is above the upper one"),
        ((1, 2, 3), "inner", "give a duration, or a pair (lower, upper)"),
        (None, "inner", "within has None"),
        (10, "cross", "how is 'cross'; it can be 'inner', 'left', 'right' or 'outer'"),
    ],
)
def test_what_cannot_be_built(within, how, says):
    with pytest.raises(hf.InvalidStep) as caught:
        hf.testing.run(IntervalJoin(within, how), TestStream(), key_groups=0)
    assert says in str(caught.value)
    assert "key_groups is 0" in str(caught.value)
