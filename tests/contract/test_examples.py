"""Functions as users write them, run over small streams: in one bundle, in many, and with a crash after each."""

from __future__ import annotations

import functools
import math
import struct
from typing import NamedTuple

import pytest

from holdfast import (
    BagStateSpec,
    BooleanCoder,
    Coder,
    CombineFn,
    CombiningStateSpec,
    DoFn,
    FixedWindows,
    FloatCoder,
    OrderedListStateSpec,
    StrUtf8Coder,
    TimeDomain,
    TimerSpec,
    Timestamp,
    ValueStateSpec,
    VarIntCoder,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import at, by_key, stamped


@pytest.fixture
def in_order(run):
    """A run of a function that goes by the times of its elements: they come in order of time, however they are given."""
    return functools.partial(run, requires_time_sorted_input=True)


class RunningCount(DoFn):
    """How many elements of the key there were so far."""

    COUNT = ValueStateSpec("count", VarIntCoder())

    def process(self, element, count=DoFn.StateParam(COUNT)):
        key, _ = element
        so_far = (count.read() or 0) + 1
        count.write(so_far)
        yield key, so_far


def test_running_count(run, feed):
    words = [("tea", 1), ("rum", 1), ("tea", 1), ("tea", 1), ("rum", 1)]
    out = run(RunningCount(), feed(TestStream(), words))
    assert by_key(out) == {"tea": [1, 2, 3], "rum": [1, 2]}
    assert out.state("tea") == {"count": 3}
    assert out.state("rum") == {"count": 2}
    assert out.state("gin") == {}


class FirstOccurrence(DoFn):
    """Lets the first element of a key through, and no other."""

    SEEN = ValueStateSpec("seen", BooleanCoder())

    def process(self, element, seen=DoFn.StateParam(SEEN)):
        if not seen.read():
            seen.write(True)
            yield element


def test_first_occurrence(run, feed):
    orders = [("o1", "new"), ("o2", "new"), ("o1", "again"), ("o3", "new"), ("o2", "again"), ("o1", "again")]
    out = run(FirstOccurrence(), feed(TestStream(), orders))
    assert by_key(out) == {"o1": ["new"], "o2": ["new"], "o3": ["new"]}


class EveryThird(DoFn):
    """Gives the values of a key in threes."""

    VALUES = BagStateSpec("values", FloatCoder())
    COUNT = ValueStateSpec("count", VarIntCoder())

    def process(self, element, values=DoFn.StateParam(VALUES), count=DoFn.StateParam(COUNT)):
        key, value = element
        values.add(value)
        so_far = (count.read() or 0) + 1
        if so_far < 3:
            count.write(so_far)
            return
        yield key, list(values.read())
        values.clear()
        count.clear()


def test_buffer_of_three(run, feed):
    amounts = [("shop", n / 2) for n in range(1, 8)]
    amounts.insert(4, ("kiosk", 9.75))
    out = run(EveryThird(), feed(TestStream(), amounts))
    assert by_key(out) == {"shop": [[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]]}
    assert out.state("shop") == {"values": [3.5], "count": 1}
    assert out.state("kiosk") == {"values": [9.75], "count": 1}


class Index(DoFn):
    """Numbers the elements of a key and window: arbitrary, but each number once, and none left out."""

    INDEX = CombiningStateSpec("index", sum)

    def process(self, element, index=DoFn.StateParam(INDEX)):
        key, value = element
        yield key, value, index.read()
        index.add(1)


def test_index_has_no_gaps_and_no_duplicates(run, feed):
    elements = [(f"k{n % 3}", n) for n in range(20)]
    numbered = by_key(run(Index(), feed(TestStream(), elements)))
    for place, key in enumerate(["k0", "k1", "k2"]):
        assert [value for value, _ in numbered[key]] == list(range(place, 20, 3))
        assert [index for _, index in numbered[key]] == list(range(len(range(place, 20, 3))))


def test_index_starts_anew_in_every_window(run, feed):
    elements = at(*[("k", n, time) for n, time in enumerate([1, 12, 3, 25, 4, 14, 9])])
    out = run(Index(), feed(TestStream(), elements), windowing=FixedWindows(10))
    numbered = {}
    for (_, index), _, window in stamped(out)["k"]:
        numbered.setdefault(window, []).append(index)
    assert numbered == {(0, 10): [0, 1, 2, 3], (10, 20): [0, 1], (20, 30): [0]}


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations of the values so far."""

    count: int
    mean: float
    squares: float


class MomentsCoder(Coder):
    """Three numbers in 24 bytes."""

    def encode(self, value):
        return struct.pack(">qdd", *value)

    def decode(self, data):
        return Moments(*struct.unpack(">qdd", data))

    def is_immutable(self):
        return True


class NormalModel(CombineFn):
    """A normal distribution, fitted as values come in. Its prediction is the mean plus three deviations."""

    def create_accumulator(self):
        return Moments(0, 0.0, 0.0)

    def add_input(self, mutable_accumulator, element):
        count = mutable_accumulator.count + 1
        delta = element - mutable_accumulator.mean
        mean = mutable_accumulator.mean + delta / count
        return Moments(count, mean, mutable_accumulator.squares + delta * (element - mean))

    def merge_accumulators(self, accumulators):
        merged = Moments(0, 0.0, 0.0)
        for held in accumulators:
            count = merged.count + held.count
            if count:
                delta = held.mean - merged.mean
                merged = Moments(
                    count,
                    merged.mean + delta * held.count / count,
                    merged.squares + held.squares + delta * delta * merged.count * held.count / count,
                )
        return merged

    def extract_output(self, accumulator):
        count, mean, squares = accumulator
        return mean + 3 * math.sqrt(squares / count) if count else 0.0


class AnomalyThreshold(DoFn):
    """Learns a model of each key, and gives its prediction out only when it has moved since it was last given out."""

    MODEL = CombiningStateSpec("model", MomentsCoder(), NormalModel())
    LAST = ValueStateSpec("last", FloatCoder())

    def __init__(self, moved_by):
        self.moved_by = moved_by

    def process(self, element, model=DoFn.StateParam(MODEL), last=DoFn.StateParam(LAST)):
        key, value = element
        model.add(value)
        prediction = model.read()
        given = last.read()
        if given is None or abs(prediction - given) > self.moved_by * abs(given):
            last.write(prediction)
            yield key, round(prediction, 6)


def test_anomaly_model_speaks_only_when_its_prediction_moved(run, feed):
    calm = [("calm", value) for value in (100.0, 100.0, 101.0, 100.0, 100.0)]
    jumpy = [("jumpy", value) for value in (100.0, 200.0, 150.0)]
    out = run(AnomalyThreshold(0.05), feed(TestStream(), calm + jumpy))
    # 100; 100 again; mean 100.33 and deviation 0.47, so 101.75: within five percent of what was said first.
    assert by_key(out)["calm"] == [100.0]
    # 100; mean 150 and deviation 50; mean 150 and deviation 40.82.
    assert by_key(out)["jumpy"] == [100.0, 300.0, round(150 + 3 * math.sqrt(5000 / 3), 6)]
    assert out.state("calm")["last"] == 100.0


def test_anomaly_model_is_stored_with_its_own_coder(run, feed):
    values = [("k", value) for value in (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0)]
    out = run(AnomalyThreshold(0.0), feed(TestStream(), values))
    # The textbook sample: mean 5, deviation 2.
    assert out.state("k")["model"] == 11.0
    assert by_key(out)["k"][-1] == 11.0


class Travel(DoFn):
    """Alerts when two logins are further apart than an aeroplane flies in the time between. Keeps the last five."""

    LOGINS = BagStateSpec("logins")
    KILOMETRES_PER_HOUR_MAX = 1000

    def process(self, element, time=DoFn.TimestampParam, logins=DoFn.StateParam(LOGINS)):
        user, (city, latitude, longitude) = element
        known = list(logins.read())
        for other, other_latitude, other_longitude, other_time in known:
            hours = (float(time) - other_time) / 3600
            if kilometres(latitude, longitude, other_latitude, other_longitude) > hours * self.KILOMETRES_PER_HOUR_MAX:
                yield user, other, city
        logins.clear()
        for login in [*known, (city, latitude, longitude, float(time))][-5:]:
            logins.add(login)


def kilometres(latitude, longitude, other_latitude, other_longitude):
    """The way along the globe, by the haversine."""
    rise, turn = math.radians(other_latitude - latitude), math.radians(other_longitude - longitude)
    across = math.cos(math.radians(latitude)) * math.cos(math.radians(other_latitude))
    return 2 * 6371 * math.asin(math.sqrt(math.sin(rise / 2) ** 2 + across * math.sin(turn / 2) ** 2))


TOKYO = ("Tokyo", 35.68, 139.69)
NEW_YORK = ("New York", 40.71, -74.01)
NEWARK = ("Newark", 40.74, -74.17)


def test_impossible_travel(in_order, feed):
    logins = at(("ann", NEW_YORK, 600), ("ann", TOKYO, 0), ("bob", NEWARK, 0), ("bob", NEW_YORK, 1800))
    stream = feed(TestStream(), logins).advance_watermark_to(1800)
    assert by_key(in_order(Travel(), stream)) == {"ann": [("Tokyo", "New York")]}


def test_a_slow_journey_is_possible(in_order, feed):
    logins = at(("ann", NEW_YORK, 14 * 3600), ("ann", TOKYO, 0))
    assert by_key(in_order(Travel(), feed(TestStream(), logins).advance_watermark_to(14 * 3600))) == {}


def test_only_the_last_five_logins_count(in_order, feed):
    logins = at(*[("ann", NEW_YORK, 14 * 3600 + minute) for minute in range(5)], ("ann", TOKYO, 0))
    out = in_order(Travel(), feed(TestStream(), logins).advance_watermark_to(15 * 3600))
    assert [city for city, *_ in out.state("ann")["logins"]] == ["New York"] * 5
    assert by_key(out) == {}


class RateLimit(DoFn):
    """Lets five calls a minute through, and refuses the rest."""

    CALLS = OrderedListStateSpec("calls", StrUtf8Coder())
    PER_MINUTE_MAX = 5

    def process(self, element, time=DoFn.TimestampParam, calls=DoFn.StateParam(CALLS)):
        user, call = element
        calls.clear_range(Timestamp(0), time - 60)
        allowed = len(calls.read_range(time - 60, time + 60)) < self.PER_MINUTE_MAX
        if allowed:
            calls.add((time, call))
        yield user, call, allowed


def test_rate_limit(in_order, feed):
    times = [159, 101, 102, 162, 104, 105, 103, 160, 161, 100]
    calls = at(*[("ann", f"c{time}", time) for time in times], ("bob", "c105", 105))
    out = in_order(RateLimit(), feed(TestStream(), calls).advance_watermark_to(162))
    assert [allowed for _, allowed in by_key(out)["ann"]] == [True] * 5 + [False, False, False, True, True]
    assert by_key(out)["bob"] == [("c105", True)]
    assert [call for _, call in out.state("ann")["calls"]] == ["c102", "c103", "c104", "c161", "c162"]


class GroupIntoBatches(DoFn):
    """Gives values in batches: full ones at once, the rest at the window's end or when they have waited long enough."""

    BUFFER = BagStateSpec("buffer")
    COUNT = CombiningStateSpec("count", sum)
    WINDOW_END = TimerSpec("window_end", TimeDomain.WATERMARK)
    WAITED = TimerSpec("waited", TimeDomain.REAL_TIME)

    def __init__(self, size, wait_seconds_max):
        self.size = size
        self.wait_seconds_max = wait_seconds_max

    def process(
        self,
        element,
        window=DoFn.WindowParam,
        buffer=DoFn.StateParam(BUFFER),
        count=DoFn.StateParam(COUNT),
        window_end=DoFn.TimerParam(WINDOW_END),
        waited=DoFn.TimerParam(WAITED),
    ):
        key, value = element
        if count.read() == 0:
            window_end.set(window.end)
            waited.set(Timestamp.now() + self.wait_seconds_max)
        buffer.add(value)
        count.add(1)
        if count.read() >= self.size:
            waited.clear()
            yield from self.flush(key, buffer, count)

    @on_timer(WINDOW_END)
    def on_window_end(
        self,
        key=DoFn.KeyParam,
        buffer=DoFn.StateParam(BUFFER),
        count=DoFn.StateParam(COUNT),
        waited=DoFn.TimerParam(WAITED),
    ):
        waited.clear()
        yield from self.flush(key, buffer, count)

    @on_timer(WAITED)
    def on_waited(self, key=DoFn.KeyParam, buffer=DoFn.StateParam(BUFFER), count=DoFn.StateParam(COUNT)):
        yield from self.flush(key, buffer, count)

    def flush(self, key, buffer, count):
        batch = list(buffer.read())
        buffer.clear()
        count.clear()
        if batch:
            yield key, batch


def test_batches_are_given_when_full(run, feed):
    stream = feed(TestStream(), at(*[("k", n, 1) for n in range(7)]))
    out = run(GroupIntoBatches(3, 30), stream, windowing=FixedWindows(10))
    assert by_key(out) == {"k": [[0, 1, 2], [3, 4, 5]]}


def test_batches_are_given_at_the_end_of_the_window(run, feed):
    stream = feed(TestStream(), at(("k", "a", 1), ("k", "b", 2), ("k", "c", 12), ("j", "d", 3)))
    stream.advance_watermark_to(9.5).advance_watermark_to(10).advance_watermark_to(20)
    out = run(GroupIntoBatches(3, 30), stream, windowing=FixedWindows(10))
    # A timer at the end of its window fires when the window ends, and its output stays in that window.
    assert stamped(out) == {
        "k": [(["a", "b"], 10.0, (0.0, 10.0)), (["c"], 20.0, (10.0, 20.0))],
        "j": [(["d"], 10.0, (0.0, 10.0))],
    }
    assert out.timers("k") == []


def test_batches_are_given_when_they_have_waited_long_enough(run, feed):
    stream = TestStream().advance_processing_time(1000)
    feed(stream, at(("k", "a", 1), ("k", "b", 2)))
    stream.advance_processing_time(29).crash().advance_processing_time(1)
    feed(stream, at(("k", "c", 3)))
    stream.advance_watermark_to(10)
    out = run(GroupIntoBatches(3, 30), stream, windowing=FixedWindows(10))
    assert stamped(out)["k"] == [(["a", "b"], 1030.0, (0.0, 10.0)), (["c"], 10.0, (0.0, 10.0))]


class DeduplicateForAWhile(DoFn):
    """Lets an element of a key through, and then none for some seconds of event time or of processing time."""

    SEEN = ValueStateSpec("seen", BooleanCoder())
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    PROCESSING = TimerSpec("processing", TimeDomain.REAL_TIME)

    def __init__(self, event_seconds=None, processing_seconds=None):
        self.event_seconds = event_seconds
        self.processing_seconds = processing_seconds

    def process(
        self,
        element,
        time=DoFn.TimestampParam,
        seen=DoFn.StateParam(SEEN),
        event=DoFn.TimerParam(EVENT),
        processing=DoFn.TimerParam(PROCESSING),
    ):
        if seen.read():
            return
        seen.write(True)
        if self.event_seconds is not None:
            event.set(time + self.event_seconds)
        if self.processing_seconds is not None:
            processing.set(Timestamp.now() + self.processing_seconds)
        yield element

    @on_timer(EVENT)
    @on_timer(PROCESSING)
    def forget(self, seen=DoFn.StateParam(SEEN)):
        seen.clear()


def test_deduplicate_for_a_while_of_event_time(in_order, feed):
    stream = feed(TestStream(), at(("k", "a", 0), ("k", "b", 5), ("j", "c", 6)))
    stream.advance_watermark_to(9)
    feed(stream, at(("k", "d", 9)))
    stream.advance_watermark_to(10)
    feed(stream, at(("k", "f", 12), ("k", "e", 11), ("j", "g", 12)))
    stream.advance_watermark_to(12)
    out = in_order(DeduplicateForAWhile(event_seconds=10), stream)
    assert by_key(out) == {"k": ["a", "e"], "j": ["c"]}
    assert out.state("k") == {"seen": True}


def test_deduplicate_for_a_while_of_processing_time(run, feed):
    stream = feed(TestStream(), [("k", "a"), ("k", "b")])
    stream.advance_processing_time(59)
    feed(stream, [("k", "c")])
    stream.advance_watermark_to(1_000_000).advance_processing_time(1)
    feed(stream, [("k", "d")])
    out = run(DeduplicateForAWhile(processing_seconds=60), stream)
    assert by_key(out) == {"k": ["a", "d"]}


def test_deduplicate_is_not_misled_by_a_backlog(in_order, feed):
    """By their times, the third comes after the first is forgotten."""
    stream = feed(TestStream(), at(("k", "c", 11), ("k", "a", 0), ("k", "b", 5))).advance_watermark_to(20)
    assert by_key(in_order(DeduplicateForAWhile(event_seconds=10), stream)) == {"k": ["a", "c"]}


def test_deduplicate_forgets_at_whichever_time_comes_first(in_order, feed):
    stream = feed(TestStream(), at(("k", "a", 0)))
    stream.advance_watermark_to(10)
    feed(stream, [("k", "b")])
    stream.advance_processing_time(60)
    feed(stream, [("k", "c")])
    out = in_order(DeduplicateForAWhile(event_seconds=10, processing_seconds=60), stream)
    assert by_key(out) == {"k": ["a", "b", "c"]}


class Inactivity(DoFn):
    """Reports a key that went quiet, again and again while it is quiet, three times at most."""

    LAST = ValueStateSpec("last")
    REPORTS = CombiningStateSpec("reports", sum)
    QUIET = TimerSpec("quiet")

    def __init__(self, after_seconds):
        self.after_seconds = after_seconds

    def process(
        self,
        element,
        time=DoFn.TimestampParam,
        last=DoFn.StateParam(LAST),
        reports=DoFn.StateParam(REPORTS),
        quiet=DoFn.TimerParam(QUIET),
    ):
        last.write(max(time, last.read() or time))
        reports.clear()
        quiet.set(last.read() + self.after_seconds)

    @on_timer(QUIET)
    def on_quiet(
        self,
        key=DoFn.KeyParam,
        time=DoFn.TimestampParam,
        last=DoFn.StateParam(LAST),
        reports=DoFn.StateParam(REPORTS),
        quiet=DoFn.TimerParam(QUIET),
    ):
        reports.add(1)
        yield key, float(time - last.read())
        if reports.read() < 3:
            quiet.set(time + self.after_seconds)


def test_inactivity_is_reported_while_it_lasts(in_order, feed):
    stream = feed(TestStream(), at(("k", 1, 0), ("k", 2, 30), ("j", 1, 70), ("k", 3, 20)))
    stream.advance_watermark_to(89).crash().advance_watermark_to(155).advance_watermark_to(1000)
    out = in_order(Inactivity(60), stream)
    assert stamped(out) == {
        "k": [(60.0, 90.0, "global"), (120.0, 150.0, "global"), (180.0, 210.0, "global")],
        "j": [(60.0, 130.0, "global"), (120.0, 190.0, "global"), (180.0, 250.0, "global")],
    }


def test_inactivity_is_noticed_in_a_backlog(in_order, feed):
    stream = feed(TestStream(), at(("k", 2, 150), ("k", 1, 0))).advance_watermark_to(210)
    assert [time for _, time, _ in stamped(in_order(Inactivity(60), stream))["k"]] == [60.0, 120.0, 210.0]


def test_activity_ends_the_reports(in_order, feed):
    stream = feed(TestStream(), at(("k", 1, 0)))
    stream.advance_watermark_to(70)
    feed(stream, at(("k", 2, 75)))
    stream.advance_watermark_to(134).crash().advance_watermark_to(135)
    out = in_order(Inactivity(60), stream)
    assert [time for _, time, _ in stamped(out)["k"]] == [60.0, 135.0]
    assert [(name, float(time)) for name, _, _, time in out.timers("k")] == [("quiet", 195.0)]


def test_reports_end_by_themselves_when_the_input_ends(in_order, feed):
    stream = feed(TestStream(), at(("k", 1, 0))).advance_watermark_to_infinity()
    assert by_key(in_order(Inactivity(60), stream)) == {"k": [60.0, 120.0, 180.0]}
