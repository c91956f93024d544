"""The sink Delta, without Spark: whose table it is, how it is written, which columns and values fit, and by what names."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa
from pyspark.sql import types as t

import holdfast as hf
from delta_rows import BY_K, SCHEMA, SPARK_SCHEMA, Rows, delta, read, read_log, table_of
from holdfast.spark.sinks import BatchInfo, Upsert

pytestmark = pytest.mark.slow
UTC = datetime.timezone.utc


@pytest.fixture(params=["append", "upsert"])
def key(request):
    return BY_K if request.param == "upsert" else None


def write_three(folder, key):
    for number in range(3):
        delta(folder, key).write_batch(Rows(("a", number), (f"only {number}", number)), BatchInfo("q", number, f"p{number}"))


class TestModes:
    def test_the_last_row_of_a_key_wins(self, tmp_path):
        delta(tmp_path, BY_K).write_batch(Rows(("a", 1), ("b", 2), ("a", 3)), BatchInfo("q", 0, "p"))
        delta(tmp_path, BY_K).write_batch(Rows(("b", None), ("c", 4)), BatchInfo("q", 1, "p"))
        assert read(tmp_path) == read_log(tmp_path) == [("a", 3), ("b", None), ("c", 4)]

    def test_rows_that_are_all_key(self, tmp_path):
        both = Upsert(("n", "k"))
        for number in range(2):
            delta(tmp_path, both).write_batch(Rows(("a", 1), ("a", 1), ("a", 2)), BatchInfo("q", number))
        assert read(tmp_path) == [("a", 1), ("a", 2)]

    def test_a_row_without_a_key_leaves_all_as_it_was(self, tmp_path):
        delta(tmp_path, BY_K).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        with pytest.raises(hf.SinkError, match="no value in the key column 'k'"):
            delta(tmp_path, BY_K).write_batch(Rows(("a", 2), (None, 3)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 1)]

    def test_appending_and_upserting_do_not_mix(self, tmp_path):
        delta(tmp_path, BY_K).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        for query in ("q", "another"):
            for call in (
                lambda sink, query=query: sink.write_batch(Rows(("b", 1)), BatchInfo(query, 1)),
                lambda sink, query=query: sink.open(None, SPARK_SCHEMA, query),
            ):
                with pytest.raises(hf.SinkError, match="is upserted by the key k; rows cannot be appended"):
                    call(delta(tmp_path))
        with pytest.raises(hf.SinkError, match="is upserted by the key k, not by k, n"):
            delta(tmp_path, Upsert(("k", "n"))).write_batch(Rows(("b", 1)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 1)]

    @pytest.mark.parametrize("query", ["q", "another"])
    def test_rows_that_were_appended(self, tmp_path, query):
        delta(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        with pytest.raises(hf.SinkError, match="has rows that were not upserted"):
            delta(tmp_path, BY_K).open(None, SPARK_SCHEMA, query)
        with pytest.raises(hf.SinkError, match="has rows that were not upserted"):
            delta(tmp_path, BY_K).write_batch(Rows(("a", 2)), BatchInfo(query, 1))
        assert read(tmp_path) == [("a", 1)]

    def test_somebody_appends_while_an_empty_table_is_claimed(self, tmp_path):
        """The claim holds only if it follows what was looked at."""
        deltalake.DeltaTable.create(tmp_path / "rows", SCHEMA)

        class Claiming(hf.sinks.Delta):
            def _claim(self, *arguments):
                delta(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("other", 0))
                super()._claim(*arguments)

        with pytest.raises(hf.SinkError, match="has rows that were not upserted"):
            Claiming(tmp_path / "rows").upserting(BY_K).write_batch(Rows(("a", 2)), BatchInfo("q", 0))
        assert read(tmp_path) == [("a", 1)]

    def test_an_empty_table_that_is_there(self, tmp_path):
        deltalake.DeltaTable.create(
            tmp_path / "rows", SCHEMA, configuration={"delta.logRetentionDuration": "interval 9 days"}
        )
        for number in range(2):
            delta(tmp_path, BY_K).write_batch(Rows(("a", number)), BatchInfo("q", number))
        assert read(tmp_path) == [("a", 1)]
        settings = table_of(tmp_path).metadata().configuration
        assert settings.pop("delta.logRetentionDuration") == "interval 9 days"
        assert json.loads(settings.pop("holdfast.upsert")) == {"format": 1, "key": ["k"], "query": "q"}
        assert settings == {}

    def test_a_table_that_can_only_be_appended_to(self, tmp_path):
        deltalake.DeltaTable.create(tmp_path / "rows", SCHEMA, configuration={"delta.appendOnly": "true"})
        with pytest.raises(hf.SinkError, match=r"delta\.appendOnly is true"):
            delta(tmp_path, BY_K).open(None, SPARK_SCHEMA, None)
        delta(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0))

    def test_a_damaged_note_of_how_it_is_upserted(self, tmp_path):
        deltalake.DeltaTable.create(
            tmp_path / "rows", SCHEMA, configuration={"holdfast.upsert": "{"}, raise_if_key_not_exists=False
        )
        for key in (None, BY_K):
            with pytest.raises(hf.SinkError, match="it is damaged"):
                delta(tmp_path, key).open(None, SPARK_SCHEMA, None)

    def test_a_stranger_is_refused_or_begins_with_nothing(self, tmp_path):
        write_three(tmp_path, BY_K)
        for query in (None, "second"):
            with pytest.raises(hf.SinkError, match="has the rows of the query q,"):
                delta(tmp_path, BY_K).open(None, SPARK_SCHEMA, query)
        with pytest.raises(hf.SinkError, match="has the rows of the query q,") as refused:
            delta(tmp_path, BY_K).write_batch(Rows(("a", 0)), BatchInfo("second", 0))
        assert "all rows of the table may be deleted" in refused.value.todo
        assert len(read(tmp_path)) == 4
        taking = delta(tmp_path, BY_K, take_over=True)
        for number in range(2):
            taking.write_batch(Rows(("a", number)), BatchInfo("second", number))
        assert read(tmp_path) == [("a", 1)]
        with pytest.raises(hf.SinkError, match="has the rows of the query second"):
            delta(tmp_path, BY_K).write_batch(Rows(("a", 3)), BatchInfo("q", 3))
        # The first takes it back: nothing of it is there any more, so none of its micro-batches counts as written.
        delta(tmp_path, BY_K, take_over=True).write_batch(Rows(("again", 2)), BatchInfo("q", 2, "p2"))
        assert read(tmp_path) == [("again", 2)]

    def test_the_sink_that_appends_stays_as_it_was(self, tmp_path):
        sink = delta(tmp_path)
        assert sink.upserting(BY_K) is not sink
        assert sink.upserting(BY_K).place == sink.place
        sink.write_batch(Rows(("a", 1), ("a", 2)), BatchInfo("q", 0))
        assert read(tmp_path) == [("a", 1), ("a", 2)]


HOSTILE = [
    "a b",
    "a.b",
    "select",
    "Group",
    'quo"te',
    "apo'strophe",
    "back`tick",
    "``",
    "ünï",
    "日本",
    "a,b;{c}=(d)",
    "source",
    "target.`k`",
    "a\\b",
    "%41",
    "x' OR 1=1 --",
    "NULL",
    "new\nline",
]


class TestNames:
    @pytest.mark.parametrize("partition_by", [False, True])
    @pytest.mark.parametrize("name", HOSTILE, ids=ascii)
    def test_columns(self, tmp_path, name, partition_by):
        schema = pa.schema([(name, pa.string()), ("v al", pa.int64())])
        sink = delta(tmp_path, Upsert((name,)), partition_by=[name] if partition_by else [])
        if partition_by and not name.isprintable():
            with pytest.raises(hf.InvalidStep, match="cannot be in a path"):
                sink.write_batch(Rows(("a", 1), schema=schema), BatchInfo("q", 0))
            return
        for number in range(2):
            sink.write_batch(Rows(("x", number), ("y'/=%\\", number), schema=schema), BatchInfo("q", number))
        sink.write_batch(Rows(("z", 5), schema=schema), BatchInfo("q", 2))
        table = table_of(tmp_path).to_pyarrow_table()
        assert set(table.column_names) == set(schema.names)
        rows = table.select(schema.names).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == [("x", 1), ("y'/=%\\", 1), ("z", 5)]

    def test_names_that_differ_in_case_only(self, tmp_path):
        schema = pa.schema([("k", pa.string()), ("K", pa.int64())])
        with pytest.raises(hf.InvalidStep, match="'k' and 'K' are one"):
            delta(tmp_path).write_batch(Rows(("a", 1), schema=schema), BatchInfo("q", 0))
        twice = t.StructType([SPARK_SCHEMA["k"], SPARK_SCHEMA["k"]])
        with pytest.raises(hf.InvalidStep, match="'k' and 'k' are one"):
            delta(tmp_path).open(None, twice, None)
        delta(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        upper = pa.schema([("K", pa.string()), ("n", pa.int64())])
        with pytest.raises(hf.SinkError, match="does not fit") as refused:
            delta(tmp_path).write_batch(Rows(("a", 1), schema=upper), BatchInfo("q", 1))
        assert refused.value.detail == "The table has no column 'K'.\nThe rows have no column 'k'."

    @pytest.mark.parametrize("name", ["a b", "é日", "a#b", "a?b=c", "a'b", "a:b"])
    def test_paths(self, tmp_path, name):
        (tmp_path / name).mkdir()
        for number in range(2):
            delta(tmp_path / name, BY_K).write_batch(Rows(("a", number)), BatchInfo("q", number))
        assert read(tmp_path / name) == read_log(tmp_path / name) == [("a", 1)]

    @pytest.mark.parametrize("name", ["a%20b", "a\\b", "[x]", "a|b", "tab\t"])
    def test_paths_that_deltalake_would_take_for_others(self, tmp_path, name):
        with pytest.raises(hf.InvalidStep, match="which deltalake cannot handle"):
            hf.sinks.Delta(tmp_path / name)

    def test_one_place_however_it_is_written(self, tmp_path, monkeypatch):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        monkeypatch.chdir(tmp_path)
        written = ["real/t", "link/t", tmp_path / "real" / "t", f"file://{tmp_path}/real/t/", "real/../real/t/"]
        assert len({hf.sinks.Delta(path).place for path in written}) == 1
        assert hf.sinks.Delta("s3a://b/t/").place == hf.sinks.Delta("s3://b/t").place != hf.sinks.Delta("s3://b/T").place

    def test_a_relative_path_stays_where_it_was(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        sink = hf.sinks.Delta("rows")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        sink.write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        assert read(tmp_path) == [("a", 1)]


AT = datetime.datetime(2024, 2, 29, 5, 6, 7, 891_234, tzinfo=UTC)
VALUES = [
    (pa.string(), ["", "a", "A", "é", "e\u0301", "x" * 100, "x" * 100 + "y", "\U0010ffff" * 40, "\x00", " a"]),
    (pa.binary(), [b"", b"\x00", b"\xff", b"\xff" * 100, b"\xff" * 101]),
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, 0, 127]),
    (pa.int16(), [-(2**15), 2**15 - 1]),
    (pa.int32(), [-(2**31), 2**31 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.float32(), [0.1, math.inf]),
    (pa.float64(), [math.nan, 1.0, -math.inf, 5e-324, 0.0]),
    (pa.decimal128(38, 18), [decimal.Decimal("0E-18"), decimal.Decimal("12345678901234567890.000000000000000001")]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)]),
    (pa.timestamp("us", tz="UTC"), [AT, AT.replace(microsecond=891_235), datetime.datetime(1, 1, 1, tzinfo=UTC)]),
    (pa.timestamp("us"), [AT.replace(tzinfo=None), AT.replace(tzinfo=None, microsecond=891_235)]),
    (pa.list_(pa.string()), [[], [None], ["a"], ["a", None], ["", "a"]]),
    (pa.list_(pa.float64()), [[0.0], [-0.0], [math.nan], [None]]),
    (pa.struct([("a", pa.string()), ("b", pa.float64())]), [{"a": a, "b": b} for a in ("x", None) for b in (1.0, None)]),
    (pa.list_(pa.struct([("l", pa.list_(pa.int32()))])), [[{"l": [1]}], [{"l": [None]}], [{"l": None}], [None], []]),
]
MAPS = [(pa.map_(pa.string(), pa.float64()), [[("a", 1.0), ("b", None)], [], None])]


class TestValues:
    @pytest.mark.parametrize(("kind", "values"), [*VALUES, *MAPS], ids=str)
    def test_they_are_what_they_were(self, tmp_path, kind, values):
        schema = pa.schema([("v", kind), ("n", pa.int64())])
        rows = [(value, number) for number, value in enumerate([*values, None])]
        delta(tmp_path).write_batch(Rows(*rows, schema=schema), BatchInfo("q", 0))
        found = table_of(tmp_path).to_pyarrow_table().sort_by("n").to_pylist()
        assert repr([(row["v"], row["n"]) for row in found]) == repr(as_read(rows, schema))

    @pytest.mark.parametrize(("kind", "values"), VALUES, ids=str)
    def test_as_keys(self, tmp_path, kind, values):
        """Each in a micro-batch, and so in a file, of its own, and then all of them once more."""
        schema = pa.schema([("v", kind), ("n", pa.int64())])
        sink = delta(tmp_path, Upsert(("v",)))
        for number, value in enumerate(values):
            sink.write_batch(Rows((value, number), schema=schema), BatchInfo("q", number))
        sink.write_batch(Rows(*((value, 100) for value in values), schema=schema), BatchInfo("q", 100))
        found = table_of(tmp_path).to_pyarrow_table().to_pylist()
        assert [row["n"] for row in found] == [100] * len(values)

    @pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
    def test_zeros_and_nans_as_keys(self, tmp_path, kind):
        schema = pa.schema([("v", kind), ("n", pa.int64())])
        for number, value in enumerate([0.0, -0.0, math.nan, -math.nan, -0.0]):
            delta(tmp_path, Upsert(("v",))).write_batch(Rows((value, number), schema=schema), BatchInfo("q", number))
        found = table_of(tmp_path).to_pyarrow_table().to_pylist()
        assert sorted((repr(row["v"]), row["n"]) for row in found) == [("0.0", 4), ("nan", 3)]

    @pytest.mark.parametrize(
        ("kind", "said"),
        [
            (pa.duration("us"), "'v' has the type interval day to second"),
            (pa.null(), "'v' has the type void"),
            (pa.struct([]), "a struct without fields cannot be in a Delta table"),
            (pa.list_(pa.struct([("d", pa.duration("us"))])), "interval day to second cannot be in a Delta table"),
            (pa.map_(pa.string(), pa.null()), "void cannot be in a Delta table"),
        ],
        ids=str,
    )
    def test_types_that_delta_has_not(self, tmp_path, kind, said):
        schema = pa.schema([("v", kind), ("n", pa.int64())])
        with pytest.raises(hf.InvalidStep) as refused:
            delta(tmp_path).write_batch(Rows(schema=schema), BatchInfo("q", 0))
        [problem] = refused.value.problems
        assert said in problem
        assert not (tmp_path / "rows").exists()

    def test_types_of_spark_that_not_even_arrow_has(self, tmp_path):
        schema = t.StructType(
            [t.StructField("v", t.VariantType()), t.StructField("y", t.YearMonthIntervalType()), SPARK_SCHEMA["n"]]
        )
        with pytest.raises(hf.InvalidStep) as refused:
            delta(tmp_path).open(None, schema, None)
        assert [re.search("type (.*), which", problem)[1] for problem in refused.value.problems] == [
            "variant",
            "interval year to month",
        ]


def as_read(rows, schema):
    """Rows as PyArrow gives them back from a table that was not written."""
    held = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    return [tuple(row.values()) for row in held.to_pylist()]


class TestFits:
    @pytest.mark.parametrize(
        ("columns", "said"),
        [
            ({"k": "string"}, "The table has no column 'n'."),
            ({"k": "string", "n": "long", "more": "date"}, "The rows have no column 'more'."),
            ({"k": "string", "n": "integer"}, "The column 'n' is long in the rows, and integer in the table."),
            ({"k": "binary", "n": "double"}, "'n' is long in the rows, and double"),
        ],
    )
    def test_a_table_that_does_not(self, tmp_path, columns, said):
        fields = [deltalake.Field(name, kind) for name, kind in columns.items()]
        deltalake.DeltaTable.create(tmp_path / "rows", deltalake.Schema(fields))
        for call in (
            lambda sink: sink.open(None, SPARK_SCHEMA, None),
            lambda sink: sink.write_batch(Rows(("a", 1)), BatchInfo("q", 0)),
        ):
            with pytest.raises(hf.SinkError, match="does not fit the rows") as refused:
                call(delta(tmp_path))
            assert said in refused.value.detail
        assert read(tmp_path) == []

    @pytest.mark.parametrize(
        ("rows", "table", "fits"),
        [
            (pa.list_(pa.int32()), pa.list_(pa.field("x", pa.int32(), False)), False),
            (pa.list_(pa.field("x", pa.int32(), False)), pa.list_(pa.int32()), True),
            (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64())]), False),
            (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int32()), ("b", pa.int32())]), False),
            (pa.struct([("a", pa.int32())]), pa.struct([pa.field("a", pa.int32(), False)]), False),
            (pa.struct([("a", pa.int32())]), pa.int32(), False),
            (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), False),
            (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), False),
            (pa.decimal128(10, 2), pa.decimal128(12, 2), False),
            (pa.large_string(), pa.string(), True),
        ],
        ids=str,
    )
    def test_types_within_types(self, tmp_path, rows, table, fits):
        deltalake.DeltaTable.create(tmp_path / "rows", pa.schema([("k", pa.string()), ("v", table)]))
        write = lambda: delta(tmp_path).write_batch(  # noqa: E731
            Rows(("a", None), schema=pa.schema([("k", pa.string()), ("v", rows)])), BatchInfo("q", 0)
        )
        if fits:
            write()
            assert read(tmp_path) == [("a", None)]
        else:
            with pytest.raises(hf.SinkError, match="does not fit"):
                write()

    def test_columns_in_another_order(self, tmp_path, key):
        deltalake.DeltaTable.create(tmp_path / "rows", pa.schema([("n", pa.int64()), ("k", pa.string())]))
        delta(tmp_path, key).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        assert read(tmp_path) == [(1, "a")]

    def test_a_column_that_must_have_a_value(self, tmp_path, key):
        deltalake.DeltaTable.create(tmp_path / "rows", pa.schema([("k", pa.string()), pa.field("n", pa.int64(), False)]))
        delta(tmp_path, key).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        with pytest.raises(hf.SinkError, match="no value in the column 'n', which must have one"):
            delta(tmp_path, key).write_batch(Rows(("b", None)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 1)]

    def test_a_rule_of_the_table(self, tmp_path, key):
        delta(tmp_path, key).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        table_of(tmp_path).alter.add_constraint({"small": "n < 10"})
        with pytest.raises(hf.SinkError, match="could not be written"):
            delta(tmp_path, key).write_batch(Rows(("a", 11)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 1)]

    def test_nothing_but_a_table_is_there(self, tmp_path):
        (tmp_path / "rows").mkdir()
        delta(tmp_path).open(None, SPARK_SCHEMA, None)
        (tmp_path / "files" / "rows").mkdir(parents=True)
        (tmp_path / "files" / "rows" / "part-0.parquet").touch()
        (tmp_path / "file").mkdir()
        (tmp_path / "file" / "rows").touch()
        for folder, said in (("files", "with files of something else"), ("file", "is a file")):
            with pytest.raises(hf.SinkError, match=said):
                delta(tmp_path / folder).open(None, SPARK_SCHEMA, None)


class TestPartitions:
    def test_a_table_is_partitioned(self, tmp_path, key):
        sink = delta(tmp_path, None if key is None else Upsert(("k", "n")), partition_by="n")
        sink.open(None, SPARK_SCHEMA, None)
        for number in range(2):
            sink.write_batch(Rows(("a", 1), ("b", 2), ("c", None if key is None else 3)), BatchInfo("q", number))
        names = {"n=1", "n=2", "n=__HIVE_DEFAULT_PARTITION__" if key is None else "n=3"}
        assert {path.name for path in (tmp_path / "rows").iterdir()} == {*names, "_delta_log"}
        assert len(table_of(tmp_path).to_pyarrow_table()) == (6 if key is None else 3)
        with pytest.raises(hf.SinkError, match="does not fit") as refused:
            delta(tmp_path, sink._upsert, partition_by=["k"]).open(None, SPARK_SCHEMA, "q")
        assert refused.value.detail == "It is partitioned by n, not by k."

    @pytest.mark.parametrize(
        ("kind", "values"),
        [
            (pa.string(), ["a", "A", "a/b", "%20", "é", "'", "\\", "\n", " ", "__HIVE_DEFAULT_PARTITION__", "null"]),
            (pa.int8(), [-128, 127]),
            (pa.int16(), [-(2**15), 7]),
            (pa.int32(), [-(2**31), 7]),
            (pa.int64(), [-(2**63), 0, 7]),
            (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2024, 2, 29)]),
            (pa.timestamp("us", tz="UTC"), [AT, AT.replace(microsecond=0), AT.replace(year=4)]),
            (pa.timestamp("us"), [AT.replace(tzinfo=None)]),
            (pa.bool_(), [True, False]),
        ],
        ids=str,
    )
    def test_values_survive_as_texts(self, tmp_path, kind, values):
        schema = pa.schema([("v", kind), ("n", pa.int64())])
        for number in range(2):
            delta(tmp_path, Upsert(("v",)), partition_by="v").write_batch(
                Rows(*((value, number) for value in values), schema=schema), BatchInfo("q", number)
            )
        found = table_of(tmp_path).to_pyarrow_table(columns=["v", "n"]).to_pylist()
        assert sorted((repr(row["v"]), row["n"]) for row in found) == sorted(
            (repr(value), n) for value, n in as_read([(value, 1) for value in values], schema)
        )

    @pytest.mark.parametrize("partition_by", [7, None, [7], {"k"}])
    def test_what_names_no_column(self, tmp_path, partition_by):
        with pytest.raises(hf.InvalidStep, match="partition_by is"):
            delta(tmp_path, partition_by=partition_by)

    def test_a_row_moves_to_another_partition(self, tmp_path):
        for number in range(2):
            delta(tmp_path, BY_K, partition_by="n").write_batch(Rows(("a", number)), BatchInfo("q", number))
        assert read(tmp_path) == [("a", 1)]

    def test_an_empty_text_would_become_null(self, tmp_path, key):
        with pytest.raises(hf.SinkError, match="empty text in the column 'k'"):
            delta(tmp_path, key, partition_by="k").write_batch(Rows(("", 1), ("a", 1)), BatchInfo("q", 0))
        assert read(tmp_path) == []

    @pytest.mark.parametrize(
        ("partition_by", "said"),
        [
            ("gone", "no column 'gone' to partition by; the columns are k, n, v, d"),
            ("v", "cannot be partitioned by 'v', of the type double"),
            ("d", "cannot be partitioned by 'd', of the type decimal(5,2)"),
            (["k", "n", "v", "d"], "no column beside those in partition_by"),
        ],
    )
    def test_what_rows_cannot_be_partitioned_by(self, tmp_path, partition_by, said):
        schema = t.StructType(
            [*SPARK_SCHEMA.fields, t.StructField("v", t.DoubleType()), t.StructField("d", t.DecimalType(5, 2))]
        )
        with pytest.raises(hf.InvalidStep) as refused:
            delta(tmp_path, partition_by=partition_by).open(None, schema, None)
        assert said in "\n".join(refused.value.problems)
