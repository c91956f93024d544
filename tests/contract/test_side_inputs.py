"""Side inputs: small data that every call may look at."""

from __future__ import annotations

import pytest

from holdfast import (
    AsDict,
    AsIter,
    AsList,
    AsSingleton,
    CombiningStateSpec,
    DoFn,
    FixedWindows,
    InputError,
    TimerSpec,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import at, by_key


class Convert(DoFn):
    """A plain extra parameter, beside state."""

    TOTAL = CombiningStateSpec("total", sum)

    def process(self, element, rates, total=DoFn.StateParam(TOTAL)):
        key, (currency, amount) = element
        total.add(amount * rates[currency])
        yield key, total.read()


ORDERS = [("k", ("eur", 10)), ("j", ("usd", 5)), ("k", ("usd", 1))]


@pytest.mark.parametrize("source", [{"eur": 3, "usd": 2}, [("eur", 3), ("usd", 2)], [("eur", 9), ["usd", 2], ("eur", 3)]])
def test_a_dict(run, feed, source):
    out = run(Convert(), feed(TestStream(), ORDERS), side_inputs={"rates": AsDict(source)})
    assert by_key(out) == {"k": [30, 32], "j": [10]}


def test_side_inputs_in_order_of_the_parameters(run, feed):
    out = run(Convert(), feed(TestStream(), ORDERS), side_inputs=[AsDict({"eur": 3, "usd": 2})])
    assert by_key(out) == {"k": [30, 32], "j": [10]}


class Marked(DoFn):
    """Parameters that say that they are side inputs, among others."""

    def process(
        self,
        element,
        allowed=DoFn.SideInputParam,
        time=DoFn.TimestampParam,
        limit=DoFn.SideInputParam,
    ):
        key, value = element
        yield key, value in allowed, value <= limit, float(time)


@pytest.mark.parametrize(
    "side_inputs",
    [
        {"limit": AsSingleton([5]), "allowed": AsList([1, 9])},
        [AsList([1, 9]), AsSingleton([5])],
        [AsIter(range(1, 10, 8)), AsSingleton((5,))],
    ],
    ids=["by name", "in order", "in order, other sources"],
)
def test_a_list_and_a_singleton(run, side_inputs):
    stream = TestStream().add_elements(at(("k", 9, 3), ("k", 2, 4)))
    out = run(Marked(), stream, side_inputs=side_inputs)
    assert by_key(out) == {"k": [(True, False, 3.0), (False, True, 4.0)]}


class Optional(DoFn):
    def process(self, element, factor=10):
        yield element[0], element[1] * factor


def test_a_side_input_takes_the_place_of_a_plain_default(run):
    stream = TestStream().add_elements([("k", 2)])
    assert by_key(run(Optional(), stream)) == {"k": [20]}
    assert by_key(run(Optional(), stream, side_inputs={"factor": AsSingleton([3])})) == {"k": [6]}


class Many(DoFn):
    """As many side inputs as are given."""

    COUNT = CombiningStateSpec("count", sum)

    def process(self, element, first, count=DoFn.StateParam(COUNT), *others):
        count.add(1)
        yield element[0], first, list(others), count.read()


def test_side_inputs_beyond_the_named_ones(run):
    sides = [AsSingleton([1]), AsList([2, 3]), AsDict({4: 5})]
    out = run(Many(), TestStream().add_elements([("k", 0)]), side_inputs=sides)
    assert by_key(out) == {"k": [(1, [[2, 3], {4: 5}], 1)]}


class InCallbacks(DoFn):
    """The same side input in every method."""

    TIMER = TimerSpec("timer")

    def process(self, element, names, timer=DoFn.TimerParam(TIMER)):
        timer.set(5)
        yield element[0], "process", names[element[0]]

    @on_timer(TIMER)
    def fires(self, names, key=DoFn.KeyParam):
        yield key, "timer", names[key]

    def on_window_expiration(self, key=DoFn.KeyParam, names=DoFn.SideInputParam):
        yield key, "expired", names[key]


def test_callbacks_have_the_same_side_inputs(run, feed):
    stream = feed(TestStream(), at(("k", 1, 0))).advance_watermark_to(10)
    out = run(InCallbacks(), stream, windowing=FixedWindows(10), side_inputs={"names": AsDict({"k": "Kim"})})
    assert by_key(out) == {"k": [("process", "Kim"), ("timer", "Kim"), ("expired", "Kim")]}


@pytest.mark.parametrize(
    ("side_input", "message"),
    [
        (AsSingleton([]), "exactly one item; it has 0"),
        (AsSingleton([1, 2]), "exactly one item; it has 2"),
        (AsDict([1, 2]), "pairs"),
    ],
    ids=["none", "two", "no pairs"],
)
def test_a_source_of_the_wrong_shape(run, side_input, message):
    with pytest.raises(InputError, match=message):
        run(Optional(), TestStream().add_elements([("k", 1)]), side_inputs={"factor": side_input})
