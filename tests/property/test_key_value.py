"""A store of keys and values that fails at any moment, against a plain dict.

Several workers take turns. The store raises before and after it has committed, and where it is opened, read or told to
forget; micro-batches succeed and are never Spark's; queries go back. What Spark's store names is what a fresh worker finds.
"""

from __future__ import annotations

import copy
import random

import pytest

import holdfast as hf
from holdfast.backends import KeyValueBackend
from holdfast.engine.backends import key_value_versions
from holdfast.testing.backend_functions import Batch, Script
from holdfast.testing.backend_rig import KeyGroup
from holdfast.testing.memory_store import MemoryStore
from tiers import examples

KEPT = 3


class Down(Exception):
    """What a store raises that cannot be reached."""


class Faults:
    """Decides which calls fail."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.on = False
        self.raised = 0

    def maybe(self, share):
        if self.on and self.random.random() < share:
            self.raised += 1
            raise Down


class Unreliable(KeyValueBackend):
    """One dict for all, seen as it is, or as it was when it was opened."""

    name = "unreliable"
    versions = KEPT

    def __init__(self, everything, faults, *, as_opened):
        self.everything, self.faults, self.as_opened = everything, faults, as_opened

    def __deepcopy__(self, memo):
        return type(self)(self.everything, self.faults, as_opened=self.as_opened)

    def init(self, place):
        self.faults.maybe(0.03)
        self.shared = self.everything.setdefault(place, {})
        self.seen = dict(self.shared) if self.as_opened else self.shared
        self.changes = {}

    def get(self, key):
        self.faults.maybe(0.01)
        return self.seen.get(key)

    def put(self, key, value):
        self.faults.maybe(0.05)
        assert self.shared.get(key, value) == value, "an entry is never changed"
        self.changes[key] = value

    def remove(self, key):
        self.faults.maybe(0.02)
        self.changes[key] = None

    def commit(self):
        self.faults.maybe(0.1)
        for key, value in self.changes.items():
            for entries in (self.shared, self.seen):
                if value is None:
                    entries.pop(key, None)
                else:
                    entries[key] = value
        self.changes = {}
        self.faults.maybe(0.1)

    def abort(self):
        self.changes = {}
        self.faults.maybe(0.1)

    def iterator(self):
        self.faults.maybe(0.05)
        return iter(list(self.seen.items()))


class Last(hf.DoFn):
    """Keeps how many there were, and the number of each kind when it was last seen."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    KINDS = hf.MapStateSpec("kinds", hf.VarIntCoder(), hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT), kinds=hf.DoFn.StateParam(KINDS)):
        _, kind = element
        if kind is None:
            count.clear()
            kinds.clear()
        else:
            count.write((count.read() or 0) + 1)
            kinds.put(kind, count.read())
        yield None


def after(state, batch):
    """The state of the plain model after a batch."""
    state = copy.deepcopy(state)
    for key, kind, _ in batch.elements:
        if kind is None:
            state.pop(key, None)
        else:
            count, kinds = state.get(key, (0, {}))
            state[key] = count + 1, {**kinds, kind: count + 1}
    return state


def content(group):
    found = {}
    for (_, cell, key), held in group.content().items():
        found.setdefault(key, {})[cell] = dict(held) if cell == "kinds" else held
    return {key[1:-1]: (cells["count"], cells["kinds"]) for key, cells in found.items()}


@pytest.mark.parametrize("as_opened", [False, True], ids=["as it is", "as it was opened"])
@pytest.mark.parametrize("seed", range(examples(2)))
def test_whatever_fails_the_state_is_that_of_the_micro_batches_that_were_committed(seed, as_opened, monkeypatch):
    monkeypatch.setattr(key_value_versions, "_FOLD_MIN", 2)
    faults = Faults(seed)
    chance = faults.random
    group = KeyGroup(Unreliable({}, faults, as_opened=as_opened), Script("", Last(), []))
    workers = [group.worker() for _ in range(3)]
    committed = [({}, {})]
    longest = 1
    for _ in range(60):
        if chance.random() < 0.1:
            workers[chance.randrange(3)] = group.worker()
        if chance.random() < 0.07 and len(committed) > 1:
            # The query goes back, no further than it may.
            committed = committed[: max(len(committed) - chance.randint(1, KEPT), longest - KEPT, 1)]
            group.store = MemoryStore(dict(committed[-1][0]))
        batch = Batch([(chance.choice("abcd"), chance.choice([1, 2, 3, None]), 0) for _ in range(chance.randrange(4))])
        worker = chance.choice(workers)
        faults.on = chance.random() < 0.5
        try:
            worker.bundle(group.store, batch)
        except Down:
            worker.backend.abandon()
            group.store.rollback()
            continue
        finally:
            faults.on = False
        if chance.random() < 0.15:
            group.store.rollback()
            continue
        group.store.commit()
        committed.append((dict(group.store.committed), after(committed[-1][1], batch)))
        longest = max(longest, len(committed))
        assert content(group) == committed[-1][1]
    assert faults.raised > 2
