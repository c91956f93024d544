"""Rides of New York's taxis through Kafka: trips and revenue of each zone and hour, upserted into PostgreSQL as they grow,
and rescaled from a savepoint half way; beside the same in pandas."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

import holdfast as hf
from holdfast import ops
from integration.test_taxis import FILE

RIDES = "zone string, total double, at timestamp not null"


@pytest.fixture(scope="module")
def rides():
    """All rides, shuffled within six hours. The watermark allows for more: partitions are not read at the same pace."""
    table = pd.read_csv(FILE, parse_dates=["pickup"]).rename(columns={"pickup_zone": "zone", "pickup": "at"})
    table = table[["zone", "total", "at"]].sort_values("at", kind="stable")
    delays = np.random.default_rng(7).uniform(0, 6, len(table)) * pd.Timedelta("1h")
    return table.assign(arrival=table["at"] + delays).sort_values("arrival").drop(columns="arrival").reset_index(drop=True)


def records(rides):
    for zone, total, at in rides.itertuples(index=False):
        value = {"zone": None if pd.isna(zone) else zone, "total": total, "at": f"{at.isoformat()}Z"}
        yield "" if pd.isna(zone) else zone, json.dumps(value).encode()


def hourly(rides):
    """By pandas: zone, start of the hour, trips, revenue."""
    rides = rides.dropna(subset=["zone"])
    grouped = rides.assign(hour=rides["at"].dt.floor("h")).groupby(["zone", "hour"])["total"].agg(["count", "sum"])
    return {key: (int(count), float(total)) for key, (count, total) in zip(grouped.index, grouped.to_numpy(), strict=True)}


def job_of(spark, broker, topic, checkpoint, sink):
    source = hf.sources.Kafka(broker.servers, topic, value=hf.sources.Json(RIDES), start="earliest", max_per_trigger=2000)
    with_zone = source.read(spark).main.where(F.col("zone").isNotNull())
    trips = (
        hf.keyed(with_zone, key="zone", value=["total"], timestamp="at", watermark="5 days")
        .window_into(
            hf.FixedWindows("1 hour"),
            trigger=hf.AfterWatermark(early=hf.AfterCount(1)),
            accumulation_mode=hf.AccumulationMode.ACCUMULATING,
        )
        .combine_per_key({"trips": hf.Count(), "revenue": hf.Sum("total")}, key_groups=4)
    )
    rows = trips.select("zone", F.col("window.start").alias("hour"), "trips", "revenue")
    job = hf.Job("rides", checkpoint=str(checkpoint), trigger="available now", progress=False)
    return job.write(rows, sink, mode="upsert", key=["zone", "hour"])


@pytest.mark.night
def test_trips_and_revenue_of_each_zone_and_hour(spark, kafka, postgres, rides, tmp_path):
    topic = kafka.new_topic(partitions=2)
    half = len(rides) // 2
    kafka.put_all(topic, records(rides[:half]))
    job_of(spark, kafka, topic, tmp_path / "first", postgres.sink("rides")).run()
    check(postgres, rides[:half])

    ops.savepoint_create(spark, str(tmp_path / "first"), str(tmp_path / "savepoint"))
    ops.savepoint_restore(spark, str(tmp_path / "savepoint"), str(tmp_path / "second"), partitions=2)
    kafka.put_all(topic, records(rides[half:]))
    job_of(spark, kafka, topic, tmp_path / "second", postgres.sink("rides")).run()
    check(postgres, rides)


def check(postgres, rides):
    """The table has what pandas has; cents may differ by the order in which they were added."""
    found = postgres.execute("SELECT zone, hour AT TIME ZONE 'UTC', trips, revenue FROM rides")
    trips = {(zone, pd.Timestamp(hour)): count for zone, hour, count, _ in found}
    revenue = {(zone, pd.Timestamp(hour)): total for zone, hour, _, total in found}
    wanted = hourly(rides)
    assert len(found) == len(trips)
    assert trips == {key: count for key, (count, _) in wanted.items()}
    assert revenue == pytest.approx({key: total for key, (_, total) in wanted.items()})
