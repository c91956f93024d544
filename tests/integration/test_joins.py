"""The join of two keyed streams on Spark, against two nested loops in Python."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from itertools import chain

import pytest

import holdfast as hf
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.state.key_group import Layout
from holdfast.model.functions.step import build_step
from holdfast.testing.memory_store import MemoryStore

ADS = "ad int, shown_at timestamp, place string"
CLICKS = "ad_id int, clicked_at timestamp, user string, cost double"
UTC = datetime.timezone.utc
END = 5_000


def at(second):
    return datetime.datetime.fromtimestamp(1_700_000_000 + second, tz=UTC)


def shown(ad, second, place="top"):
    return {"ad": ad, "shown_at": at(second), "place": place}


def clicked(ad, second, user="ann", cost=0.5):
    return {"ad_id": ad, "clicked_at": at(second), "user": user, "cost": cost}


def ads(df, watermark="20 seconds"):
    return hf.keyed(df, key="ad", timestamp="shown_at", watermark=watermark)


def clicks(df, watermark="20 seconds"):
    return hf.keyed(df, key="ad_id", timestamp="clicked_at", watermark=watermark)


def nested_loops(lefts, rights, lower, upper, how):
    """(ad, shown_at, clicked_at, place, user, cost) of all that meet, and of those that meet none."""

    def near(one, other):
        apart = (other["clicked_at"] - one["shown_at"]).total_seconds()
        return one["ad"] == other["ad_id"] and lower <= apart <= upper

    def row(one, other):
        one, other = one or {}, other or {}
        key = one.get("ad", other.get("ad_id"))
        return key, one.get("shown_at"), other.get("clicked_at"), one.get("place"), other.get("user"), other.get("cost")

    found = [row(one, other) for one in lefts for other in rights if near(one, other)]
    if how in ("left", "outer"):
        found += [row(one, None) for one in lefts if not any(near(one, other) for other in rights)]
    if how in ("right", "outer"):
        found += [row(None, other) for other in rights if not any(near(one, other) for one in lefts)]
    return Counter(found)


def files(seed, number):
    """Both sides in files of one micro-batch each; rows are up to 15 seconds out of order."""
    numbers = random.Random(seed)
    lefts, rights = [], []
    for batch in range(number):
        start = batch * 30
        lefts.append([shown(numbers.randrange(4), start + numbers.randrange(45), f"place {n}") for n in range(12)])
        rights.append([clicked(numbers.randrange(4), start + numbers.randrange(45), f"user {n}") for n in range(12)])
    # Long after all others, so that the watermark passes those.
    lefts.append([shown(99, END)])
    rights.append([clicked(99, END)])
    return lefts, rights


def as_row(row):
    """A row with times in UTC: Spark gives them in the zone of this machine, without saying so."""
    times = [None if time is None else time.astimezone(UTC) for time in (row.shown_at, row.clicked_at)]
    return row.ad, *times, row.place, row.user, row.cost


def kept(spark, checkpoint, within, how):
    """All rows in the committed state."""
    blobs = {}
    for row in spark.read.format("statestore").option("stateVarName", "blobs").load(str(checkpoint)).collect():
        blobs.setdefault(row.key[0], {})[row.user_map_key[0]] = bytes(row.user_map_value[0])
    layout = Layout(build_step(hf.IntervalJoin(within, how)))
    states = [HeapBackend(layout).open(MemoryStore(group)) for group in blobs.values()]
    cells = {cell.name: place for place, cell in enumerate(layout.cells)}
    return [
        (name, key)
        for state in states
        for window in state.windows.values()
        for name in ("left", "right")
        for key, series in window.tables[cells[name]].values.items()
        for _ in series.times
    ]


@pytest.mark.parametrize(
    ("how", "within"),
    [
        ("inner", 10),
        pytest.param("left", (0, "10 seconds"), marks=pytest.mark.night),
        pytest.param("outer", ("-3 seconds", 5), marks=pytest.mark.night),
    ],
)
def test_two_streams(spark, feed, run_job, tmp_path, how, within):
    left_source, right_source = feed(ADS, "ads"), feed(CLICKS, "clicks")
    lefts, rights = files(7, 3)
    for batch in lefts:
        left_source.add(*batch)
    for batch in rights:
        right_source.add(*batch)
    joined = ads(left_source.df).join(clicks(right_source.df), within=within, how=how, key_groups=4)
    assert joined.columns == ["ad", "shown_at", "clicked_at", "place", "user", "cost"]
    [rows] = run_job(joined)
    bounds = {"inner": (-10, 10), "left": (0, 10), "outer": (-3, 5)}[how]
    wanted = nested_loops([*chain(*lefts)], [*chain(*rights)], *bounds, how)
    assert Counter(map(as_row, rows)) == wanted
    assert sorted(kept(spark, tmp_path / "checkpoint", within, how)) == [("left", 99), ("right", 99)]


@pytest.mark.night
def test_after_another_step(feed, run_job):
    """One side is what a step gave, which has the watermark of the stream above it."""
    left_source, right_source = feed(ADS, "ads"), feed(CLICKS, "clicks")
    for second in (0, 100, END):
        left_source.add(shown(1, second, f"at {second}"), shown(1, second + 1, "second"))
        right_source.add(clicked(1, second + 4, f"at {second}"))
    firsts = ads(left_source.df).flat_map_groups_with_state(first_only, output=ADS, timeout="event_time")
    joined = hf.keyed(firsts, key="ad", timestamp="shown_at").join(clicks(right_source.df), within=(0, 10), how="left")
    [rows] = run_job(joined)
    assert sorted((row.place, row.user) for row in rows) == [
        ("at 0", "at 0"),
        ("at 100", "at 100"),
        (f"at {END}", f"at {END}"),
    ]


def first_only(ad, values, state):
    """The first row of each micro-batch."""
    first = min(values, key=lambda value: value.place)
    state.update(first.place)
    seconds = {"at 0": 0, "at 100": 100, f"at {END}": END}[first.place]
    yield ad, at(seconds), first.place


@pytest.mark.parametrize("how", ["inner", "right", "outer"])
def test_a_batch(spark, how):
    lefts, rights = ([*chain(*side)] for side in files(3, 2))
    left = spark.createDataFrame([tuple(row.values()) for row in lefts], ADS)
    right = spark.createDataFrame([tuple(row.values()) for row in rights], CLICKS)
    rows = ads(left, None).join(clicks(right, None), within="10 seconds", how=how).collect()
    assert Counter(map(as_row, rows)) == nested_loops(lefts, rights, -10, 10, how)


def test_rows_without_a_key_are_dead_letters(spark):
    left = spark.createDataFrame([tuple(shown(ad, 0).values()) for ad in (1, None)], ADS)
    right = spark.createDataFrame([tuple(clicked(ad, 1).values()) for ad in (1, None)], CLICKS)
    joined = ads(left).join(clicks(right), within=5, how="outer", on_error="dead_letter", outputs={"dead_letter": None})
    assert [(row.ad, row.place, row.user) for row in joined.main.collect()] == [(1, "top", "ann")]
    dead = joined.dead_letter.collect()
    assert sorted((row["~left"], row.place, row.user) for row in dead) == [(False, None, "ann"), (True, "top", None)]
    with pytest.raises(Exception, match="no key"):
        ads(left).join(clicks(right), within=5).collect()


@pytest.mark.night
def test_a_stream_with_itself_and_columns_of_the_same_name(spark):
    ddl = "k string, at timestamp_ntz, v struct<x:int,tags:map<string,int>>, n array<int>"
    when = datetime.datetime(2024, 2, 29, 12)
    df = spark.createDataFrame([("a", when, (1, {"p": 1}), [1, 2]), ("a", when, (2, None), None)], ddl)
    stream = hf.keyed(df, key="k", timestamp="at")
    joined = stream.join(stream, within=0, suffixes=("", "_other"))
    assert joined.columns == ["k", "at", "at_other", "v", "n", "v_other", "n_other"]
    assert [field.dataType.simpleString() for field in joined.schema][1] == "timestamp_ntz"
    rows = sorted((row.v.x, row.v_other.x, row.n, row.n_other, row.v.tags, row.at) for row in joined.collect())
    assert rows == [
        (1, 1, [1, 2], [1, 2], {"p": 1}, when),
        (1, 2, [1, 2], None, {"p": 1}, when),
        (2, 1, None, [1, 2], None, when),
        (2, 2, None, None, None, when),
    ]


def test_all_that_is_wrong_is_told_at_once(spark, feed):
    left = hf.keyed(spark.createDataFrame([], "a string, b int, v int"), key=["a", "b"])
    right = hf.keyed(feed("a int, b int, v int, at timestamp").df, key=["a", "b"], timestamp="at")
    with pytest.raises(hf.InvalidStep) as caught:
        left.join(right.window_into(hf.FixedWindows(10)), within="soon", how="cross", suffixes=("_x", "_x"))
    for problem in (
        "The keys 'a' and 'a' have the types string and int",
        "One side is a stream and the other is not",
        "The left side has no timestamp",
        "The right side has no watermark",
        "The right side has windows",
        "Two columns of the output would have the name 'v_x'",
        "within has 'soon'",
        "how is 'cross'",
    ):
        assert problem in str(caught.value)
    with pytest.raises(hf.InvalidStep, match="declare it with hf"):
        left.join(spark.range(3), within=5)
    with pytest.raises(hf.InvalidStep, match="The left side has 2 key columns, but the right side has 1"):
        left.join(hf.keyed(spark.range(3), key="id"), within=5)
