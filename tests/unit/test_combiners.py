"""CombineFn, plain functions as one, and the ready combiners."""

from __future__ import annotations

import math
import pickle
import sys
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from holdfast.errors import HoldfastError, InputError, InvalidStep
from holdfast.model.aggregate import combiners
from holdfast.model.aggregate.combine import BuiltinSum, CallableCombineFn, CombineFn
from holdfast.model.aggregate.combiners import (
    ApproximateDistinct,
    Count,
    Largest,
    Max,
    Mean,
    Min,
    Smallest,
    Sum,
    ToDict,
    ToList,
    Top,
    ToSet,
)


def merged(combine_fn, *groups):
    """The result of several accumulators, one for each group of values."""
    held = [combine_fn.add_inputs(combine_fn.create_accumulator(), group) for group in groups]
    return combine_fn.extract_output(combine_fn.merge_accumulators(held))


class OnlyFour(CombineFn):
    """As users write it: the four methods and no more."""

    def create_accumulator(self):
        return (0.0, 0)

    def add_input(self, sum_count, input):
        return sum_count[0] + input, sum_count[1] + 1

    def merge_accumulators(self, accumulators):
        sums, counts = zip(*accumulators, strict=True)
        return sum(sums), sum(counts)

    def extract_output(self, sum_count):
        return sum_count[0] / sum_count[1] if sum_count[1] else math.nan


class TestCombineFn:
    def test_four_methods_are_enough(self):
        average = OnlyFour()
        average.setup()
        assert average.apply([1, 2, 6]) == 3
        assert merged(average, [1, 2], [6]) == 3
        assert average.compact((1.0, 1)) == (1.0, 1)
        assert average.get_accumulator_coder() is None
        assert average.for_input_type(int) is average
        assert average.default_label() == "OnlyFour"
        average.teardown()

    def test_a_missing_method_is_named(self):
        with pytest.raises(NotImplementedError, match=r"CombineFn\.create_accumulator"):
            CombineFn().apply([1])

    def test_further_arguments_reach_every_method(self):
        class Scaled(OnlyFour):
            def create_accumulator(self, scale=1):
                return super().create_accumulator()

            def add_input(self, sum_count, input, scale=1):
                return super().add_input(sum_count, input * scale)

            def extract_output(self, sum_count, scale=1):
                return super().extract_output(sum_count)

        assert Scaled().apply([1, 3], scale=10) == 20
        assert Scaled().apply([1, 3], 10) == 20

    def test_maybe_from_callable(self):
        mean = Mean()
        assert CombineFn.maybe_from_callable(mean) is mean
        assert isinstance(CombineFn.maybe_from_callable(sum), BuiltinSum)
        assert isinstance(CombineFn.maybe_from_callable(max), CallableCombineFn)
        assert isinstance(CombineFn.from_callable(sum), CallableCombineFn)

    def test_refuses_classes_and_other_things(self):
        with pytest.raises(InvalidStep, match=r"use Mean\(\) not Mean"):
            CombineFn.maybe_from_callable(Mean)
        with pytest.raises(InvalidStep, match="list is a class"):
            CombineFn.maybe_from_callable(list)
        with pytest.raises(InvalidStep, match="neither a CombineFn nor a function"):
            CombineFn.maybe_from_callable(5)


class TestCallables:
    def test_sum_adds_plainly(self):
        combine_fn = CombineFn.maybe_from_callable(sum)
        assert combine_fn.create_accumulator() == 0
        assert combine_fn.apply([]) == 0
        assert merged(combine_fn, [1, 2], [], [3]) == 6
        assert combine_fn.apply([0.1] * 10) == 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1
        assert combine_fn.default_label() == "CombineFn(sum)"

    def test_max_folds(self):
        combine_fn = CombineFn.from_callable(max)
        accumulator = combine_fn.create_accumulator()
        assert accumulator == ()
        for value in (3, 9, 4):
            accumulator = combine_fn.add_input(accumulator, value)
        assert accumulator == (9,)
        assert combine_fn.extract_output(accumulator) == 9
        assert combine_fn.merge_accumulators([(), ()]) == ()
        assert merged(combine_fn, [3], [], [9, 4]) == 9
        with pytest.raises(ValueError, match="empty"):
            combine_fn.apply([])

    def test_the_function_is_applied_to_a_single_value_too(self):
        assert CombineFn.from_callable(any).apply([5]) is True
        assert CombineFn.from_callable(any).apply([]) is False

    def test_further_arguments(self):
        def bounded_sum(values, bound=500):
            return min(sum(values), bound)

        combine_fn = CombineFn.from_callable(bounded_sum)
        assert combine_fn.apply([300, 300]) == 500
        assert combine_fn.apply([300, 300], 400) == 400
        assert combine_fn.apply([300, 300], bound=1000) == 600
        assert combine_fn.default_label() == "CombineFn(bounded_sum)"


class TestAggregates:
    def test_results(self):
        values = [3, 1, 2]
        assert Sum().apply(values) == 6
        assert Count().apply(values) == 3
        assert Mean().apply(values) == 2
        assert Min().apply(values) == 1
        assert Max().apply(values) == 3

    def test_results_of_nothing(self):
        assert Sum().apply([]) == 0
        assert Count().apply([]) == 0
        assert math.isnan(Mean().apply([]))
        assert Min().apply([]) is None
        assert Max().apply([]) is None
        assert math.isnan(merged(Mean(), [], []))
        assert merged(Min(), [], []) is None
        assert ApproximateDistinct().apply([]) == 0

    def test_of_equal_values_the_first_stays(self):
        assert type(Max().apply([1.0, 1, True])) is float
        assert type(merged(Min(), [1.0], [1])) is float

    def test_fields_of_all_kinds_of_elements(self):
        Trip = namedtuple("Trip", ["total", "count"])

        @dataclass
        class Ride:
            total: int
            count: int

        for element in ({"total": 5, "count": 2}, Trip(5, 2), Ride(5, 2), SimpleNamespace(total=5, count=2)):
            assert Sum("total").apply([element, element]) == 10
            # A tuple has a method of this name.
            assert Sum("count").apply([element]) == 2

    def test_a_row_gives_items_although_it_is_a_tuple(self):
        class Row(tuple):
            def __getitem__(self, item):
                return super().__getitem__(["total", "count"].index(item) if isinstance(item, str) else item)

        assert Max("count").apply([Row((5, 2)), Row((5, 3))]) == 3
        with pytest.raises(InputError, match="no field 'index'"):
            Max("index").apply([Row((5, 2))])

    def test_a_field_that_is_none_is_left_out(self):
        rows = [{"total": 4}, {"total": None}, {"total": 2}]
        assert Sum("total").apply(rows) == 6
        assert Mean("total").apply(rows) == 3
        assert Count("total").apply(rows) == 2
        assert Min("total").apply(rows) == 2
        assert ToList("total").apply(rows) == [4, 2]
        assert Count().apply([None, 1]) == 2
        assert ToList().apply([None]) == [None]

    @pytest.mark.parametrize("element", [{"fare": 1}, (1, 2), "text", 5, None])
    def test_a_missing_field_is_named(self, element):
        for field in ("total", "count"):
            with pytest.raises(InputError, match=f"no field '{field}'"):
                Sum(field).apply([element])

    def test_a_field_is_a_name(self):
        with pytest.raises(InvalidStep):
            Sum(5)

    def test_labels(self):
        assert Sum("total").default_label() == "Sum(total)"
        assert Sum().default_label() == "Sum"
        assert repr(Sum("total")) == "Sum('total')"
        assert Top(3).default_label() == "Top(3)"


class TestTop:
    def test_largest_first(self):
        assert Top(2).apply([3, 9, 1, 9, 4]) == [9, 9]
        assert Largest(2).apply([3, 9, 4]) == [9, 4]
        assert Smallest(2).apply([3, 9, 4]) == Top(2, reverse=True).apply([3, 9, 4]) == [3, 4]
        assert Top(5).apply([1, 2]) == [2, 1]
        assert Top(1).apply([]) == []

    def test_of_equal_ones_the_earlier_stay_and_come_first(self):
        values = ["aa", "b", "cc", "d", "ee", "f", "gg"]
        assert Top(3, key=len).apply(values) == ["aa", "cc", "ee"]
        assert Top(5, key=len).apply(values) == ["aa", "cc", "ee", "gg", "b"]
        assert Smallest(2, key=len).apply(values) == ["b", "d"]
        assert merged(Top(3, key=len), ["b", "aa"], ["cc", "dd"]) == ["aa", "cc", "dd"]

    def test_the_accumulator_stays_small(self):
        top = Top(3)
        accumulator = top.create_accumulator()
        for value in range(100):
            accumulator = top.add_input(accumulator, value)
            assert len(accumulator) <= 6
        assert top.compact(accumulator) == [99, 98, 97]

    def test_extracting_changes_nothing(self):
        top = Top(1)
        accumulator = top.add_inputs(top.create_accumulator(), [1, 2])
        assert top.extract_output(accumulator) == [2]
        assert accumulator == [1, 2]

    @pytest.mark.parametrize("n", [0, -1, 1.5, "3", None, True])
    def test_n_must_be_positive(self, n):
        with pytest.raises(InvalidStep):
            Top(n)


class TestCollections:
    def test_results(self):
        assert ToList().apply([2, 1, 2]) == [2, 1, 2]
        assert ToSet().apply([2, 1, 2]) == {1, 2}
        assert ToDict().apply([("a", 1), ("b", 2), ("a", 3)]) == {"a": 3, "b": 2}
        assert merged(ToDict(), [("a", 1)], [("a", 2)]) == {"a": 2}

    @pytest.mark.parametrize("element", [5, (1, 2, 3)])
    def test_to_dict_takes_pairs(self, element):
        with pytest.raises(InputError, match="pairs"):
            ToDict().apply([element])

    @pytest.mark.parametrize("combine_fn", [ToList(), ToSet(), Top(2)])
    def test_merging_and_extracting_leave_the_others_alone(self, combine_fn):
        first = combine_fn.add_inputs(combine_fn.create_accumulator(), [1])
        second = combine_fn.add_inputs(combine_fn.create_accumulator(), [2])
        result = combine_fn.extract_output(combine_fn.merge_accumulators([first, second]))
        result.clear()
        assert combine_fn.extract_output(second) == type(second)([2])
        assert combine_fn.create_accumulator() == type(second)()


class TestSketches:
    def test_few_distinct_values_are_exact(self):
        values = ["", "a", b"a", 1, 1.0, True, 2, None, (1, "x"), [1, "x"], -1, 2.5]
        assert ApproximateDistinct().apply(values) == 9
        assert merged(ApproximateDistinct(), values, values[:3]) == 9
        assert ApproximateDistinct(field="user").apply([{"user": 1}, {"user": 1}, {"user": None}]) == 1

    def test_many_distinct_values(self):
        distinct = ApproximateDistinct(precision=12)
        assert distinct.apply(range(50_000)) == pytest.approx(50_000, rel=0.08)
        halves = merged(distinct, range(30_000), range(20_000, 50_000))
        assert halves == pytest.approx(50_000, rel=0.08)
        accumulator = distinct.add_inputs(distinct.create_accumulator(), range(50_000))
        assert type(accumulator) is bytes
        assert len(accumulator) < 3000

    def test_what_cannot_be_counted(self):
        with pytest.raises(InputError, match="complex"):
            ApproximateDistinct().apply([1j])
        for precision in (6, 22, "12"):
            with pytest.raises(InvalidStep):
                ApproximateDistinct(precision)

    def test_without_the_library(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasketches", None)
        with pytest.raises(HoldfastError, match=r"pip install 'holdfast\[sketches\]'"):
            ApproximateDistinct().apply([1])


def test_beams_names():
    for name in ("Count", "Mean", "Top", "ToDict", "ToList", "ToSet"):
        assert getattr(combiners, name + "CombineFn") is getattr(combiners, name)
    assert all(hasattr(combiners, name) for name in combiners.__all__)


def test_all_pickle():
    for combine_fn in (
        Sum("total"),
        Top(3, key=len),
        ApproximateDistinct(),
        ToDict(),
    ):
        assert vars(pickle.loads(pickle.dumps(combine_fn))) == vars(combine_fn)
