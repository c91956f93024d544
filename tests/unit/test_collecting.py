"""The search for garbage in a worker: how often it looks at everything."""

from __future__ import annotations

import gc
import weakref

import pytest

from holdfast.spark.stages import collecting
from holdfast.spark.stages.collecting import Collector, between_bundles, paused_for_task, task_over


class Cycle:
    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def restored():
    was_enabled = gc.isenabled()
    yield
    gc.enable() if was_enabled else gc.disable()


@pytest.fixture
def old():
    """What tells whether garbage that has survived some searches is there."""
    kept = Cycle()
    gc.collect()
    found = weakref.ref(kept)
    del kept
    return found


class Memory:
    size = 100 << 20

    def __call__(self):
        return self.size


@pytest.fixture
def collector(monkeypatch):
    """One that has just searched everything, and may not again for a long time."""
    monkeypatch.setattr(collecting, "_SHARE", 10**9)
    made = Collector(Memory())
    made.collect()
    return made


def test_what_is_new_goes_at_once_and_what_is_old_later(collector, old):
    new = weakref.ref(Cycle())
    collector.collect()
    assert new() is None
    assert old() is not None
    collector._whole_from = 0
    collector.collect()
    assert old() is None


def test_a_process_that_grows_is_searched(collector, old):
    collector._resident_bytes.size += 60 << 20
    collector.collect()
    assert old() is not None
    collector._resident_bytes.size += 10 << 20
    collector.collect()
    assert old() is None


def test_where_the_system_does_not_tell_the_size_everything_is_searched(collector, old):
    collector._resident_bytes.size = 0
    collector.collect()
    assert old() is None


def test_nothing_is_looked_for_while_a_task_runs_unless_much_is_new(monkeypatch):
    monkeypatch.setattr(collecting, "_NEW_MAX", 5000)
    gc.collect()
    paused_for_task()
    found = weakref.ref(Cycle())
    kept = [[] for _ in range(3000)]
    between_bundles()
    assert found() is not None
    kept += [[] for _ in range(3000)]
    between_bundles()
    assert found() is None
    assert not gc.isenabled()
    task_over()
    assert gc.isenabled()
