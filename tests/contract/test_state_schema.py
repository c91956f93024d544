"""Group state with a schema of Spark's, and the timeout in Spark's order."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import IntegerType, StructField, StructType, TimestampType

import holdfast as hf
from holdfast.testing import TestStream


class TestStateSchema:
    SCHEMA = StructType(
        [
            StructField("user_id", IntegerType(), False),
            StructField("action_count", IntegerType(), True),
            StructField("last_updated", TimestampType(), True),
        ]
    )

    def test_the_lessons_function(self, run):
        def update(user_id, actions, state: hf.GroupState):
            if state.hasTimedOut:
                current = state.get
                yield user_id, current["action_count"], "TIMEOUT", current["last_updated"].timestamp()
                state.remove()
                return
            count = (state.get["action_count"] if state.exists else 0) + len(actions)
            now = state.getCurrentProcessingTime()
            state.update({"user_id": user_id, "action_count": count, "last_updated": now})
            state.setTimeoutDuration("5 minutes")
            yield user_id, count, actions[-1], now

        stream = TestStream().advance_processing_time(7).add_elements([(1, "login"), (1, "click")]).crash()
        stream.add_elements([(1, "buy")]).advance_processing_time(300)
        fn = hf.FlatMapGroupsWithState(update, self.SCHEMA, hf.GroupStateTimeout.ProcessingTimeTimeout)
        out = run(fn, stream)
        assert out.values == [(1, 2, "click", 7), (1, 3, "buy", 7), (1, 3, "TIMEOUT", 7)]
        assert type(out.values[0][3]) is hf.Timestamp

    def test_a_tuple_is_unpacked_as_in_pyspark(self, run):
        def count(key, values, state):
            (n,) = state.get if state.exists else (0,)
            state.update((n + len(values),))
            return key, n + len(values)

        schema = StructType([StructField("n", IntegerType())])
        stream = TestStream().add_elements([("a", 1), ("a", 1)]).crash().add_elements([("a", 1)])
        out = run(hf.MapGroupsWithState(count, schema, hf.GroupStateTimeout.NoTimeout), stream)
        assert out.values == [("a", 2), ("a", 3)]
        assert out.state("a") == {"state": (3,)}

    def test_what_does_not_fit_the_schema_is_an_error_at_the_call(self, run):
        def count(key, values, state):
            state.update({"user_id": key, "action_count": 2**31})

        with pytest.raises(hf.CoderError) as refused:
            run(hf.FlatMapGroupsWithState(count, self.SCHEMA), TestStream().add_elements([(1, "login")]))
        assert "The field action_count: it takes whole numbers from" in str(refused.value)
