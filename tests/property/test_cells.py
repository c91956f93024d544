"""Every kind of cell against a plain dict, list or set: through commits, crashes, and calls that are taken back.

A machine has one cell, several keys, and one worker with the log that it writes. After every commit four things
must say the same: the model, the live table, a table read back from the log by a fresh worker, and that of a
follower that reads only the deltas it has missed. A second worker that makes the same changes, without the calls
that were taken back, must arrive at the same token.
"""

from __future__ import annotations

import copy
import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.engine.backends.heap import HEAD, HeapBackend, HeapOptions
from holdfast.engine.log.head import Head
from holdfast.engine.log.sections import delta_sections
from holdfast.engine.state.key_group import Layout
from holdfast.engine.state.keys import slot_of
from holdfast.engine.tables import Focus, Undo, make_cell, make_table
from holdfast.engine.tables.ordered import Change, Series
from holdfast.errors import HoldfastError
from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.coders import Coder, PlainCoder, StrUtf8Coder, VarIntCoder
from holdfast.model.functions.dofn import DoFn
from holdfast.model.functions.step import build_step
from holdfast.model.state.methods import cell_methods
from holdfast.model.state.specs import (
    BagStateSpec,
    CombiningStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    SetStateSpec,
    StateSpec,
    ValueStateSpec,
)
from holdfast.model.time.timestamps import Timestamp
from holdfast.model.windows.ready import GlobalWindow
from holdfast.testing.memory_store import MemoryStore
from tiers import examples

SETTINGS = settings(
    max_examples=examples(100),
    stateful_step_count=12,
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)

KEYS = ["a", 1, True]
BUSY_KEYS = ["a", "a", "a", *KEYS]  # what happens to one key is what matters most


# --- values -------------------------------------------------------------------------------------------------------


class Box:
    """A value of a user's own: mutable, yet hashable, as careless classes are."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.items == other.items

    def __hash__(self) -> int:
        return hash(tuple(self.items))

    def __repr__(self) -> str:
        return f"Box({self.items})"


class BoxCoder(Coder):
    """Does not say that its values are immutable: they are not."""

    def encode(self, value: Box) -> bytes:
        return json.dumps(value.items).encode()

    def decode(self, data: bytes) -> Box:
        return Box(json.loads(data))

    def is_deterministic(self) -> bool:
        return True


class Pebble:
    """A value of a user's own that never changes."""

    __slots__ = ("weight",)

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pebble) and self.weight == other.weight

    def __hash__(self) -> int:
        return hash(self.weight)

    def __repr__(self) -> str:
        return f"Pebble({self.weight})"


class PebbleCoder(Coder):
    """Says that its values are immutable, so that the engine may keep them as they are."""

    def encode(self, value: Pebble) -> bytes:
        return str(value.weight).encode()

    def decode(self, data: bytes) -> Pebble:
        return Pebble(int(data))

    def is_immutable(self) -> bool:
        return True

    def is_deterministic(self) -> bool:
        return True


ATOMS = [None, True, 0, 1, -7, 2**40, 10**30, 0.5, -0.0, "", "é", b"", b"\xff", Timestamp(3), (), (1, "x")]
NESTED = [[], [1, [2, "x"]], {"a": [1], "b": {}}, {1: [2], (3,): None}, {4, 5}, ([6], 7), bytearray(b"z"), [{}]]
# No two of these are equal: how a set chooses between 1 and True has a test of its own.
MEMBERS = [None, False, 1, 2, -7, 10**30, 0.5, "", "é", b"\xff", ("a", 1), (("n", 2), 3), frozenset({8, 9})]
TEXTS = ["", "a", "é", "\ud800", "a\x00b"]
INTEGERS = [0, 1, -1, 127, 300, -(2**40), 10**30]
BOXES = [Box([]), Box([1]), Box(["x", 2]), Box([[3], {"k": [4]}])]
HASHABLE_BOXES = BOXES[:3]
PEBBLES = [Pebble(1), Pebble(2), Pebble(-30)]


class Choice:
    """A coder, and values for it."""

    def __init__(self, coder: Coder | None, values: list[Any]) -> None:
        self.coder = coder
        self.values = values

    def __repr__(self) -> str:
        return f"Choice({self.coder})"


PLAIN = Choice(None, ATOMS + NESTED)
ANY_CODER = [
    PLAIN,
    Choice(VarIntCoder(), INTEGERS),
    Choice(StrUtf8Coder(), TEXTS),
    Choice(BoxCoder(), BOXES),
    Choice(PebbleCoder(), PEBBLES),
]
MEMBER_CODER = [
    Choice(None, MEMBERS),
    Choice(VarIntCoder(), INTEGERS),
    Choice(StrUtf8Coder(), TEXTS),
    Choice(BoxCoder(), HASHABLE_BOXES),
    Choice(PebbleCoder(), PEBBLES),
]


def spoil(value: Any) -> None:
    """Changes whatever can be changed in a value, as a user may do with what is theirs."""
    if isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoilt")
    elif isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True
    elif isinstance(value, tuple):
        for item in value:
            spoil(item)
    elif isinstance(value, set):
        value.add("spoilt")
    elif isinstance(value, bytearray):
        value.extend(b"spoilt")
    elif isinstance(value, Box):
        spoil(value.items)


def exact(value: Any) -> Any:
    """A form whose equality means: the same types throughout, and the same order where there is one."""
    if isinstance(value, dict):
        return "dict", [(exact(key), exact(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [exact(item) for item in value]
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(map(repr, map(exact, value)))
    return type(value).__name__, repr(value)


def pictured(part: Any) -> Any:
    """A part of a table in a form whose equality means: the same, order included. Only the keys of a table have none."""
    if isinstance(part, dict) and set(map(repr, part)) <= set(map(repr, map(slot_of, KEYS))):
        return {repr(slot): pictured(entry) for slot, entry in part.items()}
    if isinstance(part, Series):
        return "series", exact(part.times), exact(part.values)
    if isinstance(part, Change):
        return "change", exact(part.ranges), pictured(part.added)
    return exact(part)


class Gather(CombineFn):
    """Collects its input in a list that it changes in place, and gives that very list out."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, mutable_accumulator: list[Any], element: Any) -> list[Any]:
        mutable_accumulator.append(element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Any) -> list[Any]:
        return [item for accumulator in accumulators for item in accumulator]

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        return accumulator


class GatherInBox(Gather):
    """The same with an accumulator of a user's own class."""

    def create_accumulator(self) -> Any:
        return Box([])

    def add_input(self, mutable_accumulator: Any, element: Any) -> Any:
        mutable_accumulator.items.append(element)
        return mutable_accumulator

    def extract_output(self, accumulator: Any) -> list[Any]:
        return accumulator.items


# --- the machine --------------------------------------------------------------------------------------------------


def layout_of(spec: StateSpec) -> Layout:
    asked_for = DoFn.StateParam(spec)

    class OneCell(DoFn):
        def process(self, element, cell=asked_for):
            pass

    return Layout(build_step(OneCell()))


class Worker:
    """A backend, the bundle that it has open, and the user's hand on its one cell."""

    def __init__(self, layout: Layout, options: HeapOptions, undo: Undo | None = None) -> None:
        self.backend = HeapBackend(layout, options)
        self.focus = Focus()
        self.cell: Any = make_cell(layout.cells[0], self.focus, undo)

    def open(self, store: MemoryStore) -> None:
        self.state = self.backend.open(store)
        self.table: Any = self.state.window(GlobalWindow()).tables[0]
        self.cell.attach(self.table)

    def call(self, key: Any, method: str, *arguments: Any) -> Any:
        self.focus.key = slot_of(key)
        return getattr(self.cell, method)(*arguments)

    def content(self) -> dict[str, Any]:
        """What every key holds."""
        slots = {repr(key): slot_of(key) for key in KEYS}
        assert set(self.table.values) <= set(slots.values())
        return {name: exact(self.table.reveal(slot)) for name, slot in slots.items() if slot in self.table.values}


CHANGING = {"add", "clear_range", "put", "remove", "write"}


def some(values: list[Any], data: Any) -> list[Any]:
    """A few of these: where there are few values, the same ones meet again."""
    places = data.draw(st.sets(st.integers(0, len(values) - 1), min_size=2, max_size=4))
    return [values[place] for place in sorted(places)]


class CellMachine(RuleBasedStateMachine):
    """Subclasses bring the spec and, for each method of the kind, one of the same name that calls it and keeps
    `model`: key (by repr) → plain value."""

    METHODS: ClassVar[set[str]]
    CHOICES: ClassVar[list[Choice]] = ANY_CODER

    def spec(self) -> StateSpec:
        raise NotImplementedError

    def revealed(self, plain: Any) -> Any:
        """What a cell shows whose model this is."""
        return plain

    @initialize(data=st.data(), atomic=st.booleans())
    def begin(self, data: Any, atomic: bool) -> None:
        self.choice = data.draw(st.sampled_from(self.CHOICES))
        self.values_drawn = some(self.choice.values, data)
        self.layout = layout_of(self.spec())
        self.options = HeapOptions(deltas_max=10**6, delta_bytes_min=10**9, segment_bytes_max=16)
        self.store = MemoryStore()
        self.undo = Undo() if atomic else None
        self.model: dict[str, Any] = {}
        self.committed: dict[str, Any] = {}
        self.follower = Worker(self.layout, self.options)
        self.start()

    def start(self) -> None:
        """A fresh worker takes over."""
        self.worker = Worker(self.layout, self.options, self.undo)
        self.open()
        assert self.worker.call(KEYS[0], "prefetch") is None

    def open(self) -> None:
        self.worker.open(self.store)
        self.calls: list[tuple[Any, str, Any]] = []
        self.views: list[tuple[Any, Any]] = []

    def new_call(self) -> None:
        """What was done so far stays; what comes may be taken back."""
        if self.undo is not None:
            self.undo.begin()
            self.before = copy.deepcopy(self.model), len(self.calls), self.picture()

    def picture(self) -> Any:
        """All that a table is, down to the order of what it keeps: entries, changes, and what a commit would store."""
        table, state = self.worker.table, self.worker.state
        return pictured(table.values), [pictured(table.changes), list(map(repr, table.changes))], delta_sections(state)

    def do(self, key: Any, method: str, *arguments: Any) -> Any:
        """Calls a method that changes the cell, and then changes what was given to it."""
        self.calls.append((key, method, copy.deepcopy(arguments)))
        given = copy.deepcopy(arguments)
        result = self.worker.call(key, method, *given)
        spoil(given)
        return result

    def see(self, key: Any, method: str, expected: Any, *arguments: Any) -> None:
        """Calls a method that reads, and then changes what it gave."""
        seen = self.worker.call(key, method, *copy.deepcopy(arguments))
        assert exact(seen) == exact(expected)
        spoil(seen)

    def draw(self, data: Any) -> Any:
        return copy.deepcopy(data.draw(st.sampled_from(self.values_drawn)))

    # One rule, not many: Hypothesis leaves rules out at random, and all of these are needed to get anywhere.
    @rule(
        calls=st.lists(st.tuples(st.sampled_from(BUSY_KEYS), st.booleans()), min_size=1, max_size=4),
        commits=st.sampled_from([True, True, True, False]),
        snapshot=st.booleans(),
        follow=st.booleans(),
        crashes=st.booleans(),
        data=st.data(),
    )
    def bundle(self, calls: Any, commits: bool, snapshot: bool, follow: bool, crashes: bool, data: Any) -> None:
        for key, fails in calls:
            self.call(key, fails, data)
        if commits:
            self.commit(snapshot, follow)
        if crashes:
            self.crash()

    def call(self, key: Any, fails: bool, data: Any) -> None:
        """A call of the user's function, which does a few things to the cell of its key, and may fail after them."""
        self.new_call()
        methods = sorted(self.METHODS) + 3 * sorted(self.METHODS & CHANGING)
        for method in data.draw(st.lists(st.sampled_from(methods), min_size=1, max_size=6)):
            getattr(self, method)(key, data)
            self.live_state_is_as_modelled()
        if fails and self.undo is not None:
            self.undo.rollback()
            self.model, length, picture = self.before
            del self.calls[length:]
            self.views = []
            assert self.picture() == picture

    def commit(self, snapshot: bool, follow: bool) -> None:
        self.options.deltas_max = -1 if snapshot else 10**6
        token = self.token_of_same_changes()
        commit = self.worker.backend.commit(self.store)
        self.store.commit()
        self.committed = copy.deepcopy(self.model)
        assert Head.decode(self.store.get(HEAD)).token == token
        assert bool(commit.snapshot_bytes) <= snapshot
        self.open()
        self.is_as_modelled(self.worker)
        self.is_as_modelled(self.fresh())
        if follow:
            self.follower.open(MemoryStore(self.store.committed))
            self.is_as_modelled(self.follower)
            self.follower.backend.commit(MemoryStore(self.store.committed))

    def crash(self) -> None:
        self.store.rollback()
        self.model = copy.deepcopy(self.committed)
        self.start()

    @invariant()
    def live_state_is_as_modelled(self) -> None:
        self.is_as_modelled(self.worker)
        for view, expected in self.views:
            assert exact(list(view)) == exact(expected)
            assert len(view) == len(expected)

    def is_as_modelled(self, worker: Worker) -> None:
        expected = {repr(key): self.model[repr(key)] for key in KEYS if repr(key) in self.model}
        assert worker.content() == {key: exact(self.revealed(plain)) for key, plain in expected.items()}

    def fresh(self) -> Worker:
        worker = Worker(self.layout, self.options)
        worker.open(MemoryStore(self.store.committed))
        return worker

    def token_of_same_changes(self) -> bytes:
        """The token at which another worker arrives, in which nothing ever failed."""
        worker, store = Worker(self.layout, self.options), MemoryStore(self.store.committed)
        worker.open(store)
        for key, method, arguments in self.calls:
            worker.call(key, method, *copy.deepcopy(arguments))
        worker.backend.commit(store)
        return Head.decode(store.get(HEAD)).token

    def clear(self, key: Any, data: Any) -> None:
        self.do(key, "clear")
        self.model.pop(repr(key), None)


class ValueMachine(CellMachine):
    METHODS = {"read", "write", "clear"}

    def spec(self) -> StateSpec:
        return ValueStateSpec("cell", self.choice.coder)

    def write(self, key: Any, data: Any) -> None:
        value = self.draw(data)
        self.do(key, "write", value)
        self.model[repr(key)] = value

    def read(self, key: Any, data: Any) -> None:
        self.see(key, "read", self.model.get(repr(key)))


class BagMachine(CellMachine):
    METHODS = {"read", "add", "clear"}

    def spec(self) -> StateSpec:
        return BagStateSpec("cell", self.choice.coder)

    def add(self, key: Any, data: Any) -> None:
        value = self.draw(data)
        self.do(key, "add", value)
        self.model.setdefault(repr(key), []).append(value)

    def read(self, key: Any, data: Any) -> None:
        expected = self.model.get(repr(key), [])
        view = self.worker.call(key, "read")
        for item in view:
            spoil(item)
        assert exact(list(view)) == exact(expected)
        self.views = [*self.views[-2:], (view, copy.deepcopy(expected))]


class SetMachine(CellMachine):
    METHODS = {"read", "add", "contains", "remove", "clear"}
    CHOICES = MEMBER_CODER

    def spec(self) -> StateSpec:
        return SetStateSpec("cell", self.choice.coder)

    def add(self, key: Any, data: Any) -> None:
        value = self.draw(data)
        self.do(key, "add", value)
        self.model.setdefault(repr(key), set()).add(value)

    def remove(self, key: Any, data: Any) -> None:
        held = sorted(self.model.get(repr(key), ()), key=repr)
        value = copy.deepcopy(data.draw(st.sampled_from(held + self.values_drawn)))
        self.do(key, "remove", value)
        if held:
            self.model[repr(key)].discard(value)
            if not self.model[repr(key)]:
                del self.model[repr(key)]

    def contains(self, key: Any, data: Any) -> None:
        value = self.draw(data)
        assert self.worker.call(key, "contains", value) is (value in self.model.get(repr(key), set()))

    def read(self, key: Any, data: Any) -> None:
        self.see(key, "read", self.model.get(repr(key), set()))


class MapMachine(CellMachine):
    METHODS = {"get", "put", "contains", "remove", "keys", "values", "items", "read", "clear"}

    def spec(self) -> StateSpec:
        return MapStateSpec("cell", self.names.coder, self.choice.coder)

    @initialize(data=st.data(), atomic=st.booleans())
    def begin(self, data: Any, atomic: bool) -> None:
        self.names = data.draw(st.sampled_from(MEMBER_CODER))
        self.names_drawn = some(self.names.values, data)
        super().begin(data, atomic)

    def draw_name(self, key: Any, data: Any) -> Any:
        return copy.deepcopy(data.draw(st.sampled_from([*self.model.get(repr(key), ()), *self.names_drawn])))

    def put(self, key: Any, data: Any) -> None:
        name, value = self.draw_name(key, data), self.draw(data)
        self.do(key, "put", name, value)
        self.model.setdefault(repr(key), {})[name] = value

    def remove(self, key: Any, data: Any) -> None:
        name = self.draw_name(key, data)
        self.do(key, "remove", name)
        if self.model.get(repr(key), {}).pop(name, self) is not self and not self.model[repr(key)]:
            del self.model[repr(key)]

    def get(self, key: Any, data: Any) -> None:
        name = self.draw_name(key, data)
        held = self.model.get(repr(key), {})
        self.see(key, "get", held.get(name), name)
        self.see(key, "get", held.get(name, "no such"), name, "no such")

    def contains(self, key: Any, data: Any) -> None:
        name = self.draw_name(key, data)
        assert self.worker.call(key, "contains", name) is (name in self.model.get(repr(key), {}))

    def keys(self, key: Any, data: Any) -> None:
        self.see(key, "keys", list(self.model.get(repr(key), {})))

    def values(self, key: Any, data: Any) -> None:
        self.see(key, "values", list(self.model.get(repr(key), {}).values()))

    def items(self, key: Any, data: Any) -> None:
        self.see(key, "items", list(self.model.get(repr(key), {}).items()))

    def read(self, key: Any, data: Any) -> None:
        self.see(key, "read", self.model.get(repr(key), {}))


TIMES = [-1, 1, 1.5, 2, Timestamp(2), Timestamp(micros=2_000_001), 10**9]
RANGES = st.tuples(st.sampled_from(TIMES), st.sampled_from(TIMES))


class OrderedListMachine(CellMachine):
    METHODS = {"read", "read_range", "add", "clear_range", "clear"}

    def spec(self) -> StateSpec:
        return OrderedListStateSpec("cell", self.choice.coder)

    def between(self, key: Any, low: Any, high: Any) -> list[tuple[Timestamp, Any]]:
        low, high = Timestamp.of(low), Timestamp.of(high)
        return [(time, value) for time, value in self.model.get(repr(key), []) if low <= time < high]

    def add(self, key: Any, data: Any) -> None:
        time, value = data.draw(st.sampled_from(TIMES)), self.draw(data)
        self.do(key, "add", (time, value))
        pairs = self.model.setdefault(repr(key), [])
        pairs.append((Timestamp.of(time), value))
        pairs.sort(key=lambda pair: pair[0])

    def read(self, key: Any, data: Any) -> None:
        self.see(key, "read", self.model.get(repr(key), []))

    def read_range(self, key: Any, data: Any) -> None:
        low, high = data.draw(RANGES)
        self.see(key, "read_range", self.between(key, low, high), low, high)

    def clear_range(self, key: Any, data: Any) -> None:
        low, high = data.draw(RANGES)
        gone = self.between(key, low, high)
        self.do(key, "clear_range", low, high)
        if gone:
            first = self.model[repr(key)].index(gone[0])
            del self.model[repr(key)][first : first + len(gone)]
            if not self.model[repr(key)]:
                del self.model[repr(key)]


class CombiningMachine(CellMachine):
    """The model is the list of inputs."""

    METHODS = {"read", "add", "clear"}
    combine: ClassVar[Any]

    def spec(self) -> StateSpec:
        return CombiningStateSpec("cell", self.choice.coder, self.combine)

    def add(self, key: Any, data: Any) -> None:
        value = self.draw(data)
        self.do(key, "add", value)
        self.model.setdefault(repr(key), []).append(value)

    def read(self, key: Any, data: Any) -> None:
        self.see(key, "read", self.revealed(self.model.get(repr(key), [])))


class SumMachine(CombiningMachine):
    CHOICES = [Choice(None, INTEGERS), Choice(VarIntCoder(), INTEGERS), Choice(None, [0.5, -2.0, 1])]
    combine = staticmethod(sum)

    def revealed(self, plain: Any) -> Any:
        return sum(plain)


class GatherMachine(CombiningMachine):
    CHOICES = [PLAIN, Choice(PlainCoder(), ATOMS)]
    combine = Gather()


class GatherInBoxMachine(CombiningMachine):
    CHOICES = [Choice(BoxCoder(), [1, "x", [2], {"k": [3]}])]
    combine = GatherInBox()


MACHINES = [
    ValueMachine,
    BagMachine,
    SetMachine,
    MapMachine,
    OrderedListMachine,
    SumMachine,
    GatherMachine,
    GatherInBoxMachine,
]


def case(machine: type[CellMachine]) -> Any:
    machine.TestCase.settings = SETTINGS
    return machine.TestCase


TestValue = case(ValueMachine)
TestBag = case(BagMachine)
TestSet = case(SetMachine)
TestMap = case(MapMachine)
TestOrderedList = case(OrderedListMachine)
TestSum = case(SumMachine)
TestGather = case(GatherMachine)
TestGatherInBox = case(GatherInBoxMachine)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_knows_every_method_of_its_cell(machine):
    made = machine()
    made.choice = made.names = machine.CHOICES[0]
    assert set(cell_methods(made.spec())) == machine.METHODS


# --- what taking back costs ---------------------------------------------------------------------------------------

MANY = 50_000
CALLS = 50
COSTLY: dict[str, tuple[StateSpec, Any, Callable[[Any, int], Any]]] = {
    "bag add": (BagStateSpec("cell"), range(MANY), lambda cell, n: cell.add(n)),
    "set add": (SetStateSpec("cell"), range(MANY), lambda cell, n: cell.add(-1 - n)),
    "set remove": (SetStateSpec("cell"), range(MANY), lambda cell, n: cell.remove(n)),
    "map put": (MapStateSpec("cell"), dict.fromkeys(range(MANY), 0), lambda cell, n: cell.put(-1 - n, n)),
    "map put again": (MapStateSpec("cell"), dict.fromkeys(range(MANY), 0), lambda cell, n: cell.put(n, n)),
    "map remove": (MapStateSpec("cell"), dict.fromkeys(range(MANY), 0), lambda cell, n: cell.remove(n)),
    "ordered add": (OrderedListStateSpec("cell"), [(n, 0) for n in range(MANY)], lambda cell, n: cell.add((n, n))),
    "ordered cut": (OrderedListStateSpec("cell"), [(n, 0) for n in range(MANY)], lambda cell, n: cell.clear_range(n, n + 1)),
}


def room_taken(spec: StateSpec, content: Any, change: Callable[[Any, int], Any], undo: Undo | None) -> int:
    """The most bytes that one call needs which makes many changes to a large collection, after others made some."""
    worker = Worker(layout_of(spec), HeapOptions(), undo)
    worker.open(MemoryStore())
    worker.table.values["k"] = worker.table.conceal(content)
    worker.focus.key = "k"
    for n in range(CALLS):
        if undo is not None:
            undo.begin()
        change(worker.cell, n)
    if undo is not None:
        undo.begin()
    tracemalloc.start()
    try:
        for n in range(CALLS, 2 * CALLS):
            change(worker.cell, n)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("operation", COSTLY)
def test_what_is_noted_to_take_a_change_back_does_not_grow_with_the_collection(operation):
    plainly = room_taken(*COSTLY[operation], None)
    assert room_taken(*COSTLY[operation], Undo()) <= plainly + 2_000 * CALLS


def test_a_call_that_is_taken_back_after_one_that_removed_leaves_what_that_one_left():
    undo = Undo()
    worker = Worker(layout_of(MapStateSpec("cell")), HeapOptions(), undo)
    worker.open(MemoryStore())
    worker.focus.key = "k"
    puts("a", "b", "c")(worker.cell)
    undo.begin()
    worker.cell.remove("b")
    undo.begin()
    worker.cell.remove("a")
    worker.cell.put("b", 1)
    worker.cell.put("c", 2)
    assert worker.cell.items() == [("c", 2), ("b", 1)]
    undo.rollback()
    assert worker.cell.items() == [("a", 0), ("c", 0)]
    undo.begin()
    assert type(worker.table.values["k"]) is dict


# --- what only looks equal ----------------------------------------------------------------------------------------


def live_and_read_back(spec: StateSpec, *bundles: Callable[[Any], None]) -> tuple[Any, Any]:
    """What the key 'k' holds after these bundles: in the worker that ran them, and in one that reads the log."""
    layout, store = layout_of(spec), MemoryStore()
    worker, fresh = Worker(layout, HeapOptions()), Worker(layout, HeapOptions())
    for bundle in bundles:
        worker.open(store)
        worker.focus.key = "k"
        bundle(worker.cell)
        worker.backend.commit(store)
        store.commit()
    fresh.open(MemoryStore(store.committed))
    return exact(worker.table.reveal("k")), exact(fresh.table.reveal("k"))


def puts(*names: Any) -> Callable[[Any], Any]:
    return lambda cell: [cell.put(name, 0) for name in names] and None


def adds(*values: Any) -> Callable[[Any], Any]:
    return lambda cell: [cell.add(value) for value in values] and None


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,))])
def test_a_set_that_exchanged_a_member_for_an_equal_one_is_read_back_as_it_was(old, new):
    live, read_back = live_and_read_back(
        SetStateSpec("cell"), adds("x", "y", old), lambda cell: (cell.remove(old), cell.add(new))
    )
    assert live == exact({"x", "y", new})
    assert read_back == live


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,))])
def test_a_map_that_exchanged_a_key_for_an_equal_one_is_read_back_as_it_was(old, new):
    live, read_back = live_and_read_back(
        MapStateSpec("cell"), puts("x", old, "y"), lambda cell: (cell.remove(old), cell.put(new, 0))
    )
    assert live == exact({"x": 0, "y": 0, new: 0})
    assert read_back == live


def test_a_map_key_that_is_put_again_as_an_equal_one_stays_the_first():
    live, read_back = live_and_read_back(MapStateSpec("cell"), puts("x", 1, "y"), puts(True))
    assert live == exact({"x": 0, 1: 0, "y": 0})
    assert read_back == live


@pytest.mark.parametrize("kind", [SetStateSpec, MapStateSpec])
@pytest.mark.parametrize("value", [math.nan, (1, math.nan)])
def test_nan_is_no_member_and_no_key(kind, value):
    # It equals nothing, itself included, and is found only as long as it is the same object: that is, until a crash.
    worker = Worker(layout_of(kind("cell")), HeapOptions())
    worker.open(MemoryStore())
    with pytest.raises(HoldfastError, match="nan"):
        worker.call("k", *(("add", value) if kind is SetStateSpec else ("put", value, 0)))


def test_a_member_comes_back_as_it_was():
    """1 and 1.0 are one member, but not the same value."""
    undo, focus = Undo(), Focus()
    focus.key = "k"
    spec = SetStateSpec("set")
    table: Any = make_table(spec)
    cell: Any = make_cell(spec, focus, undo)
    cell.attach(table)
    for member in (1.0, "x", (1.0, b"y")):
        cell.add(member)
    undo.begin()
    for member in (1, "x", (1, b"y")):
        cell.remove(member)
    undo.rollback()
    assert sorted(map(repr, table.values["k"])) == ["'x'", "(1.0, b'y')", "1.0"]
