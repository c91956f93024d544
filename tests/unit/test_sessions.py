"""Sessions: how they are stored, and how a table knows which keys are due."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import CoderError, CombinePerKey, GlobalWindow, HoldfastError, Max, Sessions, Timestamp, UserCodeError
from holdfast.engine.backends.heap import HeapBackend
from holdfast.engine.run.bundle import run_bundle
from holdfast.engine.run.choice import make_runner
from holdfast.engine.run.clocks import Clocks
from holdfast.engine.run.runner import PartialBlock
from holdfast.engine.run.session_columns import overlapping
from holdfast.engine.state.key_group import KeyGroupState, Layout
from holdfast.engine.state.sizes import size_of
from holdfast.engine.tables import Rows
from holdfast.engine.tables.base import DROP, PUT
from holdfast.engine.tables.due import DueIndex, in_order_of
from holdfast.engine.tables.sessions import SessionsTable
from holdfast.model.coders import Encoded, ListCoder, OpaqueCoder, VarIntCoder, blocks, coder_from_description, default_coder
from holdfast.model.coders.sessions import SessionsCoder
from holdfast.model.functions.grouping import build_grouping
from holdfast.model.functions.options import StepOptions
from holdfast.model.state.sessions import SessionsStateSpec
from holdfast.model.time.units import MAX_MICROS
from holdfast.testing.memory_store import MemoryStore

CODER = SessionsCoder(["n", "seen"], [VarIntCoder(), ListCoder(VarIntCoder())])
SEEN = ListCoder(VarIntCoder()).freeze([1, 2])
ONE = (5, 9, 0, 0, 3, SEEN)
TWO = (*ONE, 20, 24, 2, 1, 2**70, SEEN)


def table_of(entries, lateness=0):
    table = SessionsTable(SessionsStateSpec("sessions", CODER, lateness))
    for slot, entry in entries.items():
        table.put(slot, entry)
    return table


# The coder


def test_a_reader_sees_each_session_with_its_times_and_accumulators():
    first, second = CODER.thaw(TWO)
    assert first == {
        "start": Timestamp(micros=5),
        "end": Timestamp(micros=9),
        "given": 0,
        "on_time": 0,
        "accumulators": {"n": 3, "seen": [1, 2]},
    }
    assert (second["given"], second["on_time"], second["accumulators"]["n"]) == (2, 1, 2**70)


def test_values_and_blocks_come_back():
    assert CODER.freeze(CODER.thaw(TWO)) == TWO
    assert CODER.decode(CODER.encode(CODER.thaw(TWO))) == CODER.thaw(TWO)
    for stored in ([], [ONE], [ONE, ONE], [ONE, TWO, ONE]):
        assert CODER.decode_block(CODER.encode_block(stored)) == stored


def test_it_is_made_from_its_description():
    assert coder_from_description(CODER.describe()) == CODER
    assert coder_from_description({**CODER.describe(), "version": 2}) is None
    assert coder_from_description({**CODER.describe(), "names": ["n"]}) is None
    assert coder_from_description({**CODER.describe(), "components": [1, 2]}) is None


def test_accumulators_that_need_code_stay_bytes_in_sessions_that_can_be_read():
    unknown = {"id": "somebody.Own", "version": 1}
    coder = coder_from_description({**CODER.describe(), "components": [VarIntCoder().describe(), unknown]})
    assert isinstance(coder, SessionsCoder)
    assert isinstance(coder.components[1], OpaqueCoder)
    (stored,) = coder.decode_block(coder.encode_block([(5, 9, 0, 0, 3, Encoded(b"own"))]))
    (session,) = coder.thaw(stored)
    assert (session["start"], session["accumulators"]["seen"]) == (Timestamp(micros=5), b"own")


@pytest.mark.parametrize(
    "change",
    [
        {"start": Timestamp(9)},
        {"end": "later"},
        {"given": -1},
        {"on_time": 1},
        {"given": True},
        {"accumulators": {"n": 1}},
        {"accumulators": [1, [2]]},
        {"more": 1},
    ],
    ids=repr,
)
def test_only_sessions_are_taken(change):
    (session,) = CODER.thaw(ONE)
    with pytest.raises(CoderError):
        CODER.freeze([{**session, **change}])


@pytest.mark.parametrize("value", [[], None, {}, "no"], ids=repr)
def test_only_lists_of_sessions_are_taken(value):
    with pytest.raises(CoderError, match="lists of sessions"):
        CODER.freeze(value)


def test_sessions_are_in_order_and_do_not_overlap():
    first, second = CODER.thaw(TWO)
    with pytest.raises(CoderError, match="overlap"):
        CODER.freeze([second, first])
    with pytest.raises(CoderError, match="overlap"):
        CODER.freeze([first, {**second, "start": Timestamp(micros=8)}])
    # Those that only touch stay apart.
    assert CODER.freeze([first, {**second, "start": Timestamp(micros=9)}])


def parts_of(stored):
    count, parts = blocks.read_columns(CODER.encode_block(stored))
    return count, parts


@pytest.mark.parametrize("place", range(7))
def test_a_block_whose_columns_do_not_fit_together_is_damaged(place):
    count, parts = parts_of([ONE, TWO])
    shorter = parts_of([ONE])[1][place]
    with pytest.raises(CoderError, match="cannot read a block"):
        CODER.decode_block(blocks.write_columns(count, [*parts[:place], shorter, *parts[place + 1 :]]))


def test_other_blocks_are_damaged():
    count, parts = parts_of([ONE, TWO])
    no_counts, no_lengths = VarIntCoder().encode_block([0, 3]), VarIntCoder().encode_block([4, 0, 4])
    for block in (
        b"",
        b"\x01",
        blocks.write_columns(count, parts[:-1]),
        blocks.write_columns(count, [no_counts, *parts[1:]]),
        blocks.write_columns(count, [*parts[:2], no_lengths, *parts[3:]]),
    ):
        with pytest.raises(CoderError):
            CODER.decode_block(block)


# The table


def test_what_changed_is_applied_elsewhere():
    table, other = table_of({"a": ONE, "b": TWO}), table_of({"c": ONE})
    table.drop("a")
    for rows in table.delta():
        other.apply(rows)
    assert other.values == {"b": TWO, "c": ONE}
    other.apply(Rows(DROP, ["b"], []))
    assert other.values == {"c": ONE}


def test_one_entry_is_packed_and_unpacked():
    table = table_of({})
    assert table.unpack(table.pack(TWO)) == TWO
    for packed in ([], table.pack(TWO)[:-1]):
        with pytest.raises(ValueError, match="are no sessions"):
            table.unpack(packed)


def test_the_size_of_a_key_counts_all_of_its_sessions():
    table = table_of({})
    assert 1.9 < size_of(table, TWO) / size_of(table, ONE) < 2.1


def test_a_session_is_due_at_its_end_and_after_its_result_when_it_expires():
    table = table_of({}, lateness=100)
    assert table.due_of(ONE) == 9
    assert table.due_of(TWO) == 9
    assert table.due_of(TWO[6:]) == 124
    assert table.due_of((*TWO[6:], 30, 40, 0, 0, 0, SEEN)) == 40
    assert table.due_of((5, MAX_MICROS - 2, 1, 1, 3, SEEN)) == MAX_MICROS


def test_the_index_is_made_when_it_is_needed_and_kept_by_what_is_applied():
    table = table_of({"a": ONE})
    assert table.index.take(8) == []
    (row,) = table_of({"b": (1, 3, 0, 0, 1, SEEN)}).delta()
    assert row.operation == PUT
    table.apply(row)
    assert table.index.next_time == 3
    assert set(table.index.take(9)) == {"a", "b"}


def test_what_changed_from_outside_is_found_after_the_index_was_forgotten():
    table = table_of({"a": ONE})
    assert table.index.next_time == 9
    table.values["b"] = (1, 3, 0, 0, 1, SEEN)
    table.forget_index()
    assert table.index.next_time == 3


def test_an_index_that_is_mostly_stale_is_made_anew():
    table = table_of({"a": ONE})
    assert table.index.next_time == 9
    for time in range(1000):
        table.enter(["gone"], [time])
    assert len(table.index) == 1


# The index


@given(
    rounds=st.lists(
        st.tuples(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["a", 1, ("t", 2)]))), st.integers(0, 60)),
        max_size=8,
    )
)
def test_the_index_against_a_plain_list(rounds):
    index, model = DueIndex(), []
    for entries, limit in rounds:
        index.enter([time for time, _ in entries], [slot for _, slot in entries])
        model += entries
        assert index.next_time == min((time for time, _ in model), default=None)
        due = index.take(limit)
        assert set(due) == {slot for time, slot in model if time <= limit}
        assert len(due) == len(set(due))
        model = [entry for entry in model if entry[0] > limit]
        assert len(index) == len(model)


def test_runs_of_the_index_stay_few():
    index = DueIndex()
    for number in range(1000):
        index.enter([number], ["k"])
    assert len(index._runs) < 12


def test_equal_times_are_in_order_of_their_ranks_and_others_do_not_ask_for_them():
    assert in_order_of([3, 1, 3, 2], lambda: [9, 9, 1, 9]) == [1, 3, 2, 0]
    assert in_order_of([3, 1, 2], lambda: pytest.fail("no two are equal")) == [1, 2, 0]


@given(spans=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda span: (span[0], sum(span)))))
def test_overlapping_spans_become_what_they_cover(spans):
    merged = list(overlapping(spans))
    assert sorted(member for _, _, members in merged for member in members) == list(range(len(spans)))
    covered = {point for start, end in spans for point in range(start, end)}
    assert {point for start, end, _ in merged for point in range(start, end)} == covered
    for (_, end, _), (start, _, _) in pairwise(merged):
        assert start >= end
    for start, end, members in merged:
        inside = [spans[member] for member in members]
        assert (min(inside)[0], max(last for _, last in inside)) == (start, end)


def test_a_plain_accumulator_needs_no_coder_of_its_own():
    coder = SessionsCoder(["n"], [default_coder()])
    assert coder.decode_block(coder.encode_block([(1, 2, 0, 0, 7)])) == [(1, 2, 0, 0, 7)]


# Workers that take turns


def given_by(workers, seed):
    """What a random stream gives when so many workers take turns, each with its own copy of the state."""
    step = build_grouping(CombinePerKey(sum), StepOptions(windowing=Sessions(5), allowed_lateness=4))
    runner = make_runner(step, Layout(step), {}, (), origins=True)
    backends = [HeapBackend(Layout(step)) for _ in range(workers)]
    store, draw, watermark, given = MemoryStore(), random.Random(seed), 0, []
    for bundle in range(30):
        backend = backends[bundle % workers]
        backend.open(store)
        times = [(watermark + draw.randrange(-6, 12)) * 1_000_000 for _ in range(draw.randrange(6))]
        elements = runner.elements([(draw.choice("abcd"), 1) for _ in times], times)
        watermark += draw.randrange(4)
        clocks = Clocks(watermark * 1_000_000, watermark * 1_000_000, 0)
        run_bundle(backend, store, runner, elements, clocks, bundle, lambda: given.extend(runner.outputs()))
        store.commit()
    return given, backends


@pytest.mark.parametrize("seed", range(5))
def test_a_worker_that_catches_up_knows_what_is_due(seed):
    alone, _ = given_by(1, seed)
    together, backends = given_by(3, seed)
    assert len(alone) > 10
    assert together == alone
    # Each has read everything once, and then only what it had missed.
    assert [backend.loads <= 1 for backend in backends] == [True] * 3
    assert all(backend.catch_ups for backend in backends)


class Refusing(Max):
    def merge_accumulators(self, accumulators):
        raise ValueError("no")


def test_an_error_of_a_combiner_names_the_key_and_leaves_nothing_behind():
    runner, state = of_count(Refusing())
    first = PartialBlock(["a", "b"], [1, 2], [6, 7], [1, 1], [[(1,), (2,)]])
    clocks = Clocks(0, 0, 0)
    runner.run(state, first, clocks, 0)
    with pytest.raises(UserCodeError) as refused:
        runner.run(state, PartialBlock(["c", "b"], [1, 3], [6, 8], [1, 1], [[(1,), (2,)]]), clocks, 1)
    assert refused.value.context["key"] == "b"
    # The state would be abandoned; the runner goes on with another.
    runner, fresh = runner, of_count(Refusing())[1]
    runner.run(fresh, first, clocks, 1)
    assert fresh.window(GlobalWindow()).sessions.index.next_time == 6


def test_an_error_of_a_time_without_room_for_a_session_names_the_key():
    runner, state = of_count(Refusing())
    elements = runner.elements([("a", 1), ("b", 2), ("c", 3)], [5, MAX_MICROS - 5, 7])
    with pytest.raises(HoldfastError, match="beyond all timestamps") as refused:
        runner.run(state, elements, Clocks(0, 0, 0), 0)
    assert refused.value.context["key"] == "b"


def of_count(combiner):
    step = build_grouping(CombinePerKey(combiner), StepOptions(windowing=Sessions(5)))
    layout = Layout(step)
    return make_runner(step, layout, {}, (), origins=True), KeyGroupState(layout)
