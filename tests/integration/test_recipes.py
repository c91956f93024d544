"""All recipes on Spark, in one query over one stream of rows: what comes out is what they give in memory.

There each is beside a plain model, in `property/test_recipes_*.py`. Here it is about what Spark adds: rows that are named
tuples, functions that travel, columns for what comes out.
"""

from __future__ import annotations

import functools
import json
import random
import runpy
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import holdfast as hf
from holdfast import recipes
from holdfast.testing import TestStream, run

from .conftest import Feed

START = 1_700_000_040  # a full minute
ROW = "who string, at timestamp, page string, number double, volume double, lat double, lon double, side string, rate double"
SPAN = 60
TEXTS = Path(__file__).parents[2] / "examples" / "texts"


def rows(seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    made = []
    for second in range(0, 240, 3):
        made.append(
            {
                "who": draw.choice(["ann", "bob"]),
                # No two are at the same time: on Spark, rows of a file that tie may come in either order.
                "at": second + draw.randrange(1000) / 1000,
                "page": draw.choice("abc"),
                "number": draw.choice([1.0, 2.0, 3.0, 50.0]),
                "volume": float(draw.randint(0, 4)),
                "lat": float(draw.choice([0, 0, 0, 60])),
                "lon": 10.0,
                "side": draw.choice(["row", "row", "table"]),
                "rate": draw.choice([None, 1.5, 2.5]),
            }
        )
    return made


def is_page(page: str) -> Any:
    """A row is a named tuple on Spark, and a dict in memory."""
    return lambda row: (row.page if hasattr(row, "page") else row["page"]) == page


TRANSITIONS = {("start", "a"): "second", ("second", "b"): "third", ("third", "c"): "done"}

# Each with the columns of its results after the key, which is "who".
STEPS: dict[str, tuple[Any, str]] = {
    "running count": (recipes.RunningCount(), "n long"),
    "count while active": (recipes.CountWhileActive(10), "n long"),
    "running count, columns": (recipes.RunningCountColumns("who", "n"), "n long"),
    "index, columns": (recipes.AssignIndexColumns("who", "n"), "n long, page string, number double"),
    "first, columns": (recipes.FirstOccurrenceColumns("who"), "page string, number double"),
    "index": (recipes.AssignIndex(), "n long, row struct<page: string, number: double>"),
    "first": (recipes.FirstOccurrence(), "row struct<page: string, number: double>"),
    "first within": (recipes.FirstOccurrenceWithin(20), "row struct<page: string, number: double>"),
    "count limit": (recipes.CountLimit(2), "row struct<page: string, number: double>"),
    "sliding limit": (recipes.SlidingLimit(3, 30), "row struct<page: string, number: double>"),
    "bucket": (recipes.TokenBucket(2, 15), "row struct<page: string, number: double>"),
    "batches": (recipes.GroupIntoBatches(3, max_bytes=10_000), "rows array<struct<page: string, number: double>>"),
    "trail": (recipes.ClickTrail(8, click="page"), "begin timestamp, end timestamp, pages array<string>"),
    "travel": (
        recipes.ImpossibleTravel(place="page"),
        "before string, now string, km double, seconds double",
    ),
    "velocity": (recipes.Velocity(4, 15, amount="number"), "begin timestamp, total double"),
    "anomalies": (
        recipes.Anomalies(1.0, field="number", model=recipes.Moments(warmup=3)),
        "at timestamp, score double, is_anomaly boolean",
    ),
    "sensor": (
        recipes.RollingAlert(20, above=15, below=10, field="number"),
        "word string, at timestamp, average double",
    ),
    "prices": (
        recipes.MovingPrices(30, price="number"),
        "at timestamp, mean double, weighted double, trades int",
    ),
    "features": (recipes.DecayingFeatures(30, category="page"), "at timestamp, weights map<string, double>"),
    "join": (recipes.TemporalJoin(["number", "page"], ["rate"]), "number double, page string, rate double"),
    "sequence": (
        recipes.Sequence(is_page("a"), is_page("b"), 20, unless=is_page("c")),
        "begin timestamp, one struct<page: string, number: double>, end timestamp, two struct<page: string, number: double>",
    ),
    "machine": (
        recipes.StateMachine(TRANSITIONS, "start", event="page", unexpected="ignore"),
        "before string, event string, after string",
    ),
    "vwap": (recipes.Vwap(price="number"), "vwap double"),
    "rides": (
        recipes.ZoneRides("number"),
        "rides struct<num_trips: long, revenue: double, mean_total: double, largest_total: double>",
    ),
    "tops": (recipes.TopItems(2, "page", amount="volume"), "top array<struct<item: string, total: double>>"),
}
BY_DAY = ("count while active", "index, columns", "batches", "join", "features", "machine", "rides")
"""With timers, columns, lists, sorted input, maps, states and windows; at night, and in memory, all of them."""
IN_WINDOWS = ("count limit", "vwap", "rides", "tops")
NARROW = ["page", "number"]
WIDE = [*NARROW, "volume", "lat", "lon", "side", "rate"]


def values_of(name: str) -> list[str]:
    """The columns of the values: those that come out as they came in are few."""
    fn, schema = STEPS[name]
    return NARROW if "struct<page" in schema or isinstance(fn, hf.BatchDoFn) else WIDE


def options_of(name: str, fn: hf.DoFn) -> dict[str, Any]:
    return {"requires_time_sorted_input": True} if getattr(fn, "needs_time_sorted_input", False) else {}


def batches() -> list[list[dict[str, Any]]]:
    """The rows of each micro-batch, out of order within it; the last two move the watermark over all others."""
    made = rows(7)
    half = len(made) // 2
    cut = [random.Random(1).sample(part, len(part)) for part in (made[:half], made[half:])]
    return [*cut, *([{**made[0], "who": "end", "at": 10_000.0 + n}] for n in range(2))]


@pytest.fixture(scope="module")
def on_spark(spark, tmp_path_factory, request) -> dict[str, list[Any]]:
    """What each step that is asked for gave on Spark, all of them in one query."""
    here = [item for item in request.session.items if item.path == request.path]
    names = [item.callspec.params["name"] for item in here if "on_spark" in item.fixturenames]
    folder = tmp_path_factory.mktemp("recipes")
    feed = Feed(spark, folder / "input", ROW)
    for batch in batches():
        feed.add(*({**row, "at": datetime.fromtimestamp(START + row["at"], timezone.utc)} for row in batch))
    # One sink for all of them, because each costs time in every micro-batch.
    df = feed.df
    frames = [on_stream(df, name) for name in names]
    told = [
        f.select(F.lit(name).alias("step"), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row"))
        for name, f in zip(names, frames, strict=True)
    ]
    sink = hf.sinks.Collect()
    job = hf.Job("recipes", checkpoint=str(folder / "checkpoint"), trigger="available now", progress=False)
    job.write(functools.reduce(DataFrame.union, told), sink).run()
    found: dict[str, list[Any]] = {name: [] for name in names}
    for step, row in sink.rows:
        found[step].append(list(json.loads(row).values()))
    return found


def on_stream(df: Any, name: str) -> Any:
    fn, schema = STEPS[name]
    stream = hf.keyed(df, key="who", value=values_of(name), timestamp="at", watermark="0 seconds")
    if name in IN_WINDOWS:
        stream = stream.window_into(hf.FixedWindows(SPAN))
    if isinstance(fn, hf.CombineFn):
        return stream.combine_per_key(fn, output=schema, name=name, key_groups=2).drop("window")
    return stream.par_do(fn, output=f"who string, {schema}", name=name, key_groups=2, **options_of(name, fn))


def in_memory(name: str) -> list[Any]:
    fn, _ = STEPS[name]
    stream = TestStream()
    for batch in batches():
        given = [(row["who"], {field: row[field] for field in values_of(name)}, START + row["at"]) for row in batch]
        stream.add_elements([hf.TimestampedValue((who, value), at) for who, value, at in given])
        stream.advance_watermark_to(max(at for *_, at in given))
    windowing = hf.FixedWindows(SPAN) if name in IN_WINDOWS else None
    made = hf.CombinePerKey(fn) if isinstance(fn, hf.CombineFn) else fn
    values = run(made, stream, windowing=windowing, **options_of(name, fn)).values
    # What is given as columns comes as rows with names.
    return [[*row.values()] for row in values] if isinstance(fn, hf.BatchDoFn) else values


def comparable(value: Any) -> Any:
    """What a function gave as JSON has it."""
    if isinstance(value, hf.Timestamp):
        return value.to_utc_datetime().isoformat(timespec="milliseconds") + "Z"
    if hasattr(value, "_asdict"):
        return comparable(value._asdict())
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    return [comparable(item) for item in value] if isinstance(value, (list, tuple)) else value


def by_key(found: list[list[Any]]) -> dict[str, list[Any]]:
    """The results of each key, in order; those of "end" only move the watermark."""
    kept: dict[str, list[Any]] = {}
    for key, *rest in found:
        if key != "end":
            kept.setdefault(key, []).append(rest)
    return kept


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.night] * (name not in BY_DAY)) for name in STEPS])
def test_a_recipe_gives_on_spark_what_it_gives_in_memory(on_spark, name) -> None:
    wanted = by_key(comparable(in_memory(name)))
    assert wanted.keys() == {"ann", "bob"}
    assert by_key(on_spark[name]) == wanted


def test_every_recipe_is_here() -> None:
    here = {type(fn) for fn, _ in STEPS.values()}
    every = {thing for thing in vars(recipes).values() if isinstance(thing, type)}
    assert here == {thing for thing in every if issubclass(thing, (hf.DoFn, hf.CombineFn))}


class TestTexts:
    """The functions over DataFrames of examples/texts, each over a small batch."""

    def test_rides_of_zones(self, spark, tmp_path) -> None:
        text = runpy.run_path(str(TEXTS / "flink_article.py"))
        schema = "PULocationID int, total_amount double, pickup_time timestamp"
        rides = spark.createDataFrame([(132, 52.0, at(300)), (132, 60.0, at(3500)), (48, 9.5, at(600))], schema)
        found = text["per_zone_and_hour"](rides).select("PULocationID", "num_trips", "revenue").collect()
        assert sorted(map(tuple, found)) == [(48, 1, 9.5), (132, 2, 112.0)]
        stream = spark.readStream.schema(schema).parquet(str(tmp_path))
        assert isinstance(text["job"](stream, str(tmp_path / "job")), hf.Job)

    def test_groups_and_windows(self, spark) -> None:
        text = runpy.run_path(str(TEXTS / "spark_lesson.py"))
        schema = "user_id int, action string, event_time timestamp"
        actions = spark.createDataFrame([(1, "open", at(10)), (2, "open", at(20)), (1, "read", at(200))], schema)
        # At the end of a batch every timeout has passed.
        users = [row[:3] for row in text["users"](actions.select("user_id", "action")).collect()]
        assert sorted(users) == [(1, 2, "TIMEOUT"), (1, 2, "read"), (2, 1, "TIMEOUT"), (2, 1, "open")]
        found = text["actions_of_users"](actions).drop("window").collect()
        assert sorted((user, count, sorted(actions)) for user, count, actions in found) == [
            (1, 2, ["open", "read"]),
            (2, 1, ["open"]),
        ]
        numbers = spark.createDataFrame([(1, at(30)), (2, at(90))], "value long, timestamp timestamp")
        windows = text["window_aggregation"](numbers).drop("window", "dummy").collect()
        assert set(map(tuple, windows)) == {(1, 1.0, 1.0, 1.0), (2, 3.0, 1.0, 2.0), (1, 2.0, 2.0, 2.0)}


def at(second: float) -> datetime:
    return datetime.fromtimestamp(START - START % 3600 + second, timezone.utc)
