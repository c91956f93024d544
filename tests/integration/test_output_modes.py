"""Spark's output modes with the results of steps: what each does, and what is said of the one that cannot be."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import holdfast as hf
from integration.functions import Count


@pytest.fixture
def counts(feed):
    source = feed("k string, v string")
    source.add({"k": "a", "v": "x"}, {"k": "b", "v": "x"})
    source.add({"k": "a", "v": "y"})
    return hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n int")


def written(frame, mode, folder):
    """What Spark's own writeStream gives in each micro-batch."""
    found = []
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(folder / mode))
    query = writer.trigger(availableNow=True).foreachBatch(lambda rows, _: found.append(sorted(map(tuple, rows.collect()))))
    query.start().awaitTermination()
    return [rows for rows in found if rows]


@pytest.mark.parametrize("mode", [pytest.param("append", marks=pytest.mark.night), "update"])
def test_both_give_what_the_function_gave(counts, tmp_path, mode):
    assert written(counts, mode, tmp_path) == [[("a", 1), ("b", 1)], [("a", 2)]]


def test_complete_is_refused_by_spark(counts, tmp_path):
    with pytest.raises(AnalysisException, match=r"(?i)complete"):
        written(counts, "complete", tmp_path)


@pytest.mark.night
def test_what_takes_its_place(counts, tmp_path):
    """One row for each key, the newest."""
    table = tmp_path / "counts.sqlite"
    job = hf.Job("counts", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(counts, hf.sinks.Sqlite(str(table), "counts"), mode="upsert", key="k").run()
    import sqlite3

    assert sorted(sqlite3.connect(table).execute("SELECT k, n FROM counts")) == [("a", 2), ("b", 1)]


@pytest.mark.night
def test_an_aggregation_of_sparks_has_all_three(feed, tmp_path):
    source = feed("k string, v string", "other")
    source.add({"k": "a", "v": "x"}, {"k": "b", "v": "x"})
    source.add({"k": "a", "v": "y"})
    frame = source.df.groupBy("k").agg(F.count("*").alias("n"))
    assert written(frame, "complete", tmp_path) == [[("a", 1), ("b", 1)], [("a", 2), ("b", 1)]]
