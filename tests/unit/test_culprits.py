"""What cannot be sent to a worker: the error says where it is, and where it should be made."""

from __future__ import annotations

import functools
import sqlite3
import threading
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.functions.culprits import sending_problems
from holdfast.model.functions.options import StepOptions
from holdfast.spark.stages.pickling import pickled, pickled_step
from holdfast.testing import TestStream, run

LOCK = threading.Lock()
SETUP = "Make it in setup(), which every worker calls"
REASON = "which cannot be sent to a worker: cannot pickle '_thread.lock' object"


class Client:
    """As clients of services are: somewhere below there is a lock."""

    def __init__(self):
        self.pool = {"first": [threading.Lock()]}


def enrich(**attributes):
    class Enrich(hf.DoFn):
        def __init__(self):
            vars(self).update(attributes)

        def process(self, element):
            yield element

    return Enrich()


def problems(fn, **options):
    with pytest.raises(hf.InvalidStep) as raised:
        pickled_step(fn, StepOptions(name="enrich", **options))
    assert "The step 'enrich' cannot be built" in str(raised.value)
    return raised.value.problems


def problem(fn, **options):
    (found,) = problems(fn, **options)
    return found


def test_an_attribute_far_below():
    found = problem(enrich(client=Client(), size=3))
    assert found.startswith(f"Enrich.client.pool['first'][0] is a _thread.lock, {REASON}. {SETUP}")


def test_all_of_them_are_told_and_each_once():
    client = Client()
    found = problems(enrich(client=client, again=client, database=sqlite3.connect(":memory:")))
    assert [text.partition(" is ")[0] for text in found] == ["Enrich.client.pool['first'][0]", "Enrich.database"]


def test_what_refers_to_its_owner_is_not_at_fault():
    fn = enrich(lock=threading.Lock())
    fn.part = Client()
    fn.part.pool, fn.part.owner = {}, fn
    assert problem(fn).startswith("Enrich.lock is a _thread.lock")


def test_a_slot():
    class Slotted:
        __slots__ = ("lock",)
        lock: Any

    slotted = Slotted()
    slotted.lock = threading.Lock()
    assert problem(enrich(slotted=slotted)).startswith("Enrich.slotted.lock is a _thread.lock")


def test_what_leaves_its_lock_out_can_be_sent():
    class Careful(Client):
        def __getstate__(self):
            return {}

    assert pickled_step(enrich(client=Careful()), StepOptions(name="enrich"))


def test_a_class_attribute():
    class Enrich(hf.DoFn):
        CLIENT = Client()

        def process(self, element):
            yield element

    assert problem(Enrich()).startswith("Enrich.CLIENT.pool['first'][0] is a _thread.lock")


def test_a_variable_around_a_method():
    client = Client()

    class Enrich(hf.DoFn):
        def process(self, element):
            yield client.pool

    found = problem(Enrich())
    assert found.startswith("client.pool['first'][0] (a variable around Enrich.process) is a _thread.lock")
    assert SETUP in found


def test_a_global():
    source = "class Enrich(hf.DoFn):\n    def process(self, element):\n        return [CLIENT for _ in element]\n"
    names: dict[str, Any] = {"hf": hf, "CLIENT": Client(), "__name__": "__main__"}
    exec(source, names)
    assert problem(names["Enrich"]()).startswith("CLIENT.pool['first'][0] (a global that Enrich.process uses) is a")


def test_a_default():
    class Enrich(hf.DoFn):
        def process(self, element, client=LOCK):
            yield element

    assert problem(Enrich()).startswith("client (a default of Enrich.process) is a _thread.lock")


def test_a_partial_and_a_bound_method():
    fn = enrich(fetch=functools.partial(print, 1, file=LOCK))
    assert problem(fn).startswith("Enrich.fetch.keywords['file'] is a _thread.lock")
    client: Any = Client()
    assert problem(enrich(get=client.__init__)).startswith("Enrich.get.pool['first'][0] is a _thread.lock")


class Model(hf.CombineFn):
    def __init__(self):
        self.lock = threading.Lock()

    def create_accumulator(self):
        return 0


def test_a_combine_fn_of_a_cell():
    class Enrich(hf.DoFn):
        TOTAL = hf.CombiningStateSpec("total", Model())

        def process(self, element, total=hf.DoFn.StateParam(TOTAL)):
            yield element

    found = problem(Enrich())
    assert found.startswith("Enrich.TOTAL.combine_fn.lock is a _thread.lock")
    assert SETUP in found


def test_an_aggregation():
    assert problem(hf.CombinePerKey(Model())).startswith("Model.lock is a _thread.lock")
    lock = threading.Lock()

    def highest(values):
        with lock:
            return max(values)

    found = problem(hf.CombinePerKey({"a": max, "b": highest}))
    assert found.startswith("lock (a variable around highest) is a _thread.lock")
    assert "or write a CombineFn of your own that makes it in setup()" in found
    found = problem(hf.CombinePerKey(hf.Top(3, key=lambda value: (lock, value))))
    assert found.startswith("lock (a variable around <lambda>) is a _thread.lock")


def test_a_function_over_groups():
    lock = threading.Lock()

    def count(key, values, state):
        with lock:
            yield key

    found = problem(hf.FlatMapGroupsWithState(count))
    assert found.startswith("lock (a variable around count) is a _thread.lock")
    assert "or write a DoFn of your own that makes it in setup()" in found


def test_a_coder_an_upgrade_a_window_function_and_a_trigger():
    class Locked(hf.Coder):
        def __init__(self):
            self.lock = threading.Lock()

        def encode(self, value):
            return b""

        def decode(self, data):
            return None

    lock = threading.Lock()

    class Enrich(hf.DoFn):
        CELL = hf.ValueStateSpec("cell", Locked(), upgrade=lambda old: (lock, old))

        def process(self, element, cell=hf.DoFn.StateParam(CELL)):
            yield element

    class Days(hf.NonMergingWindowFn):
        def __init__(self):
            self.lock = threading.Lock()

        def assign(self, context):
            return []

    trigger: Any = hf.AfterCount(3)
    trigger.lock = threading.Lock()
    found = problems(Enrich(), windowing=Days(), trigger=trigger)
    assert [text.partition(" is ")[0] for text in found] == [
        "Enrich.CELL.coder.lock",
        "lock (a variable around Enrich.<lambda>)",
        "Days.lock",
        "AfterCount.lock",
    ]
    assert all("leave it out in __getstate__" in text and "setup()" in text for text in found)


def test_other_content_that_cannot_be_sent():
    with pytest.raises(hf.InvalidStep, match=r"The side input 'names'\['ann'\] is a _thread.lock.*Give plain values\."):
        pickled("enrich", {"ann": LOCK}, [("The side input 'names'", {"ann": LOCK})], "Give plain values")


def test_in_memory_it_is_the_same():
    with pytest.raises(hf.InvalidStep) as raised:
        run(enrich(client=Client()), TestStream())
    assert f"Enrich.client.pool['first'][0] is a _thread.lock, {REASON}. {SETUP}" in str(raised.value)


def test_nothing_is_found_in_what_can_be_sent():
    assert sending_problems(id, [("Enrich", enrich(client=Client()))]) == []
