"""The end: only the script says when the input has ended, and then everything that waits comes out."""

from __future__ import annotations

import pytest

from holdfast import (
    BagStateSpec,
    DoFn,
    FixedWindows,
    TimeDomain,
    TimeError,
    TimerSpec,
    Timestamp,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import GLOBAL, at, by_key, span, stamped


class Holds(DoFn):
    """Holds values back until a timer of either domain fires, or the window ends."""

    VALUES = BagStateSpec("values")
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        values=DoFn.StateParam(VALUES),
        event=DoFn.TimerParam(EVENT),
        real=DoFn.TimerParam(REAL),
    ):
        values.add(element[1])
        event.set(1_000)
        real.set(5_000)

    @on_timer(EVENT)
    def on_event(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "event", list(values.read())

    @on_timer(REAL)
    def on_real(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "real", list(values.read())

    def on_window_expiration(self, key=DoFn.KeyParam, values=DoFn.StateParam(VALUES)):
        yield key, "expired", list(values.read())


def test_at_the_end_timers_of_both_domains_fire(run, feed):
    out = run(Holds(), feed(TestStream(), [("k", 1), ("k", 2), ("j", 3)]).advance_watermark_to_infinity())
    assert [rest for rest, _, _ in stamped(out)["k"]] == [("event", [1, 2]), ("real", [1, 2]), ("expired", [1, 2])]
    assert [rest for rest, _, _ in stamped(out)["j"]] == [("event", [3]), ("real", [3]), ("expired", [3])]
    assert out.timers("k") == out.timers("j") == []


def test_at_the_end_outputs_carry_the_times_that_were_asked_for(run, feed):
    out = run(Holds(), feed(TestStream(), [("k", 1)]).advance_watermark_to_infinity())
    assert [(time, window) for _, time, window in stamped(out)["k"]][:2] == [(1_000.0, GLOBAL), (5_000.0, GLOBAL)]


def test_at_the_end_windows_expire(run, feed):
    stream = feed(TestStream(), at(("k", 1, 5), ("k", 2, 15))).advance_watermark_to_infinity()
    out = run(Holds(), stream, windowing=FixedWindows(10))
    ended = {window: [] for _, _, window in stamped(out)["k"]}
    for rest, _, window in stamped(out)["k"]:
        ended[window].append(rest)
    assert ended == {
        (0.0, 10.0): [("event", [1]), ("real", [1]), ("expired", [1])],
        (10.0, 20.0): [("event", [2]), ("real", [2]), ("expired", [2])],
    }
    assert out.keys() == []


def test_at_the_end_the_state_of_the_global_window_stays(run, feed):
    out = run(Holds(), feed(TestStream(), [("k", 1)]).advance_watermark_to_infinity())
    assert out.state("k") == {"values": [1]}


def test_allowed_lateness_does_not_put_the_end_off(run, feed):
    stream = feed(TestStream(), at(("k", 1, 5))).advance_watermark_to_infinity()
    out = run(Holds(), stream, windowing=FixedWindows(10), allowed_lateness=10**6)
    assert by_key(out)["k"][-1] == ("expired", [1])
    assert out.keys() == []


def test_nothing_is_implied_at_the_end_of_the_script(run, feed):
    stream = feed(TestStream(), at(("k", 1, 5))).advance_watermark_to(9).advance_processing_time(4_000)
    out = run(Holds(), stream, windowing=FixedWindows(10))
    assert len(out) == 0
    assert {span(window): cells for window, cells in out.state("k").items()} == {(0.0, 10.0): {"values": [1]}}
    assert [(name, float(time)) for name, _, _, time in out.timers("k")] == [("event", 1_000.0), ("real", 5_000.0)]


def test_a_crash_after_the_end(run, feed):
    stream = feed(TestStream(), [("k", 1)]).advance_watermark_to_infinity().crash()
    assert [what for what, _ in by_key(run(Holds(), stream))["k"]] == ["event", "real", "expired"]


def test_the_end_of_an_empty_input(run):
    out = run(Holds(), TestStream().advance_watermark_to_infinity())
    assert len(out) == 0
    assert out.keys() == []


class Endless(DoFn):
    """Sets its timer again whenever it fires, to a later time, without an end."""

    TICK = TimerSpec("tick")

    def process(self, element, tick=DoFn.TimerParam(TICK)):
        tick.set(10)

    @on_timer(TICK)
    def on_tick(self, time=DoFn.TimestampParam, tick=DoFn.TimerParam(TICK)):
        tick.set(time + 10)


def test_an_endless_loop_at_the_end_is_an_error_and_not_a_hang(run):
    with pytest.raises(TimeError, match=r"'tick' keeps setting itself again.*end of the input"):
        run(Endless(), TestStream().add_elements([("k", 1)]).advance_watermark_to_infinity())


class TestScript:
    """What a script may say. It is checked when it is written, before it runs."""

    def test_the_watermark_does_not_go_back(self):
        stream = TestStream().advance_watermark_to(20)
        with pytest.raises(TimeError, match="watermark cannot go back") as raised:
            stream.advance_watermark_to(19)
        assert "20" in str(raised.value)
        assert "19" in str(raised.value)

    def test_the_watermark_may_stay(self, run):
        stream = TestStream().add_elements(at(("k", 1, 5))).advance_watermark_to(10).advance_watermark_to(10)
        assert by_key(run(Holds(), stream, windowing=FixedWindows(10)))["k"][-1] == ("expired", [1])

    def test_processing_time_does_not_go_back(self):
        with pytest.raises(TimeError, match="cannot go back"):
            TestStream().advance_processing_time(-1)

    @pytest.mark.parametrize(
        "more",
        [
            lambda stream: stream.add_elements([("k", 1)]),
            lambda stream: stream.advance_watermark_to(Timestamp(5)),
            lambda stream: stream.advance_watermark_to_infinity(),
            lambda stream: stream.advance_processing_time(1),
        ],
        ids=["elements", "watermark", "infinity", "processing time"],
    )
    def test_nothing_comes_after_the_end(self, more):
        stream = TestStream().advance_watermark_to_infinity()
        with pytest.raises(TimeError, match="input has ended"):
            more(stream)


class Times(DoFn):
    def process(self, element, time=DoFn.TimestampParam):
        yield element[0], float(time)


def test_the_time_of_an_element_without_one(run):
    stream = (
        TestStream()
        .add_elements([("before the watermark moved", 1)])
        .advance_watermark_to(20)
        .add_elements([("at the watermark", 1)])
        .add_elements([("given for all", 1), *at(("its own", 1, 7))], event_timestamp=25)
        .advance_processing_time(90)
        .add_elements([("at the watermark still", 1)])
    )
    assert by_key(run(Times(), stream)) == {
        "before the watermark moved": [0.0],
        "at the watermark": [20.0],
        "given for all": [25.0],
        "its own": [7.0],
        "at the watermark still": [20.0],
    }
