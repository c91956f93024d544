"""A lesson on state management in PySpark: groups with state, windows, clean-up by watermark, a state store of one's own.

What differs from the lesson:
- `df.groupByKey("user_id")` is `hf.keyed(df, key="user_id", value="action")`, and the function is given the list of values;
- the update function yields, which only `flatMapGroupsWithState` allows; the lesson calls `mapGroupsWithState`, which takes
  one returned row. It is called here what it is;
- what it yields has columns of its own, so that schema is given too: the lesson gives that of the state;
- `window(...)` over a constant, for the whole stream, is a constant key. All rows then meet in one key group;
- the lesson's streams come from Kafka and a rate source: the functions take any DataFrame, such as one of
  `hf.sources.Kafka`. Its custom store is examples/lesson_store.py.

    python examples/texts/spark_lesson.py

    users: (1, 2, 'read') (1, 3, 'close') (1, 3, 'TIMEOUT')
    sliding: 1 1.0, 2 3.0, 2 3.0, 2 3.0, 2 3.0, 1 2.0
    actions: (1, 2, ['open', 'read']) (2, 1, ['open'])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import holdfast as hf
from holdfast import GroupState, GroupStateTimeout
from holdfast.testing import TestStream, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MINUTE = 60

USER_STATE = "user_id int, action_count int, last_action string, last_updated timestamp"
USER_ROW = "user_id int, action_count int, last_action string, last_updated timestamp"


# Define update function
def update_function(user_id: int, actions: list[str], state: GroupState) -> Iterator[tuple[Any, ...]]:
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
            "last_updated": state.getCurrentProcessingTime(),
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
            "last_updated": state.getCurrentProcessingTime(),
        }

        state.update(initial_state)
        state.setTimeoutDuration("5 minutes")

        yield (user_id, len(actions), actions[-1], state.getCurrentProcessingTime())


def users(stream_df: DataFrame) -> DataFrame:
    """Apply stateful operation."""
    return hf.keyed(stream_df, key="user_id", value="action").flat_map_groups_with_state(
        update_function, output=USER_ROW, state_schema=USER_STATE, timeout=GroupStateTimeout.ProcessingTimeTimeout
    )


STATISTICS = {"count": hf.Count(), "sum_value": hf.Sum(), "min_value": hf.Min(), "max_value": hf.Max()}
SLIDING = hf.SlidingWindows("5 minutes", "1 minute")


def window_aggregation(stream_df: DataFrame) -> DataFrame:
    """Window aggregation with watermark; a result for every micro-batch, as in the output mode `update`."""
    everything = stream_df.selectExpr("1 AS dummy", "CAST(value AS DOUBLE) AS value", "timestamp AS event_time")
    keyed = hf.keyed(everything, key="dummy", value="value", timestamp="event_time", watermark="1 minute")
    windows = keyed.window_into(SLIDING, trigger=hf.Always(), accumulation_mode="accumulating")
    return windows.combine_per_key(STATISTICS, output="count long, sum_value double, min_value double, max_value double")


ACTIONS = {"action_count": hf.Count(), "actions": hf.ToList()}


def actions_of_users(stream_df: DataFrame) -> DataFrame:
    """Aggregation that benefits from watermark cleanup: a window goes ten minutes after its end."""
    keyed = hf.keyed(stream_df, key="user_id", value="action", timestamp="event_time", watermark="10 minutes")
    return keyed.window_into(hf.FixedWindows("5 minutes")).combine_per_key(
        ACTIONS, output="action_count long, actions array<string>"
    )


def main() -> None:
    group = hf.FlatMapGroupsWithState(update_function, timeout=GroupStateTimeout.ProcessingTimeTimeout)
    stream = TestStream().add_elements([(1, "open"), (1, "read")]).advance_processing_time(MINUTE)
    out = run(group, stream.add_elements([(1, "close")]).advance_processing_time(5 * MINUTE))
    print("users:", *(row[:3] for row in out.values))

    readings = [hf.TimestampedValue((1, value), second) for value, second in ((1.0, 30), (2.0, 90))]
    stream = TestStream().add_elements(readings).advance_watermark_to_infinity()
    results = [result for _, result in run(hf.CombinePerKey(STATISTICS), stream, windowing=SLIDING).values]
    print("sliding:", ", ".join(f"{result['count']} {result['sum_value']}" for result in results))

    events = [(1, "open", 10), (2, "open", 20), (1, "read", 200)]
    elements = [hf.TimestampedValue((user, action), second) for user, action, second in events]
    # The watermark stays ten minutes behind the newest event; what is older is late.
    stream = TestStream().add_elements(elements).advance_watermark_to(5 * MINUTE)
    stream.add_elements([hf.TimestampedValue((1, "too late"), 30)]).advance_watermark_to_infinity()
    out = run(hf.CombinePerKey(ACTIONS), stream, windowing=hf.FixedWindows("5 minutes"))
    print("actions:", *((user, result["action_count"], result["actions"]) for user, result in out.values))


if __name__ == "__main__":
    main()
