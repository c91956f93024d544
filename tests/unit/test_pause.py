"""The pause between micro-batches, on a clock that the test moves."""

from __future__ import annotations

import threading

import msgspec
import pytest

pytest.importorskip("pyspark")

from holdfast.spark.job.batch_records import without_pause
from holdfast.spark.job.life import Life, Stop
from holdfast.spark.job.pause import Pause
from holdfast.watch.records import BatchRecord


class Clock:
    """A clock, and a life that moves it when it is waited for."""

    def __init__(self):
        self.now = 100.0
        self.waited = []

    def __call__(self):
        return self.now

    def wait_until_asked(self, seconds):
        self.waited.append(seconds)
        self.now += seconds
        return False


@pytest.fixture
def clock():
    return Clock()


def test_the_first_micro_batch_of_a_query_does_not_wait(clock):
    pause = Pause(30, clock)
    pause.begin()
    pause.wait(0, clock)
    pause.ended()
    pause.begin()
    pause.wait(1, clock)
    assert clock.waited == []


def test_the_next_one_waits_for_what_is_left_of_the_pause(clock):
    pause = Pause(30, clock)
    pause.ended()
    clock.now += 12
    pause.wait(1, clock)
    assert clock.waited == [18]
    assert (pause.millis(1), pause.millis(0), pause.millis(2)) == (18_000, 0, 0)


def test_one_that_comes_late_does_not_wait(clock):
    pause = Pause(30, clock)
    pause.ended()
    clock.now += 30
    pause.wait(1, clock)
    assert clock.waited == []
    assert pause.millis(1) == 0


def test_without_a_pause_nobody_waits(clock):
    pause = Pause(0, clock)
    pause.ended()
    pause.wait(1, clock)
    assert clock.waited == []


def test_a_stop_ends_the_pause():
    life, pause, left = Life("job"), Pause(10_000), threading.Event()
    life.begin()
    pause.ended()

    def wait():
        pause.wait(1, life)
        left.set()

    threading.Thread(target=wait, daemon=True).start()
    assert life.ask(Stop.AFTER_BATCH)
    assert left.wait(60)


def test_a_life_knows_whether_it_was_asked():
    life = Life("job")
    life.begin()
    assert not life.wait_until_asked(0)
    life.ask(Stop.AFTER_BATCH)
    assert life.wait_until_asked(0)
    life.start_again()
    assert life.wait_until_asked(0), "a request stays while the job is started again"
    life.begin()
    assert not life.wait_until_asked(0)


def test_a_record_has_the_pause_apart():
    record = BatchRecord(3, at_ms=1, duration_ms=20_000, phases_ms={"addBatch": 19_500, "walCommit": 500})
    assert without_pause(record, 0) is record
    apart = without_pause(record, 18_000)
    wanted = {"duration_ms": 2_000, "phases_ms": {"addBatch": 1_500, "walCommit": 500, "pause": 18_000}}
    assert apart == msgspec.structs.replace(record, **wanted)
