"""What a step with group state refuses, and what it says."""

from __future__ import annotations

import datetime
import functools

import pytest

import holdfast as hf
from holdfast.testing import TestStream, run

ONE = TestStream().add_elements([("k", 1)], event_timestamp=100)


def flat(fn, timeout=None, **options):
    return run(hf.FlatMapGroupsWithState(fn, timeout=timeout, **options), ONE)


def nothing(key, values, state):
    return None


class TestDeclaration:
    def test_all_that_is_wrong_is_told_at_once(self):
        with pytest.raises(hf.InvalidStep) as caught:
            run(hf.FlatMapGroupsWithState(lambda key, values: 1, timeout="soon", state_coder=3), ONE, key_groups=0)  # type: ignore[misc]
        text = str(caught.value)
        assert "cannot be called with (key, values, state)" in text
        assert "timeout is 'soon'; it can be None, 'processing_time' or 'event_time'" in text
        assert "The cell 'state' has 3 as its coder" in text
        assert "key_groups is 0" in text

    def test_no_function(self):
        with pytest.raises(hf.InvalidStep, match="map_groups_with_state was given 5"):
            run(hf.MapGroupsWithState(5, timeout=7), ONE)

    @pytest.mark.parametrize(
        ("timeout", "domains"),
        [
            (None, []),
            ("none", []),
            ("NoTimeout", []),
            ("processing_time", [hf.TimeDomain.REAL_TIME]),
            ("ProcessingTimeTimeout", [hf.TimeDomain.REAL_TIME]),
            ("event_time", [hf.TimeDomain.WATERMARK]),
            ("EventTimeTimeout", [hf.TimeDomain.WATERMARK]),
        ],
    )
    def test_timeouts(self, timeout, domains):
        from holdfast.model.functions.step import build_step

        step = build_step(hf.FlatMapGroupsWithState(nothing, timeout=timeout))
        assert [timer.time_domain for timer in step.timers] == domains
        assert [(cell.name, cell.kind) for cell in step.cells] == [("state", "value")]

    def test_the_step_is_named_after_the_function(self):
        assert hf.FlatMapGroupsWithState(nothing).default_label() == "nothing"
        assert hf.FlatMapGroupsWithState(functools.partial(nothing)).default_label() == "nothing"
        assert hf.MapGroupsWithState(lambda k, v, s: 1).default_label() == "map_groups_with_state"

    def test_a_coder_of_ones_own(self):
        def keep(key, values, state):
            state.update(len(values))

        assert flat(keep, state_coder=hf.VarIntCoder()).state("k") == {"state": 1}
        with pytest.raises(hf.CoderError, match="cell 'state'"):
            flat(lambda k, v, state: state.update("text"), state_coder=hf.VarIntCoder())

    def test_it_can_be_told_apart(self):
        assert isinstance(hf.FlatMapGroupsWithState(nothing), hf.FlatMapGroupsWithState)
        assert not isinstance(hf.FlatMapGroupsWithState(nothing), hf.MapGroupsWithState)


class TestMisuse:
    @pytest.mark.parametrize(
        ("timeout", "call", "says"),
        [
            (None, lambda state: state.get, "found no value for the key"),
            (None, lambda state: state.update(None), "state.update was given None"),
            (
                None,
                lambda state: state.setTimeoutDuration(5),
                "needs the timeout 'processing_time', but this step has 'none'",
            ),
            (None, lambda state: state.setTimeoutTimestamp(5), "needs the timeout 'event_time', but this step has 'none'"),
            ("event_time", lambda state: state.setTimeoutDuration(5), "needs the timeout 'processing_time'"),
            ("processing_time", lambda state: state.setTimeoutTimestamp(5), "needs the timeout 'event_time'"),
            ("processing_time", lambda state: state.setTimeoutDuration(0), "A timeout cannot be set for 0"),
            ("processing_time", lambda state: state.setTimeoutDuration(1.5), "A duration cannot be made of 1.5"),
            ("processing_time", lambda state: state.setTimeoutDuration(True), "A duration cannot be made of True"),
            ("event_time", lambda state: state.setTimeoutTimestamp(0), "not after 1970"),
            ("event_time", lambda state: state.setTimeoutTimestamp("noon"), "A time cannot be made of 'noon'"),
        ],
    )
    def test_it_says_what_to_do(self, timeout, call, says):
        with pytest.raises(hf.GroupStateError) as caught:
            flat(lambda key, values, state: call(state), timeout)
        assert says in caught.value.what
        assert caught.value.todo
        assert caught.value.context["key"] == "k"

    def test_a_text_that_is_no_duration(self):
        with pytest.raises(hf.TimeError, match="'a while' is not a duration"):
            flat(lambda k, v, state: state.setTimeoutDuration("a while"), "processing_time")

    @pytest.mark.parametrize("row", ["row", {"k": 1}, 5])
    def test_flat_map_takes_rows(self, row):
        with pytest.raises(hf.OutputError, match="takes an iterable of rows, or None"):
            flat(lambda k, v, s: row)

    def test_map_takes_one_row(self):
        with pytest.raises(hf.OutputError, match="gave no row"):
            run(hf.MapGroupsWithState(nothing), ONE)

        def many(key, values, state):
            yield 1

        with pytest.raises(hf.OutputError, match="many gave an iterator"):
            run(hf.MapGroupsWithState(many), ONE)

    def test_the_traceback_begins_with_the_users_line(self):
        def broken(key, values, state):
            raise RuntimeError("oh")

        with pytest.raises(hf.UserCodeError) as caught:
            flat(broken)
        assert "test_group_state.py" in caught.value.detail.splitlines()[1]
        assert "step 'broken'" in caught.value.what


class TestValues:
    def test_what_is_read_belongs_to_the_reader(self):
        def keep(key, values, state):
            state.update([1])
            state.get.append(2)
            assert state.exists
            assert state.get == [1]
            assert state.getOption == [1]
            assert repr(state) == "GroupState([1])"
            state.remove()
            assert not state.exists
            assert state.getOption is None
            assert repr(state) == "GroupState(<undefined>)"

        flat(keep)

    @pytest.mark.parametrize("span", ["2 seconds", 2000, datetime.timedelta(seconds=2), hf.Duration(2)])
    def test_durations(self, span):
        def keep(key, values, state):
            state.setTimeoutDuration(span)

        [timer] = flat(keep, "processing_time").timers("k")
        assert timer[3] == 2

    @pytest.mark.parametrize(
        "when",
        [(5000,), (4000, 1000), (4000, "1 second"), (hf.Timestamp(5),), (hf.Timestamp(4).to_utc_datetime(True), 1000)],
    )
    def test_times(self, when):
        def keep(key, values, state):
            state.setTimeoutTimestamp(*when)

        [timer] = flat(keep, "event_time").timers("k")
        assert timer[3] == hf.Timestamp(5, 1)
