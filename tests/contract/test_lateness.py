"""Late elements: dropped and counted, or given to the output `late`; they never touch state."""

from __future__ import annotations

import pytest

from holdfast import (
    BagStateSpec,
    CombinePerKey,
    DoFn,
    Duration,
    FixedWindows,
    GroupByKey,
    Sessions,
    SlidingWindows,
    TaggedOutput,
    TimerSpec,
    on_timer,
)
from holdfast.model.time.units import MAX_MICROS
from holdfast.testing import TestStream

from .reading import at, by_key, span, stamped


class Keep(DoFn):
    """Keeps values, sets a timer, and says what is at the end of the window."""

    VALUES = BagStateSpec("values")
    SOON = TimerSpec("soon")

    def process(self, element, window=DoFn.WindowParam, values=DoFn.StateParam(VALUES), soon=DoFn.TimerParam(SOON)):
        key, value = element
        values.add(value)
        soon.set(window.end)
        yield key, value

    @on_timer(SOON)
    def on_soon(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "timer", list(values.read())

    def on_window_expiration(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "expired", list(values.read())


def test_a_late_element_is_dropped_and_counted(run, feed):
    stream = feed(TestStream(), at(("k", "early", 5))).advance_watermark_to(10)
    feed(stream, at(("k", "late", 5), ("j", "late", 9.999999), ("k", "on time", 10)))
    out = run(Keep(), stream, windowing=FixedWindows(10))
    assert by_key(out) == {"k": ["early", ("timer", ["early"]), ("expired", ["early"]), "on time"]}
    assert out.metrics.late == 2
    assert out.metrics.elements == 4
    assert out.metrics.calls == 2


def test_a_late_element_touches_no_state(run, feed):
    stream = feed(TestStream(), at(("k", "early", 5))).advance_watermark_to(10)
    feed(stream, at(("k", "late", 5), ("j", "late", 5))).advance_watermark_to(50).advance_watermark_to_infinity()
    out = run(Keep(), stream, windowing=FixedWindows(10))
    assert by_key(out) == {"k": ["early", ("timer", ["early"]), ("expired", ["early"])]}
    assert out.keys() == []
    assert out.timers("k") == out.timers("j") == []
    assert out.metrics.windows_expired == 1


def test_late_elements_come_out_if_their_output_is_declared(run, feed):
    stream = TestStream().advance_watermark_to(10)
    feed(stream, at(("k", 1, 5), ("j", 2, 6), ("k", 3, 12)))
    out = run(Keep(), stream, windowing=FixedWindows(10), outputs=["late"])
    assert stamped(out, "late") == {"k": [(1, 5.0, (0.0, 10.0))], "j": [(2, 6.0, (0.0, 10.0))]}
    assert by_key(out) == {"k": [3]}
    assert out.metrics.late == 2
    assert out.keys() == ["k"]


def test_late_elements_come_out_as_they_went_in(run):
    stream = TestStream().advance_watermark_to(10).add_elements(at(("k", {"a": [1]}, 5)))
    out = run(Keep(), stream, windowing=FixedWindows(10), outputs={"main": "any", "late": "any"})
    assert out.tagged("late") == [("k", {"a": [1]})]


def test_without_the_declaration_nothing_comes_out(run):
    stream = TestStream().advance_watermark_to(10).add_elements(at(("k", 1, 5)))
    assert len(run(Keep(), stream, windowing=FixedWindows(10))) == 0
    assert len(run(Keep(), stream, windowing=FixedWindows(10), outputs=["other"])) == 0


@pytest.mark.parametrize(("watermark", "is_late"), [(9.999999, False), (10, True), (11, True)])
def test_an_element_is_late_once_the_watermark_has_reached_the_end_of_its_window(run, watermark, is_late):
    stream = TestStream().advance_watermark_to(watermark).add_elements(at(("k", 1, 0)))
    out = run(Keep(), stream, windowing=FixedWindows(10))
    assert (out.metrics.late == 1) is is_late
    assert ("k" in by_key(out)) is not is_late


@pytest.mark.parametrize("lateness", [20, 20.0, "20 seconds", Duration(20)], ids=repr)
def test_allowed_lateness(run, feed, lateness):
    stream = feed(TestStream(), at(("k", "a", 5))).advance_watermark_to(29)
    feed(stream, at(("k", "b", 5), ("j", "c", 9)))
    stream.advance_watermark_to(30)
    feed(stream, at(("k", "d", 5)))
    out = run(Keep(), stream, windowing=FixedWindows(10), allowed_lateness=lateness, outputs=["late"])
    # The timer of the window's end is in the past when the late but allowed elements set it.
    assert by_key(out)["k"] == ["a", ("timer", ["a"]), "b", ("timer", ["a", "b"]), ("expired", ["a", "b"])]
    assert by_key(out)["j"] == ["c", ("timer", ["c"]), ("expired", ["c"])]
    assert by_key(out, "late") == {"k": ["d"]}
    assert out.metrics.late == 1


def test_an_element_may_be_late_for_one_of_its_windows_only(run, feed):
    stream = feed(TestStream().advance_watermark_to(10), at(("k", "x", 7)))
    out = run(Keep(), stream, windowing=SlidingWindows(10, 5), outputs=["late"])
    assert [(value, window) for value, _, window in stamped(out)["k"]] == [("x", (5.0, 15.0))]
    assert [(value, window) for value, _, window in stamped(out, "late")["k"]] == [("x", (0.0, 10.0))]
    assert out.metrics.elements == 1
    assert out.metrics.late == 1


def test_nothing_is_late_for_the_global_window(run, feed):
    stream = feed(TestStream().advance_watermark_to(10**9), at(("k", 1, 0)))
    out = run(Keep(), stream)
    assert by_key(out) == {"k": [1]}
    assert out.metrics.late == 0


def test_the_watermark_of_the_bundle_decides_and_not_the_elements_before(run):
    out = run(Keep(), TestStream().add_elements(at(("k", 1, 100), ("k", 2, 0))), windowing=FixedWindows(10))
    assert by_key(out)["k"] == [1, 2]
    assert {span(window) for window in out.state("k")} == {(0.0, 10.0), (100.0, 110.0)}


class SaysLate(DoFn):
    """Uses the tag of late elements for outputs of its own."""

    def process(self, element):
        yield TaggedOutput("late", element)


def test_a_function_may_give_to_the_output_of_late_elements(run):
    stream = TestStream().advance_watermark_to(10).add_elements(at(("k", "dropped", 5), ("k", "own", 15)))
    out = run(SaysLate(), stream, windowing=FixedWindows(10), outputs=["late"])
    assert by_key(out, "late") == {"k": ["dropped", "own"]}
    assert out.metrics.late == 1


@pytest.mark.parametrize("windowing", [FixedWindows(10), SlidingWindows(10, 10), Sessions(5)], ids=repr)
@pytest.mark.parametrize("transform", [GroupByKey(), CombinePerKey(sum)], ids=lambda transform: type(transform).__name__)
def test_lateness_without_end(run, feed, windowing, transform):
    """Nothing is ever late; at the end of the input windows end all the same."""
    stream = feed(TestStream(), at(("k", 1, 5))).advance_watermark_to(10)
    feed(stream, at(("k", 2, 5))).advance_watermark_to(1_000)
    feed(stream, at(("k", 4, 5))).advance_watermark_to_infinity()
    out = run(transform, stream, windowing=windowing, allowed_lateness=Duration(micros=MAX_MICROS))
    listed = isinstance(transform, GroupByKey)
    assert by_key(out) == {"k": [[1], [2], [4]] if listed else [1, 2, 4]}
    assert out.metrics.late == 0
    assert out.keys() == []


def test_lateness_without_end_of_a_function(run, feed):
    stream = feed(TestStream(), at(("k", 1, 5))).advance_watermark_to(100)
    feed(stream, at(("k", 2, 5))).advance_watermark_to_infinity()
    out = run(Keep(), stream, windowing=FixedWindows(10), allowed_lateness=Duration(micros=MAX_MICROS))
    assert by_key(out) == {"k": [1, ("timer", [1]), 2, ("timer", [1, 2]), ("expired", [1, 2])]}
    assert out.keys() == []
