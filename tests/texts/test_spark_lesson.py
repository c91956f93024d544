"""A lesson on state in PySpark: its four programs and its diagrams. On Spark only what is about Spark."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

pytest.importorskip("pyspark")

import holdfast as hf
from holdfast.backends import KeyValueBackend
from holdfast.errors import CorruptState
from holdfast.testing import TestStream, check_backend, run
from holdfast.testing.spark_runtime import scripted_session

from .snippets import run_snippet

UPDATE = """
from pyspark.sql import SparkSession
from pyspark.sql.functions import *
from pyspark.sql.streaming import GroupState, GroupStateTimeout

# Define state schema
from pyspark.sql.types import (
    StructType, StructField, StringType, IntegerType, TimestampType
)

user_state_schema = StructType([
    StructField("user_id", IntegerType(), False),
    StructField("action_count", IntegerType(), True),
    StructField("last_action", StringType(), True),
    StructField("last_updated", TimestampType(), True)
])

# Define update function
def update_function(user_id, actions, state: GroupState):
    if state.hasTimedOut:
        # State timed out, emit final state and remove
        current_state = state.get
        yield (user_id, current_state["action_count"], "TIMEOUT", state.getCurrentProcessingTime())
        state.remove()
    elif state.exists:
        # Update existing state
        current_state = state.get
        new_count = current_state["action_count"] + len(actions)
        last_action = actions[-1] if actions else current_state["last_action"]

        new_state = {
            "user_id": user_id,
            "action_count": new_count,
            "last_action": last_action,
            "last_updated": state.getCurrentProcessingTime()
        }

        state.update(new_state)
        state.setTimeoutDuration("5 minutes")

        yield (user_id, new_count, last_action, state.getCurrentProcessingTime())
    else:
        # Initialize state
        initial_state = {
            "user_id": user_id,
            "action_count": len(actions),
            "last_action": actions[-1] if actions else None,
            "last_updated": state.getCurrentProcessingTime()
        }

        state.update(initial_state)
        state.setTimeoutDuration("5 minutes")

        yield (user_id, len(actions), actions[-1], state.getCurrentProcessingTime())
"""
GROUP_STATE = {"from pyspark.sql.streaming import GroupState": "from holdfast import GroupState"}

QUERY = """
# Apply stateful operation
result = stream_df.groupByKey("user_id").mapGroupsWithState(
    update_function,
    user_state_schema,
    GroupStateTimeout.ProcessingTimeTimeout
)

# Write results
query = result.writeStream \\
    .outputMode("update") \\
    .format("console") \\
    .option("truncate", "false") \\
    .start()

query.awaitTermination()
"""

WINDOWS = """
windowed_agg = stream_df \\
    .withWatermark("event_time", "1 minute") \\
    .groupBy(
        window("event_time", "5 minutes", "1 minute"),
        lit(1).alias("dummy")  # For global aggregation
    ).agg(
        count("*").alias("count"),
        sum("value").alias("sum_value"),
        min("value").alias("min_value"),
        max("value").alias("max_value")
    ).select(
        col("window.start").alias("window_start"),
        col("window.end").alias("window_end"),
        "count", "sum_value", "min_value", "max_value"
    )
"""

CLEAN_UP = """
# Apply watermark for state cleanup
watermarked_df = stream_df \\
    .withWatermark("event_time", "10 minutes")  # 10 minute threshold

# Aggregation that benefits from watermark cleanup
aggregated_df = watermarked_df \\
    .groupBy(
        window("event_time", "5 minutes"),
        "user_id"
    ).agg(
        count("*").alias("action_count"),
        collect_list("action").alias("actions")
    )
"""

CUSTOM_STORE = """
from pyspark.sql.streaming import StateStore, StateStoreProvider

# Custom State Store Provider
class CustomStateStoreProvider(StateStoreProvider):
    def init(self, stateStoreId):
        # Initialize custom state store
        self.state_store = {}
        self.version = 0

    def get(self, key):
        return self.state_store.get(key)

    def put(self, key, value):
        self.state_store[key] = value
        self.version += 1

    def remove(self, key):
        if key in self.state_store:
            del self.state_store[key]
            self.version += 1

    def commit(self):
        # Persist state to durable storage
        self.persist_to_disk()
        return self.version

    def abort(self):
        # Rollback changes
        self.rollback_changes()

    def iterator(self):
        return iter(self.state_store.items())

    def persist_to_disk(self):
        # Custom persistence logic
        pass

    def rollback_changes(self):
        # Custom rollback logic
        pass
"""
PROVIDER = {
    "from pyspark.sql.streaming import StateStore, StateStoreProvider": (
        "from holdfast.backends import KeyValueBackend as StateStoreProvider"
    )
}


def test_the_update_function():
    """Changes: an import line."""
    lesson = run_snippet(UPDATE, GROUP_STATE)
    update, schema, timeouts = lesson["update_function"], lesson["user_state_schema"], lesson["GroupStateTimeout"]
    stream = TestStream().advance_processing_time(7).add_elements([(1, "login"), (1, "click"), (2, "login")]).crash()
    stream.advance_processing_time(10).add_elements([(1, "buy")]).advance_processing_time(290).advance_processing_time(10)
    out = run(hf.FlatMapGroupsWithState(update, schema, timeouts.ProcessingTimeTimeout), stream)
    assert out.values == [
        (1, 2, "click", 7),
        (2, 1, "login", 7),
        (1, 3, "buy", 17),
        (2, 1, "TIMEOUT", 307),
        (1, 3, "TIMEOUT", 317),
    ]
    assert out.keys() == []


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


BATCHES = [["A", "B"], ["B"], ["A"]]
"""The lesson's diagram: the keys that come in each micro-batch."""
STATES = [{"A": 1, "B": 1}, {"A": 1, "B": 2}, {"A": 2, "B": 2}]


def batch(keys):
    return TestStream().add_elements([(key, "event") for key in keys])


def test_the_flow_of_three_batches():
    """Changes: none, it is a diagram. After each micro-batch the state is the one that it shows."""
    past = None
    for keys, state in zip(BATCHES, STATES, strict=True):
        past = run(Count(), batch(keys), start_from=past)
        assert {key: past.state(key)["count"] for key in "AB"} == state


def test_a_crash_in_the_fourth_batch():
    """Changes: none, it is a diagram. The state of the third is restored, and the fourth replayed."""
    third = None
    for keys in BATCHES:
        third = run(Count(), batch(keys), start_from=third)
    fourth = batch(["A", "A"]).crash().add_elements([("B", "event")]).crash()
    out = run(Count(), fourth, start_from=third)
    assert out.values == [("A", 3), ("A", 4), ("B", 3)]


DISK: dict[str, dict[bytes, bytes]] = {}


def custom_store() -> KeyValueBackend:
    """Changes: the import line; and what the lesson leaves open: opening, persisting, rolling back."""
    lesson: Any = run_snippet(CUSTOM_STORE, PROVIDER)["CustomStateStoreProvider"]

    class Filled(lesson):
        state_store: dict[bytes, bytes]
        before: dict[bytes, bytes]

        def init(self, stateStoreId):
            super().init(stateStoreId)
            self.disk = DISK.setdefault(stateStoreId.name, {})
            self.rollback_changes()

        def iterator(self):
            return iter(list(self.state_store.items()))

        def persist_to_disk(self):
            for key in self.before.keys() - self.state_store.keys():
                self.disk.pop(key, None)
            self.disk.update({key: value for key, value in self.state_store.items() if self.before.get(key) != value})
            self.before = dict(self.state_store)

        def rollback_changes(self):
            self.before = dict(self.disk)
            self.state_store = dict(self.disk)

        def __deepcopy__(self, memo):
            return type(self)()

    return Filled()


def test_the_custom_store():
    out = run(Count(), batch(["A", "B"]).crash().add_elements([("A", "event")]), backend=custom_store())
    assert out.values == [("A", 1), ("B", 1), ("A", 2)]


def test_the_custom_store_as_it_stands():
    """Changes: the import line. It persists nothing, so it does as long as nothing fails, and then says what is missing."""
    lesson: Any = run_snippet(CUSTOM_STORE, PROVIDER)["CustomStateStoreProvider"]
    out = run(Count(), batch(["A", "B"]).add_elements([("A", "event")]), backend=lesson(), key_groups=2)
    assert out.values == [("A", 1), ("B", 1), ("A", 2)]
    with pytest.raises(CorruptState, match="The store 'CustomStateStoreProvider' does not have the version"):
        run(Count(), batch(["A", "B"]).crash().add_elements([("A", "event")]), backend=lesson())


@pytest.mark.slow
def test_the_custom_store_keeps_the_rules():
    check_backend(custom_store())


@pytest.fixture(scope="module")
def spark():
    return scripted_session()


@pytest.fixture
def events(spark, tmp_path):
    """Makes a stream of JSON lines: a file for each micro-batch."""

    def make(schema, *batches):
        folder = tmp_path / "events"
        folder.mkdir()
        for number, rows in enumerate(batches):
            path = folder / f"{number}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            os.utime(path, (number, number))  # Spark reads the oldest first.
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))

    return make


def functions():
    """What `from pyspark.sql.functions import *` gives."""
    from pyspark.sql import functions as F

    return {name: getattr(F, name) for name in ("window", "lit", "count", "sum", "min", "max", "col", "collect_list")}


@pytest.mark.slow
def test_the_query(events):
    """Changes: files for Kafka; `hf.keyed`, which DataFrames have instead of `groupByKey`; `flat_map`, because the function
    yields; and the query ends with its input."""
    changes = {
        'stream_df.groupByKey("user_id")': 'keyed(stream_df, key="user_id", value="action")',
        "mapGroupsWithState": "flat_map_groups_with_state",
        '.option("truncate", "false") ': '.option("truncate", "false").trigger(availableNow=True) ',
    }
    rows = [{"user_id": 1, "action": "login"}, {"user_id": 1, "action": "click"}]
    stream = events("user_id INT, action STRING", rows, [{"user_id": 1, "action": "buy"}])
    lesson = run_snippet(UPDATE, GROUP_STATE)
    names = {name: lesson[name] for name in ("update_function", "user_state_schema", "GroupStateTimeout")}
    query = run_snippet(QUERY, changes, stream_df=stream, keyed=hf.keyed, **names)["query"]
    assert query.exception() is None
    assert [progress.numInputRows for progress in query.recentProgress] == [2, 1]
    assert [progress.sink.numOutputRows for progress in query.recentProgress] == [1, 1]
    assert all("Console" in progress.sink.description for progress in query.recentProgress)


def results_of(frame, mode, folder):
    """All rows that a query gives, sorted."""
    found = []
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(folder)).trigger(availableNow=True)
    writer.foreachBatch(lambda rows, _: found.extend(tuple(row) for row in rows.collect())).start().awaitTermination()
    return sorted(found)


@pytest.mark.night
@pytest.mark.slow
def test_windows_over_a_rate(spark, events, tmp_path):
    """Changes: none, it is Spark's own, in a session of Holdfast's; the rows come from files, so that they are known. An
    aggregation of Holdfast's gives the same."""
    rows = [{"event_time": f"2026-01-05 08:0{n}:30", "value": float(n)} for n in range(6)]
    end = [{"event_time": "2026-01-05 09:00:00", "value": 0.0}]
    stream = events("event_time TIMESTAMP, value DOUBLE", rows, end, end)
    native = run_snippet(WINDOWS, {}, stream_df=stream, **functions())["windowed_agg"]
    from pyspark.sql import functions as F

    keyed = hf.keyed(stream.withColumn("dummy", F.lit(1)), key="dummy", timestamp="event_time", watermark="1 minute")
    ours = keyed.window_into(hf.SlidingWindows(300, 60)).combine_per_key(
        {"count": hf.Count(), "sum_value": hf.Sum("value"), "min_value": hf.Min("value"), "max_value": hf.Max("value")},
        output="count long, sum_value double, min_value double, max_value double",
    )
    columns = ["window.start", "window.end", "count", "sum_value", "min_value", "max_value"]
    expected = results_of(native, "append", tmp_path / "native")
    assert len(expected) == 10
    assert results_of(ours.select(*columns), "append", tmp_path / "ours") == expected


@pytest.mark.slow
@pytest.mark.night
def test_clean_up_by_watermark(spark, events, tmp_path):
    """Changes: none, it is Spark's own; the rows come from files. An aggregation of Holdfast's gives the same."""
    rows = [{"event_time": f"2026-01-05 08:0{n}:30", "user_id": n % 2, "action": f"a{n}"} for n in range(6)]
    late = [{"event_time": "2026-01-05 08:00:10", "user_id": 1, "action": "straggler"}]
    end = [{"event_time": "2026-01-05 09:00:00", "user_id": 0, "action": "end"}]
    stream = events("event_time TIMESTAMP, user_id INT, action STRING", rows, late, end, end, late, end)
    native = run_snippet(CLEAN_UP, {}, stream_df=stream, **functions())["aggregated_df"]
    ours = (
        hf.keyed(stream, key="user_id", value="action", timestamp="event_time", watermark="10 minutes")
        .window_into(hf.FixedWindows(300))
        .combine_per_key(
            {"action_count": hf.Count(), "actions": hf.ToList()}, output="action_count long, actions array<string>"
        )
    )
    columns = ["window.start", "window.end", "user_id", "action_count", "actions"]
    expected = results_of(native.select(*columns), "append", tmp_path / "native")
    assert expected[0][2:] == (0, 3, ["a0", "a2", "a4"])
    assert expected[1][2:] == (1, 3, ["a1", "a3", "straggler"])
    assert results_of(ours.select(*columns), "append", tmp_path / "ours") == expected
