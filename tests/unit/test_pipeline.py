"""The store that does not wait for each answer: what it reads, what fails, how often it waits. The JVM is played here."""

from __future__ import annotations

import io
import pickle
import weakref
from typing import Any

import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient, StatefulProcessorHandleState
from pyspark.sql.types import IntegerType, StructField, StructType

import holdfast as hf
from holdfast.engine.backends.heap import HeapBackend, HeapOptions
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks, collection_paused
from holdfast.engine.state.key_group import Layout
from holdfast.model.functions.grouping import build
from holdfast.model.functions.options import StepOptions
from holdfast.spark.stages import pipeline
from holdfast.spark.stages.pipeline import PipelinedStore, store_of
from holdfast.spark.stages.store import BLOB_KEY, BLOB_VALUE, SparkStore

LABEL = StructType([StructField("label", IntegerType())])


class Jvm:
    """The other end of the socket. It answers what was flushed, in order. To read more would be to wait for ever. Like
    Spark, it closes the socket after the first answer that is not good."""

    closed = False

    def __init__(self):
        self.groups = {}
        self.timers = set()
        self.phases = []
        self.refused = set()
        self.waits = 0
        self.connect()

    def connect(self):
        """A socket for another task."""
        self.is_closed = False
        self._written, self._flushed, self._answers = bytearray(), bytearray(), bytearray()

    def write(self, data):
        self._written += data

    def flush(self):
        if self.is_closed:
            raise BrokenPipeError
        self._flushed += self._written
        self._written.clear()

    def read(self, size):
        if len(self._answers) < size:
            self.waits += 1
            self._answer()
        if len(self._answers) < size and self.is_closed:
            return b""
        assert len(self._answers) >= size, "nobody will answer"
        data = bytes(self._answers[:size])
        del self._answers[:size]
        return data

    def _answer(self):
        stream = io.BytesIO(bytes(self._flushed))
        self._flushed.clear()
        while header := stream.read(8):
            assert header[:4] == b"\0\0\0\0"
            request = messages.StateRequest.FromString(stream.read(int.from_bytes(header[4:], "big")))
            response = self._done(request)
            answer = response.SerializeToString()
            self._answers += len(answer).to_bytes(4, "big") + answer
            if response.statusCode == 1:
                self.is_closed = True
                return

    def _done(self, request):
        if request.HasField("implicitGroupingKeyRequest"):
            if request.implicitGroupingKeyRequest.HasField("setImplicitKey"):
                self.blobs = self.groups.setdefault(request.implicitGroupingKeyRequest.setImplicitKey.key, {})
            return messages.StateResponse()
        if request.HasField("statefulProcessorCall"):
            if request.statefulProcessorCall.HasField("setHandleState"):
                self.phases.append(messages.HandleState.Name(request.statefulProcessorCall.setHandleState.state))
                return messages.StateResponse()
            timer = request.statefulProcessorCall.timerStateCall
            if timer.HasField("register"):
                self.timers.add(timer.register.expiryTimestampMs)
            else:
                self.timers.discard(timer.delete.expiryTimestampMs)
            return messages.StateResponse()
        call = request.stateVariableRequest.mapStateCall
        assert call.stateName == "blobs"
        if call.HasField("iterator"):
            pairs = [messages.KeyAndValuePair(key=pickle.dumps((name,)), value=blob) for name, blob in self.blobs.items()]
            return messages.StateResponseWithMapIterator(statusCode=0 if pairs else 2, kvPair=pairs)
        [name] = pickle.loads(getattr(call, call.WhichOneof("method")).userKey)
        if name in self.refused:
            return messages.StateResponse(statusCode=1, errorMessage="the disk is full")
        if call.HasField("getValue"):
            return messages.StateResponse(value=self.blobs.get(name, b""))
        if call.HasField("updateValue"):
            self.blobs[name] = call.updateValue.value
        else:
            self.blobs.pop(name, None)
        return messages.StateResponse()


class Task:
    """Spark's side of a task in Python: its client, and the store over it."""

    def __init__(self, jvm, make=PipelinedStore):
        self.jvm = jvm
        jvm.connect()
        self.client = object.__new__(StatefulProcessorApiClient)
        from pyspark.serializers import PickleSerializer

        self.client.sockfile, self.client.pickleSer = jvm, PickleSerializer()
        self.client.key_schema = LABEL
        handle = StatefulProcessorHandle(self.client)
        self.store = make(handle, MapState(MapStateClient(self.client, BLOB_KEY, BLOB_VALUE), "blobs"))

    def turn_to(self, label):
        self.client.set_implicit_key((label,))

    def close(self):
        """Spark's own last calls of a task."""
        for state in ("DATA_PROCESSED", "TIMER_PROCESSED"):
            self.client.set_handle_state(StatefulProcessorHandleState[state])
        self.client.remove_implicit_key()
        self.client.set_handle_state(StatefulProcessorHandleState.CLOSED)


NAMES = st.sampled_from(["head", "manifest", "d0", "d1", "~wake"])
CALLS = st.one_of(
    st.tuples(st.just("get"), NAMES),
    st.tuples(st.just("put"), NAMES, st.binary(max_size=20)),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("expect"), st.lists(NAMES, max_size=4)),
    st.tuples(st.just("register_timer"), st.integers(0, 3)),
    st.tuples(st.just("delete_timer"), st.integers(0, 3)),
)
BUNDLES = st.lists(st.tuples(st.integers(0, 2), st.lists(NAMES, max_size=3), st.lists(CALLS, max_size=8)), max_size=6)


@given(BUNDLES)
def test_it_does_what_sparks_own_calls_do(bundles):
    seen = []
    for make in (PipelinedStore, SparkStore):
        task, found = Task(Jvm(), make), []
        for label, first, calls in bundles:
            task.turn_to(label)
            task.store.begin(first)
            found += [getattr(task.store, name)(*arguments) for name, *arguments in calls]
            task.store.end()
        task.close()
        assert task.client.handle_state is StatefulProcessorHandleState.CLOSED
        seen.append((found, task.jvm.groups, task.jvm.timers, task.jvm.phases))
    assert seen[0] == seen[1]


def test_a_bundle_waits_once_for_what_it_reads_and_never_for_what_it_writes():
    jvm = Jvm()
    task = Task(jvm)
    for label in range(10):
        task.turn_to(label)
        before = jvm.waits
        task.store.begin(("manifest", "head", "~wake"))
        for name in ("manifest", "head", "~wake"):
            assert task.store.get(name) is None
        for name in ("d0", "head", "~wake"):
            task.store.put(name, b"x" * 1000)
        task.store.register_timer(5)
        task.store.end()
        assert jvm.waits - before == 1
    before = jvm.waits
    task.turn_to(0)
    assert task.store.get("d0") == b"x" * 1000
    assert jvm.waits - before == 1


def test_any_number_of_writes():
    task = Task(Jvm())
    task.turn_to(0)
    for number in range(1000):
        task.store.put(f"d{number}", str(number).encode())
    assert len(task.jvm.blobs) >= 700
    assert task.store.get("d999") == b"999"
    assert len(task.jvm.blobs) == 1000


@pytest.mark.parametrize("what", ["put", "remove"])
def test_a_write_that_fails_is_told_by_the_next_answer(what):
    task = Task(Jvm())
    task.jvm.refused = {"d1"}
    task.turn_to(0)
    task.store.put("d0", b"0")
    getattr(task.store, what)(*{"put": ("d1", b"1"), "remove": ("d1",)}[what])
    task.store.put("d2", b"2")
    for _ in range(2):
        with pytest.raises(PySparkRuntimeError, match=r"Could not (store|remove) 'd1': the disk is full"):
            task.store.get("d0")


def test_a_write_that_fails_last_is_told_by_sparks_own_last_call():
    """Without it, Spark would take the task for done."""
    task = Task(Jvm())
    task.jvm.refused = {"head"}
    task.turn_to(0)
    task.store.put("head", b"0")
    task.store.end()
    with pytest.raises(PySparkRuntimeError, match="Could not store 'head'"):
        task.close()


def test_what_cannot_be_sent_after_a_write_that_failed_is_told_by_its_answer():
    task = Task(Jvm())
    task.jvm.refused = {"head"}
    task.turn_to(0)
    task.store.put("head", b"0")
    task.store.put("d0", b"0")
    # The JVM is faster than this process.
    task.store.end()
    task.jvm._answer()
    with pytest.raises(PySparkRuntimeError, match="Could not store 'head': the disk is full"):
        task.store.end()


def test_a_jvm_that_has_gone_is_told():
    task = Task(Jvm())
    task.turn_to(0)
    task.store.put("head", b"0")
    task.jvm.is_closed = True
    with pytest.raises((PySparkRuntimeError, OSError)):
        task.store.get("head")


def test_a_task_leaves_nothing_that_a_search_for_garbage_would_have_to_find():
    """Each has a socket, which would stay open until then."""
    task = Task(Jvm())
    task.turn_to(0)
    task.store.put("head", b"0")
    task.close()
    client = weakref.ref(task.client)
    with collection_paused():
        del task
        assert client() is None


def test_a_read_that_fails_says_what():
    task = Task(Jvm())
    task.jvm.refused = {"head"}
    task.turn_to(0)
    with pytest.raises(PySparkRuntimeError, match="Could not read 'head': the disk is full"):
        task.store.begin(("manifest", "head"))


def test_a_spark_that_is_not_known_gets_its_public_calls(monkeypatch):
    task = Task(Jvm())
    handle = StatefulProcessorHandle(task.client)
    state = task.store._state
    assert isinstance(store_of(handle, state), PipelinedStore)
    monkeypatch.setattr(pipeline, "is_known_version", lambda: False)
    assert isinstance(store_of(handle, state), SparkStore)


class Count(hf.DoFn):
    SEEN = hf.ValueStateSpec("seen")

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        seen.write((seen.read() or 0) + 1)
        yield seen.read()


class Worker:
    """A worker that processes one key group, each micro-batch in a task of its own."""

    def __init__(self, jvm):
        self.jvm = jvm
        step = build(Count(), StepOptions(name="count"))
        self.backend = HeapBackend(Layout(step), HeapOptions(deltas_max=50))
        self.runner: Any = make_runner(step, Layout(step), {}, (), origins=False)
        self.runner.setup()

    def count(self, key, batch):
        task = Task(self.jvm)
        taken = self.runner.elements([(key, None)], [0])
        task.turn_to(0)
        task.store.begin(("head",))
        self.backend.open(task.store)
        run_bundle(self.backend, task.store, self.runner, taken, Clocks(0, 0, 0), batch, lambda: None)
        task.store.end()
        task.close()
        return list(self.runner.collector.items)


def test_a_worker_that_is_far_behind_fetches_many_deltas_together():
    jvm = Jvm()
    ahead, behind = Worker(jvm), Worker(jvm)
    assert behind.count("a", 0) == [1]
    for batch in range(1, 41):
        ahead.count("a", batch)
    before = jvm.waits
    assert behind.count("a", 41) == [42]
    assert behind.backend.catch_ups == 1
    # One for the head, three for 40 deltas, one for the end of the task.
    assert jvm.waits - before == 5


def test_a_copy_whose_write_failed_is_not_trusted():
    """Its worker only learns of it when the bundle is over; the token is in no chain then."""
    jvm = Jvm()
    worker = Worker(jvm)
    worker.count("a", 0)
    kept = {label: dict(blobs) for label, blobs in jvm.groups.items()}
    jvm.refused = {"head"}
    with pytest.raises(PySparkRuntimeError):
        worker.count("a", 1)
    jvm.refused = set()
    jvm.groups.clear()
    jvm.groups.update(kept)
    assert worker.count("b", 1) == [1]
    assert Worker(jvm).count("a", 2) == [2]
    assert worker.count("a", 3) == [3]
