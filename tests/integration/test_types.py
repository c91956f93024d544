"""Columns of every common type go through a step as key, as value, and out again."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

import pytest

import holdfast as hf
from holdfast.spark.steps.lineage import analyzed
from integration.functions import Count, Echo, Yields

UTC = datetime.timezone.utc

# Type, two different values, and how Python sees them (None: as they are).
TYPES: list[Any] = [
    ("string", "a", "ü"),
    ("tinyint", 1, -1),
    ("smallint", 300, -300),
    ("int", 70_000, -1),
    ("bigint", 2**60 + 1, -(2**62)),
    ("float", 0.5, -1.5),
    ("double", 0.1, 1e300),
    ("decimal(20,4)", decimal.Decimal("12345678901234.5678"), decimal.Decimal("-1.0000")),
    ("boolean", True, False),
    ("binary", b"\x00\xff", b""),
    ("date", datetime.date(2024, 2, 29), datetime.date(1900, 1, 1)),
    ("timestamp", datetime.datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC), datetime.datetime(1950, 1, 1, tzinfo=UTC)),
    ("timestamp_ntz", datetime.datetime(2024, 2, 29, 1, 2, 3), datetime.datetime(1950, 1, 1)),
    ("array<int>", [1, 2], []),
    ("struct<x:int,y:string>", (1, "a"), (2, None)),
]
BY_DAY = ("string", "bigint", "decimal(20,4)", "timestamp", "struct<x:int,y:string>")
VALUE_ONLY: list[Any] = [
    ("map<string,int>", {"a": 1}, {}),
    ("array<struct<x:int,m:map<string,double>>>", [(1, {"a": 0.5})], [(2, None)]),
]


def each(types):
    """A test for each; for most of them at night."""
    return [pytest.param(*one, id=one[0], marks=[pytest.mark.night] * (one[0] not in BY_DAY)) for one in types]


def rows_of(spark, ddl, *rows):
    """A batch DataFrame, and what is in it as Spark gives it back."""
    return spark.createDataFrame(list(rows), ddl)


@pytest.mark.parametrize(("kind", "one", "other"), each(TYPES))
def test_as_key(spark, kind, one, other):
    df = rows_of(spark, f"k {kind}, v int", (one, 1), (other, 1), (one, 1))
    counts = hf.keyed(df, key="k", value="v").par_do(Count(), output=f"k {kind}, n int")
    expected = df.groupBy("k").count().withColumnRenamed("count", "n")
    latest = counts.groupBy("k").agg({"n": "max"}).withColumnRenamed("max(n)", "n")
    assert sorted(latest.collect(), key=str) == sorted(expected.selectExpr("k", "cast(n as int) n").collect(), key=str)


@pytest.mark.parametrize(("kind", "one", "other"), each(TYPES + VALUE_ONLY))
def test_as_value_and_output(spark, kind, one, other):
    df = rows_of(spark, f"k string, v {kind}", ("a", one), ("a", other), ("a", None), ("b", one))
    echoed = hf.keyed(df, key="k", value="v").par_do(Echo(), output=f"k string, v {kind}, again boolean")
    assert sorted(echoed.select("k", "v").collect(), key=str) == sorted(df.collect(), key=str)
    assert echoed.where("again").count() in (1, 2)


def test_several_columns_are_a_tuple_and_a_named_row(spark):
    df = rows_of(spark, "a string, b int, x double, y string", ("p", 1, 0.5, "u"), ("p", 2, 1.5, None), ("p", 1, 2.5, "w"))
    counts = hf.keyed(df, key=["a", "b"]).par_do(Count(), output="k struct<a:string,b:int>, n int")
    assert sorted((row.k.a, row.k.b, row.n) for row in counts.collect()) == [("p", 1, 1), ("p", 1, 2), ("p", 2, 1)]
    rows = hf.keyed(df, key="a").par_do(Fields(), output="s string")
    assert sorted(row.s for row in rows.collect()) == ["1 0.5 u", "1 2.5 w", "2 1.5 None"]


class Fields(hf.DoFn):
    def process(self, element):
        row = element[1]
        yield f"{row.b} {row.x} {row.y}"


def test_floats_that_are_equal_are_one_key(spark):
    df = rows_of(spark, "k double, v int", (0.0, 1), (-0.0, 1), (float("nan"), 1), (float("nan"), 1))
    counts = hf.keyed(df, key="k", value="v").par_do(Count(), output="k double, n int")
    assert sorted(row.n for row in counts.collect()) == [1, 1, 2, 2]


NESTED = [
    ("struct<x:int,y:string>", (1, "a"), (2, None)),
    ("array<struct<x:int,m:map<string,double>>>", [(1, {"a": 0.5}), None], [(2, None)]),
    ("map<string,struct<x:array<struct<y:int>>>>", {"a": ([(1,), None],), "b": None}, {}),
]


@pytest.mark.parametrize(("kind", "one", "other"), NESTED, ids=[kind for kind, *_ in NESTED])
@pytest.mark.parametrize("named", [False, True])
def test_structs_that_are_held_back(spark, kind, one, other, named):
    """Where elements wait or are listed, they are stored, and come back with their names."""
    rows = [("a", 2, other), ("a", 1, one), ("a", 3, None)]
    df = rows_of(spark, f"k string, n int, v {kind}", *rows).selectExpr("k", "timestamp_seconds(n) at", "v")
    stream = hf.keyed(df, key="k", value=["v"] if named else "v", timestamp="at")
    fn = EchoNamed() if named else Echo()
    sorted_by_time = stream.par_do(fn, output=f"k string, v {kind}, again boolean", requires_time_sorted_input=True)
    in_order = [row.v for row in df.orderBy("at").collect()]
    assert [row.v for row in sorted_by_time.collect()] == in_order
    [listed] = stream.group_by_key().collect()
    assert sorted((value.v if named else value for value in listed["values"]), key=str) == sorted(in_order, key=str)


class EchoNamed(hf.DoFn):
    def process(self, element):
        key, row = element
        yield key, row.v, False


# What a number or another near miss would silently have become, by the type of the column.
NEAR_MISSES = [
    ("bigint", 5.7, "round it"),
    ("int", 2**40, "it takes whole numbers from -2147483648 to 2147483647"),
    ("date", 19_000, "could be days, seconds or a year"),
    ("date", datetime.datetime(2024, 2, 29, 5), "would lose its time of day"),
    ("timestamp", 1_700_000_000_000, "divide milliseconds by 1000"),
    ("timestamp", datetime.datetime(2024, 2, 29), "give it its time zone"),
    ("timestamp_ntz", datetime.datetime(2024, 2, 29, tzinfo=UTC), "say what the clock shows"),
    ("interval day to second", "1 day", "hf.Duration.of(text)"),
    ("decimal(5,2)", decimal.Decimal("1.555"), "round it"),
    ("array<int>", b"ab", "it takes lists"),
    ("array<struct<x:bigint>>", [{"x": 1.5}], "v[0].x is 1.5 (a float)"),
    ("struct<x:int,y:int>", {"x": 1, "z": 2}, "it has z, which the schema does not"),
]


def test_what_does_not_fit_stops_the_query_and_is_named(spark):
    df = rows_of(spark, "k string, v int", ("a", 0))
    columns = ", ".join(f"v{place} {kind}" for place, (kind, _, _) in enumerate(NEAR_MISSES))
    given = tuple(value for _, value, _ in NEAR_MISSES)
    with pytest.raises(Exception, match="does not fit its schema") as refused:
        hf.keyed(df, key="k", value="v").par_do(Row(given), output=columns).collect()
    for place, (_, _, says) in enumerate(NEAR_MISSES):
        assert f"v{place}" in str(refused.value)
        assert says.replace("v[0]", f"v{place}[0]") in str(refused.value)


class Row(hf.DoFn):
    def __init__(self, row):
        self._row = row

    def process(self, element):
        yield self._row


# Values that convert, by a rule, without loss.
CONVERSIONS = [
    ("timestamp", 5, "1970-01-01 00:00:05"),
    ("timestamp", 5.5, "1970-01-01 00:00:05.5"),
    ("timestamp", hf.Timestamp(5, 5), "1970-01-01 00:00:05.000005"),
    ("timestamp_ntz", hf.Timestamp(5, 5), "1970-01-01 00:00:05.000005"),
    ("interval day to second", 90, "INTERVAL '0 00:01:30' DAY TO SECOND"),
    ("interval day to second", hf.Duration(0.5), "INTERVAL '0 00:00:00.5' DAY TO SECOND"),
    ("double", 3, "3.0"),
    ("decimal(5,2)", 3, "3.00"),
    ("array<bigint>", (1, None, 3), "[1, null, 3]"),
    ("map<string,timestamp>", {"a": 5, "b": None}, "{a -> 1970-01-01 00:00:05, b -> null}"),
    ("struct<x:int,y:array<date>>", {"y": [datetime.date(2024, 2, 29)], "x": 1}, "{1, [2024-02-29]}"),
]


def test_what_converts_on_spark(spark):
    df = rows_of(spark, "k string, v int", ("a", 0))
    columns = ", ".join(f"v{place} {kind}" for place, (kind, _, _) in enumerate(CONVERSIONS))
    rows = hf.keyed(df, key="k", value="v").par_do(Row(tuple(value for _, value, _ in CONVERSIONS)), output=columns)
    [row] = rows.selectExpr(*(f"cast({name} as string) {name}" for name in rows.columns)).collect()
    assert list(row) == [text for _, _, text in CONVERSIONS]


@pytest.mark.night
def test_the_milliseconds_of_a_group_are_no_timestamp(feed, run_job):
    """They must not become a day in January 1970; `getCurrentProcessingTime` is for that."""
    source = feed("k string, v int")
    source.add({"k": "a", "v": 1})

    def latest(key, values, state):
        yield key, state.getCurrentProcessingTimeMs()

    stream = hf.keyed(source.df, key="k", value="v")
    with pytest.raises(hf.OutputError, match="not between the years 1 and 9999") as refused:
        run_job(stream.flat_map_groups_with_state(latest, "k string, at timestamp"))
    assert "divide milliseconds by 1000" in str(refused.value)


def test_what_does_not_fit_is_a_dead_letter_where_there_are_some(feed, run_job):
    given = {1: 10, 2: 5.7, 3: "text", 4: 11}
    source = feed("k string, v int")
    source.add(*({"k": "a", "v": v} for v in given))

    def outputs():
        stream = hf.keyed(source.df, key="k", value="v")
        return stream.par_do(
            Yields(given), output="k string, n int, v bigint", on_error="dead_letter", outputs={"dead_letter": None}
        )

    made = outputs()
    good, dead = run_job(made.main, made.dead_letter)
    # The calls that gave what does not fit have not counted: their state is undone.
    assert sorted(map(tuple, good)) == [("a", 1, 10), ("a", 2, 11)]
    assert sorted((row.v, row.error.split(":")[0]) for row in dead) == [(2, "OutputError"), (3, "OutputError")]
    assert "the column 'v' is bigint, but 5.7 (a float) does not fit" in next(row.error for row in dead if row.v == 2)


def test_a_bundle_with_what_does_not_fit_leaves_no_state(feed, run_job):
    source = feed("k string, v int")
    source.add({"k": "a", "v": 1}, {"k": "a", "v": 2})
    stream = hf.keyed(source.df, key="k", value="v")
    with pytest.raises(hf.OutputError):
        run_job(stream.par_do(Yields({1: 10, 2: 5.7}), output="k string, n int, v bigint"))
    [rows] = run_job(stream.par_do(Yields({1: 10, 2: 6}), output="k string, n int, v bigint"))
    assert sorted(map(tuple, rows)) == [("a", 1, 10), ("a", 2, 6)]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("a varchar(3), b array<char(2)>", ["varchar\\(3\\), which only tables can have", "'b' is char\\(2\\)"]),
        ("a interval day", ["would hide seconds"]),
        ("a int, a int", ["two columns with the name 'a'"]),
        ("a struct<x:int,x:int>", ["The struct 'a' has two columns with the name 'x'"]),
        ("a variant, b struct<x:map<string,interval year>>", ["'a' is variant", "'b.x' is interval year"]),
    ],
)
def test_columns_that_no_output_can_have(spark, schema, says):
    df = rows_of(spark, "k string, v int", ("a", 0))
    with pytest.raises(hf.InvalidStep) as refused:
        hf.keyed(df, key="k", value="v").par_do(Count(), output=schema)
    for text in says:
        assert re.search(text, str(refused.value))


class Times(hf.DoFn):
    def process(self, element, at=hf.DoFn.TimestampParam, known=None):
        yield at, known[0] == element[1], str(known[1])


def test_times_mean_the_same_on_every_way_in(spark):
    """Whatever the zone of the session: as event time, as value, as side input, and out again."""
    text = "2024-07-01 12:00:00"
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        df = spark.sql(f"SELECT 'a' k, timestamp '{text}Z' at, timestamp_ntz '{text}' wall")
        known = hf.AsSingleton(df.selectExpr("at", "wall"))
        for when in ("at", "wall"):
            rows = hf.keyed(df, key="k", value="at", timestamp=when).par_do(
                Times(), output="t timestamp, same boolean, wall string", side_inputs={"known": known}
            )
            [row] = rows.selectExpr("unix_micros(t) t", "same", "wall").collect()
            assert (row.t, row.same, row.wall) == (1_719_835_200_000_000, True, text)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_join_gives_back_the_times_it_got(spark):
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        left = spark.sql("SELECT 'a' k, timestamp_ntz '2024-07-01 12:00:00.000001' at, 1 v")
        right = spark.sql("SELECT 'a' k, timestamp '2024-07-01 12:00:00.000002Z' seen, 2 w")
        one, other = hf.keyed(left, key="k", timestamp="at"), hf.keyed(right, key="k", timestamp="seen")
        joined = one.join(other, within="1 second").selectExpr("cast(at as string) at", "unix_micros(seen) seen", "v", "w")
        assert [tuple(row) for row in joined.collect()] == [("2024-07-01 12:00:00.000001", 1_719_835_200_000_002, 1, 2)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_watermark_is_never_less_than_was_asked_for(feed):
    stream = hf.keyed(feed("k string, at timestamp").df, key="k", timestamp="at", watermark=0.0015)
    assert "0.002 seconds" in analyzed(stream.df).toString()
