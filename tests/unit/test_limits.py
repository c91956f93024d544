"""Limits: what is refused, what is measured, and the order in which keys go."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.engine.state.ages import AgeIndex
from holdfast.engine.state.keys import slot_of
from holdfast.engine.state.sizes import size_of
from holdfast.engine.tables import Focus, make_cell, make_table
from holdfast.testing import TestStream, run


class Count(hf.DoFn):
    SEEN = hf.ValueStateSpec("seen")

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        seen.write(1)


class TestValidation:
    def test_all_problems_are_told_at_once(self):
        with pytest.raises(hf.InvalidStep) as caught:
            hf.Limits(max_keys=0, max_bytes=1.5, max_bytes_per_key=-3, max_bag_size=True, policy="drop")
        assert caught.value.problems == [
            "max_keys is 0; it must be a whole number of at least 1.",
            "max_bytes is 1.5; it must be a whole number of at least 1.",
            "max_bytes_per_key is -3; it must be a whole number of at least 1.",
            "max_bag_size is True; it must be a whole number of at least 1.",
            "The policy of the limits is 'drop'; it can be 'fail', 'evict_lru', 'evict_oldest', 'over_limit'.",
        ]

    def test_limits_that_limit_nothing(self):
        with pytest.raises(hf.InvalidStep, match="The limits are empty: give one of max_keys, max_bytes"):
            run(Count(), TestStream(), limits=hf.Limits(policy="evict_lru"))

    @pytest.mark.parametrize(("given", "says"), [(100, "limits is 100"), (hf.Limits, "limits is the class Limits")])
    def test_something_else(self, given, says):
        with pytest.raises(hf.InvalidStep, match=says):
            run(Count(), TestStream(), limits=given)


class Celsius(hf.Coder):
    """Three bytes whatever the value; immutable, so that a value is kept as it is and read back as bytes."""

    def encode(self, value):
        return b"%03d" % value

    def decode(self, data):
        return int(data)

    def is_immutable(self):
        return True


@pytest.mark.parametrize(
    ("spec", "values", "size"),
    [
        (hf.ValueStateSpec("v"), [7], 16),
        (hf.ValueStateSpec("v"), ["twelve chars"], 20),
        (hf.ValueStateSpec("v"), [None], 16),
        (hf.ValueStateSpec("v"), [(1, 2)], 8 + len(hf.FastPrimitivesCoder().encode((1, 2)))),
        (hf.ValueStateSpec("v"), [[1, 2]], 8 + len(hf.FastPrimitivesCoder().encode([1, 2]))),
        (hf.ValueStateSpec("v", Celsius()), [20], 11),
        (hf.BagStateSpec("b"), [1, 2.5, True], 48),
        (hf.BagStateSpec("b", Celsius()), [20, 21], 22),
        (hf.BagStateSpec("b"), [1, "two"], 16 + 11),
        (hf.SetStateSpec("s"), ["a", "bc"], 19),
        (hf.MapStateSpec("m"), [("key", 1)], 11 + 16),
        (hf.OrderedListStateSpec("o"), [(1, "text")], 16 + 12),
        (hf.CombiningStateSpec("c", sum), [1, 2], 16),
    ],
)
def test_the_measure(spec, values, size):
    """The same before and after a trip through the log."""
    focus = Focus()
    focus.key = "k"
    table = make_table(spec)
    cell: Any = make_cell(spec, focus, None)
    cell.attach(table)
    for value in values:
        if spec.kind == "map":
            cell.put(*value)
        else:
            (cell.write if spec.kind == "value" else cell.add)(value)
    assert size_of(table, table.values["k"]) == size
    again = make_table(spec)
    for rows in table.delta():
        again.apply(rows)
    assert size_of(again, again.values["k"]) == size


def test_a_large_collection_is_judged_by_some_of_its_values():
    table = make_table(hf.BagStateSpec("b"))
    assert size_of(table, ["ab"] * 1000, most=100) == 10_000


class TestAges:
    def test_by_age_and_then_by_key(self):
        ages = {"b": 1, "a": 1, "c": 0}
        assert list(AgeIndex(ages.items()).first(ages.get)) == ["c", "a", "b"]

    def test_what_was_used_again_moves_on(self):
        ages = {"a": 1, "b": 2}
        index = AgeIndex(ages.items())
        ages["a"] = 3
        index.enter("d", 2)
        ages["d"] = 2
        order = index.first(ages.get)
        assert next(order) == "b"
        del ages["d"]
        assert list(order) == ["a"]

    def test_keys_of_several_types(self):
        slots = [slot_of(key) for key in (1, True, "a", ("a", 1), 1.5)]
        assert set(AgeIndex((slot, 0) for slot in slots).first(lambda slot: 0)) == set(slots)
