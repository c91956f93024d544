"""Timers: who is called, when, in which order, and what the outputs carry."""

from __future__ import annotations

import pytest

from holdfast import (
    CombiningStateSpec,
    DoFn,
    FixedWindows,
    HoldfastError,
    TimeDomain,
    TimeError,
    TimerSpec,
    Timestamp,
    ValueStateSpec,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import GLOBAL, at, by_key, span, stamped


class Alarms(DoFn):
    """Sets and clears the timers that an element lists, as (method, timer, *arguments), and gives every firing."""

    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    OTHER = TimerSpec("other", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        event=DoFn.TimerParam(EVENT),
        other=DoFn.TimerParam(OTHER),
        real=DoFn.TimerParam(REAL),
    ):
        key, calls = element
        timers = {"event": event, "other": other, "real": real}
        for method, timer, *arguments in calls:
            getattr(timers[timer], method)(*arguments)
        yield key, "set"

    @on_timer(EVENT)
    def on_event(self, key=DoFn.KeyParam, time=DoFn.TimestampParam, tag=DoFn.DynamicTimerTagParam):
        yield key, "event", tag, float(time)

    @on_timer(OTHER)
    def on_other(self, key=DoFn.KeyParam, time=DoFn.TimestampParam, tag=DoFn.DynamicTimerTagParam):
        yield key, "other", tag, float(time)

    @on_timer(REAL)
    def on_real(self, key=DoFn.KeyParam, time=DoFn.TimestampParam, tag=DoFn.DynamicTimerTagParam):
        yield key, "real", tag, float(time)


def alarms(*calls, key="k"):
    """An element that makes these calls, at time 0."""
    return at((key, list(calls), 0))[0]


def fired(out, key="k"):
    """What fired for a key, in order."""
    return [firing for firing in by_key(out).get(key, []) if firing != "set"]


class TestFiring:
    def test_a_timer_fires_when_the_watermark_has_reached_it(self, run, feed):
        stream = feed(TestStream(), [alarms(("set", "event", 20))])
        before = run(Alarms(), stream.advance_watermark_to(Timestamp(20).predecessor()))
        assert fired(before) == []
        assert [(name, tag, float(time)) for name, tag, _, time in before.timers("k")] == [("event", "", 20.0)]
        assert fired(run(Alarms(), stream.crash().advance_watermark_to(20))) == [("event", "", 20.0)]

    def test_a_timer_fires_when_processing_time_has_reached_it(self, run, feed):
        stream = feed(TestStream(), [alarms(("set", "real", 20))]).advance_processing_time(19.999999)
        assert fired(run(Alarms(), stream)) == []
        assert fired(run(Alarms(), stream.crash().advance_processing_time(0.000001))) == [("real", "", 20.0)]

    def test_a_timer_fires_once(self, run, feed):
        stream = feed(TestStream(), [alarms(("set", "event", 20), ("set", "real", 20))])
        stream.advance_watermark_to(20).crash().advance_watermark_to(21).advance_processing_time(20).crash()
        stream.advance_processing_time(20).advance_watermark_to_infinity()
        out = run(Alarms(), stream)
        assert fired(out) == [("event", "", 20.0), ("real", "", 20.0)]
        assert out.timers("k") == []
        assert out.metrics.timers_fired == 2

    def test_each_domain_has_its_own_clock(self, run):
        stream = TestStream().add_elements([alarms(("set", "event", 20), ("set", "real", 30))])
        assert fired(run(Alarms(), stream.advance_processing_time(25))) == []
        assert fired(run(Alarms(), stream.advance_watermark_to(100))) == [("event", "", 20.0)]
        assert fired(run(Alarms(), stream.advance_processing_time(5))) == [("event", "", 20.0), ("real", "", 30.0)]

    @pytest.mark.parametrize("time", [7, 0, 0.5, 10], ids=repr)
    def test_a_time_in_the_past_fires_at_once_with_the_time_asked_for(self, run, time):
        stream = TestStream().advance_watermark_to(10).advance_processing_time(10)
        out = run(Alarms(), stream.add_elements([alarms(("set", "event", time), ("set", "real", time))]))
        assert fired(out) == [("event", "", float(time)), ("real", "", float(time))]

    def test_a_time_before_the_epoch(self, run):
        if run.runtime == "spark":
            pytest.skip("Spark's watermark begins with the epoch")
        stream = TestStream().add_elements([alarms(("set", "event", -5))]).advance_watermark_to(-6)
        assert fired(run(Alarms(), stream)) == []
        out = run(Alarms(), stream.advance_watermark_to(-5))
        assert stamped(out)["k"][1:] == [(("event", "", -5.0), -5.0, GLOBAL)]

    def test_elements_of_a_bundle_come_before_the_timers_that_they_make_due(self, run):
        elements = [alarms(("set", "event", 1)), alarms(), alarms()]
        out = run(Alarms(), TestStream().advance_watermark_to(10).add_elements(elements))
        assert by_key(out)["k"] == ["set", "set", "set", ("event", "", 1.0)]

    def test_timers_survive_while_nothing_happens(self, run, feed):
        stream = feed(TestStream(), [alarms(("set", "event", 20), ("set", "real", 5))])
        for second in range(1, 5):
            stream.crash().advance_watermark_to(second).advance_processing_time(1)
        assert fired(run(Alarms(), stream)) == []
        assert fired(run(Alarms(), stream.crash().advance_processing_time(1).advance_watermark_to(20))) == [
            ("real", "", 5.0),
            ("event", "", 20.0),
        ]

    @pytest.mark.parametrize("time", [20, 20.0, Timestamp(20)], ids=repr)
    def test_times_are_seconds_or_timestamps(self, run, time):
        stream = TestStream().add_elements([alarms(("set", "event", time))]).advance_watermark_to(20)
        assert fired(run(Alarms(), stream)) == [("event", "", 20.0)]

    @pytest.mark.parametrize("time", [None, "soon", [5]], ids=repr)
    def test_what_is_no_time_is_refused(self, run, time):
        with pytest.raises(HoldfastError) as raised:
            run(Alarms(), TestStream().add_elements([alarms(("set", "event", time))]))
        assert isinstance(raised.value, TimeError)
        assert "'event'" in str(raised.value)
        assert raised.value.context["key"] == "k"

    @pytest.mark.parametrize("calls", [("set", "event", 5, 7), ("set", "event", 5, None)], ids=repr)
    def test_what_is_no_tag_is_refused(self, run, calls):
        with pytest.raises(HoldfastError, match="tag"):
            run(Alarms(), TestStream().add_elements([alarms(calls)]))


class TestIdentity:
    @pytest.mark.parametrize("timer", ["event", "real"])
    @pytest.mark.parametrize("times", [(20, 30), (30, 20), (20, 40, 10), (20, 20)], ids=repr)
    def test_the_last_set_wins(self, run, feed, timer, times):
        stream = feed(TestStream(), [alarms(("set", timer, time)) for time in times])
        out = run(Alarms(), stream)
        assert [(name, float(time)) for name, _, _, time in out.timers("k")] == [(timer, float(times[-1]))]
        stream.advance_watermark_to(50).advance_processing_time(50)
        assert fired(run(Alarms(), stream)) == [(timer, "", float(times[-1]))]

    def test_the_last_set_of_a_call_wins(self, run):
        stream = TestStream().add_elements([alarms(("set", "event", 20), ("set", "event", 10), ("set", "event", 30))])
        assert fired(run(Alarms(), stream.advance_watermark_to(29))) == []
        assert fired(run(Alarms(), stream.advance_watermark_to(30))) == [("event", "", 30.0)]

    @pytest.mark.parametrize("timer", ["event", "real"])
    def test_clear(self, run, feed, timer):
        stream = feed(TestStream(), [alarms(("set", timer, 20)), alarms(("clear", timer))])
        out = run(Alarms(), stream.advance_watermark_to_infinity())
        assert fired(out) == []
        assert out.timers("k") == []

    def test_clear_of_what_was_never_set(self, run):
        stream = TestStream().add_elements([alarms(("clear", "event"), ("clear", "event", "x"), ("clear", "real"))])
        assert fired(run(Alarms(), stream.advance_watermark_to_infinity())) == []

    def test_set_after_clear(self, run, feed):
        stream = feed(TestStream(), [alarms(("set", "event", 20), ("clear", "event"), ("set", "event", 25))])
        assert fired(run(Alarms(), stream.advance_watermark_to_infinity())) == [("event", "", 25.0)]

    def test_no_tag_is_the_empty_tag(self, run, feed):
        stream = feed(TestStream(), [alarms(("set", "event", 20)), alarms(("set", "event", 25, ""))])
        assert fired(run(Alarms(), stream.advance_watermark_to(100))) == [("event", "", 25.0)]
        stream = feed(TestStream(), [alarms(("set", "event", 20)), alarms(("clear", "event", ""))])
        assert fired(run(Alarms(), stream.advance_watermark_to(100))) == []

    @pytest.mark.parametrize("timer", ["event", "real"])
    def test_tags_are_timers_of_their_own(self, run, feed, timer):
        calls = [("set", timer, 30, "x"), ("set", timer, 10, "y"), ("set", timer, 20), ("set", timer, 5, "z")]
        stream = feed(TestStream(), [alarms(*calls), alarms(("clear", timer, "z"), ("set", timer, 40, "x"))])
        out = run(Alarms(), stream.advance_watermark_to_infinity())
        assert fired(out) == [(timer, "y", 10.0), (timer, "", 20.0), (timer, "x", 40.0)]

    def test_timers_of_different_names(self, run, feed):
        stream = feed(TestStream(), [alarms(("set", "event", 20), ("set", "other", 20)), alarms(("clear", "other"))])
        assert fired(run(Alarms(), stream.advance_watermark_to(20))) == [("event", "", 20.0)]

    def test_timers_of_different_keys(self, run, feed):
        elements = [alarms(("set", "event", 20)), alarms(("set", "event", 10), key="j"), alarms(("clear", "event"))]
        out = run(Alarms(), feed(TestStream(), elements).advance_watermark_to(20))
        assert fired(out, "k") == []
        assert fired(out, "j") == [("event", "", 10.0)]

    def test_timers_of_different_windows(self, run, feed):
        calls = [("set", "event", 8)], [("set", "event", 18)], [("clear", "event")]
        stream = feed(TestStream(), at(*[("k", call, time) for call, time in zip(calls, (1, 11, 2), strict=True)]))
        pending = run(Alarms(), stream, windowing=FixedWindows(10)).timers("k")
        assert [(span(window), float(time)) for _, _, window, time in pending] == [((10.0, 20.0), 18.0)]
        out = run(Alarms(), stream.advance_watermark_to(18), windowing=FixedWindows(10))
        assert fired(out) == [("event", "", 18.0)]

    @pytest.mark.parametrize("windowing", [None, FixedWindows(50)], ids=["global", "fixed"])
    def test_set_clear_and_set_again(self, run, feed, windowing):
        calls = [("set", "event", 20)], [("clear", "event")], [("set", "event", 30)], [("set", "event", 25)]
        stream = feed(TestStream(), [alarms(*call) for call in calls])
        assert fired(run(Alarms(), stream.advance_watermark_to(24), windowing=windowing)) == []
        out = run(Alarms(), stream.advance_watermark_to(40), windowing=windowing)
        assert fired(out) == [("event", "", 25.0)]
        assert out.metrics.timers_fired == 1


class TestOrder:
    def test_ascending_for_a_key(self, run, feed):
        calls = [("set", "event", 30), ("set", "other", 10), ("set", "event", 20, "x"), ("set", "event", 15, "y")]
        out = run(Alarms(), feed(TestStream(), [alarms(call) for call in calls]).advance_watermark_to(100))
        assert [time for _, _, time in fired(out)] == [10.0, 15.0, 20.0, 30.0]

    def test_ascending_for_a_key_by_processing_time(self, run, feed):
        calls = [("set", "real", time, f"at {time}") for time in (30, 10, 20)]
        out = run(Alarms(), feed(TestStream(), [alarms(call) for call in calls]).advance_processing_time(100))
        assert [time for _, _, time in fired(out)] == [10.0, 20.0, 30.0]

    def test_ascending_over_windows(self, run, feed):
        elements = at(*[("k", [("set", "event", time + 1)], time) for time in (25, 5, 15, 2)])
        out = run(Alarms(), feed(TestStream(), elements).advance_watermark_to(40), windowing=FixedWindows(10))
        assert [time for _, _, time in fired(out)] == [3.0, 16.0, 26.0]

    def test_timers_that_were_moved_fire_in_the_order_of_their_last_times(self, run, feed):
        first = [("set", "event", 10, "x"), ("set", "event", 20, "y"), ("set", "event", 30, "z")]
        moved = [("set", "event", 25, "x"), ("set", "event", 5, "z")]
        out = run(Alarms(), feed(TestStream(), [alarms(*first), alarms(*moved)]).advance_watermark_to(100))
        assert fired(out) == [("event", "z", 5.0), ("event", "y", 20.0), ("event", "x", 25.0)]

    def test_timers_of_one_time_fire_in_the_same_order_after_a_crash(self, run):
        calls = [("set", timer, 10, tag) for tag in ("b", "", "a") for timer in ("other", "event")]
        stream = TestStream().add_elements([alarms(*calls)])
        assert fired(run(Alarms(), stream.crash().advance_watermark_to(10))) == fired(
            run(Alarms(), TestStream().add_elements([alarms(*reversed(calls))]).advance_watermark_to(10))
        )


class TestOutputs:
    @pytest.mark.parametrize("timer", ["event", "real"])
    def test_outputs_carry_the_time_of_the_timer(self, run, feed, timer):
        stream = feed(TestStream(), at(("k", [("set", timer, 5)], 7)))
        stream.advance_watermark_to(50).advance_processing_time(50)
        assert stamped(run(Alarms(), stream))["k"] == [("set", 7.0, GLOBAL), ((timer, "", 5.0), 5.0, GLOBAL)]

    @pytest.mark.parametrize("timer", ["event", "real"])
    def test_outputs_carry_the_window_of_the_timer(self, run, feed, timer):
        stream = feed(TestStream(), at(("k", [("set", timer, 28)], 25), ("j", [("set", timer, 29)], 32)))
        stream.advance_watermark_to(29).advance_processing_time(29)
        out = run(Alarms(), stream, windowing=FixedWindows(10))
        assert stamped(out)["k"][1:] == [((timer, "", 28.0), 28.0, (20.0, 30.0))]
        assert stamped(out)["j"][1:] == [((timer, "", 29.0), 29.0, (30.0, 40.0))]


class Loop(DoFn):
    """Fires every ten seconds, a number of times."""

    LEFT = ValueStateSpec("left")
    TICK = TimerSpec("tick")

    def process(self, element, left=DoFn.StateParam(LEFT), tick=DoFn.TimerParam(TICK)):
        left.write(element[1])
        tick.set(10)

    @on_timer(TICK)
    def on_tick(
        self,
        key=DoFn.KeyParam,
        time=DoFn.TimestampParam,
        left=DoFn.StateParam(LEFT),
        tick=DoFn.TimerParam(TICK),
    ):
        yield key, float(time)
        remaining = left.read() - 1
        if remaining:
            left.write(remaining)
            tick.set(time + 10)
        else:
            left.clear()


class Chain(DoFn):
    """Each callback sets the next timer: event time, then processing time, then event time in the past."""

    STEPS = CombiningStateSpec("steps", sum)
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)
    LAST = TimerSpec("last", TimeDomain.WATERMARK)

    def process(self, element, event=DoFn.TimerParam(EVENT)):
        event.set(element[1])

    @on_timer(EVENT)
    def on_event(self, key=DoFn.KeyParam, steps=DoFn.StateParam(STEPS), real=DoFn.TimerParam(REAL)):
        steps.add(1)
        real.set(7)
        yield key, "event", steps.read()

    @on_timer(REAL)
    def on_real(self, key=DoFn.KeyParam, steps=DoFn.StateParam(STEPS), last=DoFn.TimerParam(LAST)):
        steps.add(1)
        last.set(0)
        yield key, "real", steps.read()

    @on_timer(LAST)
    def on_last(self, key=DoFn.KeyParam, steps=DoFn.StateParam(STEPS)):
        steps.add(1)
        yield key, "last", steps.read()


class Cancels(DoFn):
    """The callback of the first timer takes back the second, and moves the third."""

    FIRST = TimerSpec("first")
    SECOND = TimerSpec("second")
    THIRD = TimerSpec("third")

    def process(
        self,
        element,
        first=DoFn.TimerParam(FIRST),
        second=DoFn.TimerParam(SECOND),
        third=DoFn.TimerParam(THIRD),
    ):
        first.set(10)
        second.set(element[1])
        third.set(element[1])

    @on_timer(FIRST)
    def on_first(self, key=DoFn.KeyParam, second=DoFn.TimerParam(SECOND), third=DoFn.TimerParam(THIRD)):
        second.clear()
        third.set(50)
        yield key, "first"

    @on_timer(SECOND)
    def on_second(self, key=DoFn.KeyParam):
        yield key, "second"

    @on_timer(THIRD)
    def on_third(self, key=DoFn.KeyParam, time=DoFn.TimestampParam):
        yield key, "third", float(time)


class TestCallbacksThatSetTimers:
    def test_looping_until_none_is_due(self, run, feed):
        stream = feed(TestStream(), at(("k", 5, 0), ("j", 2, 0))).advance_watermark_to(35)
        assert by_key(run(Loop(), stream)) == {"k": [10.0, 20.0, 30.0], "j": [10.0, 20.0]}
        out = run(Loop(), stream.crash().advance_watermark_to(100))
        assert by_key(out) == {"k": [10.0, 20.0, 30.0, 40.0, 50.0], "j": [10.0, 20.0]}
        assert out.timers("k") == []
        assert out.state("k") == {}

    def test_from_one_domain_to_the_other(self, run, feed):
        stream = feed(TestStream(), at(("k", 5, 0))).advance_processing_time(7).crash().advance_watermark_to(5)
        assert by_key(run(Chain(), stream)) == {"k": [("event", 1), ("real", 2), ("last", 3)]}

    def test_what_is_not_yet_due_waits(self, run, feed):
        stream = feed(TestStream(), at(("k", 5, 0))).advance_watermark_to(5).crash()
        assert by_key(run(Chain(), stream)) == {"k": [("event", 1)]}
        assert by_key(run(Chain(), stream.advance_processing_time(7))) == {"k": [("event", 1), ("real", 2), ("last", 3)]}

    @pytest.mark.parametrize("time", [10, 20])
    def test_a_callback_can_take_back_what_is_due_in_the_same_go(self, run, feed, time):
        stream = feed(TestStream(), at(("k", time, 0))).advance_watermark_to(30)
        assert by_key(run(Cancels(), stream)) == {"k": ["first"]}
        assert by_key(run(Cancels(), stream.advance_watermark_to(50))) == {"k": ["first", ("third", 50.0)]}


class Stuck(DoFn):
    """Sets itself again for the time at which it was called, for ever."""

    AGAIN = TimerSpec("again")

    def process(self, element, again=DoFn.TimerParam(AGAIN)):
        again.set(5)

    @on_timer(AGAIN)
    def on_again(self, time=DoFn.TimestampParam, again=DoFn.TimerParam(AGAIN)):
        again.set(time)


def test_a_timer_that_sets_itself_without_end_is_an_error_and_not_a_hang(run):
    with pytest.raises(TimeError, match=r"'again' keeps setting itself again") as raised:
        run(Stuck(), TestStream().add_elements([("k", 1)]).advance_watermark_to(5))
    assert "what to do" in str(raised.value)


class Shared(DoFn):
    """Two timers with one callback."""

    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(self, element, event=DoFn.TimerParam(EVENT), real=DoFn.TimerParam(REAL)):
        event.set(10)
        real.set(20)

    @on_timer(EVENT)
    @on_timer(REAL)
    def on_either(self, key=DoFn.KeyParam, time=DoFn.TimestampParam):
        yield key, float(time)


def test_two_timers_may_share_a_callback(run, feed):
    stream = feed(TestStream(), [("k", 1)]).advance_watermark_to(10).advance_processing_time(20)
    assert by_key(run(Shared(), stream)) == {"k": [10.0, 20.0]}


class CallbackReturns(DoFn):
    """A callback that returns a list, and one that returns nothing."""

    LISTED = TimerSpec("listed")
    SILENT = TimerSpec("silent")

    def process(self, element, listed=DoFn.TimerParam(LISTED), silent=DoFn.TimerParam(SILENT)):
        listed.set(10)
        silent.set(10)

    @on_timer(LISTED)
    def on_listed(self, key=DoFn.KeyParam):
        return [(key, 1), (key, 2)]

    @on_timer(SILENT)
    def on_silent(self):
        return None


def test_a_callback_returns_as_process_does(run):
    out = run(CallbackReturns(), TestStream().add_elements([("k", 1)]).advance_watermark_to(10))
    assert by_key(out) == {"k": [1, 2]}
    assert out.metrics.timers_fired == 2
