"""Backends of one's own: how they are given, what they are told, and that the checks catch those that are wrong."""

from __future__ import annotations

import dataclasses
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.backends import (
    BackendFactory,
    Due,
    HeapBackend,
    KeyGroupState,
    Part,
    Place,
    SnapshotOptions,
    slot_from_bytes,
    slot_of,
    slot_to_bytes,
)
from holdfast.engine.backends import disk_file
from holdfast.errors import CorruptState, InvalidStep, StateConflict
from holdfast.testing import BrokenBackend, TestStream, backend_checks, check_backend, run
from holdfast.testing.memory_runtime import DiskFiles, HeapBackends
from holdfast.testing.memory_store import MemoryStore

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from sqlite_backend import SqliteBackend


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count")

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


class More(Count):
    """The same with a cell more, which comes first."""

    MORE = hf.BagStateSpec("more")

    def process(self, element, more=hf.DoFn.StateParam(MORE), count=hf.DoFn.StateParam(Count.COUNT)):
        more.add(element[1])
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


class Renamed(hf.DoFn):
    NUMBER = hf.ValueStateSpec("number", was="count")

    def process(self, element, number=hf.DoFn.StateParam(NUMBER)):
        yield number.read()


def elements(*keys):
    return TestStream().add_elements([(key, 0) for key in keys])


class MyHeap:
    """The smallest factory there is."""

    name = "mine"

    def make(self, layout, place):
        return HeapBackend(layout, SnapshotOptions(deltas_max=2))


# --- giving one ---------------------------------------------------------------------------------------------------


def test_a_factory_is_taken_in_place_of_a_name():
    out = run(Count(), elements("a", "b").crash().add_elements([("a", 0)]), backend=MyHeap())
    assert out.values == [("a", 1), ("b", 1), ("a", 2)]
    assert out.state("a") == {"count": 2}


def test_a_class_with_a_static_make_is_a_factory_too():
    class Static:
        name = "static"
        make = staticmethod(lambda layout, place: HeapBackend(layout))

    assert run(Count(), elements("a"), backend=Static).values == [("a", 1)]


def test_a_backend_is_told_its_place():
    places = []

    class Telling(MyHeap):
        def make(self, layout, place):
            places.append(place)
            return super().make(layout, place)

    first = run(Count(), elements("a").crash().add_elements([("b", 0)]), backend=Telling(), key_groups=2, name="step")
    assert [(place.step, place.key_group) for place in places] == [("step", 0), ("step", 1)] * 2
    assert len({place.query for place in places}) == 1
    places.clear()
    run(Count(), elements("a"), backend=Telling(), key_groups=2, start_from=first)
    assert {place.query for place in places} == {first.query}
    places.clear()
    run(Count(), elements("a"), backend=Telling())
    assert places[0].query != first.query


def test_the_name_of_a_place_is_its_own_and_fit_for_files_and_tables():
    places = [Place(q, s, g) for q in ("q", "q-1") for s in ("a step!", "a/step?") for g in (0, 11)]
    names = {place.name for place in places}
    assert len(names) == len(places)
    assert all(name.isidentifier() and name.isascii() and len(name) < 63 for name in names)
    assert Place("q", "s", 1).name == Place("q", "s", 1).name


@pytest.mark.parametrize(
    ("backend", "problem"),
    [
        ("tape", r"backend is 'tape'; it can be 'heap', 'disk', or a factory of your own"),
        (5, r"backend is 5; it can be .* an object with a name and make\(layout, place\)"),
        (MyHeap, r"backend is the class MyHeap; give an instance, MyHeap\(\.\.\.\)"),
        (type("Unnamed", (MyHeap,), {"name": ""})(), "the backend .* is ''; it must be a string"),
        (type("Taken", (MyHeap,), {"name": "disk"})(), "is 'disk', which is one of Holdfast's own"),
        (type("Flinks", (MyHeap,), {"name": "rocksdb"})(), "is 'rocksdb', which is one of Holdfast's own"),
        (type("Odd", (MyHeap,), {"make": lambda self, layout: None})(), r"must take two arguments: make\(layout, place\)"),
    ],
)
def test_what_cannot_be_a_backend_is_told(backend, problem):
    with pytest.raises(InvalidStep, match=problem):
        run(Count(), elements("a"), backend=backend)


def test_a_factory_that_cannot_be_sent_is_told():
    class Holding(MyHeap):
        def __init__(self):
            self.lock = threading.Lock()

    with pytest.raises(InvalidStep, match="cannot be sent to a worker"):
        run(Count(), elements("a"), backend=Holding())


@pytest.mark.parametrize(("before", "after"), [(MyHeap(), "heap"), ("disk", MyHeap())])
def test_state_of_one_backend_is_not_opened_by_another(before, after):
    first = run(Count(), elements("a"), backend=before)
    with pytest.raises(StateConflict, match=r"backend was '\w+' and is '\w+' now"):
        run(Count(), elements("a"), backend=after, start_from=first)


def test_heap_and_disk_go_on_from_each_other():
    first = run(Count(), elements("a"), backend="disk")
    assert run(Count(), elements("a"), backend="heap", start_from=first).values == [("a", 2)]


def test_slots_as_bytes():
    keys = [1, 1.0, True, "1", b"1", (1, "1"), ("1", 1), -(2**70), ""]
    packed = [slot_to_bytes(slot_of(key)) for key in keys]
    assert len(set(packed)) == len(keys)
    assert [slot_from_bytes(data) for data in packed] == [slot_of(key) for key in keys]


# --- the checks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", backend_checks(), ids=repr)
def test_the_heap_backend_is_well(check):
    check(HeapBackends())


@pytest.mark.slow
def test_the_disk_backend_is_well(monkeypatch):
    monkeypatch.setattr(disk_file, "_LOCK_SECONDS", 0.0)
    files = DiskFiles()
    try:
        assert failures(files) == {}
    finally:
        files.close()


ELSEWHERE: dict[str, bytes] = {}
"""A store that knows nothing of Spark's."""


class Unversioned(HeapBackend):
    """Writes at once to a store elsewhere, and believes what it finds there."""

    def __init__(self, layout, name):
        super().__init__(layout)
        self._name = name

    def open(self, store):
        self._elsewhere = MemoryStore(pickle.loads(ELSEWHERE.get(self._name, pickle.dumps({}))))
        return super().open(self._elsewhere)

    def commit(self, store):
        commit = super().commit(self._elsewhere)
        ELSEWHERE[self._name] = pickle.dumps(dict(self._elsewhere.items()))
        return commit

    def everything(self, store):
        yield self.open(store)


class Trusting(HeapBackend):
    """Believes what it has in memory, once it has something."""

    def open(self, store):
        if self._head.last == 0 or self._token is None:
            return super().open(store)
        return self._state


class InMemory(HeapBackend):
    """Stores nothing."""

    def open(self, store):
        return self._state

    def commit(self, store):
        return super().commit(MemoryStore())


class Sleepy(HeapBackend):
    """Never asks to be woken."""

    def next_due(self, runner):
        return Due()


class Careless(HeapBackend):
    """Loses every second element."""

    def parts(self, slots, clocks, runner):
        yield Part(self._state, range(0, len(slots), 2), 0)


class Stubborn(HeapBackend):
    """Goes on with what was abandoned."""

    def open(self, store):
        return super().open(store) if self._token is not None or self._head.last == 0 else self._state

    def abandon(self):
        pass


class Lasting(HeapBackend):
    """Forgets nothing: what was cleared stays."""

    def commit(self, store):
        for window in self._state.windows.values():
            for table in window.tables:
                table.changes = {key: change for key, change in table.changes.items() if key in table.values}
        return super().commit(store)


@dataclasses.dataclass(frozen=True)
class Making:
    """Makes backends of a class."""

    cls: Any
    by_place: bool = True
    name: str = "wrong"

    def make(self, layout, place):
        if issubclass(self.cls, Unversioned):
            return self.cls(layout, place.name if self.by_place else "one for all")
        return self.cls(layout)


def failures(factory: BackendFactory) -> dict[str, str]:
    found = {}
    for check in backend_checks():
        try:
            check(factory)
        except BrokenBackend as broken:
            found[check.name] = str(broken)
    return found


@pytest.mark.parametrize(
    ("factory", "caught", "words"),
    [
        (Making(Unversioned), "the store goes back after a commit", "open gives the state of the store as it was"),
        (Making(Unversioned), "cells, each bundle rolled back once", "whose store was rolled back leaves no trace"),
        (Making(Unversioned), "two attempts at once", "either of two attempts at one bundle may be the one that counts"),
        (Making(Unversioned, by_place=False), "places are apart", "a key group sees nothing of another"),
        (Making(Trusting), "keys, two workers by turns", "open sees what others have committed since"),
        (Making(Trusting), "cells, each bundle rolled back once", "missing: "),
        (Making(InMemory), "cells, one worker", "the state after bundle 1 of 5"),
        (Making(InMemory), "timers, a crash before each bundle", "a new instance sees exactly what was committed"),
        (
            Making(Sleepy),
            "timers, one worker",
            "one worker, event time:\n    expected at most 10.0, got None",
        ),
        (Making(Sleepy), "aggregation, one worker", "next_due"),
        (Making(Careless), "parts", "each element is in exactly one part"),
        (Making(Stubborn), "keys, each bundle abandoned once", "what was abandoned leaves no trace"),
        (Making(Lasting), "cells, a crash before each bundle", "forgets what was cleared"),
        (Making(dict), "cells, one worker", "the backend raised"),
    ],
    ids=lambda part: part.cls.__name__ if isinstance(part, Making) else None,
)
def test_a_wrong_backend_is_caught(factory, caught, words):
    ELSEWHERE.clear()
    (check,) = [check for check in backend_checks() if check.name == caught]
    with pytest.raises(BrokenBackend) as broken:
        check(factory)
    assert str(broken.value).startswith(f"{caught}: the rule is: {check.rule}.")
    assert words in str(broken.value)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(BrokenBackend) as broken:
        check_backend(Making(Sleepy))
    told = str(broken.value)
    assert f" of {len(backend_checks())} checks failed." in told.splitlines()[0]
    assert "timers, one worker: the rule is" in told
    assert "windows, one worker: the rule is" in told


def test_what_is_no_factory_is_told_by_the_checks():
    with pytest.raises(BrokenBackend, match="takes a factory, not 'heap'"):
        check_backend("heap")
    with pytest.raises(BrokenBackend, match="give an instance"):
        check_backend(MyHeap)


# --- the example --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("state"))


@pytest.mark.parametrize("check", backend_checks(), ids=repr)
def test_the_example_passes_the_checks(check, folder):
    check(SqliteBackend(folder))


def test_the_example_keeps_so_many_versions(tmp_path):
    backend = SqliteBackend(str(tmp_path), versions=3)
    out = run(Count(), elements("a"), backend=backend)
    old = [dict(out.stores[0].committed)]
    for _ in range(8):
        out = run(Count(), elements("a"), backend=backend, start_from=out)
        old.append(dict(out.stores[0].committed))
    for back in range(len(old)):
        out.stores[0].committed = old[-1 - back]
        if back <= 3:
            assert out.state("a") == {"count": 9 - back}
        else:
            with pytest.raises(CorruptState, match="does not have the version"):
                out.state("a")
    file = next(tmp_path.glob("*.sqlite"))
    assert file.stat().st_size < 100_000


def test_the_example_refuses_a_file_that_is_not_there(tmp_path):
    backend = SqliteBackend(str(tmp_path))
    out = run(Count(), elements("a"), backend=backend)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(CorruptState, match="does not have the version"):
        run(Count(), elements("a"), backend=backend, start_from=out)


def test_a_cell_can_be_added_but_not_renamed(tmp_path):
    backend = SqliteBackend(str(tmp_path))
    first = run(Count(), elements("a"), backend=backend, name="step")
    assert run(More(), elements("a"), backend=backend, name="step", start_from=first).values == [("a", 2)]
    with pytest.raises(StateConflict, match="in the backend 'sqlite', which has its own format"):
        run(Renamed(), elements("a"), backend=backend, name="step", start_from=first)


def test_what_a_key_has_as_bytes():
    out = run(More(), elements("a"))
    (state,) = out._load(None)
    (window,) = state.windows.values()
    again = KeyGroupState(state.layout).window_of(window.data)
    again.unpack("b", window.pack("a"))
    assert again.pack("b") == window.pack("a")
    assert again.pack("a") == b""
