"""What a worker keeps between tasks is used only where it is known to hold."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import holdfast as hf
from holdfast.engine.backends.protocol import Place
from holdfast.engine.state.key_group import Layout
from holdfast.model.functions.step import build_step
from holdfast.spark.stages.worker import _STEPS_MAX, Worker
from holdfast.testing.memory_store import MemoryStore


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count")

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        yield count.read()


@pytest.fixture
def loaded():
    plan = SimpleNamespace(digest="plan", backend="heap", memory_budget_bytes=10**9)
    return SimpleNamespace(plan=plan, factory=None, layout=Layout(build_step(Count())))


def test_a_key_group_is_used_again_with_the_manifest_that_it_was_read_by(loaded):
    worker = Worker()
    added = worker.add_group("query", loaded, Place("query", "count", 3), loaded.layout, b"manifest")
    assert worker.group("query", loaded, 3, b"manifest") is added


def test_a_key_group_of_another_manifest_is_forgotten(loaded):
    worker = Worker()
    worker.add_group("query", loaded, Place("query", "count", 3), loaded.layout, b"of the new code")
    assert worker.group("query", loaded, 3, b"of the old code") is None
    assert worker.group("query", loaded, 3, b"of the new code") is None


@pytest.mark.parametrize(("query", "label"), [("another query", 3), ("query", 4)])
def test_another_query_or_key_group_has_its_own(loaded, query, label):
    worker = Worker()
    worker.add_group("query", loaded, Place("query", "count", 3), loaded.layout, b"manifest")
    assert worker.group(query, loaded, label, b"manifest") is None


def test_a_step_that_was_not_used_for_long_is_torn_down_and_hurts_nobody(caplog):
    torn_down = []

    def plan(name):
        def teardown():
            torn_down.append(name)
            raise ValueError("not now")

        loaded = SimpleNamespace(runner=SimpleNamespace(teardown=teardown), refresh=lambda side_inputs: None)
        loaded.plan = SimpleNamespace(name=name, digest=name, side_inputs={}, load=lambda: loaded)
        return loaded.plan

    worker = Worker()
    for number in range(_STEPS_MAX + 1):
        worker.step(plan(f"step {number}"), "query")
    assert torn_down == ["step 0"]
    # How the text of a record looks depends on what else ran in this process: PySpark has formatters of its own.
    [record] = caplog.records
    assert record.getMessage() == "The step 'step 0' could not be torn down."
    assert repr(record.exc_info[1]) == "ValueError('not now')"


def test_a_query_with_a_small_budget_does_not_evict_another(loaded):
    """The budget is the worker's, and the largest that was asked for holds."""
    worker = Worker()
    for query, budget in (("large", 10**9), ("small", 1)):
        backend = worker.add_group(query, loaded, Place(query, "count", 3), loaded.layout, b"manifest")
        backend.open(MemoryStore())
        worker.used(query, loaded, 3, budget)
    assert worker.group("large", loaded, 3, b"manifest") is not None


def test_what_is_over_the_budget_is_let_go(loaded):
    worker = Worker()
    for label in (1, 2):
        backend = worker.add_group("query", loaded, Place("query", "count", label), loaded.layout, b"manifest")
        backend.open(MemoryStore())
        worker.used("query", loaded, label, 0)
    assert worker.group("query", loaded, 1, b"manifest") is None
    assert worker.group("query", loaded, 2, b"manifest") is not None
