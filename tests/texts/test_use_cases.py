"""What the texts say state is for, each in a few lines: velocity of payments, features, rolling averages, prices."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.testing import TestStream, run

MINUTE = 60


def at(*elements):
    return [hf.TimestampedValue((key, value), time) for key, value, time in elements]


class Velocity(hf.DoFn):
    """Five payments of a card within three minutes."""

    RECENT = hf.OrderedListStateSpec("recent", hf.FloatCoder())

    def process(self, element, paid_at=hf.DoFn.TimestampParam, recent=hf.DoFn.StateParam(RECENT)):
        card, amount = element
        recent.clear_range(hf.MIN_TIMESTAMP, paid_at - 3 * MINUTE)
        recent.add((paid_at, amount))
        if len(recent.read()) == 5:
            yield card, sum(paid for _, paid in recent.read())


def test_five_payments_of_a_card_within_three_minutes():
    stream = TestStream().add_elements(at(*[("fast", 10.0, 40 * n) for n in range(5)])).crash()
    stream.add_elements(at(*[("slow", 10.0, 60 * n) for n in range(8)]))
    assert run(Velocity(), stream, requires_time_sorted_input=True).values == []
    out = run(Velocity(), stream.advance_watermark_to_infinity(), requires_time_sorted_input=True)
    assert out.values == [("fast", 50.0)]


class Features(hf.DoFn):
    """Of each user: clicks in all, clicks by category, how many pages there were, and how long ago the last click was."""

    CLICKS = hf.CombiningStateSpec("clicks", hf.Count())
    BY_CATEGORY = hf.MapStateSpec("by_category", hf.StrUtf8Coder(), hf.VarIntCoder())
    PAGES = hf.SetStateSpec("pages", hf.StrUtf8Coder())
    LAST = hf.ValueStateSpec("last", hf.TimestampCoder())

    def process(
        self,
        element,
        now=hf.DoFn.TimestampParam,
        clicks=hf.DoFn.StateParam(CLICKS),
        by_category=hf.DoFn.StateParam(BY_CATEGORY),
        pages=hf.DoFn.StateParam(PAGES),
        last=hf.DoFn.StateParam(LAST),
    ):
        user, (category, page) = element
        clicks.add(1)
        by_category.put(category, by_category.get(category, 0) + 1)
        pages.add(page)
        before = last.read()
        last.write(now)
        since = None if before is None else float((now - before).micros / 1_000_000)
        yield user, (clicks.read(), by_category.read(), len(pages.read()), since)


def test_features_of_a_users_clicks():
    clicks = [
        ("ann", ("shoes", "/a"), 0),
        ("ann", ("shoes", "/b"), 30),
        ("bob", ("hats", "/a"), 31),
        ("ann", ("hats", "/a"), 90),
    ]
    stream = TestStream().add_elements(at(*clicks[:2])).crash().add_elements(at(*clicks[2:]))
    assert run(Features(), stream).values == [
        ("ann", (1, {"shoes": 1}, 1, None)),
        ("ann", (2, {"shoes": 2}, 2, 30.0)),
        ("bob", (1, {"hats": 1}, 1, None)),
        ("ann", (3, {"shoes": 2, "hats": 1}, 2, 60.0)),
    ]


class Thermometer(hf.DoFn):
    """The average of a device's last three readings; an alert each time that it passes the threshold."""

    LAST = hf.BagStateSpec("last", hf.FloatCoder())
    HOT = hf.ValueStateSpec("hot", hf.BooleanCoder())

    def __init__(self, threshold):
        self.threshold = threshold

    def process(self, element, last=hf.DoFn.StateParam(LAST), hot=hf.DoFn.StateParam(HOT)):
        device, reading = element
        recent = [*last.read(), reading][-3:]
        last.clear()
        for value in recent:
            last.add(value)
        average = sum(recent) / len(recent)
        if average > self.threshold and not hot.read():
            yield hf.TaggedOutput("alerts", (device, average))
        hot.write(average > self.threshold)
        yield device, average


def test_a_rolling_average_with_an_alert():
    readings = [20.0, 40.0, 60.0, 20.0, 10.0, 90.0]
    stream = TestStream().add_elements([("boiler", reading) for reading in readings[:3]]).crash()
    stream.add_elements([("boiler", reading) for reading in readings[3:]])
    out = run(Thermometer(35.0), stream, outputs=["alerts"])
    assert [average for _, average in out.values] == [20.0, 30.0, 40.0, 40.0, 30.0, 40.0]
    assert out.tagged("alerts") == [("boiler", 40.0), ("boiler", 40.0)]
    assert out.state("boiler")["last"] == [20.0, 10.0, 90.0]


class Vwap(hf.CombineFn):
    """The volume-weighted average of (price, volume) pairs."""

    def create_accumulator(self):
        return 0.0, 0

    def add_input(self, mutable_accumulator, element):
        price, volume = element
        return mutable_accumulator[0] + price * volume, mutable_accumulator[1] + volume

    def merge_accumulators(self, accumulators):
        paid, volumes = zip(*accumulators, strict=True)
        return sum(paid), sum(volumes)

    def extract_output(self, accumulator):
        paid, volume = accumulator
        return paid / volume if volume else None


@pytest.mark.parametrize("key_groups", [1, 4])
def test_volume_weighted_average_prices(key_groups):
    trades = [("ACME", (10.0, 100), 1), ("ACME", (20.0, 300), 2), ("INIT", (5.0, 10), 3), ("ACME", (30.0, 50), MINUTE + 1)]
    stream = TestStream().add_elements(at(*trades[:2])).crash().add_elements(at(*trades[2:])).advance_watermark_to_infinity()
    out = run(hf.CombinePerKey(Vwap()), stream, windowing=hf.FixedWindows(MINUTE), key_groups=key_groups)
    assert sorted(out.values) == [("ACME", 17.5), ("ACME", 30.0), ("INIT", 5.0)]


def test_a_moving_average():
    """Of two minutes, every minute."""
    trades = [("ACME", 10.0, 30), ("ACME", 20.0, 70), ("ACME", 60.0, 130)]
    stream = TestStream().add_elements(at(*trades)).advance_watermark_to_infinity()
    out = run(hf.CombinePerKey(hf.Mean()), stream, windowing=hf.SlidingWindows(2 * MINUTE, MINUTE))
    assert [average for _, average in out.values] == [10.0, 15.0, 40.0, 60.0]
