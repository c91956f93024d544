"""Values in SQL databases: what is read there is what Spark had, for every type."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.spark.sinks import BatchInfo, Upsert
from integration.sql_places import DuckDBPlace, Rows, rows
from tiers import examples

UTC = datetime.timezone.utc
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 891, tzinfo=UTC)

COLUMNS = {
    "tiny byte": -128,
    "short short": 2**15 - 1,
    "whole int": -(2**31),
    "large bigint": 2**63 - 1,
    "small float": 0.5,
    "wide double": 5e-324,
    "minus double": -0.0,
    "inf double": -math.inf,
    "yes boolean": True,
    "price decimal(38,18)": decimal.Decimal("-12345678901234567890.000000000000000001"),
    "none_of_it decimal(38,18)": decimal.Decimal("0E-18"),
    "text string": 'x"y,\n\\.\r\n\t',
    "empty string": "",
    "word string": "null",
    "data binary": b"\x00\xff\\",
    "no_data binary": b"",
    "at timestamp": NOON,
    "first timestamp": datetime.datetime(1, 1, 1, tzinfo=UTC),
    "wall timestamp_ntz": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "day date": datetime.date(1, 1, 1),
    "span interval day to second": datetime.timedelta(days=-400, microseconds=1),
}
BOTH = "both struct<x:int,at:timestamp,wall:timestamp_ntz,day:date>"
NESTED = {
    "many array<double>": [1.0, None, math.nan, -math.inf, -0.0],
    BOTH: (1, NOON, datetime.datetime(2024, 2, 29), None),
    "named map<string,decimal(3,1)>": {"a": decimal.Decimal("1.5"), "b": None},
    "paired map<int,binary>": {1: b"\xff"},
    "spans array<interval day to second>": [datetime.timedelta(seconds=90, milliseconds=500)],
    "nothing array<int>": [],
}


def every_type(spark):
    columns = {**COLUMNS, **NESTED}
    schema = ", ".join([*columns, "void_ void"])
    return spark.createDataFrame([(*columns.values(), None), (None,) * (len(columns) + 1)], schema)


def names(columns):
    return [declared.partition(" ")[0] for declared in columns]


def assert_same(found, columns):
    for name, wanted, value in zip(names(columns), columns.values(), found, strict=True):
        assert repr(plain(value)) == repr(plain(wanted)), name


def plain(value):
    """With instants in UTC, and bytes and decimals in one form."""
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).replace(fold=0)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def test_every_type_in_postgres(spark, postgres):
    frame = every_type(spark)
    sink = postgres.sink()
    sink.open(spark, frame.schema, None)
    sink.write_batch(frame, BatchInfo("q", 0))
    [row] = postgres.execute("SELECT * FROM counts WHERE tiny IS NOT NULL")
    assert_same(row[: len(COLUMNS)], COLUMNS)
    assert row[len(COLUMNS) :] == (
        [1.0, None, "NaN", "-Infinity", "-0.0"],
        {"x": 1, "at": "2024-02-29T12:00:00.000891+00:00", "wall": "2024-02-29T00:00:00", "day": None},
        {"a": "1.5", "b": None},
        [[1, "/w=="]],
        ["90.5"],
        [],
        None,
    )
    assert postgres.execute("SELECT * FROM counts WHERE tiny IS NULL") == [(None,) * len(row)]
    kinds = postgres.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'counts'::regclass AND attnum > 0"
        " ORDER BY attnum"
    )
    assert [kind for (kind,) in kinds] == [
        *("smallint", "smallint", "integer", "bigint", "real", *["double precision"] * 3, "boolean"),
        *("numeric(38,18)", "numeric(38,18)", "text", "text", "text", "bytea", "bytea"),
        *(*["timestamp with time zone"] * 2, "timestamp without time zone", "date", "interval", *["jsonb"] * 6, "text"),
    ]


def test_every_type_in_duckdb(spark, tmp_path):
    place, frame = DuckDBPlace(tmp_path), every_type(spark)
    sink = place.sink()
    sink.open(spark, frame.schema, None)
    sink.write_batch(frame, BatchInfo("q", 0))
    [row] = place.execute("SET TimeZone = 'UTC'", "SELECT * FROM counts WHERE tiny IS NOT NULL")
    assert_same(row[: len(COLUMNS)], COLUMNS)
    assert [plain(value) for value in row[len(COLUMNS) + 1].values()] == list(NESTED[BOTH])
    others = {declared: value for declared, value in NESTED.items() if declared != BOTH}
    assert_same((*row[len(COLUMNS) : len(COLUMNS) + 1], *row[len(COLUMNS) + 2 : -1]), others)
    assert row[-1] is None
    assert place.execute("SELECT * FROM counts WHERE tiny IS NULL") == [(None,) * len(row)]
    assert place.execute(
        'SELECT typeof("both"), typeof(named), typeof(many), typeof("at"), typeof(price) FROM counts LIMIT 1'
    ) == [
        (
            'STRUCT(x INTEGER, "at" TIMESTAMP WITH TIME ZONE, wall TIMESTAMP, "day" DATE)',
            "MAP(VARCHAR, DECIMAL(3,1))",
            "DOUBLE[]",
            "TIMESTAMP WITH TIME ZONE",
            "DECIMAL(38,18)",
        )
    ]


def test_types_that_no_database_has_are_refused_when_the_job_starts(spark, postgres, tmp_path):
    frame = spark.sql("SELECT parse_json('1') AS any")
    for sink in (postgres.sink(), DuckDBPlace(tmp_path).sink()):
        with pytest.raises(hf.InvalidStep, match="variant"):
            sink.open(spark, frame.schema, None)


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\\.", "NULL", '""']
)
VALUES = {
    "t": (pa.string(), TEXTS),
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "d": (pa.float64(), st.floats()),
    "f": (pa.float32(), st.floats(width=32)),
    "b": (pa.binary(), st.binary(max_size=8)),
    "p": (pa.decimal128(20, 7), st.decimals(min_value="-9999999999999", max_value="9999999999999", places=7)),
    "at": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    "wall": (pa.timestamp("us"), st.datetimes()),
    "day": (pa.date32(), st.dates()),
    "span": (pa.duration("us"), st.timedeltas(datetime.timedelta(days=-100_000), datetime.timedelta(days=100_000))),
    "list": (pa.list_(pa.float64()), st.lists(st.none() | st.floats(), max_size=3)),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(TEXTS, st.none() | st.integers(-9, 9), max_size=3).map(lambda d: list(d.items())),
    ),
}
TABLES = st.lists(st.tuples(*(st.none() | values for _, values in VALUES.values())), max_size=5)


def table_of(values):
    schema = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
    columns = [pa.array([row[place] for row in values], field.type) for place, field in enumerate(schema)]
    return pa.table([pa.array(range(len(values)), pa.int32()), *columns], schema=schema.insert(0, pa.field("i", pa.int32())))


def seen(value, name, nested_as_json):
    """How a value is read back."""
    if value is None or name not in ("list", "map"):
        return plain(value)
    if name == "map":
        return dict(sorted(value))
    return [json_number(number) for number in value] if nested_as_json else value


def json_number(number):
    if number is None or (math.isfinite(number) and str(number) != "-0.0"):
        return number
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "-0.0": "-0.0"}[str(number)]


def compared(found, values, nested_as_json):
    for row, wanted in zip(found, values, strict=True):
        for name, got, had in zip(VALUES, row[1:], wanted, strict=True):
            want = seen(had, name, nested_as_json)
            if name == "f" and got is not None:
                got, want = (struct.unpack("f", struct.pack("f", number))[0] for number in (got, want))
            if name == "list" and got is not None:
                got = [float(n) if isinstance(n, int) else n for n in got]
            if name == "map" and got is not None:
                got = dict(sorted(got.items()))
            assert repr(plain(got)) == repr(want), name


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=TABLES)
def test_any_values_in_postgres(postgres, values):
    postgres.execute("DROP TABLE IF EXISTS counts", "DROP TABLE IF EXISTS holdfast_batches")
    postgres.sink().write_batch(Rows(table_of(values)), BatchInfo("q", 0))
    compared(postgres.execute("SELECT * FROM counts ORDER BY i"), values, nested_as_json=True)


@settings(max_examples=examples(40))
@given(values=TABLES)
def test_any_values_in_duckdb(values):
    with tempfile.TemporaryDirectory() as folder:
        place = DuckDBPlace(Path(folder))
        place.sink().write_batch(Rows(table_of(values)), BatchInfo("q", 0))
        found = place.execute("SET TimeZone = 'UTC'", "SELECT * FROM counts ORDER BY i")
    compared(found, values, nested_as_json=False)


KEYS = {name: VALUES[name] for name in ("t", "l", "d", "f", "b", "p", "at", "wall", "day", "span")}


@pytest.fixture(params=["duckdb", "postgres"])
def place(request, tmp_path):
    return request.getfixturevalue("postgres") if request.param == "postgres" else DuckDBPlace(tmp_path)


def test_values_of_every_type_are_keys(place):
    """Twice the same key is one row, in one micro-batch and over two."""
    for number, (name, (kind, _)) in enumerate(KEYS.items()):
        values = {
            "t": "a ",
            "b": b"\x00",
            "p": decimal.Decimal("1.5"),
            "day": NOON.date(),
            "span": datetime.timedelta(1, 2, 3),
        }
        value = values.get(name, NOON if name == "at" else NOON.replace(tzinfo=None) if name == "wall" else 1)
        sink = place.sink(f"t{number}").upserting(Upsert(("k",)))
        for batch in range(2):
            made = rows((value, 1), (value, batch + 2), names=("k", "n"), kinds=(kind, pa.int64()))
            sink.write_batch(made, BatchInfo("q", batch))
        assert [n for _, n in place.rows(f"t{number}")] == [3], name


def test_nested_values_as_keys(place):
    """-0.0 and 0.0 are two keys inside a list, and so are all others that are not the same."""
    kind = pa.list_(pa.float64())
    keys = [[0.0], [-0.0], [math.nan], [], [None], [1.0, 2.0], [2.0, 1.0], [0.1 + 0.2], [0.3], [math.inf]]
    sink = place.sink().upserting(Upsert(("k",)))
    for batch in range(2):
        made = rows(*((key, batch) for key in keys), names=("k", "n"), kinds=(kind, pa.int64()))
        sink.write_batch(made, BatchInfo("q", batch))
    assert [n for _, n in place.rows()] == [1] * len(keys)
    stored = [key if isinstance(key, list) else json.loads(key) for key, _ in place.rows()]
    assert len({json.dumps(key) for key in stored}) == len(keys)


def test_a_text_that_postgres_cannot_hold(postgres):
    for made in (rows(("a\0b", 1)), rows((["a\0b"], 1), names=("k", "n"), kinds=(pa.list_(pa.string()), pa.int64()))):
        with pytest.raises(hf.SinkError) as refused:
            postgres.sink(f"t{made.toArrow().schema[0].type.num_fields}").write_batch(made, BatchInfo("q", 0))
        assert "the character NUL" in str(refused.value)
        assert re.search("column '?k", str(refused.value))


def test_texts_that_are_too_long_for_a_column(postgres):
    """PostgreSQL would cut off the spaces."""
    postgres.execute("CREATE TABLE counts (k varchar(3), n bigint)")
    postgres.sink().write_batch(rows(("äöü", 1)), BatchInfo("q", 0))
    for text in ("abcd", "abc "):
        with pytest.raises(hf.SinkError, match="room for 3 characters in the column 'k'; 1 of the rows have more"):
            postgres.sink().write_batch(rows((text, 1)), BatchInfo("q", 1))
    assert postgres.rows() == [("äöü", 1)]


def test_a_large_micro_batch_comes_in_pieces(postgres, monkeypatch):
    from holdfast.spark.sinks.sql import postgres_values

    monkeypatch.setattr(postgres_values, "_PIECE_BYTES", 1000)
    number = 5000
    made = Rows(pa.table({"k": [f"k{n}" for n in range(number)], "n": range(number)}))
    assert len(list(postgres_values.copied(made.toArrow()))) > 50
    postgres.sink().write_batch(made, BatchInfo("q", 0))
    assert postgres.execute("SELECT count(*), count(DISTINCT k), sum(n) FROM counts") == [
        (number, number, number * (number - 1) // 2)
    ]


def test_settings_of_the_session_change_no_value(postgres):
    """Those of the user who connects, or of the database, would."""
    with closing(postgres.server.connect()) as connection:
        settings_ = {
            "DateStyle": "'SQL, DMY'",
            "TimeZone": "'Asia/Kolkata'",
            "IntervalStyle": "'sql_standard'",
            "client_encoding": "'latin1'",
            "default_transaction_isolation": "'serializable'",
            "default_transaction_read_only": "on",
            "standard_conforming_strings": "off",
            "synchronous_commit": "off",
            "search_path": "''",
        }
        for name, value in settings_.items():
            connection.execute(f"ALTER ROLE holdfast SET {name} = {value}")
        try:
            kinds = (pa.string(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.duration("us"))
            values = ("ß\\", NOON, NOON.replace(tzinfo=None), datetime.timedelta(days=-3, microseconds=7))
            made = rows(values, names=("k", "at", "wall", "span"), kinds=kinds)
            postgres.sink().write_batch(made, BatchInfo("q", 0))
        finally:
            connection.execute("ALTER ROLE holdfast RESET ALL")
    [row] = postgres.execute("SELECT * FROM counts")
    assert tuple(map(plain, row)) == values
