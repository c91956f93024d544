"""State with a schema of Spark's: what fits, what it comes back as, and what is refused."""

from __future__ import annotations

import pickle
from collections import namedtuple
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import Row
from pyspark.sql import types as T

import holdfast as hf
from holdfast.errors import CoderError
from holdfast.model.coders import coder_from_description
from holdfast.testing import TestStream, run

UTC = timezone.utc
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


def coder_of(kind, nullable=True):
    return hf.StructCoder(T.StructType([T.StructField("v", kind, nullable)]))


def back(coder, value):
    return coder.thaw(coder.freeze(value))


FITTING = [
    (T.ByteType(), -128, -128),
    (T.ShortType(), np.int16(7), 7),
    (T.IntegerType(), 2**31 - 1, 2**31 - 1),
    (T.LongType(), -(2**63), -(2**63)),
    (T.DoubleType(), 0.1, 0.1),
    (T.DoubleType(), -0.0, -0.0),
    (T.DoubleType(), float("inf"), float("inf")),
    (T.DoubleType(), 2**53, float(2**53)),
    (T.FloatType(), 0.1, 0.1),
    (T.FloatType(), np.float32(0.5), 0.5),
    (T.BooleanType(), np.bool_(True), True),
    (T.StringType(), "é\x00", "é\x00"),
    (T.BinaryType(), bytearray(b"\xff"), b"\xff"),
    (T.DecimalType(5, 2), Decimal("123.45"), Decimal("123.45")),
    (T.DecimalType(5, 2), Decimal("1.10"), Decimal("1.10")),
    (T.DecimalType(5, 2), Decimal("100.000"), Decimal("100.000")),
    (T.DecimalType(5, 2), Decimal("1E+2"), Decimal("1E+2")),
    (T.DecimalType(5, 2), 999, Decimal(999)),
    (T.DateType(), date(2024, 2, 29), date(2024, 2, 29)),
    (T.TimestampType(), NOON, NOON),
    (T.TimestampType(), NOON.astimezone(timezone(timedelta(hours=5))), NOON),
    (T.TimestampType(), hf.Timestamp(micros=1), datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    (T.TimestampType(), 1_709_208_000, NOON),
    (T.TimestampNTZType(), NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)),
    (T.TimestampNTZType(), hf.Timestamp.of(NOON), NOON.replace(tzinfo=None)),
    (T.DayTimeIntervalType(), timedelta(days=1, microseconds=1), timedelta(days=1, microseconds=1)),
    (T.DayTimeIntervalType(), hf.Duration.of_hours(24), timedelta(days=1)),
    (T.NullType(), None, None),
    (T.ArrayType(T.IntegerType()), (1, None), [1, None]),
    (T.MapType(T.StringType(), T.DoubleType()), {"a": 1}, {"a": 1.0}),
    (T.StructType([T.StructField("x", T.LongType())]), {"x": 1}, {"x": 1}),
    (T.StructType([T.StructField("x", T.LongType())]), (1,), (1,)),
]


@pytest.mark.parametrize(("kind", "given", "kept"), FITTING, ids=lambda part: str(part)[:40])
def test_what_fits_is_kept_without_loss(kind, given, kept):
    for value in (back(coder_of(kind), {"v": given})["v"], back(coder_of(kind), (given,))[0]):
        assert repr(value) == repr(kept)
        assert type(value) is type(kept)


REFUSED = [
    (T.ByteType(), 128),
    (T.IntegerType(), 2**31),
    (T.IntegerType(), 5.0),
    (T.IntegerType(), True),
    (T.LongType(), Decimal(1)),
    (T.DoubleType(), 2**53 + 1),
    (T.DoubleType(), Decimal("0.1")),
    (T.DoubleType(), np.longdouble("0.1")),
    (T.DoubleType(), "1"),
    (T.BooleanType(), 1),
    (T.StringType(), b"a"),
    (T.BinaryType(), "a"),
    (T.DecimalType(5, 2), Decimal("1.005")),
    (T.DecimalType(5, 2), Decimal("1000")),
    (T.DecimalType(5, 2), 1000),
    (T.DecimalType(5, 2), Decimal("NaN")),
    (T.DecimalType(5, 2), 1.5),
    (T.DateType(), NOON),
    (T.TimestampType(), NOON.replace(tzinfo=None)),
    (T.TimestampType(), 1_709_208_000_000),
    (T.TimestampType(), date(2024, 2, 29)),
    (T.TimestampNTZType(), NOON),
    (T.DayTimeIntervalType(), "1 day"),
    (T.NullType(), 0),
    (T.ArrayType(T.IntegerType()), "12"),
    (T.ArrayType(T.IntegerType(), False), [None]),
    (T.MapType(T.StringType(), T.DoubleType(), False), {"a": None}),
    (T.MapType(T.StringType(), T.DoubleType()), [("a", 1.0)]),
    (T.StructType([T.StructField("x", T.LongType())]), {"y": 1}),
    (T.StructType([T.StructField("x", T.LongType())]), (1, 2)),
    (T.StructType([T.StructField("x", T.LongType())]), 1),
]


@pytest.mark.parametrize(("kind", "given"), REFUSED, ids=lambda part: str(part)[:40])
def test_what_does_not_fit_is_refused_and_says_where(kind, given):
    with pytest.raises(CoderError) as refused:
        coder_of(kind).freeze({"v": given})
    assert "The field v" in refused.value.detail


def test_the_place_of_what_does_not_fit():
    inner = T.StructType([T.StructField("x", T.ArrayType(T.MapType(T.StringType(), T.LongType())))])
    with pytest.raises(CoderError) as refused:
        coder_of(inner).freeze({"v": {"x": [{}, {"a": 1, "b": "2"}]}})
    assert "The field v.x[1]['b']: it takes whole numbers from" in refused.value.detail
    assert "not '2' of type str" in refused.value.detail


USER = T.StructType(
    [
        T.StructField("user_id", T.IntegerType(), False),
        T.StructField("action_count", T.IntegerType(), True, {"comment": "how many"}),
        T.StructField("last_action", T.StringType(), True),
    ]
)


class TestForms:
    def test_a_dict_has_all_fields_in_order(self):
        kept = back(hf.StructCoder(USER), {"last_action": "click", "user_id": 1})
        assert kept == {"user_id": 1, "action_count": None, "last_action": "click"}
        assert [*kept] == USER.names

    def test_what_has_names_becomes_a_dict(self):
        wanted = {"user_id": 1, "action_count": 2, "last_action": "click"}
        make: Any = namedtuple
        named = make("Named", USER.names)
        assert back(hf.StructCoder(USER), named(1, 2, "click")) == wanted
        assert back(hf.StructCoder(USER), Row(**wanted)) == wanted

    def test_a_tuple_stays_one(self):
        assert back(hf.StructCoder(USER), (1, 2, None)) == (1, 2, None)

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ({"action_count": 1}, "The field user_id: it must not be None"),
            ((None, 1, ""), "The field user_id: it must not be None"),
            ({"user_id": 1, "count": 2}, "it has no field 'count'; there are user_id, action_count, last_action"),
            ((1, 2), "it has 3 fields, and the tuple 2 values"),
            ("abc", "it takes a dict, or a tuple in the order of the fields, not 'abc' of type str"),
        ],
    )
    def test_another_form_is_refused(self, value, said):
        with pytest.raises(CoderError) as refused:
            hf.StructCoder(USER).freeze(value)
        assert said in refused.value.detail

    def test_changing_what_was_read_changes_nothing(self):
        coder = hf.StructCoder(USER)
        stored = coder.freeze({"user_id": 1})
        coder.thaw(stored)["user_id"] = 2
        assert coder.thaw(stored)["user_id"] == 1


class TestSchema:
    @pytest.mark.parametrize(
        ("schema", "said"),
        [
            (T.StructType([T.StructField("v", T.VariantType())]), "'v' has the type 'variant'"),
            (T.StructType([T.StructField("v", T.ArrayType(T.VarcharType(3)))]), "'v'[] has the type 'varchar(3)'"),
            (T.StructType([T.StructField("v", T.LongType()), T.StructField("v", T.LongType())]), "two fields 'v'"),
            (T.LongType(), "is no schema of a struct"),
        ],
        ids=["variant", "varchar", "doubled", "long"],
    )
    def test_what_cannot_be_a_schema(self, schema, said):
        with pytest.raises(CoderError) as refused:
            hf.StructCoder(schema)
        assert said in str(refused.value)

    def test_it_is_told_with_the_step(self):
        fn = hf.FlatMapGroupsWithState(lambda key, values, state: None, T.StructType([T.StructField("v", T.VariantType())]))
        with pytest.raises(hf.InvalidStep, match="The state_schema cannot be used: 'v' has the type 'variant'"):
            run(fn, TestStream())
        for schema, said in ((5, "state_schema is 5; give a StructType"), (USER, "state_schema and state_coder both say")):
            fn = hf.FlatMapGroupsWithState(lambda key, values, state: None, schema, state_coder=hf.PlainCoder())
            with pytest.raises(hf.InvalidStep):
                run(fn, TestStream())
            given = {"state_coder": hf.PlainCoder()} if schema is USER else {}
            with pytest.raises(hf.InvalidStep, match=said):
                run(hf.MapGroupsWithState(lambda key, values, state: 1, schema, **given), TestStream())

    def test_whether_a_field_may_be_null_is_not_stored(self):
        """So that may change, while another type is another coder."""
        changed = T.StructType([T.StructField(f.name, f.dataType, True) for f in USER.fields])
        assert hf.StructCoder(USER) == hf.StructCoder(changed)
        assert hf.StructCoder(USER) != hf.StructCoder(T.StructType(USER.fields[:2]))

    def test_it_travels(self):
        coder = hf.StructCoder(USER)
        copied = pickle.loads(pickle.dumps(coder))
        assert copied == coder
        with pytest.raises(CoderError, match="cannot encode"):
            copied.freeze({"user_id": None})

    def test_tools_read_it_without_the_code(self):
        nested = T.StructType([T.StructField("v", T.MapType(T.StringType(), T.ArrayType(USER)))])
        coder = hf.StructCoder(nested)
        value = {"v": {"a": [{"user_id": 1, "action_count": 2, "last_action": None}]}}
        found = coder_from_description(coder.describe())
        assert found == coder
        assert found.decode(coder.encode(value)) == value

    @pytest.mark.parametrize("fields", [None, 5, [{}], [{"name": "v", "type": "variant"}]])
    def test_a_description_that_makes_no_sense_gives_no_coder(self, fields):
        assert coder_from_description({"id": "struct", "version": 1, "fields": fields}) is None
