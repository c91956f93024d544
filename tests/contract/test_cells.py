"""State cells: what each kind does, that it survives, and that nobody changes it from outside."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast import (
    BagStateSpec,
    CoderError,
    CombineFn,
    CombiningStateSpec,
    DoFn,
    FixedWindows,
    HoldfastError,
    InputError,
    IntervalWindow,
    MapStateSpec,
    Mean,
    OrderedListStateSpec,
    SetStateSpec,
    TimerSpec,
    Timestamp,
    UserCodeError,
    ValueStateSpec,
    VarIntCoder,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import at, by_key, plain, span


class Calls(DoFn):
    """Makes the calls that an element lists, as (method, *arguments), and gives what came of them."""

    def make(self, element, cell):
        key, calls = element
        yield key, [plain(getattr(cell, method)(*arguments)) for method, *arguments in calls]


class ValueCalls(Calls):
    CELL = ValueStateSpec("cell")

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class BagCalls(Calls):
    CELL = BagStateSpec("cell")

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class SetCalls(Calls):
    CELL = SetStateSpec("cell")

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class MapCalls(Calls):
    CELL = MapStateSpec("cell")

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class OrderedCalls(Calls):
    CELL = OrderedListStateSpec("cell")

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class SumCalls(Calls):
    CELL = CombiningStateSpec("cell", sum)

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


@pytest.fixture
def results(run, feed):
    """The result of every call, in order; each element is a list of calls on the one key."""

    def made(fn, *elements):
        out = run(fn, feed(TestStream(), [("k", list(calls)) for calls in elements]))
        return [result for made in by_key(out)["k"] for result in made]

    return made


class TestValue:
    def test_empty(self, results):
        assert results(ValueCalls(), [("read",)]) == [None]

    def test_the_last_write_is_read(self, results):
        calls = [("write", 1), ("read",)], [("read",), ("write", 2), ("write", 3)], [("read",)]
        assert results(ValueCalls(), *calls) == [None, 1, 1, None, None, 3]

    def test_clear(self, results):
        calls = [("write", 1)], [("clear",), ("read",)], [("read",), ("clear",)], [("write", 2), ("read",)]
        assert results(ValueCalls(), *calls) == [None, None, None, None, None, None, 2]

    @pytest.mark.parametrize("nothing", [0, 0.0, False, "", b"", (), [], {}, None], ids=repr)
    def test_what_is_falsy_is_a_value_all_the_same(self, run, feed, nothing):
        out = run(ValueCalls(), feed(TestStream(), [("k", [("write", nothing)]), ("k", [("read",)])]))
        (read,) = by_key(out)["k"][-1]
        assert (type(read), read) == (type(nothing), nothing)
        assert out.state("k") == {"cell": nothing}

    @pytest.mark.parametrize(
        "value",
        [1, -(2**70), 1.5, True, "Zürich", b"\x00\xff", (1, "a", None), [1, [2, {"a": (3,)}]], {1: "a", "b": 2.0}],
        ids=repr,
    )
    def test_plain_values_come_back_with_their_types(self, results, value):
        assert repr(results(ValueCalls(), [("write", value)], [("read",)])[-1]) == repr(value)

    @pytest.mark.parametrize("value", [{1, 2}, frozenset({3}), Decimal("1.10"), Timestamp(7.5)], ids=repr)
    def test_richer_values_come_back_with_their_types(self, run, feed, value):
        out = run(ValueCalls(), feed(TestStream(), [("k", [("write", value)])]))
        assert out.state("k") == {"cell": value}
        assert type(out.state("k")["cell"]) is type(value)


class TestBag:
    def test_empty(self, results):
        assert results(BagCalls(), [("read",)]) == [[]]

    def test_values_stay_in_the_order_of_adding(self, results):
        calls = [("add", 3), ("add", 1)], [("add", 3)], [("add", 2), ("read",)]
        assert results(BagCalls(), *calls)[-1] == [3, 1, 3, 2]

    def test_a_bag_holds_values_of_any_kind(self, results):
        assert results(BagCalls(), [("add", None)], [("add", [1])], [("add", "a"), ("read",)])[-1] == [None, [1], "a"]

    def test_clear(self, results):
        calls = [("add", 1), ("clear",), ("read",)], [("clear",), ("add", 2), ("read",)], [("read",)]
        assert results(BagCalls(), *calls) == [None, None, [], None, None, [2], [2]]


class Rereading(DoFn):
    """Reads a bag, changes it, and only then looks at what was read."""

    BAG = BagStateSpec("bag")

    def process(self, element, bag=DoFn.StateParam(BAG)):
        key, change = element
        bag.add("first")
        read = bag.read()
        if change == "add":
            bag.add("second")
        if change == "clear":
            bag.clear()
        if change == "clear and add":
            bag.clear()
            bag.add("other")
        yield key, [list(read), list(read), len(list(bag.read()))]


@pytest.mark.parametrize(("change", "left"), [("nothing", 1), ("add", 2), ("clear", 0), ("clear and add", 1)])
def test_a_read_bag_can_be_iterated_again_and_is_untouched_by_later_changes(run, change, left):
    out = run(Rereading(), TestStream().add_elements([("k", change)]))
    assert by_key(out) == {"k": [[["first"], ["first"], left]]}


class TwoIterators(DoFn):
    """Walks over one read bag twice at the same time."""

    BAG = BagStateSpec("bag")

    def process(self, element, bag=DoFn.StateParam(BAG)):
        key, value = element
        bag.add(value)
        read = bag.read()
        yield key, [(left, right) for left in read for right in read]


def test_a_read_bag_can_be_iterated_within_its_own_iteration(run, feed):
    out = run(TwoIterators(), feed(TestStream(), [("k", 1), ("k", 2)]))
    assert by_key(out)["k"] == [[(1, 1)], [(1, 1), (1, 2), (2, 1), (2, 2)]]


class TestSet:
    def test_empty(self, results):
        assert results(SetCalls(), [("read",), ("contains", 1)]) == [[], False]

    def test_members_are_distinct(self, results):
        calls = [("add", 2), ("add", 1), ("add", 2)], [("add", 1), ("read",)]
        assert results(SetCalls(), *calls)[-1] == [1, 2]

    def test_contains(self, results):
        assert results(SetCalls(), [("add", ("a", 1))], [("contains", ("a", 1)), ("contains", "a")])[1:] == [
            True,
            False,
        ]

    def test_remove(self, results):
        calls = [("add", 1), ("add", 2)], [("remove", 1), ("remove", 7), ("read",)], [("contains", 1)], [("remove", 2)]
        assert results(SetCalls(), *calls, [("read",)]) == [None, None, None, None, [2], False, None, []]

    def test_clear(self, results):
        assert results(SetCalls(), [("add", 1)], [("clear",), ("read",)], [("add", 2), ("read",)])[-1] == [2]

    def test_an_unhashable_member_is_refused_and_the_cell_named(self, run):
        with pytest.raises(InputError, match="hashable") as raised:
            run(SetCalls(), TestStream().add_elements([("k", [("add", [1])])]))
        assert "'cell'" in str(raised.value)


class ReadsASet(DoFn):
    MEMBERS = SetStateSpec("members")

    def process(self, element, members=DoFn.StateParam(MEMBERS)):
        key, value = element
        members.add(value)
        read = members.read()
        yield key, type(read) is set


def test_a_read_set_is_a_python_set(run):
    assert by_key(run(ReadsASet(), TestStream().add_elements([("k", 1)]))) == {"k": [True]}


class TestMap:
    def test_empty(self, results):
        calls = [("get", "a"), ("get", "a", 5), ("contains", "a"), ("keys",), ("values",), ("items",), ("read",)]
        assert results(MapCalls(), calls) == [None, 5, False, [], [], [], {}]

    def test_put_and_get(self, results):
        calls = [("put", "a", 1)], [("put", "b", 2), ("get", "a")], [("put", "a", 3), ("get", "a"), ("get", "b")]
        assert results(MapCalls(), *calls) == [None, None, 1, None, 3, 2]

    def test_none_is_a_value(self, results):
        assert results(MapCalls(), [("put", "a", None)], [("get", "a", 5), ("contains", "a")])[1:] == [None, True]

    def test_keys_values_and_items_are_in_the_order_of_first_putting(self, results):
        calls = [("put", "b", 1), ("put", "a", 2)], [("put", "c", 3), ("put", "b", 4)]
        assert results(MapCalls(), *calls, [("keys",), ("values",), ("items",), ("read",)])[-4:] == [
            ["b", "a", "c"],
            [4, 2, 3],
            [("b", 4), ("a", 2), ("c", 3)],
            {"b": 4, "a": 2, "c": 3},
        ]

    def test_what_was_removed_and_put_again_comes_last(self, results):
        calls = [("put", "a", 1), ("put", "b", 2)], [("remove", "a"), ("put", "a", 3)], [("items",)]
        assert results(MapCalls(), *calls)[-1] == [("b", 2), ("a", 3)]
        calls = [("put", "a", 1), ("put", "b", 2)], [("remove", "a"), ("put", "c", 3), ("put", "a", 4)], [("items",)]
        assert results(MapCalls(), *calls)[-1] == [("b", 2), ("c", 3), ("a", 4)]

    def test_remove(self, results):
        calls = [("put", "a", 1)], [("remove", "a"), ("remove", "z"), ("contains", "a")], [("items",)]
        assert results(MapCalls(), *calls) == [None, None, None, False, []]

    def test_clear(self, results):
        calls = [("put", "a", 1), ("put", "b", 2)], [("clear",), ("items",)], [("put", "b", 3)], [("items",)]
        assert results(MapCalls(), *calls)[-1] == [("b", 3)]

    def test_keys_may_be_tuples(self, results):
        assert results(MapCalls(), [("put", (1, "a"), "x")], [("get", (1, "a")), ("keys",)])[1:] == ["x", [(1, "a")]]

    def test_an_unhashable_key_is_refused_and_the_cell_named(self, run):
        with pytest.raises(InputError, match="hashable") as raised:
            run(MapCalls(), TestStream().add_elements([("k", [("put", [1], 1)])]))
        assert "'cell'" in str(raised.value)


class TestOrderedList:
    def test_empty(self, results):
        assert results(OrderedCalls(), [("read",), ("read_range", 0, 10), ("clear_range", 0, 10)]) == [[], [], None]

    def test_values_are_sorted_by_time(self, results):
        calls = [("add", (30, "c")), ("add", (-10, "a"))], [("add", (20.5, "b"))], [("read",)]
        assert results(OrderedCalls(), *calls)[-1] == [(-10.0, "a"), (20.5, "b"), (30.0, "c")]

    def test_equal_times_keep_the_order_of_adding(self, results):
        calls = [("add", (5, "b")), ("add", (5, "a"))], [("add", (9, "z"))], [("add", (5, "c"))], [("read",)]
        assert results(OrderedCalls(), *calls)[-1] == [(5.0, "b"), (5.0, "a"), (5.0, "c"), (9.0, "z")]

    def test_read_range_is_half_open(self, results):
        fill = [("add", (time, time)) for time in (1, 2, 3)]
        calls = [("read_range", 1, 3), ("read_range", 0, 4), ("read_range", 3, 3), ("read_range", 3, 1)]
        assert results(OrderedCalls(), fill, calls)[-4:] == [
            [(1.0, 1), (2.0, 2)],
            [(1.0, 1), (2.0, 2), (3.0, 3)],
            [],
            [],
        ]

    def test_clear_range_is_half_open(self, results):
        fill = [("add", (time, time)) for time in (1, 2, 2, 3)]
        assert results(OrderedCalls(), fill, [("clear_range", 2, 3)], [("read",)])[-1] == [(1.0, 1), (3.0, 3)]

    def test_what_is_added_after_clear_range_stays(self, results):
        calls = [("add", (1, "a")), ("add", (5, "b"))], [("clear_range", 0, 9), ("add", (4, "c"))], [("read",)]
        assert results(OrderedCalls(), *calls)[-1] == [(4.0, "c")]

    def test_clear(self, results):
        assert results(OrderedCalls(), [("add", (1, "a"))], [("clear",), ("read",)], [("read",)])[-2:] == [[], []]

    def test_only_pairs_can_be_added(self, run):
        with pytest.raises(InputError, match="pairs") as raised:
            run(OrderedCalls(), TestStream().add_elements([("k", [("add", 5)])]))
        assert raised.value.context["cell"] == "cell"


class ReadsTimes(DoFn):
    """Adds and reads with timestamps rather than numbers."""

    TIMES = OrderedListStateSpec("times")

    def process(self, element, time=DoFn.TimestampParam, times=DoFn.StateParam(TIMES)):
        key, value = element
        times.add((time, value))
        read = times.read_range(Timestamp(0), time + 1)
        yield key, all(isinstance(when, Timestamp) for when, _ in read), [value for _, value in read]


def test_an_ordered_list_takes_and_gives_timestamps(run, feed):
    out = run(ReadsTimes(), feed(TestStream(), at(("k", "b", 9), ("k", "a", 4), ("k", "c", 9.5))))
    assert by_key(out) == {"k": [(True, ["b"]), (True, ["a"]), (True, ["a", "b", "c"])]}


class Longest(CombineFn):
    """The longest text and how many there were; of nothing: a word of its own."""

    def create_accumulator(self):
        return ["nothing yet", 0]

    def add_input(self, mutable_accumulator, element):
        if mutable_accumulator[1] == 0 or len(element) > len(mutable_accumulator[0]):
            mutable_accumulator[0] = element
        mutable_accumulator[1] += 1
        return mutable_accumulator

    def merge_accumulators(self, accumulators):
        raise AssertionError("one accumulator has nothing to be merged with")

    def extract_output(self, accumulator):
        return tuple(accumulator)


class Countdown(CombineFn):
    """Counts down from three, and on below zero."""

    def create_accumulator(self):
        return 3

    def add_input(self, mutable_accumulator, element):
        return mutable_accumulator - element

    def merge_accumulators(self, accumulators):
        return 3 - sum(3 - held for held in accumulators)

    def extract_output(self, accumulator):
        return accumulator


class CountdownCalls(Calls):
    CELL = CombiningStateSpec("cell", Countdown())

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class LongestCalls(Calls):
    CELL = CombiningStateSpec("cell", Longest())

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class MaxCalls(Calls):
    CELL = CombiningStateSpec("cell", max)

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class CodedSumCalls(Calls):
    CELL = CombiningStateSpec("cell", VarIntCoder(), sum)

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class KeywordMeanCalls(Calls):
    CELL = CombiningStateSpec("cell", combine_fn=Mean())

    def process(self, element, cell=DoFn.StateParam(CELL)):
        return self.make(element, cell)


class TestCombining:
    def test_empty_sum(self, results):
        assert results(SumCalls(), [("read",)]) == [0]

    def test_empty_of_a_function_of_ones_own(self, results):
        assert results(LongestCalls(), [("read",)]) == [("nothing yet", 0)]

    def test_empty_of_a_function_that_takes_no_empty_list(self, run):
        with pytest.raises(UserCodeError) as raised:
            run(MaxCalls(), TestStream().add_elements([("k", [("read",)])]))
        # From a worker of Spark's comes what it said, not the exception itself.
        assert "ValueError" in raised.value.detail

    @pytest.mark.parametrize("fn", [SumCalls, CodedSumCalls])
    def test_sum(self, results, fn):
        calls = [("add", 1), ("read",)], [("add", 5)], [("read",), ("add", -2), ("read",)]
        assert results(fn(), *calls) == [None, 1, None, 6, None, 4]

    def test_an_accumulator_of_zero_is_not_an_empty_cell(self, results):
        calls = [("read",), ("add", 2)], [("add", 1), ("read",)], [("read",), ("add", 1), ("read",)]
        assert results(CountdownCalls(), *calls) == [3, None, None, 0, 0, None, -1]

    def test_max(self, results):
        assert results(MaxCalls(), [("add", 3)], [("add", 9)], [("add", 4), ("read",)])[-1] == 9

    def test_a_ready_one_by_keyword(self, results):
        assert results(KeywordMeanCalls(), [("add", 3)], [("add", 6)], [("read",)])[-1] == 4.5

    def test_a_function_of_ones_own(self, results):
        calls = [("add", "ab"), ("add", "c")], [("add", "def")], [("read",)]
        assert results(LongestCalls(), *calls)[-1] == ("def", 3)

    def test_clear(self, results):
        calls = [("add", 1)], [("clear",), ("read",)], [("read",), ("add", 2)], [("read",)]
        assert results(SumCalls(), *calls) == [None, None, 0, 0, None, 2]

    def test_the_state_shows_the_result(self, run, feed):
        out = run(LongestCalls(), feed(TestStream(), [("k", [("add", "ab")])]))
        assert out.state("k") == {"cell": ("ab", 1)}


class TwoCells(DoFn):
    """Keeps what it is given in one of two cells, and reads both."""

    LEFT = ValueStateSpec("left")
    RIGHT = ValueStateSpec("right")

    def process(self, element, left=DoFn.StateParam(LEFT), right=DoFn.StateParam(RIGHT)):
        key, (side, value) = element
        (left if side == "left" else right).write(value)
        yield key, left.read(), right.read()


class TestScope:
    def test_cells_of_different_names(self, run, feed):
        out = run(TwoCells(), feed(TestStream(), [("k", ("left", 1)), ("k", ("right", 2)), ("k", ("left", 3))]))
        assert by_key(out) == {"k": [(1, None), (1, 2), (3, 2)]}

    def test_cells_of_different_keys(self, run, feed):
        out = run(TwoCells(), feed(TestStream(), [("k", ("left", 1)), ("j", ("right", 2)), ("k", ("left", 3))]))
        assert by_key(out) == {"k": [(1, None), (3, None)], "j": [(None, 2)]}

    def test_cells_of_different_windows(self, run, feed):
        elements = at(("k", ("left", 1), 5), ("k", ("right", 2), 15), ("k", ("right", 3), 6))
        out = run(TwoCells(), feed(TestStream(), elements), windowing=FixedWindows(10))
        assert by_key(out) == {"k": [(1, None), (None, 2), (1, 3)]}
        assert {span(window): cells for window, cells in out.state("k").items()} == {
            (0, 10): {"left": 1, "right": 3},
            (10, 20): {"right": 2},
        }
        assert out.state("k", IntervalWindow(10, 20)) == {"right": 2}

    def test_keys_that_have_state(self, run, feed):
        out = run(TwoCells(), feed(TestStream(), [("k", ("left", 1)), ("j", ("right", 2))]))
        assert sorted(out.keys()) == ["j", "k"]


class OneName(DoFn):
    """Has a cell and a timer of the same name, and gives in the callback what process wrote."""

    CELL = ValueStateSpec("same")
    TIMER = TimerSpec("same")

    def process(self, element, cell=DoFn.StateParam(CELL), timer=DoFn.TimerParam(TIMER)):
        cell.write(element[1])
        timer.set(10)

    @on_timer(TIMER)
    def on_same(self, key=DoFn.KeyParam, cell=DoFn.StateParam(CELL)):
        yield key, cell.read()
        cell.write("fired")


def test_a_cell_and_a_timer_may_share_a_name_and_a_callback_sees_the_cells(run, feed):
    out = run(OneName(), feed(TestStream(), at(("k", 1, 0), ("k", 2, 0), ("j", 3, 0))).advance_watermark_to(10))
    assert by_key(out) == {"k": [2], "j": [3]}
    assert out.state("k") == {"same": "fired"}


class Grows(DoFn):
    """Keeps a lot in every kind of cell."""

    VALUE = ValueStateSpec("value")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    MAP = MapStateSpec("map")
    ORDERED = OrderedListStateSpec("ordered")
    SUM = CombiningStateSpec("sum", sum)
    SIZE = 100_000

    def process(
        self,
        element,
        value=DoFn.StateParam(VALUE),
        bag=DoFn.StateParam(BAG),
        members=DoFn.StateParam(SET),
        mapping=DoFn.StateParam(MAP),
        ordered=DoFn.StateParam(ORDERED),
        total=DoFn.StateParam(SUM),
    ):
        _, number = element
        large = f"{number} " * (self.SIZE // len(f"{number} "))
        value.write(large)
        bag.add(large)
        members.add(large)
        mapping.put(number, large)
        ordered.add((100 - number, large))
        total.add(number)
        if number % 3 == 0:
            members.remove(large)
            mapping.remove(number)
            ordered.clear_range(100 - number, 101 - number)


def test_much_state_survives(run, feed):
    """More than the log keeps as deltas, so that it is stored as a whole in between."""
    out = run(Grows(), feed(TestStream(), [(key, number) for number in range(1, 6) for key in ("k", "j")]))
    for key in ("k", "j"):
        state = out.state(key)
        assert state["value"].startswith("5 5 ")
        assert [text[0] for text in state["bag"]] == ["1", "2", "3", "4", "5"]
        assert {text[0] for text in state["set"]} == {"1", "2", "4", "5"}
        assert [(number, text[0]) for number, text in state["map"].items()] == [(1, "1"), (2, "2"), (4, "4"), (5, "5")]
        assert [(float(time), text[0]) for time, text in state["ordered"]] == [
            (95.0, "5"),
            (96.0, "4"),
            (98.0, "2"),
            (99.0, "1"),
        ]
        assert state["sum"] == 15


class CodedValue(DoFn):
    NUMBER = ValueStateSpec("number", VarIntCoder())

    def process(self, element, number=DoFn.StateParam(NUMBER)):
        number.write(element[1])


def test_a_value_that_does_not_fit_its_coder_is_refused_where_it_is_written(run):
    with pytest.raises(CoderError) as raised:
        run(CodedValue(), TestStream().add_elements([("k", 1), ("j", "two")]), name="numbers")
    error = raised.value
    assert {name: error.context[name] for name in ("step", "cell", "key", "micro_batch")} == {
        "step": "numbers",
        "cell": "number",
        "key": "j",
        "micro_batch": 0,
    }
    assert "'two'" in str(error)


class NotPlain(DoFn):
    THING = ValueStateSpec("thing")

    def process(self, element, thing=DoFn.StateParam(THING)):
        thing.write(object())


def test_a_value_that_is_not_plain_needs_a_coder_and_is_never_pickled(run):
    with pytest.raises(HoldfastError) as raised:
        run(NotPlain(), TestStream().add_elements([("k", 1)]))
    assert isinstance(raised.value, CoderError)
    assert "what to do" in str(raised.value)


class KeepsAccumulator(CombineFn):
    """Gives its accumulator itself out, which a careless reader may then change."""

    def create_accumulator(self):
        return []

    def add_input(self, mutable_accumulator, element):
        mutable_accumulator.append(element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators):
        return [item for held in accumulators for item in held]

    def extract_output(self, accumulator):
        return accumulator


class Careless(DoFn):
    """Changes in place what it has read, and what it has given to the cells."""

    VALUE = ValueStateSpec("value")
    NESTED = ValueStateSpec("nested")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    MAP = MapStateSpec("map")
    ORDERED = OrderedListStateSpec("ordered")
    COMBINING = CombiningStateSpec("combining", KeepsAccumulator())

    def process(
        self,
        element,
        value=DoFn.StateParam(VALUE),
        nested=DoFn.StateParam(NESTED),
        bag=DoFn.StateParam(BAG),
        members=DoFn.StateParam(SET),
        mapping=DoFn.StateParam(MAP),
        ordered=DoFn.StateParam(ORDERED),
        combining=DoFn.StateParam(COMBINING),
    ):
        key, what = element
        if what == "fill and change what was given":
            given = [[1] for _ in range(6)]
            value.write(given[0])
            nested.write((given[1],))
            bag.add(given[2])
            members.add(1)
            mapping.put("a", given[3])
            ordered.add((5, given[4]))
            combining.add(given[5])
            for item in given:
                item.append("leaked")
        if what == "change what was read":
            value.read().append("leaked")
            nested.read()[0].append("leaked")
            for item in bag.read():
                item.append("leaked")
            members.read().add("leaked")
            mapping.get("a").append("leaked")
            mapping.read()["leaked"] = 1
            mapping.items().append("leaked")
            mapping.keys().append("leaked")
            mapping.values()[0].append("leaked")
            ordered.read()[0][1].append("leaked")
            ordered.read().clear()
            ordered.read_range(0, 9)[0][1].append("leaked")
            combining.read().append("leaked")
            combining.read()[0].append("leaked")
        yield (
            key,
            value.read(),
            plain(nested.read()),
            plain(bag.read()),
            plain(members.read()),
            mapping.read(),
            plain(ordered.read()),
            combining.read(),
        )


def test_only_the_cells_own_methods_change_a_cell(run, feed):
    script = ["fill and change what was given", "change what was read", "look"]
    out = run(Careless(), feed(TestStream(), [("k", what) for what in script]))
    filled = ([1], ([1],), [[1]], [1], {"a": [1]}, [(5.0, [1])], [[1]])
    assert by_key(out) == {"k": [filled] * 3}
    assert out.state("k") == {
        "value": [1],
        "nested": ([1],),
        "bag": [[1]],
        "set": {1},
        "map": {"a": [1]},
        "ordered": [(Timestamp(5), [1])],
        "combining": [[1]],
    }
