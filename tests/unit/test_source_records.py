"""Records of each format as rows, or why they are none. What Spark does with them is in integration/."""

from __future__ import annotations

import datetime
import io
import json
import sys
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from holdfast.errors import InputError, InvalidStep, MissingExtra
from holdfast.spark.sources.formats import Avro, Csv, Json, Text
from holdfast.spark.sources.malformed import Malformed
from holdfast.spark.sources.record_types import zone_of

UTC = datetime.timezone.utc
INNER = t.StructType([t.StructField("x y", t.IntegerType(), False), t.StructField("at", t.TimestampType())])
FIELDS = t.StructType(
    [
        t.StructField("s", t.StringType()),
        t.StructField("i", t.IntegerType()),
        t.StructField("l", t.LongType()),
        t.StructField("b", t.ByteType()),
        t.StructField("d", t.DoubleType()),
        t.StructField("f", t.FloatType()),
        t.StructField("dec", t.DecimalType(10, 2)),
        t.StructField("at", t.TimestampType()),
        t.StructField("local", t.TimestampNTZType()),
        t.StructField("day", t.DateType()),
        t.StructField("yes", t.BooleanType()),
        t.StructField("bin", t.BinaryType()),
        t.StructField("list", t.ArrayType(t.IntegerType(), containsNull=False)),
        t.StructField("map", t.MapType(t.StringType(), t.DecimalType(4, 1))),
        t.StructField(
            "in", t.StructType([t.StructField("x y", t.IntegerType(), False), t.StructField("at", t.TimestampType())])
        ),
    ]
)


def rows(format, schema, *values, zone="UTC"):
    return format.decoder(schema, zone).rows(pa.array(values, pa.binary()))


def read(text, schema=FIELDS, zone="UTC", format=None):
    """The one field of a record that has a value, or the reason why there is no row."""
    value = text if isinstance(text, bytes) else text.encode()
    [row] = rows(format or Json(schema), schema, value, zone=zone)
    if isinstance(row, Malformed):
        return row.reason
    present = [item for item in row if item is not None]
    assert len(present) <= 1
    return present[0] if present else None


FITTING = {
    '{"s":"a"}': "a",
    '{"s":""}': "",
    '{"s":"\\u0000\\ud83d\\ude00"}': "\0😀",
    '{"s":null}': None,
    "{}": None,
    ' {"s" : "a"} ': "a",
    '{"S":"a"}': None,
    '{"unknown":[1,{"a":null}],"s":"a"}': "a",
    '{"s":"a","s":"b"}': "b",
    '{"i":-2147483648}': -(1 << 31),
    '{"l":9223372036854775807}': (1 << 63) - 1,
    '{"b":-128}': -128,
    '{"d":5}': 5.0,
    '{"d":1e308}': 1e308,
    '{"dec":99999999.99}': Decimal("99999999.99"),
    '{"dec":"1.20"}': Decimal("1.20"),
    '{"dec":1.2000}': Decimal("1.20"),
    '{"dec":-1e7}': Decimal("-10000000.00"),
    '{"dec":0e1000000000}': Decimal("0.00"),
    '{"dec":-0e-1000000000}': Decimal("0.00"),
    '{"dec":0.' + "0" * 5000 + "}": Decimal("0.00"),
    '{"at":"2020-01-01T00:00:00Z"}': datetime.datetime(2020, 1, 1, tzinfo=UTC),
    '{"at":"2020-01-01 02:00:00.5+02:00"}': datetime.datetime(2020, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
    '{"at":"2020-01-01T00:00:00"}': datetime.datetime(2020, 1, 1),
    '{"local":"2020-01-01T00:00:00"}': datetime.datetime(2020, 1, 1),
    '{"day":"2020-02-29"}': datetime.date(2020, 2, 29),
    '{"yes":true}': True,
    '{"bin":"AAEC"}': b"\0\1\2",
    '{"list":[]}': [],
    '{"map":{"a":1.5,"b":null}}': [("a", Decimal("1.5")), ("b", None)],
    '{"in":{"x y":1}}': (1, None),
    '{"x":' + "[" * 200 + "]" * 200 + "}": None,
}


@pytest.mark.parametrize(("text", "value"), FITTING.items(), ids=[text[:40] for text in FITTING])
def test_what_fits(text, value):
    found = read(text)
    assert found == value
    if isinstance(found, Decimal):
        # Arrow does not survive every exponent.
        assert found.as_tuple().exponent == -2


REFUSED = [
    ("", "not JSON: Input data was truncated"),
    (" ", "not JSON: "),
    ("null", "Expected `object`, got `null`"),
    ("[]", "Expected `object`, got `array`"),
    ('[{"s":"a"}]', "Expected `object`, got `array`"),
    ("5", "Expected `object`, got `int`"),
    ('"x"', "Expected `object`, got `str`"),
    ('{"s":"a"} x', "not JSON: JSON is malformed: trailing characters"),
    ('{"s":"a"}{"s":"b"}', "not JSON: JSON is malformed: trailing characters"),
    ('{"s":"a"', "not JSON: Input data was truncated"),
    ('{"s":"a",}', "not JSON: "),
    ("{'s':'a'}", "not JSON: "),
    ('{"s":"a\nb"}', "not JSON: "),
    ("\ufeff{}", "not JSON: "),
    (b'{"s":"\xff"}', "not UTF-8: invalid start byte at byte 6"),
    (b'{"unknown":"\xff"}', "not UTF-8: "),
    (b'{"s":"\xed\xa0\x80"}', "not UTF-8: "),
    ('{"s":"\\ud800"}', "not JSON: "),
    ('{"s":"\\ud800 and more"}', "not JSON: "),
    ('{"s":5}', "Expected `str | null`, got `int` - at `$.s`"),
    ('{"s":{"a":1}}', "Expected `str | null`, got `object` - at `$.s`"),
    ('{"i":"5"}', "Expected `int | null`, got `str` - at `$.i`"),
    ('{"i":1.5}', "Expected `int | null`, got `float` - at `$.i`"),
    ('{"i":2147483648}', "Expected `int` <= 2147483647 - at `$.i`"),
    ('{"l":9223372036854775808}', "Expected `int` <= 9223372036854775807 - at `$.l`"),
    ('{"l":' + "9" * 100_000 + "}", "Integer value out of range - at `$.l`"),
    ('{"b":128}', "Expected `int` <= 127 - at `$.b`"),
    ('{"i":01}', "not JSON: "),
    ('{"d":1e999}', "Number out of range - at `$.d`"),
    ('{"d":NaN}', "not JSON: "),
    ('{"d":"NaN"}', "Expected `float | null`, got `str` - at `$.d`"),
    ('{"f":1e39}', "Expected `float` <= "),
    ('{"dec":1.239}', "Number does not fit decimal(10,2) - at `$.dec`"),
    ('{"dec":100000000}', "Number does not fit decimal(10,2) - at `$.dec`"),
    ('{"dec":1e1000000000}', "Number does not fit decimal(10,2) - at `$.dec`"),
    ('{"dec":1e-1000000000}', "Number does not fit decimal(10,2) - at `$.dec`"),
    ('{"dec":0.' + "0" * 5000 + "1}", "Number does not fit decimal(10,2) - at `$.dec`"),
    ('{"dec":1.' + "0" * 5000 + "}", "Number does not fit decimal(10,2) - at `$.dec`"),
    ('{"dec":"NaN"}', "Expected a number, got NaN - at `$.dec`"),
    ('{"dec":"Infinity"}', "Expected a number, got Infinity - at `$.dec`"),
    ('{"at":"12:30:00"}', "Invalid RFC3339 encoded datetime - at `$.at`"),
    ('{"at":"2020"}', "Invalid RFC3339 encoded datetime - at `$.at`"),
    ('{"at":"2020-02-30T00:00:00Z"}', "Invalid RFC3339 encoded datetime - at `$.at`"),
    ('{"at":"+12000-01-01T00:00:00Z"}', "Invalid RFC3339 encoded datetime - at `$.at`"),
    ('{"at":1700000000}', "Expected `datetime | null`, got `int` - at `$.at`"),
    ('{"local":"2020-01-01T00:00:00Z"}', "Expected `datetime` with no timezone component - at `$.local`"),
    ('{"day":"20200101"}', "Invalid RFC3339 encoded date - at `$.day`"),
    ('{"yes":1}', "Expected `bool | null`, got `int` - at `$.yes`"),
    ('{"bin":"!!"}', "Invalid base64 encoded string - at `$.bin`"),
    ('{"list":[1,"x"]}', "Expected `int`, got `str` - at `$.list[1]`"),
    ('{"list":[1,null]}', "Expected `int`, got `null` - at `$.list[1]`"),
    ('{"map":{"a":1.55}}', "Number does not fit decimal(4,1) - at `$.map`"),
    ('{"in":{}}', "Object missing required field `x y` - at `$.in`"),
    ('{"in":{"x y":null}}', "Expected `int`, got `null` - at `$.in.x y`"),
    ('{"x":' + "[" * 100_000 + "]" * 100_000 + "}", "not read: nested too deeply"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=[str(text)[:40] for text, _ in REFUSED])
def test_what_is_refused(text, reason):
    assert str(read(text)).startswith(reason)


def test_what_must_be_there():
    schema = t.StructType([t.StructField("card", t.StringType(), False), t.StructField("n", t.IntegerType())])
    assert read("{}", schema) == "Object missing required field `card`"
    assert read('{"card":null}', schema) == "Expected `str`, got `null` - at `$.card`"
    assert read('{"card":"a"}', schema) == "a"


AT = t.StructType([t.StructField("at", t.TimestampType())])


@pytest.mark.parametrize(
    ("timestamps", "number", "value"),
    [("seconds", 5, 5_000_000), ("milliseconds", -5, -5000), ("microseconds", 5, 5), ("seconds", 253402300799, None)],
)
def test_times_as_numbers(timestamps, number, value):
    found = read(f'{{"at":{number}}}', AT, format=Json(AT, timestamps))
    assert found == (number * 1_000_000 if value is None else value)


@pytest.mark.parametrize(("timestamps", "number"), [("seconds", 1700000000000), ("seconds", 253402300800), ("seconds", 1.5)])
def test_numbers_that_are_no_times(timestamps, number):
    assert "at `$.at`" in read(f'{{"at":{number}}}', AT, format=Json(AT, timestamps))


def test_a_time_without_an_offset_is_in_the_zone():
    wanted = datetime.datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert read('{"at":"2026-07-01T12:00:00"}', AT, zone="Europe/Berlin") == wanted
    assert read('{"at":"2026-07-01T12:00:00"}', AT, format=Json(AT, time_zone="Europe/Berlin")) == wanted
    assert read('{"at":"2026-07-01T10:00:00Z"}', AT, zone="Europe/Berlin") == wanted


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("+02:00", 2),
        ("-0330", -3.5),
        ("GMT+2", 2),
        ("UTC-5", -5),
        ("Europe/Berlin", 2),
        ("Etc/GMT-2", 2),
    ],
)
def test_names_of_time_zones(name, hours):
    summer = datetime.datetime(2026, 7, 1, tzinfo=zone_of(name))
    assert summer.utcoffset() == datetime.timedelta(hours=hours)


@pytest.mark.parametrize("name", ["Berlin", "", "../etc/passwd", "+2:3", "Europe"])
def test_no_time_zones(name):
    with pytest.raises(ValueError, match="no time zone"):
        zone_of(name)


NEIGHBOURS = [
    # Each of these, put together as they are, would be as many records as they are, though not these.
    [b'{"s":"a"},{"s":"b"}', b'{"list":[1', b"2]}"],
    [b'{"x":[{"b":1}', b'{"b":2}]}', b'{"s":"a"},{"s":"b"}'],
    [b"", b'{"s":"a"},{"s":"b"}'],
    [b'{"s":"a"}]', b'[{"s":"b"}'],
    [b'{"s":"a', b'","s":"b"}', b"{}"],
    [b'"text"', b"{}"],
    [b"{}", b"null"],
]


@pytest.mark.parametrize("values", NEIGHBOURS, ids=str)
def test_neighbours_do_not_help_each_other(values):
    def told(found):
        return [row.reason if isinstance(row, Malformed) else row for row in found]

    one_by_one = [row for value in values for row in told(rows(Json(FIELDS), FIELDS, value))]
    assert told(rows(Json(FIELDS), FIELDS, *values)) == one_by_one
    assert any(isinstance(row, str) for row in one_by_one)


def test_large_and_small_records_in_order():
    values = [json.dumps({"s": str(number) * (1 << (number % 20))}).encode() for number in range(60)]
    found = rows(Json(FIELDS), FIELDS, *values)
    assert [row[0] for row in found] == [json.loads(value)["s"] for value in values]


def test_texts():
    assert rows(Text(), Text()._schema(), b"a", b"")[:2] == [("a",), ("",)]
    assert rows(Text(), Text()._schema(), b"ab\xff")[0].reason == "not UTF-8: invalid start byte at byte 2"


def of_fields(*types):
    """An Avro schema with fields of these types."""
    return {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(types)]}


class TestAvro:
    SCHEMA = {
        "type": "record",
        "name": "Payment",
        "fields": [
            {"name": "card", "type": "string"},
            {"name": "n", "type": ["null", "int"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
            {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
                {"name": "id", "type": "long"}]}}},
            {"name": "more", "type": {"type": "map", "values": "Kind"}},
        ],
    }  # fmt: skip
    RECORD = {
        "card": "a",
        "n": 1,
        "at": datetime.datetime(2026, 3, 1, tzinfo=UTC),
        "kind": "B",
        "amount": Decimal("12.50"),
        "items": [{"id": 7}],
        "more": {"x": "A"},
    }

    def written(self, **change):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, self.SCHEMA, {**self.RECORD, **change})
        return stream.getvalue()

    def read(self, value, **options):
        format = Avro(self.SCHEMA, **options)
        return rows(format, format.columns(), value)[0]

    def test_the_columns(self):
        assert Avro(json.dumps(self.SCHEMA)).columns().simpleString() == (
            "struct<card:string,n:int,at:timestamp,kind:string,amount:decimal(6,2),items:array<struct<id:bigint>>,"
            "more:map<string,string>>"
        )
        assert [field.nullable for field in Avro(self.SCHEMA).columns().fields][:3] == [False, True, False]

    def test_without_its_library_it_says_which_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "fastavro", None)
        with pytest.raises(MissingExtra, match=r"pip install 'holdfast\[avro\]'"):
            Avro(self.SCHEMA).columns()

    def test_a_record(self):
        assert self.read(self.written()) == (
            "a", 1, self.RECORD["at"], "B", Decimal("12.50"), [(7,)], [("x", "A")]
        )  # fmt: skip
        assert self.read(self.written(n=None))[1] is None

    def test_the_header_of_confluent(self):
        assert self.read(b"\0\0\0\0\7" + self.written(), header="confluent")[0] == "a"
        for value in (b"", b"\0\0\0", b"\1\0\0\0\7" + self.written()):
            assert self.read(value, header="confluent").reason.startswith("not Avro with a Confluent header")

    def test_too_much_and_too_little(self):
        assert self.read(self.written() + b"\0").reason == "not Avro of this schema: 1 bytes are left over"
        for end in range(len(self.written())):
            assert self.read(self.written()[:end]).reason.startswith("not Avro of this schema: ")

    @pytest.mark.parametrize("value", [b"\2\xff", b"\xff" * 30, b"\1", b"\2a\2\2", b"\0" * 3])
    def test_other_bytes(self, value):
        assert isinstance(self.read(value), Malformed)

    def test_a_number_that_does_not_fit(self):
        huge = b"\2a" + b"\2" + b"\xff\xff\xff\xff\x3f" + self.written()[4:]
        assert self.read(huge).reason == "Number does not fit 32 bits - at `$.n`"

    @pytest.mark.parametrize(
        ("schema", "problem"),
        [
            ("no json", "JSONDecodeError"),
            ('"int"', "The schema is not that of a record."),
            (of_fields(), "has no fields"),
            (of_fields(["null", "R"]), "contains itself"),
            (of_fields(["int", "string"]), "several types"),
            (of_fields("null"), "for which there is no column"),
            (of_fields({"type": "int", "logicalType": "time-millis"}), "logical type 'time-millis'"),
        ],
    )
    def test_schemas_that_are_no_columns(self, schema, problem):
        with pytest.raises(InvalidStep, match=problem):
            Avro(schema).columns()


class TestCsv:
    SCHEMA = t.StructType(
        [
            t.StructField("card", t.StringType(), False),
            t.StructField("n", t.IntegerType()),
            t.StructField("amount", t.DecimalType(6, 2)),
            t.StructField("at", t.TimestampType()),
            t.StructField("yes", t.BooleanType()),
        ]
    )

    def decode(self, line, **options):
        [row] = rows(Csv(self.SCHEMA, **options), self.SCHEMA, line if isinstance(line, bytes) else line.encode())
        return row.reason if isinstance(row, Malformed) else row

    def test_values(self):
        at = datetime.datetime(2026, 3, 1, tzinfo=UTC)
        wanted = ('a,"b"', 5, Decimal("1.50"), at, True)
        assert self.decode('"a,""b""",5,1.50,2026-03-01T00:00:00Z,True') == wanted
        assert self.decode('"a,""b""";5;1.50;2026-03-01T00:00:00Z;true', separator=";") == wanted
        assert self.decode("a,,,,") == ("a", None, None, None, None)
        assert len(self.decode("x" * (1 << 20) + ",,,,")[0]) == 1 << 20

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (",5,,,", "Expected a value, got nothing - at `$.card`"),
            ("a,5.5,,,", "Expected `int`, got `float` - at `$.n`"),
            ("a,five,,,", "Expected a number or a boolean, got another text - at `$.n`"),
            ("a, 5 x,,,", "Expected a number or a boolean, got another text - at `$.n`"),
            ("a,99999999999,,,", "Expected `int` <= 2147483647 - at `$.n`"),
            ("a,,1.555,,", "Number does not fit decimal(6,2) - at `$.amount`"),
            ("a,,x,,", "Invalid decimal string - at `$.amount`"),
            ("a,,,12:30,", "Invalid RFC3339 encoded datetime - at `$.at`"),
            ("a,,,,1", "Expected `bool`, got `int` - at `$.yes`"),
            (b"\xff,,,,", "not UTF-8: invalid start byte at byte 0"),
            ("a", "1 values in place of 5"),
            ("a" + "," * 30_000, "30001 values in place of 5"),
            ('"a,,,,', "not a line of CSV: unexpected end of data"),
            ('"a"b,,,,', "not a line of CSV: ',' expected after '\"'"),
        ],
    )
    def test_values_that_are_refused(self, line, reason):
        assert self.decode(line) == reason

    def batch(self, *rows):
        return pa.RecordBatch.from_pylist(
            [{"value": line, "file": file, "block": block} for line, file, block in rows],
            pa.schema([("value", pa.binary()), ("file", pa.string()), ("block", pa.int64())]),
        )

    def test_the_first_line_of_each_file_is_its_header(self):
        header = b"card,n,amount,at,yes"
        batches = [
            self.batch((header, "a", 0), (header, "a", 0), (b"1", "a", 0)),
            self.batch((b"2", "a", 0), (b"3", "b", 500), (b"4", "b", 500)),
            self.batch((b"5", "c", 700), (header, "c", 0)),
            self.batch((b"6", "c", 0)),
        ]
        kept = Csv(self.SCHEMA, header=True).records(iter(batches), self.SCHEMA.names)
        assert [line for batch in kept for line in batch.column(0).to_pylist()] == [
            header,
            b"1",
            b"2",
            b"3",
            b"4",
            b"5",
            b"6",
        ]

    @pytest.mark.parametrize("line", [b"n,card,amount,at,yes", b"a,1,1,,", b"\xff", b"card"])
    def test_another_header(self, line):
        with pytest.raises(InputError, match="The first line of 'a' does not have the names of the columns"):
            list(Csv(self.SCHEMA, header=True).records(iter([self.batch((line, "a", 0))]), self.SCHEMA.names))


def of_types(*kinds):
    """A schema of columns that are called a, A and so on."""
    return t.StructType([t.StructField(name, kind) for name, kind in zip("aA", kinds, strict=False)])


class TestFormats:
    @pytest.mark.parametrize(
        ("make", "problem"),
        [
            (lambda: Json("a int", timestamps="millis"), "timestamps is 'millis'"),
            (lambda: Json("a int", time_zone="Berlin"), "time_zone is 'Berlin'"),
            (lambda: Csv("a int", separator="||"), "separator is '||'"),
            (lambda: Avro("{}", header="other"), "header is 'other'"),
            (lambda: Json(t.StructType([])).columns(), "no columns"),
            (lambda: Json(of_types(t.IntegerType(), t.IntegerType())).columns(), "Two columns have the name 'a'"),
            (lambda: Csv(of_types(t.ArrayType(t.IntegerType()))).columns(), "which a line of CSV cannot hold"),
            (lambda: Json(of_types(t.MapType(t.IntegerType(), t.IntegerType()))).columns(), "keys in JSON are strings"),
            (lambda: Json(of_types(t.VariantType())).columns(), "cannot be read from records"),
            (lambda: Json(of_types(t.StructType())).columns(), "without fields"),
        ],
    )
    def test_what_cannot_be_made(self, make, problem):
        with pytest.raises(InvalidStep, match=problem.replace("|", r"\|")):
            make()
