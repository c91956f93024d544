"""A query that Spark's own `writeStream` starts with `availableNow` ends, also where a step waits for processing time."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.spark.steps import starting
from integration.functions import Count

EVENTS = "k string, v int, at timestamp"
WAIT_SECONDS = 120


def remember(key, values, state):
    state.update(len(values) + (state.getOption or 0))
    state.setTimeoutDuration("1 hour")
    yield key, state.get


def written(df, tmp_path, **trigger):
    rows = []

    def take(batch, number):
        rows.extend(tuple(row) for row in batch.collect())

    query = (
        df.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(take)
        .trigger(**trigger)
        .start()
    )
    return query, rows


@pytest.fixture
def source(feed):
    made = feed(EVENTS)
    made.add({"k": "a", "v": 1, "at": None})
    made.add({"k": "a", "v": 2, "at": None})
    return made


def waiting(source):
    return hf.keyed(source.df, key="k", value="v").flat_map_groups_with_state(
        remember, "k string, n int", timeout="processing_time", key_groups=2
    )


def test_it_ends_and_goes_on_at_the_next_start(source, spark, tmp_path):
    query, rows = written(waiting(source).filter("n > 0"), tmp_path, availableNow=True)
    try:
        assert query.awaitTermination(WAIT_SECONDS)
    finally:
        query.stop()
    assert rows == [("a", 1), ("a", 2)]
    assert spark.conf.get(starting.NO_DATA) == "true"  # the session is as it was
    source.add({"k": "a", "v": 3, "at": None})
    query, rows = written(waiting(source), tmp_path, availableNow=True)
    try:
        assert query.awaitTermination(WAIT_SECONDS)
    finally:
        query.stop()
    assert rows == [("a", 3)]


@pytest.mark.night
def test_a_query_that_is_not_to_end_still_waits_for_its_timers(source, tmp_path):
    """Its empty micro-batches, in which timers fire, are not taken from it."""

    def soon(key, values, state):
        if state.hasTimedOut:
            yield key, -1
        else:
            state.setTimeoutDuration(10)

    df = hf.keyed(source.df, key="k", value="v").flat_map_groups_with_state(
        soon, "k string, n int", timeout="processing_time", key_groups=2
    )
    query, rows = written(df, tmp_path, processingTime="0 seconds")
    try:
        for _ in range(WAIT_SECONDS * 10):
            if rows or query.awaitTermination(0.1):
                break
        assert query.exception() is None
    finally:
        query.stop()
    assert ("a", -1) in rows


def test_a_session_is_watched_once(source, spark, monkeypatch):
    added = []
    monkeypatch.setattr(starting, "_watched", set())
    monkeypatch.setattr(type(spark.streams), "addListener", lambda streams, listener: added.append(listener))
    waiting(source)
    hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n int")
    assert len(added) == 1


def test_a_spark_that_has_changed_is_told_and_what_to_do(spark):
    with pytest.warns(UserWarning, match=r"could not be given its settings .*hf\.Job\(\.\.\.\)"):
        starting._Starts(spark).started("no such query")
