"""Plain functions as steps: `par_do(function)`, `Map`, `FlatMap` and `Filter`, with side inputs."""

from __future__ import annotations

import functools

import pytest

from holdfast import (
    AsDict,
    AsList,
    AsSingleton,
    CombiningStateSpec,
    DoFn,
    Filter,
    FixedWindows,
    FlatMap,
    InvalidStep,
    Map,
    OutputError,
    TaggedOutput,
    UserCodeError,
)
from holdfast.testing import TestStream

ORDERS = [("k", 10), ("j", 5), ("k", 1)]


def twice(element):
    yield element
    yield element[0], element[1] * 2


def listed(element):
    return [element[1]] if element[1] > 1 else None


def total(element, rates, fee=0):
    return element[0], element[1] * rates[element[0]] + fee


def both(element):
    yield element[1]
    yield TaggedOutput("small", element[1]) if element[1] < 6 else -element[1]


def fails(element):
    return 1 // (element[1] - 5)


@pytest.fixture
def orders(feed):
    return feed(TestStream(), ORDERS)


def test_a_generator(run, orders):
    out = run(twice, orders)
    assert sorted(out.values) == [("j", 5), ("j", 10), ("k", 1), ("k", 2), ("k", 10), ("k", 20)]


def test_a_function_that_returns_several_outputs_or_none(run, orders):
    assert sorted(run(listed, orders).values) == [5, 10]
    assert sorted(run(FlatMap(listed), orders).values) == [5, 10]


def test_a_map_gives_what_it_returns(run, orders):
    assert sorted(run(Map(lambda element: element[1] + 1), orders).values) == [2, 6, 11]
    assert run(Map(lambda element: None), orders).values == [None, None, None]


def test_a_filter_lets_elements_pass(run, orders):
    assert sorted(run(Filter(lambda element: element[1] > 1), orders).values) == [("j", 5), ("k", 10)]


@pytest.mark.parametrize(
    "made",
    [
        Map(total, AsDict({"k": 2, "j": 3})),
        Map(total, rates=AsDict({"k": 2, "j": 3})),
        Map(total, {"k": 2, "j": 3}, 0),
        Map(total, AsDict({"k": 2, "j": 3}), fee=AsSingleton([0])),
        Map(functools.partial(total, rates={"k": 2, "j": 3})),
    ],
    ids=["in order", "by name", "plain values", "both ways", "partial"],
)
def test_side_inputs(run, orders, made):
    assert sorted(run(made, orders).values) == [("j", 15), ("k", 2), ("k", 20)]


def test_side_inputs_of_the_step(run, orders):
    out = run(Map(total, fee=1), orders, side_inputs={"rates": AsDict({"k": 2, "j": 3})})
    assert sorted(out.values) == [("j", 16), ("k", 3), ("k", 21)]


def test_as_many_as_are_given(run, orders):
    made = FlatMap(lambda element, first, *others: [(element[1], first, others)], AsSingleton([1]), AsList([2, 3]), 4)
    assert sorted(run(made, orders).values) == [(n, 1, ([2, 3], 4)) for n in (1, 5, 10)]


def test_what_else_a_call_may_ask_for(run):
    def asked(element, key=DoFn.KeyParam, time=DoFn.TimestampParam, window=DoFn.WindowParam):
        return key, element[1], float(time), float(window.end)

    stream = TestStream().add_elements([("k", 1)])
    assert run(Map(asked), stream, windowing=FixedWindows(10)).values == [("k", 1, 0.0, 10.0)]
    passes = Filter(lambda element, time=DoFn.TimestampParam: float(time) > 1)
    assert run(passes, stream).values == []


def test_tags(run, orders):
    out = run(both, orders, outputs=["small"])
    assert sorted(out.values) == [-10, 1, 5, 10]
    assert sorted(out.tagged("small")) == [1, 5]


def test_an_error_names_the_step_and_the_key(run, orders):
    with pytest.raises(UserCodeError, match="step 'fails' raised ZeroDivisionError") as raised:
        run(Map(fails), orders)
    assert raised.value.context["key"] == "j"


def test_dead_letters(run, orders):
    out = run(Map(fails), orders, on_error="dead_letter", outputs=["dead_letter"], name="shares")
    assert sorted(out.values) == [-1, 0]
    assert [(letter.key, letter.value, letter.error) for letter in out.tagged("dead_letter")] == [
        ("j", 5, "ZeroDivisionError: integer division or modulo by zero")
    ]


def test_what_is_returned_is_no_list(run, orders):
    with pytest.raises(OutputError, match="returned a int"):
        run(lambda element: element[1], orders)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Map(5), "Map was given 5; give a function of an element"),
        (lambda: Map(lambda: 1), "takes no parameters; the first one is for the element"),
        (lambda: Map(total), "no side input of that name is given"),
        (lambda: Map(total, {}, rates={}), "The parameter 'rates' of total is given twice"),
        (lambda: Map(total, {}, cost=1), "Map is given cost=, but total has no parameter of that name"),
        (lambda: Map(lambda e, n=DoFn.StateParam(CombiningStateSpec("n", sum)): n), "which is not available there"),
    ],
    ids=["no function", "no element", "missing", "twice", "unknown", "a cell"],
)
def test_what_is_refused(make, message):
    from holdfast.testing import run

    with pytest.raises(InvalidStep, match=message):
        run(make(), TestStream().add_elements([("k", 1)]))
