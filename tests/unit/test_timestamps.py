"""Timestamps and durations: what they are made of, what they equal, how they add."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import numpy
import pytest

from holdfast.errors import TimeError
from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp


def test_made_of_seconds_and_micros():
    assert Timestamp().micros == 0
    assert Timestamp(5).micros == 5_000_000
    assert Timestamp(5, micros=7).micros == 5_000_007
    assert Timestamp(micros=-1).micros == -1
    assert Timestamp(seconds=1.5).micros == 1_500_000
    assert Timestamp(numpy.int64(3)).micros == 3_000_000
    assert Duration(numpy.float32(0.5)).micros == 500_000


def test_a_float_is_rounded_to_the_nearest_microsecond():
    # 1.000001 * 1e6 is a little less than 1000001.
    assert Timestamp(1.000001).micros == 1_000_001
    assert Timestamp(-1.000001).micros == -1_000_001


@pytest.mark.parametrize("kind", [Timestamp, Duration])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), "5", None, 1j])
def test_refuses_what_is_no_number(kind, bad):
    with pytest.raises(TimeError):
        kind(bad)


def test_refuses_what_is_out_of_range():
    assert MAX_TIMESTAMP.micros == 9223372036854775000
    assert MIN_TIMESTAMP.micros == -9223372036854775000
    assert Timestamp(micros=MAX_TIMESTAMP.micros) == MAX_TIMESTAMP
    for make in (
        lambda: Timestamp(micros=MAX_TIMESTAMP.micros + 1),
        lambda: Timestamp(1e300),
        lambda: Timestamp.of(Decimal("1e30")),
        lambda: MAX_TIMESTAMP + Duration(micros=1),
        lambda: MIN_TIMESTAMP - Duration(micros=1),
        MAX_TIMESTAMP.successor,
        MIN_TIMESTAMP.predecessor,
    ):
        with pytest.raises(TimeError):
            make()
    assert (MAX_TIMESTAMP - MIN_TIMESTAMP).micros == 2 * 9223372036854775000


def test_of_takes_what_is_a_point_in_time():
    at = Timestamp(10)
    assert Timestamp.of(at) is at
    assert Timestamp.of(1.25).micros == 1_250_000
    assert Timestamp.of(Decimal("0.0000015")).micros == 2
    two_hours_east = timezone(timedelta(hours=2))
    assert Timestamp.of(datetime(1970, 1, 1, 2, 0, 1, 5, two_hours_east)).micros == 1_000_005


def test_of_says_what_to_do_about_a_naive_datetime_and_a_string():
    with pytest.raises(TimeError, match="Make it aware"):
        Timestamp.of(datetime(2024, 1, 1))
    with pytest.raises(TimeError, match="from_rfc3339"):
        Timestamp.of("2024-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01t00:00:01.25z", 1_250_000),
        ("1970-01-01 00:00:00.123456789Z", 123_456),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-01T01:30:00+01:30", 0),
        ("1969-12-31T23:00:00-01:00", 0),
    ],
)
def test_from_rfc3339(text, micros):
    assert Timestamp.from_rfc3339(text).micros == micros


@pytest.mark.parametrize(
    "text", ["", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00+24:00"]
)
def test_from_rfc3339_refuses(text):
    with pytest.raises(TimeError):
        Timestamp.from_rfc3339(text)


def test_to_texts_and_datetimes():
    at = Timestamp.from_rfc3339("2024-02-29T12:30:00.25Z")
    assert at.to_rfc3339() == "2024-02-29T12:30:00.250000Z"
    assert at.to_utc_datetime() == datetime(2024, 2, 29, 12, 30, 0, 250000)
    assert at.to_utc_datetime(has_tz=True) == datetime(2024, 2, 29, 12, 30, 0, 250000, timezone.utc)
    assert Timestamp.from_utc_datetime(at.to_utc_datetime(has_tz=True)) == at
    with pytest.raises(TimeError, match="9999"):
        MAX_TIMESTAMP.to_utc_datetime()


def test_now_is_the_clock():
    before = datetime.now(timezone.utc)
    now = Timestamp.now().to_utc_datetime(has_tz=True)
    assert before <= now <= datetime.now(timezone.utc)


def test_whole_seconds_are_rounded_down():
    assert Timestamp(micros=-1).seconds() == int(Timestamp(micros=-1)) == -1
    assert Timestamp(1.9).seconds() == int(Duration(1.9)) == 1
    assert float(Timestamp(1.5)) == float(Duration(1.5)) == 1.5


@pytest.mark.parametrize("kind", [Timestamp, Duration])
def test_equals_and_hashes_like_the_number_of_seconds(kind):
    for number in (0, 5, -5, 0.5, 0.1, -0.000001, 1700000000.123456, 2**33 + 0.5, numpy.int64(7)):
        assert kind(number) == number
        assert hash(kind(number)) == hash(number)
        assert {number: "found"}[kind(number)] == "found"
    assert kind(5) != 5.5
    assert kind(5) != "5"
    assert kind(5) != float("nan")
    assert kind(micros=1) != 0


def test_a_timestamp_is_no_duration():
    assert Timestamp(5) != Duration(5)
    with pytest.raises(TypeError):
        Timestamp(5) < Duration(6)  # noqa: B015
    with pytest.raises(TypeError):
        Timestamp(5) < "6"  # noqa: B015


@pytest.mark.parametrize("kind", [Timestamp, Duration])
def test_order(kind):
    low, high = kind(micros=1), kind(micros=2)
    assert low < high
    assert low <= high
    assert low <= kind(micros=1)
    assert high > low
    assert high >= low
    assert not low > high
    assert not high < low
    assert kind(5) < 6
    assert kind(5) <= 5.0
    assert 4 < kind(5)  # noqa: SIM300
    assert kind(5) > 4.5
    assert kind(5) >= 5
    assert kind(5) < float("inf")
    assert sorted([high, low]) == [low, high]


def test_arithmetic_of_timestamps():
    assert Timestamp(5) + 1 == 1 + Timestamp(5) == Timestamp(6)
    assert Timestamp(5) + 0.5 == Timestamp(5.5)
    assert Timestamp(5) + Duration(2) == Duration(2) + Timestamp(5) == Timestamp(7)
    assert Timestamp(5) + timedelta(seconds=2) == timedelta(seconds=2) + Timestamp(5) == Timestamp(7)
    assert Timestamp(5) - 2 == Timestamp(3)
    difference = Timestamp(5) - Timestamp(7)
    assert type(difference) is Duration
    assert difference == -2
    assert type(Timestamp(5) - Duration(1)) is Timestamp
    assert Timestamp(-3) % 10 == Duration(7)
    assert type(Timestamp(-3) % Duration(10)) is Duration
    assert Timestamp(5).successor().predecessor() == Timestamp(5)
    assert Timestamp(5).successor().micros == 5_000_001
    with pytest.raises(TypeError):
        Timestamp(1) + Timestamp(2)
    with pytest.raises(TypeError):
        5 - Timestamp(2)  # type: ignore[operator]


def test_arithmetic_of_durations():
    assert Duration(1) + 2 == 2 + Duration(1) == Duration(3)
    assert Duration(1) - 2 == Duration(-1)
    assert 5 - Duration(2) == timedelta(seconds=5) - Duration(2) == Duration(3)
    assert Duration(2) * 3 == 3 * Duration(2) == Duration(6)
    assert Duration(2) * 0.25 == Duration(0.5)
    assert Duration(7) // Duration(2) == 3
    assert Duration(7) // 2 == Duration(3.5)
    assert Duration(-1) % 10 == Duration(9)
    assert -Duration(2) == abs(Duration(2)) * -1 == Duration(-2)
    with pytest.raises(TypeError):
        Duration(2) * Duration(3)
    with pytest.raises(ZeroDivisionError):
        Duration(2) % 0


@pytest.mark.parametrize(
    ("span", "micros"),
    [
        (Duration(3), 3_000_000),
        (90, 90_000_000),
        (0.5, 500_000),
        (Decimal("0.1"), 100_000),
        (timedelta(days=1, microseconds=1), 86_400_000_001),
        ("10 seconds", 10_000_000),
        ("1 minute", 60_000_000),
        ("1h", 3_600_000_000),
        ("1h30m", 5_400_000_000),
        ("90 s", 90_000_000),
        ("1 day 2 hours", 93_600_000_000),
        (" 1.5 Hours ", 5_400_000_000),
        ("2 weeks", 1_209_600_000_000),
        ("250ms 7us", 250_007),
    ],
)
def test_duration_of(span, micros):
    assert Duration.of(span).micros == micros


@pytest.mark.parametrize("text", ["", " ", "10", "seconds", "1 month", "1 hour x", "-1 hour", "1 2 hours"])
def test_duration_of_refuses_other_texts(text):
    with pytest.raises(TimeError, match="is not a duration"):
        Duration.of(text)


def test_repr():
    assert repr(Timestamp(5)) == "Timestamp(5)"
    assert repr(Timestamp(5.000001)) == "Timestamp(5.000001)"
    assert repr(Timestamp(-0.5)) == "Timestamp(-0.5)"
    assert repr(Duration(micros=-1)) == "Duration(-0.000001)"


@pytest.mark.parametrize("value", [Timestamp(5.5), Duration(-5.5), MAX_TIMESTAMP, MIN_TIMESTAMP])
def test_copies_and_pickles(value):
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy([value])[0]):
        assert type(other) is type(value)
        assert other == value


@pytest.mark.parametrize("value", [Timestamp(0), Duration(0)])
def test_cannot_be_changed_and_is_always_true(value):
    with pytest.raises(AttributeError):
        value.micros = 5
    with pytest.raises(AttributeError):
        del value.micros
    with pytest.raises(AttributeError):
        value.other = 5
    assert bool(value) is True
