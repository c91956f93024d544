"""Windows and triggers as tutorials of stream processing show them, each as a small stream with a known answer."""

from __future__ import annotations

from holdfast import (
    AfterAll,
    AfterCount,
    AfterProcessingTime,
    CombineFn,
    CombinePerKey,
    Count,
    FixedWindows,
    GlobalWindows,
    GroupByKey,
    Max,
    Mean,
    Min,
    Repeatedly,
    Sessions,
    SlidingWindows,
    Sum,
)
from holdfast.testing import TestStream

from .reading import at, by_key, panes

MINUTE, HOUR = 60, 3600


def rides(*rides):
    """Elements from (zone, total, minute of the pickup)."""
    return at(*[(zone, {"total": total}, minute * MINUTE) for zone, total, minute in rides])


def hours(out):
    """Results by zone: (start and end of the window in hours, result), in order."""
    found = {}
    for zone, rest in panes(out).items():
        found[zone] = [((start / HOUR, end / HOUR), result) for result, (start, end), _ in rest]
    return found


class TestTaxiRides:
    """How many rides began in each zone, and what they brought in."""

    PER_ZONE = CombinePerKey({"num_trips": Count(), "revenue": Sum("total")})

    def test_in_each_hour(self, run):
        stream = TestStream().add_elements(rides((132, 52.0, 5), (48, 9.5, 10), (132, 60.5, 59)))
        stream.add_elements(rides((132, 45.0, 60), (48, 12.0, 30))).advance_watermark_to(HOUR)
        out = run(self.PER_ZONE, stream.advance_watermark_to(2 * HOUR), windowing=FixedWindows(HOUR))
        assert hours(out) == {
            132: [((0, 1), {"num_trips": 2, "revenue": 112.5}), ((1, 2), {"num_trips": 1, "revenue": 45.0})],
            48: [((0, 1), {"num_trips": 2, "revenue": 21.5})],
        }

    def test_state_goes_when_its_window_has_given_its_result(self, run):
        stream = TestStream().add_elements(rides((132, 52.0, 5), (48, 9.5, 70))).advance_watermark_to(HOUR)
        out = run(self.PER_ZONE, stream, windowing=FixedWindows(HOUR))
        assert hours(out) == {132: [((0, 1), {"num_trips": 1, "revenue": 52.0})]}
        assert out.keys() == [48]
        assert out.metrics.windows_expired == 1

    def test_in_the_last_hour_every_quarter_of_an_hour(self, run):
        stream = TestStream().add_elements(rides((132, 10.0, 20), (132, 30.0, 50))).advance_watermark_to_infinity()
        out = run(CombinePerKey(Mean("total")), stream, windowing=SlidingWindows(HOUR, 15 * MINUTE))
        assert hours(out)[132] == [
            ((-0.5, 0.5), 10.0),
            ((-0.25, 0.75), 10.0),
            ((0, 1), 20.0),
            ((0.25, 1.25), 20.0),
            ((0.5, 1.5), 30.0),
            ((0.75, 1.75), 30.0),
        ]

    def test_in_busy_times_with_half_an_hour_of_silence_between_them(self, run):
        stream = TestStream().add_elements(rides((132, 10.0, 0), (132, 20.0, 60), (48, 5.0, 10)))
        stream.crash().add_elements(rides((132, 15.0, 25), (132, 25.0, 89))).advance_watermark_to_infinity()
        out = run(self.PER_ZONE, stream, windowing=Sessions(30 * MINUTE))
        assert hours(out) == {
            132: [
                ((0, 55 / 60), {"num_trips": 2, "revenue": 25.0}),
                ((1, 119 / 60), {"num_trips": 2, "revenue": 45.0}),
            ],
            48: [((10 / 60, 40 / 60), {"num_trips": 1, "revenue": 5.0})],
        }

    def test_nothing_is_lost_or_counted_twice_when_workers_die(self, run):
        stream = TestStream()
        for minute in range(0, 60, 12):
            stream.add_elements(rides((132, 1.0, minute))).crash()
        out = run(self.PER_ZONE, stream.advance_watermark_to(HOUR), windowing=FixedWindows(HOUR))
        assert hours(out) == {132: [((0, 1), {"num_trips": 5, "revenue": 5.0})]}


def test_a_card_with_many_payments_within_five_minutes(run):
    payments = at(*[("card", 20, minute * MINUTE) for minute in (0, 1, 2, 3, 4)], ("other", 20, 0))
    stream = TestStream().add_elements(payments).advance_watermark_to_infinity()
    out = run(CombinePerKey(Count()), stream, windowing=SlidingWindows(5 * MINUTE, MINUTE))
    assert max(by_key(out)["card"]) == 5
    assert max(by_key(out)["other"]) == 1
    assert [window for count, window, _ in panes(out)["card"] if count == 5] == [(0.0, 300.0)]


def test_count_sum_least_and_greatest_over_sliding_windows_of_a_single_key(run):
    readings = at(*[("all", float(value), value * MINUTE) for value in range(4)])
    stream = TestStream().add_elements(readings).advance_watermark_to(5 * MINUTE)
    combined = CombinePerKey({"count": Count(), "sum": Sum(), "min": Min(), "max": Max()})
    out = run(combined, stream, windowing=SlidingWindows(5 * MINUTE, MINUTE))
    assert [result["count"] for result, *_ in panes(out)["all"]] == [1, 2, 3, 4, 4]
    assert panes(out)["all"][-1] == ({"count": 4, "sum": 6.0, "min": 0.0, "max": 3.0}, (0.0, 300.0), "ON_TIME")
    assert len(out.state("all")) == 3  # those windows that end after this watermark


def test_actions_of_each_user_in_five_minutes_with_ten_minutes_for_stragglers(run):
    """The watermark stays ten minutes behind the latest event, and what comes even later is dropped."""
    stream = TestStream().add_elements(at(("ann", "open", 10), ("bob", "open", 20), ("ann", "read", 200)))
    stream.advance_watermark_to(0)
    stream.add_elements(at(("ann", "close", 15 * MINUTE))).advance_watermark_to(5 * MINUTE)
    stream.add_elements(at(("ann", "too late", 30), ("bob", "read", 6 * MINUTE))).advance_watermark_to(20 * MINUTE)
    out = run(GroupByKey(), stream, windowing=FixedWindows(5 * MINUTE))
    assert panes(out) == {
        "ann": [(["open", "read"], (0.0, 300.0), "ON_TIME"), (["close"], (900.0, 1200.0), "ON_TIME")],
        "bob": [(["open"], (0.0, 300.0), "ON_TIME"), (["read"], (300.0, 600.0), "ON_TIME")],
    }
    assert out.metrics.late == 1
    assert out.keys() == []


class ModelFromEvents(CombineFn):
    """A model that learns: the mean of the amounts, and how many it has seen. It is changed in place."""

    def create_accumulator(self):
        return {"seen": 0, "total": 0.0}

    def add_input(self, mutable_accumulator, element):
        mutable_accumulator["seen"] += 1
        mutable_accumulator["total"] += element
        return mutable_accumulator

    def merge_accumulators(self, accumulators):
        first, *others = accumulators
        for other in others:
            first["seen"] += other["seen"]
            first["total"] += other["total"]
        return first

    def extract_output(self, accumulator):
        return accumulator["seen"], accumulator["total"] / max(accumulator["seen"], 1)


class TestModelOfEachUser:
    def test_one_for_each_user_and_window_when_it_is_complete(self, run):
        stream = TestStream().add_elements(at(("ann", 10.0, 1), ("bob", 7.0, 2))).crash()
        stream.add_elements(at(("ann", 20.0, 3))).advance_watermark_to(HOUR)
        out = run(CombinePerKey(ModelFromEvents()), stream, windowing=FixedWindows(HOUR))
        assert by_key(out) == {"ann": [(2, 15.0)], "bob": [(1, 7.0)]}

    def test_the_model_so_far_a_second_after_input_came(self, run):
        """No windows to wait for: however many events come within that second, there is one new model."""
        stream = TestStream().add_elements(at(("ann", 10.0, 1))).add_elements(at(("ann", 20.0, 3)))
        stream.advance_processing_time(1).crash().add_elements(at(("ann", 60.0, 5))).advance_processing_time(1)
        out = run(
            CombinePerKey(ModelFromEvents()),
            stream,
            windowing=GlobalWindows(),
            trigger=Repeatedly(AfterAll(AfterCount(1), AfterProcessingTime(1))),
            accumulation_mode="accumulating",
        )
        assert by_key(out) == {"ann": [(2, 15.0), (3, 30.0)]}

    def test_combining_in_parts_gives_the_same_model(self):
        fn = ModelFromEvents()
        parts = [fn.add_inputs(fn.create_accumulator(), amounts) for amounts in ([1.0, 2.0], [], [6.0])]
        assert fn.extract_output(fn.merge_accumulators(parts)) == fn.apply([1.0, 2.0, 6.0]) == (3, 3.0)


def test_login_trail_of_a_user_until_there_is_silence(run):
    """The trail of a session; after a day without a login it is complete and forgotten."""
    logins = at(("ann", "Tokyo", 0), ("ann", "New York", 10 * MINUTE), ("ann", "Tokyo", 40 * HOUR))
    stream = TestStream().add_elements(logins).advance_watermark_to(30 * HOUR)
    out = run(GroupByKey(), stream, windowing=Sessions(24 * HOUR))
    assert by_key(out) == {"ann": [["Tokyo", "New York"]]}
    out = run(GroupByKey(), stream.advance_watermark_to(64 * HOUR), windowing=Sessions(24 * HOUR))
    assert by_key(out)["ann"][1:] == [["Tokyo"]]
    assert out.keys() == []
