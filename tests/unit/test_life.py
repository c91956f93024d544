"""The life of a job: which micro-batches are let in, whatever comes in between."""

from __future__ import annotations

import contextlib
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.spark.errors.quiet import never_logged
from holdfast.spark.job.life import HeldBack, Life, Phase, Stop, Streak


@pytest.fixture
def life():
    made = Life("alerts")
    made.begin()
    made.started()
    return made


def process(life, number, asked):
    """A micro-batch that fails after a stop was asked for."""
    with life.micro_batch(number):
        life.ask(asked)
        raise OSError("away")


def test_phases():
    life = Life("alerts")
    assert life.phase is Phase.NEW
    life.begin()
    assert life.phase is Phase.STARTING
    assert not life.wait_until_started(0)
    life.started()
    assert life.phase is Phase.RUNNING
    assert life.wait_until_started(0)
    life.ended()
    assert life.phase is Phase.ENDED


def test_a_start_that_failed_is_over():
    life = Life("alerts")
    life.begin()
    life.ended()
    assert life.wait_until_started(0)


def test_a_micro_batch_is_done_when_it_has_been_processed(life):
    with life.micro_batch(7):
        assert life.inside == 7
        assert life.done is None
        assert life.is_handler
    assert (life.inside, life.done, life.done_since_begin) == (None, 7, 1)
    assert not life.is_handler


def test_one_that_fails_is_not(life):
    with pytest.raises(OSError, match="away"), life.micro_batch(7):
        raise OSError("away")
    assert (life.inside, life.done, life.held_back) == (None, None, False)


def test_after_a_request_none_is_let_in(life):
    life.ask(Stop.AFTER_BATCH)
    with pytest.raises(HeldBack, match="Micro-batch 3"), life.micro_batch(3):
        pytest.fail("was let in")
    assert life.held_back
    assert life.done is None


def test_one_that_is_running_is_finished(life):
    with life.micro_batch(3):
        life.ask(Stop.AFTER_BATCH)
    assert life.done == 3
    assert not life.held_back


def test_an_immediate_stop_takes_what_it_fails_with_for_the_stop(life):
    with pytest.raises(HeldBack) as caught:
        process(life, 3, Stop.NOW)
    # Spark would search a long text for the interruption with an expression that overflows its stack.
    assert caught.value.__suppress_context__
    assert life.done is None


def test_a_failure_while_an_orderly_stop_waits_is_a_failure(life):
    with pytest.raises(OSError, match="away"):
        process(life, 3, Stop.AFTER_BATCH)
    assert not life.held_back


def test_a_request_stands_until_the_next_life(life):
    assert life.ask(Stop.AFTER_BATCH)
    assert not life.ask(Stop.AFTER_BATCH)
    life.start_again()
    assert life.asked is Stop.AFTER_BATCH
    assert life.ask(Stop.NOW)
    assert not life.ask(Stop.AFTER_BATCH)
    assert life.asked is Stop.NOW
    life.begin()
    assert life.asked is Stop.NONE
    with life.micro_batch(0):
        pass


def test_what_a_query_has_done_is_forgotten_with_it_and_what_the_job_has_is_not(life):
    with life.micro_batch(4):
        pass
    life.start_again()
    assert (life.done, life.done_by_query, life.done_since_begin) == (4, None, 1)


EVENTS = st.lists(st.sampled_from(["batch", "fails", "ask", "now", "again", "begin"]), max_size=30)


@given(EVENTS)
def test_nothing_is_done_between_a_request_and_the_next_life(events):
    life = Life("alerts")
    life.begin()
    asked, number, done = Stop.NONE, 0, []
    for event in events:
        if event == "ask":
            assert life.ask(Stop.AFTER_BATCH) is (asked < Stop.AFTER_BATCH)
            asked = max(asked, Stop.AFTER_BATCH)
        elif event == "now":
            assert life.ask(Stop.NOW) is (asked < Stop.NOW)
            asked = Stop.NOW
        elif event == "begin":
            life.begin()
            asked, done = Stop.NONE, []
        elif event == "again":
            life.start_again()
        else:
            expected = HeldBack if asked else OSError if event == "fails" else None
            with pytest.raises(expected) if expected else contextlib.nullcontext(), life.micro_batch(number):
                if event == "fails":
                    raise OSError
                done.append(number)
            number += expected is None
        assert life.asked is asked
        assert life.done == (done[-1] if done else None)
        assert life.done_since_begin == len(done)


def test_a_request_and_a_micro_batch_at_the_same_time():
    """Whoever comes first: a micro-batch that was let in is seen inside by who asks after that."""
    for _ in range(300):
        life = Life("alerts")
        life.begin()
        seen, barrier = [], threading.Barrier(2)

        def process(life=life, barrier=barrier, seen=seen):
            barrier.wait()
            try:
                with life.micro_batch(1):
                    seen.append("in")
            except HeldBack:
                seen.append("held back")

        thread = threading.Thread(target=process)
        thread.start()
        barrier.wait()
        life.ask(Stop.AFTER_BATCH)
        thread.join()
        assert (seen == ["in"]) is (life.done == 1)
        assert (seen == ["held back"]) is life.held_back


def test_failures_in_a_row():
    streak = Streak()
    assert [streak.count_at(done) for done in (None, None, 0, 0, 0, 1)] == [1, 2, 1, 2, 3, 1]


def test_a_micro_batch_that_is_left_is_not_logged_as_a_failure(caplog):
    """Py4J logs what a function that Spark has called raises, with its traceback, where a program has logging set up."""
    never_logged(HeldBack)
    never_logged(HeldBack)
    logger = logging.getLogger("py4j.clientserver")
    for error in (HeldBack("left"), OSError("away")):
        try:
            raise error
        except Exception:
            logger.exception("an exception on the Python side")
    logger.error("something else")
    assert [str(record.exc_info[1]) if record.exc_info else record.message for record in caplog.records] == [
        "away",
        "something else",
    ]
    assert len(logger.filters) == 1
