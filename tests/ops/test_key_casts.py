"""A key as text is found without Spark where Spark would find it; what is doubtful is left to Spark."""

from __future__ import annotations

import base64
import string
from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.types import _parse_datatype_string

from holdfast.engine.state.keys import slot_of
from holdfast.errors import NeedsSpark
from holdfast.ops.reading.key_casts import cast_text
from holdfast.ops.reading.key_hash import group_of_key
from holdfast.ops.reading.keys import find_key
from holdfast.ops.reading.spark_keys import _read, cast_by_spark
from holdfast.ops.reading.steps import StepRef
from holdfast.spark.stages.assign import key_column, key_group
from holdfast.spark.types.arrow import to_python

KINDS = [
    "string", "tinyint", "smallint", "int", "bigint", "boolean", "date", "timestamp", "timestamp_ntz", "binary", "float",
    "double", "decimal(4,0)", "decimal(18,3)", "decimal(19,3)", "decimal(38,18)",
]  # fmt: skip
GROUPS = 997

digits = st.text("0123456789", min_size=1, max_size=22)
signs = st.sampled_from(["", "-", "+", "--"])
blanks = st.sampled_from(["", " ", "\t", "\x00", "\x7f", "\u00a0", "\n"])
numbers = st.builds(lambda sign, whole, rest: sign + whole + rest, signs, digits, st.one_of(
    st.just(""), st.builds(lambda more: "." + more, st.text("0123456789", max_size=20)),
    st.builds(lambda power: f"e{power}", st.integers(-400, 400)),
))  # fmt: skip
edges = st.sampled_from([f"{sign}{2**bits + more}" for bits in (7, 15, 31, 63) for more in (-1, 0, 1) for sign in ("", "-")])
days = st.builds(
    lambda y, m, d: f"{y:04d}-{m:02d}-{d:02d}",
    st.one_of(st.integers(2, 9998), st.sampled_from([1582, 1600, 1900, 2000])),
    st.integers(0, 13),
    st.integers(0, 32),
)
times = st.builds(
    lambda day, between, h, m, s, fraction, zone: f"{day}{between}{h:02d}:{m:02d}:{s:02d}{fraction}{zone}",
    days,
    st.sampled_from([" ", "T"]),
    st.integers(0, 24),
    st.integers(0, 60),
    st.integers(0, 60),
    st.one_of(st.just(""), st.builds(lambda part: "." + part, st.text("0123456789", min_size=1, max_size=9))),
    st.sampled_from(["", "Z", "+00:00", "-05:30", "+18:00", "+19:00", "-17:59", " UTC", "+1"]),
)
words = st.sampled_from(
    ["t", "TRUE", "True", "yes", "Y", "no", "0", "1", "f", "False", "nan", "inf", "Infinity", "", "null"]
)
encoded = st.builds(
    lambda text, end: text + end, st.text(string.ascii_letters + "+/", max_size=12), st.sampled_from(["", "=", "=="])
)
EACH = (numbers, edges, days, times, words, encoded, st.text(st.characters(codec="utf-8"), max_size=10))
texts = st.one_of(*EACH)
padded = st.builds(lambda before, text, after: before + text + after, blanks, texts, blanks)


# Of each type some about which there is no doubt, so that no test can pass by leaving everything to Spark.
SURE = [
    *(f"{1583 + 40 * n}-{n + 1:02d}-{2 * n + 1:02d}" for n in range(11)),
    *(f"20{n:02d}-01-02T03:04:{n:02d}.{n}{zone}" for n in range(6) for zone in ("", "Z", "-05:30")),
    *["true", "FALSE", "t", "f", "yes", "No"],
    *map(str, range(-5, 5)),
    *(base64.b64encode(bytes(range(n, 3 * n))).decode() for n in range(8)),
    *(str(7**n) for n in range(20)),
]


@settings(max_examples=2, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(st.tuples(*(st.lists(kind, min_size=60, max_size=100) for kind in (*EACH, padded))))
def test_every_answer_is_sparks_answer(spark, drawn):
    given_texts = list(dict.fromkeys([*SURE, *(text for some in drawn for text in some)]))
    expected = by_spark(spark, given_texts)
    sure = Counter()
    for kind in KINDS:
        for text, (value, group) in zip(given_texts, expected[kind], strict=True):
            try:
                found = cast_text(text, kind)
            except NeedsSpark:
                continue
            if group is None:
                assert found is None, (kind, text)
                continue
            assert found is not None, (kind, text, value)
            assert slot_of(found) == slot_of(value), (kind, text)
            assert group_of_key([found], [kind], GROUPS) == group, (kind, text)
            sure[kind] += 1
    assert {kind for kind in KINDS if sure[kind] >= 5} == set(KINDS)


def by_spark(spark, given_texts):
    """The value and the key group of each text, for each type: one query. Without a value, the group is None."""
    frame = spark.createDataFrame(list(enumerate(given_texts)), "place int, text string").coalesce(1)
    columns = [F.col("place")]
    for number, kind in enumerate(KINDS):
        data_type = _parse_datatype_string(kind)
        frame = frame.withColumn(f"v{number}", _read("text", data_type))
        value = key_column(f"v{number}", data_type)
        group = F.when(value.isNotNull(), key_group([value], GROUPS))
        if kind in ("date", "timestamp", "timestamp_ntz"):
            # Spark has years that Python has not.
            value = F.when(F.year(value).between(2, 9998), value)
        columns += [value.alias(f"k{number}"), group.alias(f"g{number}")]
    table = frame.orderBy("place").select(*columns).toArrow()
    lists = [to_python(column.combine_chunks(), plain=True) for column in table.columns]
    return {kind: list(zip(lists[1 + 2 * n], lists[2 + 2 * n], strict=True)) for n, kind in enumerate(KINDS)}


def ref(*kinds):
    key = [{"name": f"c{n}", "type": kind} for n, kind in enumerate(kinds)]
    return StepRef("step", 0, {"key": key, "key_groups": 16, "name": "step"})


def test_several_columns(spark):
    step = ref("string", "bigint", "date")
    text = '["a, b", 5, {"$date": "2026-01-02"}]'
    values, group = cast_by_spark(spark, step, ["a, b", "5", "2026-01-02"])
    found = find_key(None, step, text)
    assert found == find_key(spark, step, text)
    assert (found.slot, found.label) == (slot_of(tuple(values)), step.labels[group])


def test_spark_is_asked_about_the_rest(spark):
    for kind, text in (("timestamp", "2026-01-02 03:04:05"), ("struct<a:int,b:string>", '[1, "x"]'), ("date", "2026-1-2")):
        step = ref(kind)
        try:
            find_key(None, step, text)
        except NeedsSpark:
            assert find_key(spark, step, text).label in step.labels
        else:
            raise AssertionError(f"{kind} was not left to Spark")
