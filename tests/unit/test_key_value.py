"""A store of one's own that knows only keys and values: what it is asked, and what is left in it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.backends import KeyValueBackend
from holdfast.engine.backends import key_value_versions
from holdfast.errors import CorruptState
from holdfast.testing import BrokenBackend, TestStream, backend_checks, run
from holdfast.testing.backend_functions import Batch, Script
from holdfast.testing.backend_rig import KeyGroup
from holdfast.testing.memory_store import MemoryStore

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from lesson_store import CustomStateStore


class Shared(KeyValueBackend):
    """The smallest store that keeps the rules: one dict for all, and changes until they are committed."""

    name = "shared"
    versions = 2

    def __init__(self, everything):
        self.everything = everything

    def __deepcopy__(self, memo):
        return type(self)(self.everything)

    def init(self, place):
        self.entries = self.everything.setdefault(place, {})
        self.changes = {}

    def get(self, key):
        return self.entries.get(key)

    def put(self, key, value):
        assert self.entries.get(key, value) == value, "an entry is never changed"
        self.changes[key] = value

    def remove(self, key):
        self.changes[key] = None

    def commit(self):
        for key, value in self.changes.items():
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value
        self.changes = {}

    def abort(self):
        self.changes = {}

    def iterator(self):
        return iter(list(self.entries.items()))


@pytest.fixture
def folding(monkeypatch):
    """Folds after every few entries."""
    monkeypatch.setattr(key_value_versions, "_FOLD_MIN", 2)


@pytest.mark.parametrize("check", backend_checks(), ids=repr)
class TestChecks:
    def test_of_the_lessons_store(self, check, tmp_path):
        check(CustomStateStore(str(tmp_path)))

    def test_while_it_folds(self, check, folding):
        check(Shared({}))


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        n = (count.read() or 0) + 1
        if element[1] == "forget":
            count.clear()
            return
        count.write(n)
        yield element[0], n


def rounds(number, keys="abc"):
    stream = TestStream()
    for _ in range(number):
        stream.add_elements([(key, 1) for key in keys])
    return stream


def test_what_is_left_does_not_grow(folding):
    few, many = {}, {}
    run(Count(), rounds(20), backend=Shared(few))
    run(Count(), rounds(200), backend=Shared(many))
    (few_entries,), (many_entries,) = few.values(), many.values()
    assert abs(len(many_entries) - len(few_entries)) <= 12
    assert len(many_entries) < 40


def test_keys_that_are_gone_leave_nothing(folding):
    everything = {}
    stream = TestStream()
    for number in range(100):
        stream.add_elements([(f"k{number}", 1)]).add_elements([(f"k{number}", "forget")])
    run(Count(), stream, backend=Shared(everything))
    (entries,) = everything.values()
    assert len(entries) < 40


def test_a_worker_that_is_behind_reads_only_what_it_missed():
    """Two workers by turns: each reads two versions, never everything again."""
    group = KeyGroup(Shared({}), Script("", Count(), []))
    workers: list[Any] = [group.worker(), group.worker()]
    scans: list[int] = []

    def scanned(own):
        scans.append(1)
        return Shared.iterator(own)

    for number in range(6):
        worker = workers[number % 2]
        group.micro_batch(worker, Batch([("a", 1, 0)]))
        entries = worker.backend._versions._entries
        if number == 1:
            for each in workers:
                own = each.backend._versions._entries
                own.iterator = partial(scanned, own)
        assert entries is worker.backend._versions._entries
    assert scans == []
    assert [*group.content().values()] == [6]


@pytest.mark.parametrize("behind", range(1, 8))
def test_a_worker_that_is_behind_what_was_folded(behind):
    """It reads what it missed, or all, also if a key went with the first version that it missed."""
    group = KeyGroup(Shared({}), Script("", Count(), []))
    busy, idle = group.worker(), group.worker()
    group.micro_batch(idle, Batch([("a", 1, 0), ("b", 1, 0)]))
    group.micro_batch(busy, Batch([("b", "forget", 0)]))
    for _ in range(behind - 1):
        group.micro_batch(busy, Batch([("a", 1, 0)]))
    backend: Any = busy.backend
    backend._versions._fold(group.store.get("version"))
    group.micro_batch(idle, Batch([("a", 1, 0)]))
    assert [*group.content().values()] == [behind + 1]


def test_a_store_that_could_not_be_opened_is_opened_anew():
    class Slow(Shared):
        tries = 0

        def init(self, place):
            Slow.tries += 1
            if Slow.tries == 1:
                raise ConnectionError
            super().init(place)

    group = KeyGroup(Slow({}), Script("", Count(), []))
    worker = group.worker()
    with pytest.raises(ConnectionError):
        group.micro_batch(worker, Batch([("a", 1, 0)]))
    worker.backend.abandon()
    group.store.rollback()
    group.micro_batch(worker, Batch([("a", 1, 0)]))
    assert [*group.content().values()] == [1]


def test_it_goes_back_so_far_also_after_an_attempt_that_was_for_nothing(folding):
    group = KeyGroup(Shared({}), Script("", Count(), []))
    worker, past = group.worker(), []
    for _ in range(20):
        group.micro_batch(worker, Batch([("a", 1, 0)]))
        past.append(dict(group.store.committed))
    for _ in range(3):
        # Folds, and is not Spark's in the end.
        worker.bundle(group.store, Batch([("a", 1, 0)]))
        group.store.rollback()
    group.store = MemoryStore(past[-1 - Shared.versions])
    assert [*group.content().values()] == [20 - Shared.versions]


def test_another_store_is_refused():
    everything = {}
    first = run(Count(), rounds(3), backend=Shared(everything))
    everything.clear()
    with pytest.raises(CorruptState) as refused:
        run(Count(), rounds(1), backend=Shared({}), start_from=first)
    assert "The store 'shared' does not have the version" in str(refused.value)
    assert "It keeps 2 versions or more" in str(refused.value)


def test_a_store_that_loses_an_entry_is_told():
    class Losing(Shared):
        def get(self, key):
            return None if key[:1] == b"c" else super().get(key)

    group = KeyGroup(Losing({}), Script("", Count(), []))
    one, other = group.worker(), group.worker()
    for worker in (one, other):
        group.micro_batch(worker, Batch([("a", 1, 0)]))
    with pytest.raises(CorruptState, match="lacks an entry of its version 2"):
        group.micro_batch(one, Batch([("a", 1, 0)]))


class TestWhatIsCaught:
    """Stores as they are easily written, which the checks refuse."""

    def fails(self, kind):
        failed = []
        for check in backend_checks():
            try:
                check(kind({}))
            except BrokenBackend:
                failed.append(repr(check))
        return failed

    def test_one_that_forgets(self):
        """As the lesson leaves it: nothing is persisted."""

        class Forgetful(Shared):
            def init(self, place):
                self.entries, self.changes = {}, {}

        assert "a crash before each bundle" in " ".join(self.fails(Forgetful))

    def test_one_that_writes_all_it_has(self):
        """The whole dict, as it was when it was opened: the entries of another attempt are gone."""

        class Whole(Shared):
            def init(self, place):
                self.place = place
                self.entries, self.changes = dict(self.everything.get(place, {})), {}

            def commit(self):
                super().commit()
                self.everything[self.place] = dict(self.entries)

        assert "two attempts at once" in self.fails(Whole)


def test_a_class_without_all_methods_cannot_be_made():
    class Half(KeyValueBackend):
        name = "half"

    half: Any = Half
    with pytest.raises(TypeError, match="abstract"):
        half()


def test_the_class_instead_of_an_instance_is_told():
    with pytest.raises(hf.InvalidStep, match="backend is the class CustomStateStore; give an instance"):
        run(Count(), rounds(1), backend=CustomStateStore)
