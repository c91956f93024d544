"""Rows of a source that pass no step, written by the same job as what steps make of them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

import holdfast as hf
from integration.functions import Count

ROWS = [("a", 1), ("b", -2), ("a", 3), ("c", -4)]
COUNTED = [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


@pytest.fixture
def rows(feed):
    made = feed("k string, v int")
    made.add(*({"k": key, "v": value} for key, value in ROWS[:3]))
    made.add(*({"k": key, "v": value} for key, value in ROWS[3:]))
    return made


def counted(df, name="count"):
    return hf.keyed(df, key="k", value="v").par_do(Count(), output="k string, n int", name=name, key_groups=2)


def plain(rows):
    return sorted(tuple(row) for row in rows)


@pytest.mark.night
def test_a_step_and_rows_that_do_not_reach_it(rows, tmp_path):
    """The source is read once for the step, for what is filtered out before it, and for a copy of everything."""
    df = rows.df
    sinks = [hf.sinks.Collect() for _ in range(4)]
    job = hf.Job("job", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(counted(df.where("v > 0")), sinks[0])
    job.write(df.where("v <= 0").select(F.upper("k").alias("key"), "v"), sinks[1])
    job.write(df, sinks[2]).write(df, sinks[3])
    assert len(job.explain().graph.sources) == 1
    job.run()
    assert [len(report.sources) for report in job.query.recentProgress] == [1, 1]
    good, bad, everything, again = (plain(sink.rows) for sink in sinks)
    assert good == [("a", 1), ("a", 2)]
    assert bad == [("B", -2), ("C", -4)]
    assert everything == again == sorted(ROWS)


@pytest.mark.night
def test_together_with_outputs_of_a_step(rows, run_job):
    df = rows.df
    step = counted(df)
    both = step.where("n > 1").union(df.where("v < -2")).withColumn("twice", F.col("n") * 2)
    [found, raw] = run_job(both, df)
    assert plain(found) == [("a", 2, 4), ("c", -4, -8)]
    assert plain(raw) == sorted(ROWS)


def test_a_job_without_steps(rows, run_job):
    doubled = F.udf(lambda v: v * 2, "int")
    df = rows.df
    twice, negative = run_job(df.select("k", doubled("v")), df.where("v < 0"))
    assert plain(twice) == sorted((key, 2 * value) for key, value in ROWS)
    assert plain(negative) == [("b", -2), ("c", -4)]


@pytest.mark.night
def test_values_of_all_kinds_arrive_as_they_were(feed, run_job):
    schema = (
        "k string, v int, b binary, d decimal(20,4), day date, at timestamp, local timestamp_ntz, l array<int>, "
        "m map<string,double>, s struct<x: int, y: string>, f double, i interval day to second, none string"
    )
    row = {
        "k": "ünï\x00", "v": -1, "b": b"\x00\xff", "d": Decimal("12345.6789"), "day": datetime.date(1, 1, 1),
        "at": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), "local": datetime.datetime(1969, 7, 20, 20, 17, 40, 1),
        "l": [1, None], "m": {"a": float("inf"), "b": None}, "s": (1, None), "f": -0.0,
        "i": datetime.timedelta(days=-1, microseconds=1), "none": None,
    }  # fmt: skip
    made = feed(schema)
    made.add(row)
    df = made.df
    [step, raw] = run_job(counted(df.select("k", "v")), df)
    assert len(step) == 1
    [found] = raw
    assert found.asDict(recursive=True) == {**row, "s": {"x": 1, "y": None}}


@pytest.mark.night
def test_columns_of_one_name(rows, run_job):
    df = rows.df
    [_, raw] = run_job(counted(df), df.select("k", "v", F.col("v").alias("v")))
    assert plain(raw) == sorted((key, value, value) for key, value in ROWS)


@pytest.mark.night
def test_upserted(rows, tmp_path):
    sink = hf.sinks.Collect()
    job = hf.Job("job", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    df = rows.df
    job.write(counted(df), hf.sinks.Collect()).write(df, sink, mode="upsert", key="k").run()
    newest = sink.upserting(hf.sinks.Upsert(("k",))).rows
    assert plain(newest) == [("a", 3), ("b", -2), ("c", -4)]


def test_they_come_and_go_on_a_checkpoint_with_state(rows, run_job):
    assert plain(run_job(counted(rows.df))[0]) == COUNTED
    rows.add({"k": "a", "v": 5})
    df = rows.df
    step, raw = run_job(counted(df), df)
    assert plain(step) == [("a", 3)]
    assert plain(raw) == [("a", 5)]
    rows.add({"k": "a", "v": 6})
    assert plain(run_job(counted(rows.df))[0]) == [("a", 4)]


def test_state_of_sparks_own_is_refused(rows, run_job):
    df = rows.df
    with pytest.raises(hf.InvalidStep, match="without passing a step has state of Spark's own \\(Deduplicate\\)"):
        run_job(counted(df), df.dropDuplicates(["k"]))
