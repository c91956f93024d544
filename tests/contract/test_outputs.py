"""Outputs: what a function may give, and which time, window and tag it gets."""

from __future__ import annotations

import functools

import pytest

from holdfast import (
    DoFn,
    FixedWindows,
    HoldfastError,
    IntervalWindow,
    OutputError,
    SlidingWindows,
    TaggedOutput,
    TimerSpec,
    TimestampedValue,
    WindowedValue,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import GLOBAL, at, by_key, stamped


class Yields(DoFn):
    def process(self, element):
        key, values = element
        for value in values:
            yield key, value


class ReturnsList(DoFn):
    def process(self, element):
        key, values = element
        return [(key, value) for value in values]


class ReturnsTuple(DoFn):
    def process(self, element):
        key, values = element
        return tuple((key, value) for value in values)


class ReturnsGenerator(DoFn):
    def process(self, element):
        key, values = element
        return ((key, value) for value in values)


class ReturnsIterator(DoFn):
    def process(self, element):
        key, values = element
        return zip([key] * len(values), values, strict=True)


class ReturnsNothing(DoFn):
    def process(self, element):
        if element[1]:
            return Yields().process(element)
        return None


@pytest.mark.parametrize("fn", [Yields, ReturnsList, ReturnsTuple, ReturnsGenerator, ReturnsIterator, ReturnsNothing])
def test_any_iterable_of_outputs(run, feed, fn):
    out = run(fn(), feed(TestStream(), at(("k", [3, 1], 7), ("j", [], 8), ("k", [2], 9))))
    assert stamped(out) == {"k": [(3, 7.0, GLOBAL), (1, 7.0, GLOBAL), (2, 9.0, GLOBAL)]}
    assert {output.tag for output in out} == {"main"}


def test_outputs_carry_the_window_of_the_element(run, feed):
    out = run(Yields(), feed(TestStream(), at(("k", [1], 7), ("k", [2], 17))), windowing=FixedWindows(10))
    assert stamped(out) == {"k": [(1, 7.0, (0.0, 10.0)), (2, 17.0, (10.0, 20.0))]}


def outputs_or_nothing(method):
    """Runs a generator to its end, and gives nothing where there is nothing to give."""

    @functools.wraps(method)
    def wrapper(*args):
        found = list(method(*args))
        return found or None

    return wrapper


class Decorated(DoFn):
    @outputs_or_nothing
    def process(self, element):
        key, values = element
        for value in values:
            yield key, value


def test_what_a_decorated_function_returns_is_what_counts(run, feed):
    out = run(Decorated(), feed(TestStream(), [("k", [1, 2]), ("j", []), ("k", [3])]))
    assert by_key(out) == {"k": [1, 2, 3]}


class Returns(DoFn):
    """Returns what the element names."""

    THINGS = {"str": "abc", "bytes": b"abc", "dict": {"a": 1}, "int": 5, "empty str": ""}

    def process(self, element):
        return self.THINGS[element[1]]


@pytest.mark.parametrize("kind", Returns.THINGS)
def test_what_was_surely_not_meant_as_several_outputs_is_refused(run, kind):
    with pytest.raises(OutputError, match=f"process returned a {kind.removeprefix('empty ')}") as raised:
        run(Returns(), TestStream().add_elements([("k", kind)]), name="returns")
    assert isinstance(raised.value, TypeError)
    assert raised.value.context["step"] == "returns"
    assert raised.value.context["key"] == "k"
    assert "[result]" in raised.value.todo


class CallbackReturnsText(DoFn):
    TIMER = TimerSpec("timer")

    def process(self, element, timer=DoFn.TimerParam(TIMER)):
        timer.set(0)

    @on_timer(TIMER)
    def fires(self):
        return "text"


def test_the_same_holds_for_callbacks(run):
    with pytest.raises(OutputError, match="fires returned a str"):
        run(CallbackReturnsText(), TestStream().add_elements([("k", 1)]).advance_watermark_to(1))


class Tags(DoFn):
    """Gives the value under a tag, from process and from a callback."""

    TIMER = TimerSpec("timer")

    def process(self, element, timer=DoFn.TimerParam(TIMER)):
        key, tag = element
        timer.set(20)
        yield key, "plain"
        yield TaggedOutput(tag, (key, "tagged"))

    @on_timer(TIMER)
    def fires(self, key=DoFn.KeyParam):
        yield TaggedOutput("timers", (key, "fired"))


class TestTaggedOutput:
    def test_outputs_by_tag(self, run, feed):
        stream = feed(TestStream(), at(("k", "alerts", 7), ("j", "other", 8))).advance_watermark_to(20)
        out = run(Tags(), stream, outputs=["alerts", "other", "timers"])
        assert by_key(out) == {"k": ["plain"], "j": ["plain"]}
        assert stamped(out, "alerts") == {"k": [("tagged", 7.0, GLOBAL)]}
        assert stamped(out, "other") == {"j": [("tagged", 8.0, GLOBAL)]}
        assert stamped(out, "timers") == {"k": [("fired", 20.0, GLOBAL)], "j": [("fired", 20.0, GLOBAL)]}

    def test_any_tag_if_none_is_declared(self, run):
        out = run(Tags(), TestStream().add_elements([("k", "whatever")]))
        assert out.tagged("whatever") == [("k", "tagged")]

    def test_declared_with_their_schemas(self, run):
        out = run(Tags(), TestStream().add_elements([("k", "alerts")]), outputs={"main": "any", "alerts": "any"})
        assert out.tagged("alerts") == [("k", "tagged")]
        assert out.values == [("k", "plain")]

    def test_the_main_output_has_a_tag_too(self, run):
        out = run(Tags(), TestStream().add_elements([("k", "main")]), outputs=["timers"])
        assert out.values == [("k", "plain"), ("k", "tagged")]

    def test_a_tag_that_is_not_declared_is_an_error(self, run):
        with pytest.raises(OutputError, match="'alrets'") as raised:
            run(Tags(), TestStream().add_elements([("k", "alrets")]), outputs=["alerts", "timers"], name="tags")
        assert "alerts, timers" in str(raised.value)
        assert "'tags'" in str(raised.value)

    @pytest.mark.parametrize("tag", [None, 5, b"late"], ids=repr)
    def test_a_tag_is_a_string(self, run, tag):
        with pytest.raises(HoldfastError, match="tag of a TaggedOutput is a string") as raised:
            run(Tags(), TestStream().add_elements([("k", tag)]))
        assert raised.value.context["key"] == "k"


class Retimes(DoFn):
    """Gives its value at another time: as it is, or under a tag."""

    TIMER = TimerSpec("timer")

    def process(self, element, timer=DoFn.TimerParam(TIMER)):
        key, time = element
        timer.set(9)
        yield TimestampedValue((key, "moved"), time)
        yield TaggedOutput("side", TimestampedValue((key, "moved too"), time))

    @on_timer(TIMER)
    def fires(self, key=DoFn.KeyParam):
        yield TimestampedValue((key, "from a timer"), 33)


class TestTimestampedValue:
    def test_time_and_window_are_those_of_the_new_time(self, run, feed):
        out = run(Retimes(), feed(TestStream(), at(("k", 25, 7))).advance_watermark_to(9), windowing=FixedWindows(10))
        assert stamped(out) == {"k": [("moved", 25.0, (20.0, 30.0)), ("from a timer", 33.0, (30.0, 40.0))]}
        assert stamped(out, "side") == {"k": [("moved too", 25.0, (20.0, 30.0))]}

    def test_the_global_window_stays(self, run, feed):
        out = run(Retimes(), feed(TestStream(), at(("k", 25, 7))))
        assert stamped(out) == {"k": [("moved", 25.0, GLOBAL)]}

    def test_one_output_for_each_of_its_new_windows(self, run, feed):
        out = run(Retimes(), feed(TestStream(), at(("k", 27, 2))), windowing=SlidingWindows(10, 5))
        # The element itself is in two windows, so process was called twice.
        assert sorted(stamped(out)["k"]) == [
            ("moved", 27.0, (20.0, 30.0)),
            ("moved", 27.0, (20.0, 30.0)),
            ("moved", 27.0, (25.0, 35.0)),
            ("moved", 27.0, (25.0, 35.0)),
        ]


class Rewindows(DoFn):
    """Says time and windows of its outputs itself."""

    def process(self, element):
        key, spans = element
        windows = [IntervalWindow(start, end) for start, end in spans]
        yield WindowedValue((key, "own"), 3, windows)
        yield TaggedOutput("side", WindowedValue((key, "own too"), 4, windows))


def test_windowed_values_carry_what_they_say(run, feed):
    out = run(Rewindows(), feed(TestStream(), at(("k", [(0, 5), (50, 60)], 7))), windowing=FixedWindows(10))
    assert sorted(stamped(out)["k"]) == [("own", 3.0, (0.0, 5.0)), ("own", 3.0, (50.0, 60.0))]
    assert sorted(stamped(out, "side")["k"]) == [("own too", 4.0, (0.0, 5.0)), ("own too", 4.0, (50.0, 60.0))]


class MixesAll(DoFn):
    """Gives outputs of all kinds in turn."""

    def process(self, element):
        key, _ = element
        yield key, 1
        yield TaggedOutput("side", (key, 2))
        yield TimestampedValue((key, 3), 15)
        yield key, 4
        yield WindowedValue((key, 5), 1, [IntervalWindow(0, 10)])
        yield key, 6


def test_outputs_of_a_key_stay_in_order(run, feed):
    out = run(MixesAll(), feed(TestStream(), at(("k", 0, 5), ("k", 0, 6))), windowing=FixedWindows(10))
    assert [output.value[1] for output in out] == [1, 2, 3, 4, 5, 6] * 2
    assert [(output.tag, float(output.timestamp)) for output in out][6:] == [
        ("main", 6.0),
        ("side", 6.0),
        ("main", 15.0),
        ("main", 6.0),
        ("main", 1.0),
        ("main", 6.0),
    ]
    assert out.metrics.outputs == 12


class YieldsOddValues(DoFn):
    """Yields what may not be returned: as one output each, all of this is fine."""

    def process(self, element):
        yield from (None, "text", b"bytes", {"a": 1}, [1, 2], ())


def test_a_yielded_value_may_be_anything_plain(run):
    out = run(YieldsOddValues(), TestStream().add_elements([("k", 1)]))
    assert out.values == [None, "text", b"bytes", {"a": 1}, [1, 2], ()]
