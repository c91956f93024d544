"""Columns of every common type go through a step as key, as value, and out again."""

from __future__ import annotations

import datetime
import decimal

import pytest

import holdfast as hf
from integration.functions import Count, Echo

UTC = datetime.timezone.utc

# Type, two different values, and how Python sees them (None: as they are).
TYPES = [
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
VALUE_ONLY = [
    ("map<string,int>", {"a": 1}, {}),
    ("array<struct<x:int,m:map<string,double>>>", [(1, {"a": 0.5})], [(2, None)]),
]


def rows_of(spark, ddl, *rows):
    """A batch DataFrame, and what is in it as Spark gives it back."""
    return spark.createDataFrame(list(rows), ddl)


@pytest.mark.parametrize(("kind", "one", "other"), TYPES, ids=[kind for kind, *_ in TYPES])
def test_as_key(spark, kind, one, other):
    df = rows_of(spark, f"k {kind}, v int", (one, 1), (other, 1), (one, 1))
    counts = hf.keyed(df, key="k", value="v").par_do(Count(), output=f"k {kind}, n int")
    expected = df.groupBy("k").count().withColumnRenamed("count", "n")
    latest = counts.groupBy("k").agg({"n": "max"}).withColumnRenamed("max(n)", "n")
    assert sorted(latest.collect(), key=str) == sorted(expected.selectExpr("k", "cast(n as int) n").collect(), key=str)


@pytest.mark.parametrize(("kind", "one", "other"), TYPES + VALUE_ONLY, ids=[kind for kind, *_ in TYPES + VALUE_ONLY])
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
