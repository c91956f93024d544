"""Sinks that upsert, beside a dict: whatever comes, and however often, each key has its newest row. Without Spark."""

from __future__ import annotations

import datetime
import json
import math
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiers import examples

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import Row

from holdfast.spark.sinks import BatchInfo, Collect, DuckDB, Sqlite, Upsert

SETTINGS = settings(max_examples=examples(100), deadline=None)
COLUMNS = ("card", "window", "n")
UTC = datetime.timezone.utc

WINDOWS = st.integers(0, 2).map(lambda hour: {"start": datetime.datetime(2024, 1, 1, hour, tzinfo=UTC), "place": None})
ROWS = st.lists(st.tuples(st.sampled_from(["a", "A", "b", "", "NaN"]), WINDOWS, st.none() | st.integers(-5, 5)), max_size=12)
BATCHES = st.lists(st.tuples(ROWS, st.integers(1, 2)), max_size=6)
"""Micro-batches, and how often each comes."""

SCHEMA = pa.schema(
    [
        ("card", pa.string()),
        ("window", pa.struct([("start", pa.timestamp("us", tz="UTC")), ("place", pa.string())])),
        ("n", pa.int64()),
    ]
)


class Rows:
    """What a sink needs of a DataFrame."""

    def __init__(self, rows, schema=SCHEMA):
        self._rows = [dict(zip(schema.names, row, strict=True)) for row in rows]
        self._schema = schema

    def toArrow(self):
        return pa.Table.from_pylist(self._rows, self._schema)

    def collect(self):
        return [Row(**row) for row in self._rows]


def oracle(batches, key_of):
    """In a dict, by key."""
    newest = {}
    for rows, _ in batches:
        for row in rows:
            newest[key_of(row)] = row
    return newest


def by_card(row):
    return row[0]


def by_card_and_window(row):
    return row[0], row[1]["start"]


KEYS = [(("card",), by_card), (("card", "window"), by_card_and_window), (("window", "card"), by_card_and_window)]


IN_DATABASES = [pytest.param(*KEYS[0], marks=pytest.mark.night), KEYS[1], pytest.param(*KEYS[2], marks=pytest.mark.night)]


@pytest.mark.parametrize(("key", "key_of"), KEYS)
@SETTINGS
@given(batches=BATCHES)
def test_a_table_of_sqlite_has_what_a_dict_has(key, key_of, batches):
    with tempfile.TemporaryDirectory() as folder:
        write_all(Sqlite(Path(folder, "rows.db"), "counts").upserting(Upsert(key)), batches)
        held = table_rows(Path(folder, "rows.db")) if batches else []
    assert_same(held, oracle(batches, key_of))


@pytest.mark.slow
@pytest.mark.parametrize(("key", "key_of"), IN_DATABASES)
@settings(SETTINGS, max_examples=examples(20))
@given(batches=BATCHES)
def test_a_table_of_duckdb_has_what_a_dict_has(key, key_of, batches):
    duckdb = pytest.importorskip("duckdb")
    with tempfile.TemporaryDirectory() as folder:
        write_all(DuckDB(Path(folder, "rows.db"), "counts").upserting(Upsert(key)), batches)
        with duckdb.connect(str(Path(folder, "rows.db"))) as database:
            held = database.sql('SELECT card, "window", n FROM counts').fetchall() if batches else []
    assert_same(held, oracle(batches, key_of))


@pytest.mark.slow
@pytest.mark.parametrize(("key", "key_of"), IN_DATABASES)
@settings(SETTINGS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES)
def test_a_table_of_postgres_has_what_a_dict_has(postgres, key, key_of, batches):
    postgres.execute(*(f"DROP TABLE IF EXISTS {table}" for table in ("counts", "holdfast_batches", "holdfast_upserts")))
    write_all(postgres.sink().upserting(Upsert(key)), batches)
    held = postgres.execute('SELECT card, "window", n FROM counts') if batches else []
    assert_same(held, oracle(batches, key_of))


def write_all(sink, batches):
    for number, (rows, times) in enumerate(batches):
        for _ in range(times):
            sink.write_batch(Rows(rows), BatchInfo("q", number, f"plan {number}"))


def assert_same(held, wanted):
    """Whatever form a database has for a window."""
    assert sorted(((card, start_of(window), n) for card, window, n in held), key=repr) == sorted(
        ((card, start_of(window), n) for card, window, n in wanted.values()), key=repr
    )


def start_of(window):
    held = json.loads(window) if isinstance(window, str) else window
    assert held["place"] is None
    start = held["start"]
    return (datetime.datetime.fromisoformat(start) if isinstance(start, str) else start).astimezone(UTC)


def table_rows(path):
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT card, window, n FROM counts").fetchall()


@pytest.mark.parametrize(("key", "key_of"), KEYS)
@SETTINGS
@given(batches=BATCHES)
def test_a_list_has_what_a_dict_has(key, key_of, batches):
    sink = Collect()
    upserting = sink.upserting(Upsert(key))
    for number, (rows, times) in enumerate(batches):
        for _ in range(times):
            upserting.write_batch(Rows(rows), BatchInfo("q", number))
    assert {key_of(row): tuple(row) for row in sink.rows} == oracle(batches, key_of)
    assert len(sink.rows) == len(oracle(batches, key_of))


@SETTINGS
@given(batches=st.lists(ROWS, min_size=1, max_size=6), data=st.data())
def test_a_list_goes_back_with_its_checkpoint(batches, data):
    """Old values return, also those that had been replaced."""
    back_to = data.draw(st.integers(0, len(batches) - 1))
    sink = Collect().upserting(Upsert(("card",)))
    for number, rows in enumerate(batches):
        sink.write_batch(Rows(rows), BatchInfo("q", number, "plan"))
    again = data.draw(ROWS)
    sink.write_batch(Rows(again), BatchInfo("q", back_to, "another plan"))
    remaining = [(rows, 1) for rows in [*batches[:back_to], again]]
    assert {row.card: tuple(row) for row in sink.rows} == oracle(remaining, by_card)


@SETTINGS
@given(rows=ROWS)
def test_the_newest_rows_of_a_table(rows):
    newest = Upsert(("window", "card")).newest(Rows(rows).toArrow()).to_pylist()
    wanted = oracle([(rows, 1)], by_card_and_window)
    assert [tuple(row.values()) for row in newest] == sorted(wanted.values(), key=lambda row: last_place(rows, row))


def last_place(rows, row):
    return max(place for place, other in enumerate(rows) if by_card_and_window(other) == by_card_and_window(row))


@SETTINGS
@given(st.lists(st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan]), min_size=1, max_size=8))
def test_floats_are_the_keys_that_spark_takes_them_for(keys):
    """0.0 and -0.0 are one key, NaN is another."""
    schema = pa.schema([("k", pa.float64()), ("n", pa.int64())])
    rows = [(key, number) for number, key in enumerate(keys)]
    wanted = sorted({"NaN" if math.isnan(key) else key + 0.0: number for key, number in rows}.values())
    with tempfile.TemporaryDirectory() as folder:
        Sqlite(Path(folder, "rows.db"), "t").upserting(Upsert(("k",))).write_batch(Rows(rows, schema), BatchInfo("q", 0))
        with closing(sqlite3.connect(Path(folder, "rows.db"))) as database:
            assert sorted(n for (n,) in database.execute("SELECT n FROM t")) == wanted
    held = Collect()
    held.upserting(Upsert(("k",))).write_batch(Rows(rows, schema), BatchInfo("q", 0))
    assert sorted(row.n for row in held.rows) == wanted


@pytest.mark.slow
@settings(SETTINGS, max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan]), min_size=1, max_size=8))
def test_floats_are_the_same_keys_in_databases(postgres, keys):
    """Each in a micro-batch of its own, so that the database alone says which are the same."""
    schema = pa.schema([("k", pa.float64()), ("n", pa.int64())])
    wanted = sorted({"NaN" if math.isnan(key) else key + 0.0: number for number, key in enumerate(keys)}.values())
    postgres.execute(*(f"DROP TABLE IF EXISTS {table}" for table in ("counts", "holdfast_batches", "holdfast_upserts")))
    sink = postgres.sink().upserting(Upsert(("k",)))
    for number, key in enumerate(keys):
        sink.write_batch(Rows([(key, number)], schema), BatchInfo("q", number))
    assert sorted(n for (n,) in postgres.execute("SELECT n FROM counts")) == wanted
