"""JSON records against Python's own reader of JSON: what is a row and what is not, alone and among others."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

from holdfast.spark.sources.formats import Json
from holdfast.spark.sources.malformed import Malformed
from holdfast.spark.sources.record_types import fitted_decimal
from tiers import examples

SCHEMA = t.StructType(
    [
        t.StructField("name", t.StringType(), False),
        t.StructField("number", t.IntegerType()),
        t.StructField("share", t.DoubleType()),
        t.StructField("flags", t.ArrayType(t.BooleanType(), containsNull=False)),
    ]
)
DECODER = Json(SCHEMA).decoder(SCHEMA, "UTC")

texts = st.text(st.characters(codec="utf-8"), max_size=8)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 40), 1 << 40) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
fitting = st.fixed_dictionaries(
    {"name": texts},
    optional={
        "number": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        "share": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "flags": st.none() | st.lists(st.booleans(), max_size=3),
        "other": anything,
    },
)
nearly = st.fixed_dictionaries({}, optional=dict.fromkeys(SCHEMA.names, anything))
documents = st.builds(
    lambda document, ascii, indent: json.dumps(document, ensure_ascii=ascii, indent=indent).encode(),
    fitting | nearly | anything,
    st.booleans(),
    st.sampled_from([None, 2]),
)
cut = st.builds(lambda document, at: document[: int(at * len(document))], documents, st.floats(0, 1))
joined = st.builds(
    lambda one, between, other: one + between + other, documents, st.sampled_from([b",", b"", b"\n", b"]"]), documents
)
values = st.lists(documents | cut | joined | st.binary(max_size=6), max_size=12)


def model(value: bytes):
    """The row by Python's own reader; None if there is none."""
    try:
        document = json.loads(value.decode(), parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return None
    if not isinstance(document, dict) or type(document.get("name")) is not str:
        return None
    number, share, flags = (document.get(name) for name in ("number", "share", "flags"))
    fits = (
        (number is None or (type(number) is int and -(1 << 31) <= number < 1 << 31))
        and (share is None or type(share) in (int, float))
        and (flags is None or (isinstance(flags, list) and all(type(flag) is bool for flag in flags)))
    )
    return (document["name"], number, None if share is None else float(share), flags) if fits else None


kinds = st.integers(1, 38).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision)))
numbers = st.builds(
    lambda digits, exponent, negative: Decimal((int(negative), tuple(digits), exponent)),
    st.lists(st.sampled_from([0, 0, 1, 5, 9]), min_size=1, max_size=45),
    st.integers(-45, 40),
    st.booleans(),
)


@given(kinds, numbers)
@settings(max_examples=examples(400))
def test_decimals_are_what_they_are_or_refused(kind, number):
    precision, scale = kind
    exact = Fraction(number) * 10**scale
    try:
        found = fitted_decimal(number, precision, scale)
    except Malformed:
        assert exact.denominator != 1 or abs(exact) >= 10**precision
    else:
        assert Fraction(found) * 10**scale == exact
        assert pa.array([found], pa.decimal128(precision, scale))[0].as_py() == number


def rows(values):
    found = DECODER.rows(pa.array(values, pa.binary()))
    return [None if isinstance(row, Malformed) else row for row in found]


@given(values)
@settings(max_examples=examples(400))
def test_each_record_is_what_it_is_by_itself(values):
    assert rows(values) == [model(value) for value in values]
