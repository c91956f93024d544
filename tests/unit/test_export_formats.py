"""Rows of an export as Avro and JSON: what goes out comes back, to the bit."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from holdfast.engine.stored.readable import to_json
from holdfast.errors import InputError
from holdfast.ops.move.formats import avro_rows, json_rows
from holdfast.ops.move.formats.base import ChunkFormat
from holdfast.ops.move.formats.choice import format_of
from holdfast.ops.reading.cell_rows import row_schema
from holdfast.spark.types.arrow import arrow_schema

STRUCT = t.StructType().add("a", t.LongType()).add("b", t.StructType().add("c", t.StringType()))
KEYS: dict[t.DataType, list[Any]] = {
    t.StringType(): ["", 'ä|"\n\\', "\u2028"],
    t.LongType(): [2**63 - 1, -(2**63)],
    t.IntegerType(): [-5, 2**31 - 1],
    t.DoubleType(): [-0.0, 0.1, math.nan, math.inf, 5e-324],
    t.FloatType(): [1.5, -0.0],
    t.BooleanType(): [True, False],
    t.BinaryType(): [b"\x00\xff", b""],
    t.DecimalType(38, 18): [Decimal("99999999999999999999.999999999999999999"), Decimal("-0.000000000000000001")],
    t.DecimalType(5, 2): [Decimal("1.50")],
    t.DateType(): [date(1, 1, 1), date(9999, 12, 31)],
    t.TimestampType(): [datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)],
    t.TimestampNTZType(): [datetime(2026, 3, 1, 1, 2, 3, 4)],
    t.ArrayType(t.LongType()): [[1, None, 2**62], []],
    STRUCT: [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": {"c": None}}],
}
VALUES = [
    None,
    2**64 + 1,
    -0.0,
    math.nan,
    math.inf,
    0.1,
    b"\x00\xff",
    Decimal("1.50"),
    "text \ud800 \n \u2028",
    datetime(2026, 3, 1, tzinfo=timezone.utc),
    {"a": [1, (2, {3})], "$b": None},
    [[], {}, ""],
    True,
    1,
]
FORMATS = {"avro": avro_rows, "json": json_rows}
FORMS: dict[str, ChunkFormat] = {"avro": avro_rows.AvroFormat(), "json": json_rows.JsonFormat()}
FORMAT = pytest.mark.parametrize("form", FORMATS)


def schema_of(*types: t.DataType, names: list[str] | None = None) -> t.StructType:
    key = t.StructType()
    for name, kind in zip(names or [f"k{i}" for i in range(len(types))], types, strict=True):
        key.add(name, kind)
    return row_schema(key)


def row(key: dict | None, **changes: object) -> dict:
    window = {"start": 0, "end": 600_000_000}
    plain = {"key": key, "window": window, "window_encoded": None, "cell": "c", "kind": "value", "value": "1"}
    return {**plain, "encoded": b"\x01", **changes}


def table(schema, rows: list[dict]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))


def back(form: str, schema, data: bytes) -> list[pa.RecordBatch]:
    """What a worker reads of a file."""
    reader = FORMATS[form]._Reader(schema)
    if form == "json":
        lines = data.split(b"\n")
        return list(reader(iter([pa.RecordBatch.from_pydict({"line": pa.array(lines, pa.binary())})])))
    files = {"path": ["part-00000.avro"], "content": pa.array([data], pa.binary())}
    return list(reader(iter([pa.RecordBatch.from_pydict(files)])))


def text(batches: list[pa.RecordBatch]) -> str:
    """What is in rows, with everything that equality would not see."""
    return to_json([row for batch in batches for row in batch.to_pylist()])


@FORMAT
@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: kind.simpleString())
def test_keys_of_every_type(form, kind):
    schema = schema_of(kind)
    rows = table(schema, [row({"k0": value}) for value in KEYS[kind]])
    assert text(back(form, schema, FORMS[form].encode(rows, schema))) == text([rows])


@FORMAT
def test_values_of_every_type(form):
    schema = schema_of(t.StringType())
    rows = table(schema, [row({"k0": "a"}, value=to_json(value)) for value in VALUES])
    assert text(back(form, schema, FORMS[form].encode(rows, schema))) == text([rows])


@FORMAT
def test_what_a_row_may_lack(form):
    """No stored form, a window that only its own code can read, no window; a value that is none, and the value None."""
    schema = schema_of(t.StringType(), t.LongType(), names=["käse", "$n"])
    key = {"käse": "a", "$n": 5}
    made = [
        row(key, encoded=None),
        row(key, window=None, window_encoded=b"\x00\x01"),
        row(key, window=None, kind=None),
        row(key, value=None),
        row(key, value="null"),
        row(None, value="1"),
    ]
    rows = table(schema, made)
    assert text(back(form, schema, FORMS[form].encode(rows, schema))) == text([rows])


@FORMAT
def test_no_rows(form):
    schema = schema_of(t.StringType())
    assert sum(batch.num_rows for batch in back(form, schema, FORMS[form].encode(table(schema, []), schema))) == 0


def test_a_line_is_json_that_people_can_edit():
    schema = schema_of(t.StringType())
    line = json.loads(FORMS["json"].encode(table(schema, [row({"k0": "a"}, value='{"$set":[1]}')]), schema))
    assert line == {
        "key": {"k0": "a"},
        "window": {"start": {"$timestamp": "1970-01-01T00:00:00Z"}, "end": {"$timestamp": "1970-01-01T00:10:00Z"}},
        "window_encoded": None,
        "cell": "c",
        "kind": "value",
        "value": {"$set": [1]},
        "encoded": "AQ==",
    }


WRONG = {
    "not JSON": ('{"key"', "is not a row of an export"),
    "a list": ("[]", "it is no object"),
    "another column": ('{"key": {"k0": 1}, "cell": "c", "note": "x"}', "no column 'note'"),
    "a column twice": ('{"key": {"k0": 1}, "cell": "c", "cell": "d"}', "'cell' is there twice"),
    "a number too large": ('{"key": {"k0": 9223372036854775808}, "cell": "c"}', "too large"),
    "a broken number": ('{"key": {"k0": 1.5}, "cell": "c"}', "is not a row"),
    "a whole float": ('{"key": {"k0": 1.0}, "cell": "c"}', "is not a row"),
    "a text": ('{"key": {"k0": "1"}, "cell": "c"}', "is not a row"),
    "another key": ('{"key": {"k1": 1}, "cell": "c"}', "must have the columns k0"),
    "an infinite value": ('{"key": {"k0": 1}, "cell": "c", "value": 1e400}', "too large for a float"),
    "no value of JSON": ('{"key": {"k0": 1}, "cell": "c", "value": NaN}', "is not JSON"),
    "not base64": ('{"key": {"k0": 1}, "cell": "c", "encoded": "#"}', "is not base64"),
    "a window of numbers": ('{"key": {"k0": 1}, "cell": "c", "window": {"start": 0, "end": 1}}', "the window must be"),
    "a number for a name": ('{"key": {"k0": 1}, "cell": 5}', "cell is 5, which is no text"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_line_that_is_no_row(wrong):
    line, told = WRONG[wrong]
    with pytest.raises(InputError, match=told) as refused:
        back("json", schema_of(t.LongType()), line.encode())
    assert line[:20] in refused.value.detail


def test_a_line_that_is_no_text():
    with pytest.raises(InputError, match="is not a row of an export"):
        back("json", schema_of(t.StringType()), b'{"key": {"k0": "\xff"}, "cell": "c"}')


def test_lines_of_other_editors():
    schema = schema_of(t.StringType())
    data = b'\xef\xbb\xbf{"key": {"k0": "a"}, "cell": "c", "value": 1}\r\n\n'
    assert [batch.num_rows for batch in back("json", schema, data)] == [1]


def test_an_avro_file_that_is_damaged_or_another():
    schema = schema_of(t.StringType())
    whole = FORMS["avro"].encode(table(schema, [row({"k0": "a"})]), schema)
    for data, told in ((whole[:-3], "cannot be imported"), (b"", "cannot be imported")):
        with pytest.raises(InputError, match=told):
            back("avro", schema, data)
    other = schema_of(t.LongType())
    with pytest.raises(InputError, match=r"part-00000\.avro"):
        back("avro", other, whole)


def test_a_key_that_avro_has_no_type_for():
    schema = schema_of(t.DayTimeIntervalType())
    with pytest.raises(InputError, match="for which Avro has no type"):
        FORMS["avro"].encode(table(schema, []), schema)


def test_names():
    with pytest.raises(InputError, match="'xml' is not a format"):
        format_of("xml")
