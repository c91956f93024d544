"""The decoding stage on Arrow data: each record once, in order, as a row or as a dead letter."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from holdfast.errors import InputError, InvalidStep
from holdfast.spark.sources.decoding import DecodingPlan, decoding_stage
from holdfast.spark.sources.event_time import EventTime
from holdfast.spark.sources.formats import Json, Raw

UTC = datetime.timezone.utc
NOW = datetime.datetime(2026, 3, 1, tzinfo=UTC)
VALUE = t.StructType([t.StructField("card", t.StringType(), False), t.StructField("at", t.TimestampType())])
LETTER = t.StructType([t.StructField("offset", t.LongType()), t.StructField("key", t.BinaryType()),
                       t.StructField("value", t.BinaryType()), t.StructField("reason", t.StringType())])  # fmt: skip


def plan(**change):
    options = {
        "source": "the topic 'payments'",
        "format": Json(VALUE),
        "value": VALUE,
        "kept": (("key", t.StructField("key", t.StringType())), ("offset", t.StructField("place", t.LongType()))),
        "text_key": True,
        "letter": LETTER,
        "zone": "UTC",
        "on_malformed": "dead_letter",
        "tombstones": "malformed",
        "event_time": None,
    }
    return DecodingPlan(**{**options, **change})


def batch(*values, keys=None):
    numbers = range(len(values))
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(numbers, pa.int64()),
            "key": pa.array(keys or [str(number).encode() for number in numbers], pa.binary()),
            "now": pa.array([NOW] * len(values), pa.timestamp("us", "UTC")),
        }
    )


def told(plan, *batches):
    """The cards in `main` with their places, and the places of the letters with their reasons."""
    made = pa.Table.from_batches([*decoding_stage(plan)(iter(batches))])
    mains, letters = (made.column(name).to_pylist() for name in ("main", "letter"))
    assert all((row is None) is not (letter is None) for row, letter in zip(mains, letters, strict=True))
    return [row for row in mains if row is not None], [letter for letter in letters if letter is not None]


def test_each_is_a_row_or_a_letter():
    given = batch(b'{"card":"a"}', b"{}", None, b'{"card":"b","at":"2026-01-01T00:00:00Z"}', b"\xff")
    rows, letters = told(plan(), given, batch(b'{"card":"c"}'))
    assert [(row["card"], row["key"], row["place"]) for row in rows] == [("a", "0", 0), ("b", "3", 3), ("c", "0", 0)]
    assert [(letter["offset"], letter["key"], letter["value"]) for letter in letters] == [
        (1, b"1", b"{}"), (2, b"2", None), (4, b"4", b"\xff")
    ]  # fmt: skip
    assert [letter["reason"].split(":")[0] for letter in letters] == [
        "Object missing required field `card`", "without a value (a tombstone)", "not UTF-8"
    ]  # fmt: skip


def test_nothing_of_a_row_goes_back_as_a_letter():
    [made] = decoding_stage(plan())(iter([batch(b'{"card":"a"}')]))
    assert made.column("letter").flatten()[2].null_count == 1


def test_an_empty_batch():
    [made] = decoding_stage(plan(event_time=EventTime("at")))(iter([batch()]))
    assert made.num_rows == 0


def test_a_key_that_is_no_text():
    rows, letters = told(plan(), batch(b'{"card":"a"}', b'{"card":"b"}', b'{"card":"c"}', keys=[b"\xfe", None, b"k"]))
    assert [(row["card"], row["key"]) for row in rows] == [("b", None), ("c", "k")]
    assert [letter["reason"] for letter in letters] == ["the key is not UTF-8: invalid start byte at byte 0"]


def test_tombstones_as_rows():
    nullable = t.StructType([t.StructField(field.name, field.dataType) for field in VALUE.fields])
    rows, letters = told(plan(tombstones="rows", value=nullable), batch(None, b'{"card":"a"}'))
    assert [(row["card"], row["place"]) for row in rows] == [(None, 0), ("a", 1)]
    assert letters == []


def test_times_that_can_be():
    event_time = EventTime("at", earliest="2020-01-01", ahead="1 day")
    times = ["2020-01-01T00:00:00Z", "2019-12-31T23:59:59.999999Z", "2026-03-02T00:00:00Z", "2026-03-02T00:00:00.000001Z",
             "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]  # fmt: skip
    given = [f'{{"card":"{number}","at":"{time}"}}'.encode() for number, time in enumerate(times)]
    rows, letters = told(plan(event_time=event_time), batch(*given, b'{"card":"6"}'))
    assert [row["card"] for row in rows] == ["0", "2"]
    early, late = "Event time before 2020-01-01 - at `$.at`", "Event time later than 1 day from now - at `$.at`"
    assert [letter["reason"] for letter in letters] == [early, late, early, late, "without an event time - at `$.at`"]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-01:00"])
def test_times_that_no_timestamp_has(time):
    rows, letters = told(plan(), batch(f'{{"card":"a","at":"{time}"}}'.encode(), b'{"card":"b"}'))
    assert [row["card"] for row in rows] == ["b"]
    assert [letter["reason"] for letter in letters] == ["Time not in the years 1 to 9999 - at `$.at`"]


def test_bytes_as_they_are_with_an_event_time():
    value = t.StructType([t.StructField("value", t.BinaryType())])
    kept = (("now", t.StructField("at", t.TimestampType())),)
    given = plan(format=Raw(), value=value, kept=kept, text_key=False, event_time=EventTime("at", ahead="0 seconds"))
    rows, letters = told(given, batch(b"\xff", None))
    assert ([row["value"] for row in rows], letters) == ([b"\xff", None], [])


def test_it_fails_if_that_was_asked_for():
    failing = plan(on_malformed="fail")
    [made] = decoding_stage(failing)(iter([batch(b'{"card":"a"}')]))
    assert made.to_pylist() == [{"card": "a", "at": None, "key": "0", "place": 0}]
    with pytest.raises(InputError, match="A record of the topic 'payments' is malformed: Object missing required") as raised:
        list(decoding_stage(failing)(iter([batch(b'{"card":"a"}', b"{}")])))
    assert raised.value.detail == "offset 1"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: EventTime(""), "give the name of a column"),
        (lambda: EventTime("at", earliest="yesterday"), "earliest is 'yesterday'"),
        (lambda: EventTime("at", ahead="-1 day"), "ahead is '-1 day'"),
        (lambda: EventTime("at", ahead="soon"), "ahead is 'soon'"),
    ],
)
def test_event_times_that_cannot_be_made(make, problem):
    with pytest.raises(InvalidStep, match=problem):
        make()
