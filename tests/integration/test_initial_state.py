"""A new job that begins with state from a DataFrame."""

from __future__ import annotations

import datetime

import pytest

import holdfast as hf
from holdfast.errors import HoldfastError, InvalidStep


class Everything(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    SEEN = hf.BagStateSpec("seen")
    KINDS = hf.SetStateSpec("kinds")
    BY_KIND = hf.MapStateSpec("by_kind", hf.StrUtf8Coder(), hf.VarIntCoder())
    TIMES = hf.OrderedListStateSpec("times", hf.VarIntCoder())
    TOTAL = hf.CombiningValueStateSpec("total", sum)

    def process(
        self,
        element,
        count=hf.DoFn.StateParam(COUNT),
        seen=hf.DoFn.StateParam(SEEN),
        kinds=hf.DoFn.StateParam(KINDS),
        by_kind=hf.DoFn.StateParam(BY_KIND),
        times=hf.DoFn.StateParam(TIMES),
        total=hf.DoFn.StateParam(TOTAL),
    ):
        key, amount = element
        total.add(amount)
        told = (sorted(seen.read()), sorted(kinds.read()), dict(by_kind.items()))
        when = [(time.micros // 1_000_000, value) for time, value in times.read()]
        yield key, f"{count.read()} {told} {when} {total.read()}"


class Ending(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)

    def on_window_expiration(self, key=hf.DoFn.KeyParam, count=hf.DoFn.StateParam(COUNT)):
        yield key, str(count.read())


def second(number):
    return datetime.datetime.fromtimestamp(number, datetime.timezone.utc)


def test_every_kind_of_cell(spark, feed, run_job):
    initial = spark.createDataFrame(
        [
            ("a", 5, [1, 2], ["x"], {"x": 3}, [(second(20), 2), (second(10), 1)], 100),
            ("b", None, [], None, None, None, None),
        ],
        "card string, count long, seen array<long>, kinds array<string>, by_kind map<string, long>, "
        "times array<struct<time: timestamp, value: long>>, total long",
    )
    stream = feed("card string, amount long")
    keyed = hf.keyed(stream.df, key="card", value="amount")
    result = keyed.par_do(Everything(), "card string, told string", initial_state=initial, key_groups=3)
    stream.add({"card": "a", "amount": 1}, {"card": "b", "amount": 1}, {"card": "c", "amount": 1})
    nothing = "None ([], [], {}) [] 1"
    (rows,) = run_job(result)
    assert sorted(map(tuple, rows)) == [
        ("a", "5 ([1, 2], ['x'], {'x': 3}) [(10, 1), (20, 2)] 101"),
        ("b", nothing),
        ("c", nothing),
    ]

    # The second start has state, and looks at no DataFrame any more.
    stream.add({"card": "a", "amount": 1})
    (rows,) = run_job(result)
    assert [tuple(row) for row in rows] == [("a", "5 ([1, 2], ['x'], {'x': 3}) [(10, 1), (20, 2)] 102")]


@pytest.mark.night
def test_a_window_ends_for_a_key_that_only_the_initial_state_has(spark, feed, run_job):
    initial = spark.createDataFrame(
        [("quiet", (second(0), second(60)), 7)], "card string, window struct<start: timestamp, end: timestamp>, count long"
    )
    stream = feed("card string, at timestamp")
    keyed = hf.keyed(stream.df, key="card", value="card", timestamp="at", watermark="0 seconds")
    result = keyed.window_into(hf.FixedWindows(60)).par_do(Ending(), "card string, told string", initial_state=initial)
    stream.add({"card": "loud", "at": second(30)})
    stream.add({"card": "loud", "at": second(130)})
    (rows,) = run_job(result)
    assert sorted(map(tuple, rows)) == [("loud", "1"), ("quiet", "7")]


def test_what_cannot_be_begun_with(spark, feed):
    stream = feed("card string, amount long")
    keyed = hf.keyed(stream.df, key="card", value="amount")
    initial = spark.createDataFrame([(1, 2)], "card long, nothing long")
    with pytest.raises(InvalidStep) as refused:
        keyed.par_do(Everything(), "card string, told string", initial_state=initial)
    assert refused.match("must have the key's column 'card' as string; it is bigint")
    assert refused.match("a column 'nothing', but the step has no such cell")


@pytest.mark.night
def test_two_rows_of_one_key(spark, feed, run_job):
    stream = feed("card string, amount long")
    keyed = hf.keyed(stream.df, key="card", value="amount")
    initial = spark.createDataFrame([("a", 1), ("a", 2)], "card string, count long")
    result = keyed.par_do(Everything(), "card string, told string", initial_state=initial)
    stream.add({"card": "a", "amount": 1})
    with pytest.raises(HoldfastError, match="The key 'a' has two rows in initial_state"):
        run_job(result)
