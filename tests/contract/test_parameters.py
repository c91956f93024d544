"""What a method can ask for by the defaults of its parameters."""

from __future__ import annotations

from holdfast import (
    PANE_INFO_UNKNOWN,
    DoFn,
    FixedWindows,
    TimeDomain,
    TimerSpec,
    Timestamp,
    ValueStateSpec,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import at, by_key, span


class AsksForAll(DoFn):
    """Everything that belongs to an element, in an order of its own."""

    def process(
        self,
        window=DoFn.WindowParam,
        key=DoFn.KeyParam,
        pane=DoFn.PaneInfoParam,
        element=DoFn.ElementParam,
        time=DoFn.TimestampParam,
        whole=DoFn.WindowedValueParam,
    ):
        assert isinstance(time, Timestamp)
        yield key, element, float(time), span(window), pane == PANE_INFO_UNKNOWN
        yield whole.value[0], whole.value[1], float(whole.timestamp), [span(own) for own in whole.windows]


def test_all_that_belongs_to_an_element(run, feed):
    out = run(AsksForAll(), feed(TestStream(), at((("a", 1), "x", 12.5))), windowing=FixedWindows(10))
    assert by_key(out)["a", 1] == [
        ((("a", 1), "x"), 12.5, (10.0, 20.0), True),
        ("x", 12.5, [(10.0, 20.0)]),
    ]


class PaneAsPlainValues(DoFn):
    def process(self, element, pane=DoFn.PaneInfoParam):
        yield element[0], pane.is_first, pane.is_last, pane.timing.name, pane.index, pane.nonspeculative_index


def test_the_pane_is_unknown_before_any_grouping(run):
    out = run(PaneAsPlainValues(), TestStream().add_elements([("k", 1)]))
    assert by_key(out) == {"k": [(True, True, "UNKNOWN", 0, 0)]}


class InTheMiddle(DoFn):
    """The element comes first; cells, timers and times in any order after it."""

    CELL = ValueStateSpec("cell")
    TIMER = TimerSpec("timer")

    def process(
        self,
        pair,
        timer=DoFn.TimerParam(TIMER),
        time=DoFn.TimestampParam,
        cell=DoFn.StateParam(CELL),
        key=DoFn.KeyParam,
    ):
        cell.write((key, pair[1]))
        timer.set(time + 1)

    @on_timer(TIMER)
    def fires(
        self,
        tag=DoFn.DynamicTimerTagParam,
        cell=DoFn.StateParam(CELL),
        window=DoFn.WindowParam,
        time=DoFn.TimestampParam,
        key=DoFn.KeyParam,
        timer=DoFn.TimerParam(TIMER),
    ):
        assert isinstance(time, Timestamp)
        yield key, tag, cell.read(), span(window), float(time)


def test_parameters_come_in_any_order(run, feed):
    stream = feed(TestStream(), at(("k", "x", 5))).advance_watermark_to(6)
    assert by_key(run(InTheMiddle(), stream, windowing=FixedWindows(10))) == {
        "k": [("", ("k", "x"), (0.0, 10.0), 6.0)],
    }


class Clock(DoFn):
    """What time it is by the clock of processing time, in every method."""

    TIMER = TimerSpec("timer", TimeDomain.REAL_TIME)

    def start_bundle(self):
        self.started = float(Timestamp.now())

    def process(self, element, timer=DoFn.TimerParam(TIMER)):
        timer.set(Timestamp.now() + 5)
        yield element[0], "process", self.started, float(Timestamp.now())

    @on_timer(TIMER)
    def on_time(self, key=DoFn.KeyParam):
        yield key, "timer", self.started, float(Timestamp.now())


def test_now_is_the_processing_time_of_the_bundle(run, feed):
    stream = feed(TestStream(), [("k", 1)]).advance_processing_time(4)
    feed(stream, [("j", 1)]).advance_watermark_to(1000).advance_processing_time(7.5)
    assert by_key(run(Clock(), stream)) == {
        "k": [("process", 0.0, 0.0), ("timer", 11.5, 11.5)],
        "j": [("process", 4.0, 4.0), ("timer", 11.5, 11.5)],
    }


def test_now_stays_when_the_input_ends(run, feed):
    stream = feed(TestStream().advance_processing_time(4), [("k", 1)]).advance_watermark_to_infinity()
    assert by_key(run(Clock(), stream)) == {"k": [("process", 4.0, 4.0), ("timer", 4.0, 4.0)]}


def test_now_is_the_clock_of_the_machine_outside_of_a_bundle(run):
    run(Clock(), TestStream().add_elements([("k", 1)]))
    assert Timestamp.now() > 1_500_000_000


class Unasked(DoFn):
    """A parameter with a plain default keeps it."""

    def process(self, element, factor=3):
        yield element[0], element[1] * factor


def test_a_plain_default_stays(run):
    assert by_key(run(Unasked(), TestStream().add_elements([("k", 2)]))) == {"k": [6]}


class Static(DoFn):
    """Methods that need no self."""

    TIMER = TimerSpec("timer")

    @staticmethod
    def process(element, timer=DoFn.TimerParam(TIMER)):
        timer.set(10)
        yield element

    @staticmethod
    @on_timer(TIMER)
    def fires(key=DoFn.KeyParam):
        yield key, "fired"


def test_static_methods(run):
    out = run(Static(), TestStream().add_elements([("k", 1)]).advance_watermark_to(10))
    assert by_key(out) == {"k": [1, "fired"]}
