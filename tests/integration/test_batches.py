"""A BatchDoFn on Spark: columns of many types, a stream that changes between it and a DoFn, windows, and failures."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException

import holdfast as hf

EVENTS = "k string, v int, at timestamp"
UTC = datetime.timezone.utc


def event(k, v, second):
    return {"k": k, "v": v, "at": datetime.datetime.fromtimestamp(1_700_000_040 + second, tz=UTC)}


class EchoColumns(hf.BatchDoFn):
    def process_batch(self, batch):
        yield {"a": [key[0] for key in batch.row_keys], "b": [key[1] for key in batch.row_keys]} | {
            name: batch.column(name) for name in batch.names
        }


def test_columns_come_back_as_they_went_in(spark):
    ddl = "i int, f float, d double, s string, o boolean, y date, t timestamp, n decimal(9,2), l array<int>"
    df = spark.sql(
        "select string(id % 7) a, id % 3 b, int(id) i, float(id / 3) f, id / 7d d, concat('ü', id) s, id % 2 = 0 o, "
        "date_add(date '2024-02-28', int(id)) y, timestamp_micros(id * 1000001) t, cast(id / 4 as decimal(9,2)) n, "
        "array(int(id), null) l from range(200)"
    )
    back = hf.keyed(df, key=["a", "b"], value=list("ifdsoytnl")).par_do(EchoColumns(), output=f"a string, b bigint, {ddl}")
    assert sorted(back.collect(), key=str) == sorted(df.select(*back.columns).collect(), key=str)


class Running(hf.DoFn):
    COUNT = hf.ReadModifyWriteStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


class RunningColumns(hf.BatchDoFn):
    def process_batch(self, batch, count=hf.BatchDoFn.StateParam(Running.COUNT)):
        before = count.read(0)
        count.write(before + batch.counts)
        yield {"k": batch.row_keys, "n": batch.spread(before) + batch.rank + 1}


@pytest.mark.night
def test_a_job_changes_from_a_dofn_and_back(feed, run_job):
    """Three runs of one job, each with another micro-batch: both kinds of function, the same state."""
    source = feed(EVENTS)
    seen = []
    for fn in (Running(), RunningColumns(), Running()):
        source.add(event("a", 1, 0), event("b", 2, 1), event("a", 3, 2))
        [rows] = run_job(hf.keyed(source.df, key="k").par_do(fn, output="k string, n bigint", name="count", key_groups=2))
        seen.append(sorted(tuple(row) for row in rows))
    assert seen == [[("a", 1), ("a", 2), ("b", 1)], [("a", 3), ("a", 4), ("b", 2)], [("a", 5), ("a", 6), ("b", 3)]]


class Sums(hf.BatchDoFn):
    SUM = hf.ValueStateSpec("sum", hf.VarIntCoder())

    def process_batch(self, batch, window: hf.IntervalWindow = hf.DoFn.WindowParam, total=hf.BatchDoFn.StateParam(SUM)):
        total.write(total.read(0) + batch.reduce(np.add, batch.column("v")))
        yield {"k": batch.keys, "at": [window.start.to_utc_datetime(has_tz=True)] * len(batch.keys), "sum": total.read(0)}


@pytest.mark.night
def test_windows_and_late_rows(feed, run_job):
    source = feed(EVENTS)
    source.add(event("a", 1, 0), event("a", 2, 61), event("a", 4, 2))
    source.add(event("a", 8, 3), event("b", 16, 300))
    source.add(event("a", 32, 4), event("b", 64, 301))
    stream = hf.keyed(source.df, key="k", timestamp="at", watermark="10 seconds").window_into(hf.FixedWindows(60))
    sums = stream.par_do(Sums(), output="k string, at timestamp, sum bigint", outputs={"late": None})
    rows, late = run_job(sums.main, sums.late)
    assert sorted((row.k, row.sum) for row in rows) == [("a", 2), ("a", 5), ("a", 13), ("b", 16), ("b", 80)]
    assert [(row.k, row.v) for row in late] == [("a", 32)]


class Fails(hf.BatchDoFn):
    def process_batch(self, batch):
        raise ValueError("no such thing")


@pytest.mark.night
def test_a_failure_says_where(spark, feed, run_job):
    source = feed(EVENTS)
    source.add(event("a", 1, 0))
    with pytest.raises((hf.JobFailed, hf.UserCodeError, StreamingQueryException), match="no such thing") as failed:
        run_job(hf.keyed(source.df, key="k").par_do(Fails(), output="k string"))
    assert "process_batch of the step 'Fails' raised ValueError" in str(failed.value)
