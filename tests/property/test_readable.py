"""Values as JSON: what goes in comes out, with the type that it had."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.stored.readable import from_json, to_json, to_text
from holdfast.errors import InputError
from holdfast.model.coders import Encoded
from holdfast.model.time.timestamps import Duration, Timestamp

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.text(st.characters(categories=["Cs", "Ll"])),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.timezone.utc)),
    st.datetimes(timezones=st.timezones()),
    st.timedeltas(),
    st.uuids(),
    st.complex_numbers(allow_nan=False),
    st.integers(-(10**18), 10**18).map(lambda micros: Timestamp(micros=micros)),
    st.integers(-(10**18), 10**18).map(lambda micros: Duration(micros=micros)),
)
HASHABLE = st.one_of(st.integers(), st.text(), st.binary(), st.tuples(st.integers(), st.text()))
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
    ),
    max_leaves=10,
)


def same(first, second):
    """Equal, and of the same types all the way down."""
    if type(first) is not type(second):
        return False
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (datetime.datetime, datetime.time)):
        return first == second and first.fold == second.fold and first.utcoffset() == second.utcoffset()
    return first == second


@given(VALUES)
def test_the_round_trip_is_exact(value):
    text = to_json(value)
    assert "\n" not in text
    assert same(from_json(text), value)


def test_what_is_not_a_number():
    assert math.isnan(from_json(to_json(math.nan)))


@given(VALUES)
def test_texts_are_short(value):
    assert len(to_text(value, 20)) <= 20 or isinstance(value, Timestamp)


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"$bytes": "?"}', '{"$decimal": "x"}', '{"$opaque": "AA=="}', '{"$nothing": 1}', '{"$datetime": "x"}'],
)
def test_what_cannot_be_read(text):
    with pytest.raises(InputError, match="is not a value"):
        from_json(text)


def test_bytes_that_nobody_can_read_say_so():
    assert to_json(Encoded(b"x")) == '{"$opaque":"eA=="}'
    assert to_json(object).startswith('{"$repr":')


def test_uuids_and_decimals_are_readable():
    assert to_json(uuid.UUID(int=1)) == '{"$uuid":"00000000-0000-0000-0000-000000000001"}'
    assert to_json(Decimal("1.50")) == '{"$decimal":"1.50"}'
    assert to_json(Timestamp(0)) == '{"$timestamp":"1970-01-01T00:00:00Z"}'


MANY_DIGITS = {
    "just written": 10**4_299,
    "positive": 10**5_000,
    "negative": -(10**5_000),
    "as many bits": 2**14_000,
    "nested": [1, {"a": 10**5_000}],
    "in a set": {10**5_000},
}


@pytest.mark.parametrize("case", MANY_DIGITS)
def test_integers_that_python_does_not_write(case):
    """They can be stored, so they must be shown, exported and imported."""
    value = MANY_DIGITS[case]
    assert same(from_json(to_json(value)), value)
    assert len(to_text(value)) == 120
