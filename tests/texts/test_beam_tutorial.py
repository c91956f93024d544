"""A tutorial on Beam's stateful processing: its example, its three challenges, and what it warns of."""

from __future__ import annotations

import pytest

import holdfast as beam
from holdfast.testing import TestStream, run

from .snippets import run_snippet

COUNTER = """
import apache_beam as beam
from apache_beam.state import ValueStateSpec, ReadModifyWriteStateSpec
from apache_beam.coders import VarIntCoder

class StatefulCounterDoFn(beam.DoFn):
    # 1. Declare state cell at class level
    COUNT_STATE = ValueStateSpec("count_state", VarIntCoder())

    def process(self, element, count_state=beam.DoFn.StateParam(COUNT_STATE)):
        # Unpack key-value
        (key, value) = element

        # 2. Read current state value (defaults to None if empty)
        current_count = count_state.read() or 0

        # 3. Update state
        new_count = current_count + 1
        count_state.write(new_count)

        # Yield output
        yield (key, new_count)
"""


def test_the_counter():
    """Changes: the package in the import lines."""
    counter = run_snippet(COUNTER, {"apache_beam": "holdfast"})["StatefulCounterDoFn"]
    stream = TestStream().add_elements([("a", 1), ("b", 1)]).crash().add_elements([("a", 1)])
    out = run(counter(), stream)
    assert out.values == [("a", 1), ("b", 1), ("a", 2)]
    assert out.state("a") == {"count_state": 2}


class KeyCounterDoFn(beam.DoFn):
    COUNT = beam.ValueStateSpec("count", beam.VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        key, _ = element
        running_count = (count.read() or 0) + 1
        count.write(running_count)
        yield key, running_count


class DeduplicateDoFn(beam.DoFn):
    SEEN = beam.ValueStateSpec("seen", beam.BooleanCoder())

    def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        if not seen.read():
            seen.write(True)
            yield element


class TransactionBufferDoFn(beam.DoFn):
    BUFFER = beam.BagStateSpec("buffer", beam.FloatCoder())
    COUNT = beam.ValueStateSpec("count", beam.VarIntCoder())

    def process(self, element, buffer=beam.DoFn.StateParam(BUFFER), count=beam.DoFn.StateParam(COUNT)):
        store, amount = element
        buffer.add(amount)
        n = (count.read() or 0) + 1
        count.write(n)
        if n == 3:
            yield store, list(buffer.read())
            buffer.clear()
            count.clear()


def test_the_first_challenge():
    out = run(KeyCounterDoFn(), TestStream().add_elements([("a", 1), ("b", 1), ("a", 1)]))
    assert out.values == [("a", 1), ("b", 1), ("a", 2)]


def test_the_second_challenge():
    out = run(DeduplicateDoFn(), TestStream().add_elements([("a", 1), ("a", 2), ("b", 3)]).crash().add_elements([("b", 4)]))
    assert out.values == [("a", 1), ("b", 3)]


def test_the_third_challenge():
    stream = TestStream().add_elements([("s", 1.5), ("t", 9.0), ("s", 2.5)]).crash().add_elements([("s", 3.5), ("s", 4.5)])
    out = run(TransactionBufferDoFn(), stream)
    assert out.values == [("s", [1.5, 2.5, 3.5])]
    assert out.state("s") == {"buffer": [4.5], "count": 1}


PLACES = {"Tokyo": (35.7, 139.7), "Yokohama": (35.4, 139.6), "New York": (40.7, -74.0)}


class ImpossibleTravel(beam.DoFn):
    """The last five logins of a user, in a bag; alerts where nobody could have gone from one to the next."""

    LOGINS = beam.BagStateSpec("logins", beam.TupleCoder([beam.TimestampCoder(), beam.StrUtf8Coder()]))

    def process(self, element, at=beam.DoFn.TimestampParam, logins=beam.DoFn.StateParam(LOGINS)):
        user, place = element
        last = list(logins.read())
        if last and last[-1][1] != place:
            (before, where) = last[-1]
            degrees = max(abs(one - other) for one, other in zip(PLACES[where], PLACES[place], strict=True))
            if degrees * 111 > 1000 * (at - before).micros / 3_600_000_000:
                yield user, where, place
        logins.clear()
        for login in [*last, (at, place)][-5:]:
            logins.add(login)


def test_the_last_five_logins_in_a_bag():
    """New York ten minutes after Tokyo is an alert; Yokohama an hour after Tokyo is none."""
    visits = [("Tokyo", 0), ("Yokohama", 3600), ("Tokyo", 7200), ("New York", 7800)]
    stream = TestStream().add_elements([beam.TimestampedValue(("ann", place), at) for place, at in visits]).crash()
    stream.add_elements([beam.TimestampedValue(("ann", "New York"), 8000 + n) for n in range(4)])
    out = run(ImpossibleTravel(), stream)
    assert out.values == [("ann", "Tokyo", "New York")]
    assert [place for _, place in out.state("ann")["logins"]] == ["New York"] * 5


def test_an_input_without_keys():
    """The tutorial's first mistake: flat elements. They are refused before anything is processed."""
    with pytest.raises(beam.InvalidStep, match="The input is not keyed"):
        run(KeyCounterDoFn(), TestStream().add_elements(["x", "y"]))


def test_a_cell_for_all_keys():
    """The tutorial's second mistake: state is not global. A constant key makes a cell that all elements share."""
    events = [("ann", 1), ("bob", 1)]
    apart = run(KeyCounterDoFn(), TestStream().add_elements(events))
    together = run(KeyCounterDoFn(), TestStream().add_elements([("all", event) for event in events]))
    assert apart.values == [("ann", 1), ("bob", 1)]
    assert together.values == [("all", 1), ("all", 2)]
