"""Rides of New York's taxis of a month: aggregations over real data, on Spark, beside the same in pandas.

The rides come in a few files, each a micro-batch: in order of their pickups, or shuffled as far as the watermark allows.
Two rides of a far future come last: they move the watermark beyond the windows of all others.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

import holdfast as hf

RIDES = "zone string, total double, at timestamp"
FILE = Path(__file__).parents[1] / "data" / "taxis.csv"
FILES = 4
DISORDER = pd.Timedelta("6h")
HOUR, QUARTER, GAP = (pd.Timedelta(minutes, "min") for minutes in (60, 15, 30))
PER_ZONE = {"trips": hf.Count(), "revenue": hf.Sum("total")}
WINDOWS = {
    "hourly": hf.FixedWindows("1 hour"),
    "sliding": hf.SlidingWindows("1 hour", "15 minutes"),
    "sessions": hf.Sessions("30 minutes"),
}


@pytest.fixture(scope="module")
def rides():
    """All rides, those without a zone too."""
    table = pd.read_csv(FILE, parse_dates=["pickup"]).rename(columns={"pickup_zone": "zone", "pickup": "at"})
    assert table["zone"].isna().any()
    return table[["zone", "total", "at"]].sort_values("at", kind="stable").reset_index(drop=True)


def hourly(rides):
    return rides.assign(start=rides["at"].dt.floor("h")), HOUR


def sliding(rides):
    newest = rides["at"].dt.floor("15min")
    return pd.concat([rides.assign(start=newest - steps * QUARTER) for steps in range(4)]), HOUR


def sessions(rides):
    rides = rides.sort_values(["zone", "at"], kind="stable")
    begins = rides.groupby("zone")["at"].diff().isna() | (rides.groupby("zone")["at"].diff() >= GAP)
    rides = rides.assign(session=begins.cumsum())
    return rides.assign(start=rides.groupby("session")["at"].transform("min")), None


MODELS = {"hourly": hourly, "sliding": sliding, "sessions": sessions}


def expected(rides, windows):
    """By pandas: (zone, start, end) in seconds → (trips, revenue)."""
    placed, size = MODELS[windows](rides.dropna(subset=["zone"]))
    found = {}
    for (zone, start), group in placed.groupby(["zone", "start"]):
        end = start + size if size is not None else group["at"].max() + GAP
        found[zone, start.timestamp(), end.timestamp()] = (len(group), group["total"].sum())
    return found


def results(rows):
    """The same of what came out. A window that came out twice is an error."""
    found = {}
    for row in rows:
        window = (row.zone, _seconds(row.window.start), _seconds(row.window.end))
        assert window not in found
        found[window] = (row.trips, row.revenue)
    return found


def _seconds(time):
    return time.timestamp()


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    trips, revenues = zip(*(found[window] for window in wanted), strict=True)
    wanted_trips, wanted_revenues = zip(*wanted.values(), strict=True)
    assert trips == wanted_trips
    np.testing.assert_allclose(revenues, wanted_revenues)


def shuffled(rides):
    """Each ride comes up to DISORDER later than it was."""
    delays = np.random.default_rng(2019).uniform(0, 1, len(rides)) * DISORDER
    return rides.assign(arrival=rides["at"] + delays).sort_values("arrival").drop(columns="arrival")


def rows(rides):
    times = [time.to_pydatetime() for time in rides["at"].dt.tz_localize("UTC")]
    zones = [None if pd.isna(zone) else zone for zone in rides["zone"]]
    return [{"zone": zone, "total": total, "at": at} for zone, total, at in zip(zones, rides["total"], times, strict=True)]


def fed(source, rides):
    """The stream of these rides, in this order."""
    for part in np.array_split(np.arange(len(rides)), FILES):
        source.add(*rows(rides.iloc[part]))
    for year in (2030, 2031):
        at = datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc)
        source.add({"zone": "nowhere", "total": 0.0, "at": at})
    return source.df


def per_zone(df, windows, **options):
    """Rides without a zone are left out: there is no key to count them by."""
    with_zone = df.where(F.col("zone").isNotNull())
    watermark = f"{int(DISORDER.total_seconds())} seconds"
    stream = hf.keyed(with_zone, key="zone", value=["total"], timestamp="at", watermark=watermark)
    return stream.window_into(WINDOWS[windows]).combine_per_key(PER_ZONE, **options)


@pytest.mark.parametrize(
    "order", [pytest.param(lambda rides: rides, marks=pytest.mark.night), shuffled], ids=["in-order", "shuffled"]
)
@pytest.mark.parametrize(
    "windows", ["hourly", *(pytest.param(name, marks=pytest.mark.night) for name in ("sliding", "sessions"))]
)
def test_trips_and_revenue_of_each_zone(feed, run_job, rides, windows, order):
    [found] = run_job(per_zone(fed(feed(RIDES), order(rides)), windows))
    assert_same(results(row for row in found if row.zone != "nowhere"), expected(rides, windows))


@pytest.mark.parametrize(
    "windows", [pytest.param(name, marks=[pytest.mark.night] if name != "sessions" else []) for name in WINDOWS]
)
@pytest.mark.night
def test_lifting_changes_nothing(feed, run_job, rides, windows):
    [found] = run_job(per_zone(fed(feed(RIDES), shuffled(rides)), windows, lift=False))
    assert_same(results(row for row in found if row.zone != "nowhere"), expected(rides, windows))


@pytest.mark.parametrize(
    "windows", [*(pytest.param(name, marks=pytest.mark.night) for name in ("hourly", "sliding")), "sessions"]
)
def test_a_table_of_all_rides_gives_the_same(spark, rides, windows):
    df = spark.createDataFrame([tuple(row.values()) for row in rows(rides)], RIDES)
    assert_same(results(per_zone(df, windows).collect()), expected(rides, windows))


@pytest.mark.night
def test_the_windows_of_a_zone_may_be_worked_on_side_by_side(feed, run_job, rides):
    [found] = run_job(per_zone(fed(feed(RIDES), rides), "hourly", parallel_over="key+window"))
    assert_same(results(row for row in found if row.zone != "nowhere"), expected(rides, "hourly"))


def test_a_ride_without_a_zone_is_an_error_if_it_is_not_left_out(spark, rides):
    df = spark.createDataFrame([tuple(row.values()) for row in rows(rides[rides["zone"].isna()])], RIDES)
    stream = hf.keyed(df, key="zone", value=["total"], timestamp="at").window_into(hf.FixedWindows("1 hour"))
    with pytest.raises(Exception, match="has no key"):
        stream.combine_per_key(PER_ZONE).collect()


@pytest.mark.night
def test_rides_that_come_after_their_window_are_told(feed, run_job, rides):
    """The earliest rides of all come last, with the watermark far beyond them."""
    source = feed(RIDES)
    kept, late = rides.iloc[20:], rides.iloc[:20]
    df = fed(source, kept)
    source.add(*rows(late))
    outputs = per_zone(df, "hourly", outputs={"late": None})
    found, told = run_job(outputs.main, outputs.late)
    assert_same(results(row for row in found if row.zone != "nowhere"), expected(kept, "hourly"))
    assert sorted(tuple(row) for row in told) == sorted(
        (row["zone"], row["total"]) for row in rows(late) if row["zone"] is not None
    )
