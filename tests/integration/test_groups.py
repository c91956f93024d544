"""Group state through DataFrames: over micro-batches, with timeouts, and over a batch."""

from __future__ import annotations

import datetime

import pytest

import holdfast as hf

EVENTS = "user string, action string, at timestamp"
UTC = datetime.timezone.utc


def event(user, action, second):
    return {"user": user, "action": action, "at": datetime.datetime.fromtimestamp(1_700_000_000 + second, tz=UTC)}


def sessions(user, actions, state):
    """One row for each session: its actions, when there was none for ten seconds."""
    if state.hasTimedOut:
        yield user, state.get, len(state.get)
        state.remove()
        return
    state.update((state.getOption or []) + [action.action for action in actions])
    state.setTimeoutTimestamp(max(action.at for action in actions), "10 seconds")


def running(user, actions, state):
    state.update((state.getOption or 0) + len(actions))
    return user, state.get


def impatient(user, actions, state):
    if state.hasTimedOut:
        return [(user, "TIMEOUT", state.get)]
    state.update((state.getOption or 0) + len(actions))
    state.setTimeoutDuration(1)
    return [(user, actions[-1], state.get)]


def test_state_over_micro_batches(feed, run_job):
    source = feed(EVENTS)
    source.add(event("ann", "login", 0), event("bob", "login", 1), event("ann", "click", 2))
    source.add(event("ann", "buy", 3))
    counts = hf.keyed(source.df, key="user", value="action").map_groups_with_state(running, output="user string, n int")
    [rows] = run_job(counts)
    assert sorted(map(tuple, rows)) == [("ann", 2), ("ann", 3), ("bob", 1)]


def test_sessions_by_event_time(feed, run_job):
    source = feed(EVENTS)
    source.add(event("ann", "login", 0), event("bob", "login", 1))
    source.add(event("ann", "click", 8))
    source.add(event("eve", "login", 15))
    source.add(event("zoe", "login", 40), event("bob", "late", 2))
    stream = hf.keyed(_with_time(source.df), key="user", timestamp="time", watermark="0 seconds")
    found = stream.flat_map_groups_with_state(
        sessions, output="user string, actions array<string>, n int", timeout="event_time"
    )
    [rows] = run_job(found)
    assert sorted((row.user, row.actions, row.n) for row in rows) == [
        ("ann", ["login", "click"], 2),
        ("bob", ["login"], 1),
        ("eve", ["login"], 1),
    ]


def _with_time(df):
    """The event time twice: once as the element's time, once for the function."""
    return df.withColumn("time", df["at"])


def test_a_timeout_by_the_clock(feed, tmp_path):
    source = feed(EVENTS)
    stream = hf.keyed(source.df, key="user", value="action")
    found = stream.flat_map_groups_with_state(
        impatient, output="user string, action string, n int", timeout="processing_time"
    )
    sink = hf.sinks.Collect()
    with hf.Job("impatient", checkpoint=str(tmp_path / "checkpoint"), trigger=hf.Batches(4), progress=False) as job:
        source.add(event("ann", "login", 0))
        job.write(found, sink).run()
    assert list(map(tuple, sink.rows)) == [("ann", "login", 1), ("ann", "TIMEOUT", 1)]


def test_a_batch_has_an_end(spark):
    rows = [tuple(event(*e).values()) for e in (("ann", "login", 0), ("ann", "click", 2), ("bob", "login", 1))]
    df = spark.createDataFrame(rows, EVENTS)
    counts = hf.keyed(df, key="user", value="action").map_groups_with_state(running, output="user string, n int")
    assert sorted(map(tuple, counts.collect())) == [("ann", 2), ("bob", 1)]
    stream = hf.keyed(_with_time(df), key="user", timestamp="time")
    found = stream.flat_map_groups_with_state(
        sessions, output="user string, actions array<string>, n int", timeout="event_time"
    )
    assert sorted((row.user, row.n) for row in found.collect()) == [("ann", 2), ("bob", 1)]


def test_all_that_is_wrong_is_told_at_once(spark):
    df = spark.createDataFrame([("ann", "login")], "user string, action string")
    with pytest.raises(hf.InvalidStep) as caught:
        hf.keyed(df, key="user", value="action").flat_map_groups_with_state(lambda key: None, timeout="soon")  # type: ignore[misc]
    assert "No schema of the main output" in str(caught.value)
    assert "timeout is 'soon'" in str(caught.value)
    assert "(key, values, state)" in str(caught.value)
    with pytest.raises(hf.InvalidStep, match="no timestamp"):
        hf.keyed(df, key="user").flat_map_groups_with_state(sessions, output="n int", timeout="event_time")
