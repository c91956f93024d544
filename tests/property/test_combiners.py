"""However values are divided among accumulators, a combiner gives what plain Python gives for them all."""

from __future__ import annotations

import copy
import functools
import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.aggregate.combine import CombineFn
from holdfast.model.aggregate.combiners import (
    ApproximateDistinct,
    Count,
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
from tiers import examples

# No deadline: a busy machine is no failure.
SETTINGS = settings(max_examples=examples(60), deadline=None)
NUMBERS = st.lists(st.integers(-8, 8), max_size=30)
PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers()), max_size=20)


def mean(values):
    return sum(values) / len(values) if values else None


def only_numbers(result):
    """NaN, the mean of nothing, as None: it is not equal to itself."""
    return None if result != result else result


ORACLES: dict[str, Any] = {
    "sum": (CombineFn.maybe_from_callable(sum), sum),
    "Sum": (Sum(), sum),
    "Count": (Count(), len),
    "Mean": (Mean(), mean),
    "Min": (Min(), lambda values: min(values, default=None)),
    "Max": (Max(), lambda values: max(values, default=None)),
    "callable": (CombineFn.from_callable(lambda values: functools.reduce(operator.xor, values, 0)), None),
    "Top": (Top(3), lambda values: sorted(values, reverse=True)[:3]),
    "Smallest": (Smallest(2), lambda values: sorted(values)[:2]),
    "ToList": (ToList(), list),
    "ToSet": (ToSet(), set),
}


def divided(combine_fn, values, data):
    """The result over random cuts: some values are added one by one, some accumulators are compacted."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4), label="cuts"))
    parts = [values[start:end] for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    held = []
    for part in parts:
        accumulator = combine_fn.create_accumulator()
        if data.draw(st.booleans(), label="one by one"):
            for value in part:
                accumulator = combine_fn.add_input(accumulator, value)
        else:
            accumulator = combine_fn.add_inputs(accumulator, iter(part))
        if data.draw(st.booleans(), label="compacted"):
            accumulator = combine_fn.compact(accumulator)
        held.append(accumulator)
    middle = data.draw(st.integers(0, len(held)), label="merged first")
    first = combine_fn.merge_accumulators(held[:middle])
    others = copy.deepcopy(held[middle:])
    merged = combine_fn.merge_accumulators([first, *held[middle:]])
    assert held[middle:] == others, "only the first accumulator may be changed"
    result = combine_fn.extract_output(merged)
    assert only_numbers(combine_fn.extract_output(merged)) == only_numbers(result)
    return result


@pytest.mark.parametrize("name", ORACLES)
@SETTINGS
@given(values=NUMBERS, data=st.data())
def test_any_division_gives_what_python_gives(name, values, data):
    combine_fn, oracle = ORACLES[name]
    expected = (oracle or combine_fn.fn)(values)
    assert only_numbers(combine_fn.apply(values)) == expected
    assert only_numbers(divided(combine_fn, values, data)) == expected


@SETTINGS
@given(PAIRS, st.data())
def test_to_dict(pairs, data):
    assert divided(ToDict(), pairs, data) == dict(pairs)


@SETTINGS
@given(PAIRS, st.integers(1, 6), st.booleans(), st.data())
def test_top_keeps_the_order_of_equal_elements(pairs, n, reverse, data):
    numbered = [(key, position) for position, (key, _) in enumerate(pairs)]
    key = operator.itemgetter(0)
    expected = sorted(numbered, key=key, reverse=not reverse)[:n]
    assert divided(Top(n, key=key, reverse=reverse), numbered, data) == expected


@SETTINGS
@given(st.lists(st.fixed_dictionaries({"total": st.none() | st.integers(-8, 8)}), max_size=20), st.data())
def test_fields(rows, data):
    totals = [row["total"] for row in rows if row["total"] is not None]
    assert divided(Sum("total"), rows, data) == sum(totals)
    assert divided(Count("total"), rows, data) == len(totals)
    assert divided(ToList("total"), rows, data) == totals


@SETTINGS
@given(st.lists(st.text(max_size=3) | st.integers().filter(lambda n: abs(n) < 2**63), max_size=40), st.data())
def test_few_distinct_values_are_exact(values, data):
    assert divided(ApproximateDistinct(), values, data) == len(set(values))
