"""Functions with Spark's group state: the values of a key together, one value of state, one timeout."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast import FlatMapGroupsWithState, MapGroupsWithState, Timestamp
from holdfast.testing import TestStream

from .reading import at, by_key

FIVE_MINUTES = 300


def count_actions(user, actions, state):
    """The lesson: actions of each user, and a row when there were none for five minutes."""
    if state.hasTimedOut:
        (count,) = state.get
        state.remove()
        yield user, "TIMEOUT", count
        return
    (count,) = state.get if state.exists else (0,)
    count += len(actions)
    state.update((count,))
    state.setTimeoutDuration("5 minutes")
    yield user, actions[-1], count


def test_the_lesson(run):
    stream = TestStream()
    stream.add_elements([("ann", "login"), ("bob", "login"), ("ann", "click")])
    stream.advance_processing_time(200).add_elements([("ann", "buy")])
    stream.advance_processing_time(100).crash()
    stream.advance_processing_time(200)
    stream.add_elements([("bob", "login")])
    results = run(FlatMapGroupsWithState(count_actions, timeout="processing_time"), stream)
    assert by_key(results) == {
        "ann": [("click", 2), ("buy", 3), ("TIMEOUT", 3)],
        "bob": [("login", 1), ("TIMEOUT", 1), ("login", 1)],
    }
    assert results.state("ann") == {}
    assert results.timers("ann") == []
    assert results.state("bob") == {"state": (1,)}
    assert [name for name, *_ in results.timers("bob")] == ["timeout"]


def test_one_row_from_each_call(run):
    def total(key, values, state):
        state.update((state.getOption or 0) + sum(values))
        return key, state.get

    stream = TestStream().add_elements([("a", 1), ("a", 2), ("b", 3)]).add_elements([("a", 4)])
    assert by_key(run(MapGroupsWithState(total), stream)) == {"a": [3, 7], "b": [3]}


def test_a_call_with_values_cancels_the_timeout(run):
    def once(key, values, state):
        if not state.hasTimedOut and not state.exists:
            state.setTimeoutDuration(10_000)
        state.update(1)
        return [(key, values, state.hasTimedOut)]

    stream = TestStream().add_elements([("a", 1), ("b", 1)]).add_elements([("a", 2)]).advance_processing_time(60)
    results = run(FlatMapGroupsWithState(once, timeout="ProcessingTimeTimeout"), stream)
    assert by_key(results) == {"a": [([1], False), ([2], False)], "b": [([1], False), ([], True)]}


def test_a_timeout_outlives_the_value(run):
    def forgetful(key, values, state):
        gave = state.hasTimedOut, state.exists
        state.update(1)
        if not state.hasTimedOut:
            state.setTimeoutDuration(1000)
        state.remove()
        return key, gave

    stream = TestStream().add_elements([("a", 1)]).advance_processing_time(1)
    results = run(MapGroupsWithState(forgetful, timeout="processing_time"), stream)
    assert by_key(results) == {"a": [(False, False), (True, False)]}
    assert results.keys() == []


def sessions(key, values, state):
    """Sessions by event time: each value is its own time in seconds."""
    if state.hasTimedOut:
        yield key, state.get, state.getCurrentWatermarkMs()
        state.remove()
        return
    state.update(sorted((state.getOption or []) + values))
    state.setTimeoutTimestamp(max(state.get) * 1000, "10 seconds")


def test_event_time(run):
    stream = TestStream()
    stream.add_elements(at(("a", 100, 100), ("a", 105, 105), ("b", 101, 101)))
    stream.advance_watermark_to(111)
    stream.add_elements(at(("b", 112, 112), ("a", 50, 50)))
    stream.advance_watermark_to(115).advance_watermark_to(116)
    stream.advance_watermark_to_infinity()
    results = run(FlatMapGroupsWithState(sessions, timeout="event_time"), stream)
    assert by_key(results)["a"] == [([100, 105], 116_000)], "not at 115: the watermark must be beyond the time"
    assert [times for times, _ in by_key(results)["b"]] == [[101, 112]]
    assert results.keys() == []
    assert results.metrics.user.counters["group_state/late"] == 1, "older than the watermark, as Spark drops them"


def test_before_there_is_a_watermark_it_is_zero(run):
    def clocks(key, values, state):
        return key, state.getCurrentWatermarkMs(), state.getCurrentWatermark(), state.getCurrentProcessingTime()

    stream = TestStream().advance_processing_time(2).add_elements([("a", 1)])
    stream.advance_watermark_to(7).add_elements([("a", 1)], event_timestamp=7)
    assert by_key(run(MapGroupsWithState(clocks), stream))["a"] == [
        (0, Timestamp(0), Timestamp(2)),
        (7000, Timestamp(7), Timestamp(2)),
    ]


def test_a_time_before_the_watermark_is_an_error(run):
    def hasty(key, values, state):
        state.setTimeoutTimestamp(5_000)
        return key, "set"

    stream = TestStream().add_elements([("a", 1)]).advance_watermark_to(5).add_elements([("b", 1)], event_timestamp=5)
    assert by_key(run(MapGroupsWithState(hasty, timeout="event_time"), stream)) == {"a": ["set"], "b": ["set"]}
    stream.advance_watermark_to(6).add_elements([("c", 1)], event_timestamp=7)
    with pytest.raises(hf.GroupStateError, match="before the watermark"):
        run(MapGroupsWithState(hasty, timeout="event_time"), stream)


@pytest.mark.parametrize("timeout", ["processing_time", "event_time"])
def test_at_the_end_each_timeout_passes_once(run, timeout):
    def again(key, values, state):
        if timeout == "event_time":
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1)
        else:
            state.setTimeoutDuration(1)
        return key, state.hasTimedOut

    stream = TestStream().add_elements([("a", 1)]).advance_watermark_to_infinity()
    results = run(MapGroupsWithState(again, timeout=timeout), stream)
    assert by_key(results) == {"a": [False, True]}


def test_a_call_that_raises_leaves_value_and_timeout(run):
    def fragile(key, values, state):
        if "bad" in values:
            state.remove()
            raise ValueError("bad")
        if not state.hasTimedOut:
            state.update(values)
            state.setTimeoutDuration("1 second")
        yield key, state.hasTimedOut, state.get

    stream = TestStream().add_elements([("a", "good")]).add_elements([("a", "bad")]).advance_processing_time(1)
    results = run(FlatMapGroupsWithState(fragile, timeout="processing_time"), stream, on_error="dead_letter")
    assert by_key(results) == {"a": [(False, ["good"]), (True, ["good"])]}
    assert [letter.value for letter in results.tagged("dead_letter")] == ["bad"]


def test_state_for_each_window(run):
    def count(key, values, state):
        state.update((state.getOption or 0) + len(values))
        return key, state.get

    stream = TestStream().add_elements(at(("a", 1, 1), ("a", 1, 2), ("a", 1, 11))).add_elements(at(("a", 1, 3)))
    results = run(MapGroupsWithState(count), stream, windowing=hf.FixedWindows(10))
    assert sorted(by_key(results)["a"]) == [1, 2, 3]
