"""A key group asks Spark to be woken. Spark removes a timer after its handler, whatever that has set meanwhile."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import holdfast as hf
from holdfast.engine.backends.protocol import Due
from holdfast.spark.stages.clock import BatchClock
from holdfast.spark.stages.processor import KeyGroupProcessor, stored_time
from holdfast.testing.memory_store import MemoryStore

NOW = 1_000_000
"""In milliseconds, of either clock."""


class SparkTimers(MemoryStore):
    """The timers of one grouping key, as Spark keeps them, beside its blobs."""

    def __init__(self):
        super().__init__()
        self.set = set()
        self.register_timer = self.set.add
        self.delete_timer = self.set.discard

    def fire(self, now, handle):
        """Calls for each that is due by now, and removes it then."""
        due = sorted(timer for timer in self.set if timer <= now)
        for timer in due:
            handle()
            self.set.discard(timer)
        return len(due)


def times(now):
    return SimpleNamespace(getCurrentProcessingTimeInMs=lambda: now, getCurrentWatermarkInMs=lambda: now)


@pytest.fixture(params=[True, False], ids=["processing time", "event time"])
def group(request):
    timers = SparkTimers()
    plan = SimpleNamespace(uses_event_time=True, uses_processing_time=request.param, clock=BatchClock())
    processor = KeyGroupProcessor(plan, by_clock=request.param)
    processor._blobs = timers

    def wake_up(due, now):
        micros = None if due is None else due * 1000
        processor._wake_up(Due(real=micros) if request.param else Due(event=micros), times(now))

    return SimpleNamespace(timers=timers, wake_up=wake_up)


def test_it_is_woken_when_something_is_due(group):
    group.wake_up(NOW + 5, NOW)
    assert group.timers.set == {NOW + 5}
    group.wake_up(NOW + 3, NOW)
    assert group.timers.set == {NOW + 3}
    group.wake_up(None, NOW)
    assert group.timers.set == set()


@pytest.mark.parametrize("overdue", [0, 1, 500])
def test_what_stays_overdue_is_not_forgotten(group, overdue):
    """There is too much to do for one micro-batch: each does a part, and the rest stays due since long ago."""
    group.wake_up(NOW - overdue, NOW)
    for now in (NOW, NOW + 1, NOW + 2, NOW + 70):
        woken = group.timers.fire(now, lambda now=now: group.wake_up(NOW - overdue, now))
        assert woken == (now > NOW)
        assert len(group.timers.set) == 1
        assert min(group.timers.set) > now


@pytest.mark.parametrize("blob", [b"", b"1234567", b"123456789"])
def test_a_damaged_time_is_named(blob):
    with pytest.raises(hf.CorruptState, match=f"it has {len(blob)} bytes"):
        stored_time(blob)
