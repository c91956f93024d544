"""Group state through DataFrames: over micro-batches, with timeouts, and over a batch."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql.streaming.state import GroupStateTimeout as PySparksTimeout
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

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


@pytest.mark.night
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


@pytest.mark.night
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


LESSON = StructType(
    [
        StructField("user_id", IntegerType(), False),
        StructField("action_count", IntegerType(), True),
        StructField("last_action", StringType(), True),
        StructField("last_updated", TimestampType(), True),
    ]
)


def lesson(user_id, actions, state: hf.GroupState):
    """The function of a lesson about Spark, as it is written there but for the timeout, of which it has one too many."""
    now = state.getCurrentProcessingTime()
    count = (state.get["action_count"] if state.exists else 0) + len(actions)
    state.update({"user_id": user_id, "action_count": count, "last_action": actions[-1], "last_updated": now})
    yield user_id, count, actions[-1], now


class TestSparksOrder:
    """`(fn, state_schema, timeout)`."""

    TIMEOUT = hf.GroupStateTimeout.ProcessingTimeTimeout

    @pytest.fixture
    def stream(self, feed):
        source = feed("user_id int, action string")
        source.add({"user_id": 1, "action": "login"}, {"user_id": 1, "action": "click"})
        source.add({"user_id": 1, "action": "buy"})
        return hf.keyed(source.df, key="user_id", value="action")

    @pytest.mark.night
    def test_the_rows_have_the_states_columns_unless_others_are_given(self, stream, run_job):
        results = stream.flat_map_groups_with_state(lesson, LESSON, self.TIMEOUT)
        assert [(f.name, f.dataType) for f in results.schema.fields] == [(f.name, f.dataType) for f in LESSON.fields]
        rows = run_job(results)[0]
        assert [tuple(row)[:3] for row in rows] == [(1, 2, "click"), (1, 3, "buy")]
        assert all(row.last_updated.year >= 2024 for row in rows)

    def test_all_ways_to_say_it(self, stream):
        ways = [
            stream.flat_map_groups_with_state(lesson, LESSON, self.TIMEOUT, output="a int, b int, c string, d timestamp"),
            stream.flat_map_groups_with_state(
                lesson, "a int, b int, c string, d timestamp", state_schema=LESSON, timeout="processing_time"
            ),
            stream.map_groups_with_state(
                running, "n int", PySparksTimeout.NoTimeout, output="a int, b int, c string, d timestamp"
            ),
            stream.map_groups_with_state(running, output="a int, b int, c string, d timestamp", state_schema="n int"),
        ]
        assert {tuple(frame.columns) for frame in ways} == {("a", "b", "c", "d")}

    @pytest.mark.parametrize(
        ("placed", "named", "said"),
        [
            ((LESSON, "processing_time"), {"timeout": "processing_time"}, "timeout is given twice"),
            ((LESSON, "processing_time"), {"state_schema": LESSON}, "state_schema is given twice"),
            ((LESSON,), {"output": LESSON}, "output is given twice"),
            ((LESSON, LESSON, "processing_time"), {}, "there are (fn, output) and (fn, state_schema, timeout)"),
            ((LESSON, "soon"), {}, "timeout is 'soon'; it can be None, 'processing_time' or 'event_time'"),
            ((LESSON, LESSON), {}, "it can be None, 'processing_time' or 'event_time'"),
            ((5, "processing_time"), {}, "The state schema is 5; give a DDL string"),
            ((), {}, "No schema of the main output is given"),
        ],
    )
    def test_what_is_refused(self, stream, placed, named, said):
        for method in (stream.flat_map_groups_with_state, stream.map_groups_with_state):
            with pytest.raises(hf.InvalidStep) as refused:
                method(lesson, *placed, **named)
            assert said in str(refused.value)
