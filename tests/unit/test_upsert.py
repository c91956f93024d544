"""Upserting: which keys and sinks are refused, and what `Sqlite` makes sure of in a database. Without Spark."""

from __future__ import annotations

import datetime
import decimal
import re
import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import types as t

import holdfast as hf
from holdfast.spark.sinks import BatchInfo, Upsert
from holdfast.spark.sinks.modes import in_mode

BY_K = Upsert(("k",))
ROWS = t.StructType(
    [
        t.StructField("k", t.StringType()),
        t.StructField("window", t.StructType([t.StructField("start", t.TimestampType())])),
        t.StructField("tags", t.ArrayType(t.StringType())),
        t.StructField("named", t.MapType(t.StringType(), t.LongType())),
        t.StructField("deep", t.ArrayType(t.StructType([t.StructField("m", t.MapType(t.StringType(), t.LongType()))]))),
        t.StructField("nothing", t.NullType()),
        t.StructField("any", t.VariantType()),
        t.StructField("twice", t.LongType()),
        t.StructField("twice", t.LongType()),
    ]
)


class Rows:
    """What a sink needs of a DataFrame."""

    def __init__(self, *rows, names=("k", "n"), kinds=(pa.string(), pa.int64())):
        self._columns = [[row[place] for row in rows] for place in range(len(names))]
        self._schema = pa.schema(list(zip(names, kinds, strict=True)))

    def toArrow(self):
        return pa.table(self._columns, schema=self._schema)

    def collect(self):
        return [Row(**row) for row in self.toArrow().to_pylist()]


class Columns:
    """What a sink needs of a DataFrame, from Arrow's columns."""

    def __init__(self, **columns):
        self._table = pa.table(columns)

    def toArrow(self):
        return self._table


class OldSink(hf.sinks.Sink):
    """As a user wrote it before there was `upserting`."""

    def open(self, spark, schema, query_id):
        pass

    def write_batch(self, rows, info):
        pass


def problems_of(key, mode="upsert", sink=None, schema=ROWS):
    return in_mode(sink or hf.sinks.Collect(), schema, mode, key)[1]


class TestKeys:
    @pytest.mark.parametrize("key", ["k", ["k"], ("k", "window"), ["tags", "window", "k"]])
    def test_one_column_or_several(self, key):
        assert problems_of(key) == []

    @pytest.mark.parametrize(
        ("key", "said"),
        [
            (None, "give the columns of the key"),
            ([], "give the columns of the key"),
            (7, "key is 7"),
            ([7], r"key is \[7\]"),
            ({"k"}, "give the name of a column, or a list of names"),
            ("K", "no column 'K' for the key; the columns are k, window"),
            (["k", "k"], "'k' twice"),
            ("named", "type map<string,bigint>, which cannot be compared"),
            ("deep", "which cannot be compared"),
            ("nothing", "void, which cannot be compared"),
            ("any", "variant, which cannot be compared"),
            ("twice", "Two columns have the name 'twice'"),
        ],
    )
    def test_keys_that_are_none(self, key, said):
        [problem] = problems_of(key)
        assert_says(problem, said)

    def test_a_key_without_upsert_and_a_mode_that_there_is_not(self):
        assert problems_of("k", mode="append") == ["A key is for mode='upsert': give both, or neither."]
        assert problems_of("k", mode="update") == ["mode is 'update'; it is 'append' or 'upsert'."]
        assert problems_of(None, mode="append") == []

    def test_all_problems_are_told_together(self, tmp_path):
        problems = problems_of(["gone", "named", "k", "k"], sink=hf.sinks.Parquet(tmp_path / "rows"))
        assert len(problems) == 4
        assert_says(problems[-1], "cannot upsert")

    @pytest.mark.parametrize(
        ("sink", "said"),
        [
            (hf.sinks.Parquet("/rows"), "Parquet.* cannot upsert: a Parquet file is never changed"),
            (hf.sinks.ForeachBatch(lambda rows, batch: None), "its function decides"),
            (OldSink(), "OldSink cannot upsert"),
        ],
    )
    def test_sinks_that_cannot(self, sink, said):
        [problem] = problems_of("k", sink=sink)
        assert_says(problem, said)
        assert problems_of(None, mode="append", sink=sink) == []

    def test_a_sink_that_can_stays_as_it_was(self, tmp_path):
        sink = hf.sinks.Sqlite(tmp_path / "rows.db", "counts")
        upserting, _ = in_mode(sink, ROWS, "upsert", "k")
        assert upserting is not sink
        assert upserting.place == sink.place
        sink.write_batch(Rows(("a", 1), ("a", 2)), BatchInfo("q", 0))
        assert read(tmp_path) == [("a", 1), ("a", 2)]


def assert_says(text, pattern):
    assert re.search(pattern, text), text


class TestSlots:
    def test_the_two_hours_when_clocks_are_set_back_are_two_keys(self):
        first = datetime.datetime(2024, 10, 27, 2, 30)
        assert BY_K.slot([first]) != BY_K.slot([first.replace(fold=1)])

    def test_values_from_arrow_and_from_rows(self):
        assert BY_K.slot([bytearray(b"x")]) == BY_K.slot([b"x"])
        assert BY_K.slot([Row(a=1, b=[None])]) == BY_K.slot([{"a": 1, "b": [None]}])
        assert BY_K.slot([[0.0]]) != BY_K.slot([[-0.0]])

    def test_a_row_without_a_key(self):
        with pytest.raises(hf.SinkError, match="no value in the key column 'b'") as refused:
            Upsert(("a", "b")).slot([1, None])
        assert "a=1, b=None" in refused.value.detail


def sqlite(folder, key=BY_K, **options):
    sink = hf.sinks.Sqlite(folder / "rows.db", "counts", **options)
    return sink if key is None else sink.upserting(key)


def read(folder, table="counts"):
    with closing(sqlite3.connect(folder / "rows.db")) as database:
        return sorted(database.execute(f"SELECT * FROM {table}").fetchall())


def execute(folder, *statements):
    with closing(sqlite3.connect(folder / "rows.db")) as database, database:
        for statement in statements:
            database.execute(statement)


class TestSqlite:
    def test_the_key_is_unique_in_the_table(self, tmp_path):
        sqlite(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        for statement in ("INSERT INTO counts VALUES ('a', 2)", "INSERT INTO counts VALUES (NULL, 2)"):
            with pytest.raises(sqlite3.IntegrityError):
                execute(tmp_path, statement)

    def test_the_last_row_of_a_key_wins_and_a_replay_changes_nothing(self, tmp_path):
        sqlite(tmp_path).write_batch(Rows(("a", 1), ("b", 2), ("a", 3)), BatchInfo("q", 0, "p"))
        assert read(tmp_path) == [("a", 3), ("b", 2)]
        sqlite(tmp_path).write_batch(Rows(("a", None)), BatchInfo("q", 1, "p1"))
        for _ in range(2):
            sqlite(tmp_path).write_batch(Rows(("a", None)), BatchInfo("q", 1, "p1"))
        assert read(tmp_path) == [("a", None), ("b", 2)]

    def test_rows_that_are_all_key(self, tmp_path):
        both = Upsert(("n", "k"))
        sqlite(tmp_path, both).write_batch(Rows(("a", 1), ("a", 1), ("a", 2)), BatchInfo("q", 0))
        assert read(tmp_path) == [("a", 1), ("a", 2)]

    def test_a_table_with_the_name_of_the_rows_that_come(self, tmp_path):
        """SQLite would take `excluded` for the table, and leave the old row."""
        sink = hf.sinks.Sqlite(tmp_path / "rows.db", "Excluded").upserting(BY_K)
        for batch in range(2):
            sink.write_batch(Rows(("a", batch)), BatchInfo("q", batch))
        assert read(tmp_path, "excluded") == [("a", 1)]

    @pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()], ids=str)
    @pytest.mark.parametrize("upsert", [None, BY_K])
    def test_times_that_python_has_not(self, tmp_path, kind, upsert):
        number = 3_000_000 if kind == pa.date32() else 2**62
        far = pa.array([number], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
        for column, said in (
            (far, "A time in the column 'k' is not within"),
            (pa.array([[far[0]]]), "cannot be written as"),
        ):
            with pytest.raises(hf.SinkError, match=said):
                sqlite(tmp_path, upsert if column is far else None).write_batch(Columns(k=column), BatchInfo("q", 0))

    def test_whole_numbers_as_key(self, tmp_path):
        """SQLite makes such a primary key the rowid."""
        for batch in range(2):
            sqlite(tmp_path, Upsert(("n",))).write_batch(Rows((f"v{batch}", -(2**63)), ("x", 7)), BatchInfo("q", batch))
        assert read(tmp_path) == [("v1", -(2**63)), ("x", 7)]

    def test_a_row_without_a_key_leaves_all_as_it_was(self, tmp_path):
        sqlite(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        with pytest.raises(hf.SinkError, match="no value in the key column 'k'"):
            sqlite(tmp_path).write_batch(Rows(("a", 2), (None, 3)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 1)]
        assert len(read(tmp_path, "holdfast_batches")) == 1

    def test_appending_and_upserting_do_not_mix(self, tmp_path):
        sqlite(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        for query in ("q", "another"):
            with pytest.raises(hf.SinkError, match="is upserted by the key k; rows cannot be appended"):
                sqlite(tmp_path, None).write_batch(Rows(("b", 1)), BatchInfo(query, 1))
        with pytest.raises(hf.SinkError, match="is upserted by the key k, not by k, n"):
            sqlite(tmp_path, Upsert(("k", "n"))).write_batch(Rows(("b", 1)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 1)]

    @pytest.mark.parametrize("query", ["q", "another"])
    def test_rows_that_were_appended(self, tmp_path, query):
        execute(tmp_path, "CREATE TABLE counts (k TEXT UNIQUE, n INTEGER)")
        sqlite(tmp_path, None).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        with pytest.raises(hf.SinkError, match="has rows that were appended") as refused:
            sqlite(tmp_path).write_batch(Rows(("a", 2)), BatchInfo(query, 1))
        assert refused.value.todo == "give another table, or drop this one"
        assert read(tmp_path) == [("a", 1)]

    def test_a_table_that_was_dropped_is_a_new_one(self, tmp_path):
        sqlite(tmp_path, None).write_batch(Rows(("a", 1)), BatchInfo("q", 0, "p"))
        execute(tmp_path, "DROP TABLE counts")
        sqlite(tmp_path).write_batch(Rows(("a", 2), ("a", 3)), BatchInfo("q", 0, "p"))
        assert read(tmp_path) == [("a", 3)]
        execute(tmp_path, "DROP TABLE counts")
        sqlite(tmp_path, None).write_batch(Rows(("a", 4), ("a", 5)), BatchInfo("q", 1, "p"))
        assert read(tmp_path) == [("a", 4), ("a", 5)]

    @pytest.mark.parametrize(
        "declared",
        [
            "(k TEXT PRIMARY KEY, n INTEGER)",
            "(K VARCHAR(9) UNIQUE, n INTEGER)",
            "(n BIGINT UNIQUE, k TEXT, UNIQUE (k))",
            "(k, n, PRIMARY KEY (k))",
            "(k TEXT, n INTEGER, PRIMARY KEY (k)) WITHOUT ROWID",
        ],
    )
    def test_a_table_that_is_there_and_keeps_the_key_unique(self, tmp_path, declared):
        execute(tmp_path, f"CREATE TABLE counts {declared}", "INSERT INTO counts (k, n) VALUES ('a', 1), ('z', 26)")
        sqlite(tmp_path).write_batch(Rows(("a", 2), ("b", 3)), BatchInfo("q", 0))
        with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
            assert database.execute("SELECT k, n FROM counts ORDER BY k").fetchall() == [("a", 2), ("b", 3), ("z", 26)]

    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE TABLE counts (k TEXT, n INTEGER)"],
            ["CREATE TABLE counts (k TEXT, n INTEGER PRIMARY KEY)"],
            ["CREATE TABLE counts (k TEXT, n INTEGER, PRIMARY KEY (k, n))"],
            ["CREATE TABLE counts (k TEXT COLLATE NOCASE PRIMARY KEY, n INTEGER)"],
            ["CREATE TABLE counts (k TEXT, n INTEGER)", "CREATE INDEX i ON counts (k)"],
            ["CREATE TABLE counts (k TEXT, n INTEGER)", "CREATE UNIQUE INDEX i ON counts (k) WHERE n > 0"],
            ["CREATE TABLE counts (k TEXT, n INTEGER)", "CREATE UNIQUE INDEX i ON counts (lower(k))"],
        ],
    )
    def test_a_table_in_which_a_key_could_be_twice(self, tmp_path, statements):
        execute(tmp_path, *statements)
        with pytest.raises(hf.SinkError, match="does not keep the key k unique") as refused:
            sqlite(tmp_path).write_batch(Rows(("a", 2)), BatchInfo("q", 0))
        suggested = refused.value.todo.removeprefix("create one: ").partition(";")[0]
        execute(tmp_path, suggested)

    def test_types_that_would_make_two_keys_one(self, tmp_path):
        execute(tmp_path, "CREATE TABLE counts (k NUMERIC PRIMARY KEY, n INTEGER)")
        with pytest.raises(hf.SinkError, match="could make two keys one"):
            sqlite(tmp_path).write_batch(Rows(("1", 1), ("1.0", 2)), BatchInfo("q", 0))

    def test_another_constraint_of_the_table_stays_one(self, tmp_path):
        """Upserting removes no row of another key."""
        execute(tmp_path, "CREATE TABLE counts (k TEXT PRIMARY KEY, n INTEGER UNIQUE)")
        sqlite(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0))
        with pytest.raises(hf.SinkError, match="UNIQUE constraint failed"):
            sqlite(tmp_path).write_batch(Rows(("c", 3), ("b", 1)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 1)]


class TestWhoseItIs:
    def test_a_stranger_is_refused_or_begins_with_nothing(self, tmp_path):
        sqlite(tmp_path).write_batch(Rows(("a", 1), ("b", 2)), BatchInfo("first", 0))
        for query in (None, "second"):
            with pytest.raises(hf.SinkError, match="has the rows of the query first"):
                sqlite(tmp_path).open(None, t.StructType([ROWS["k"], t.StructField("n", t.LongType())]), query)
        with pytest.raises(hf.SinkError, match="has the rows of the query first") as refused:
            sqlite(tmp_path).write_batch(Rows(("a", 0)), BatchInfo("second", 0))
        assert "all rows of the table may be deleted" in refused.value.todo
        assert read(tmp_path) == [("a", 1), ("b", 2)]
        taking = sqlite(tmp_path, take_over=True)
        for batch, n in enumerate((0, 5)):
            taking.write_batch(Rows(("a", n)), BatchInfo("second", batch))
        assert read(tmp_path) == [("a", 5)]
        with pytest.raises(hf.SinkError, match="has the rows of the query second"):
            sqlite(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("first", 1))

    def test_a_checkpoint_that_was_taken_back(self, tmp_path):
        """What was replaced is gone, so the table goes on as it is, but only if that is asked for."""
        for batch in range(3):
            sqlite(tmp_path).write_batch(Rows(("a", batch), (f"only {batch}", batch)), BatchInfo("q", batch, f"p{batch}"))
        before = read(tmp_path)
        with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 1") as refused:
            sqlite(tmp_path).write_batch(Rows(("a", 10)), BatchInfo("q", 1, "another"))
        assert "goes on with the rows as they are" in refused.value.todo
        assert read(tmp_path) == before
        for _ in range(2):
            sqlite(tmp_path, take_over=True).write_batch(Rows(("a", 10)), BatchInfo("q", 1, "another"))
        assert read(tmp_path) == [("a", 10), ("only 0", 0), ("only 1", 1), ("only 2", 2)]
        sqlite(tmp_path).write_batch(Rows(("only 2", 20)), BatchInfo("q", 2, "p2 anew"))
        assert read(tmp_path) == [("a", 10), ("only 0", 0), ("only 1", 1), ("only 2", 20)]

    def test_only_the_first_micro_batch_takes_over(self, tmp_path):
        """A driver that is long replaced, and comes back, must not delete what its successor has."""
        first, second = (sqlite(tmp_path, take_over=True) for _ in range(2))
        first.write_batch(Rows(("a", 1)), BatchInfo("first", 0))
        second.write_batch(Rows(("b", 1)), BatchInfo("second", 0))
        with pytest.raises(hf.SinkError, match="has the rows of the query second"):
            first.write_batch(Rows(("a", 2)), BatchInfo("first", 1))
        assert read(tmp_path) == [("b", 1)]

    def test_a_list_does_not_mix_either(self):
        sink = hf.sinks.Collect()
        upserting = sink.upserting(BY_K)
        upserting.write_batch(Rows(("a", 1), ("a", 2)), BatchInfo("q", 0))
        assert [tuple(row) for row in sink.rows] == [("a", 2)]
        for other in (sink, sink.upserting(Upsert(("n",)))):
            with pytest.raises(hf.SinkError, match="has rows that were upserted by k"):
                other.write_batch(Rows(("a", 3)), BatchInfo("q", 1))
        with pytest.raises(hf.SinkError, match="rows of another query"):
            upserting.open(None, ROWS, None)
        with pytest.raises(hf.SinkError, match="no value in the key"):
            upserting.write_batch(Rows(("a", 3), (None, 4)), BatchInfo("q", 1))
        assert [tuple(row) for row in sink.rows] == [("a", 2)]


class TestTwoJobsOfOneQuery:
    """A savepoint was restored with its query id, and has taken over the table, while the job that it is of goes on."""

    @pytest.fixture(params=[None, BY_K], ids=["append", "upsert"])
    def upsert(self, request):
        return request.param

    @pytest.fixture
    def sinks(self, tmp_path, upsert):
        """The one of the job that goes on, and the one of the restored job, which has taken over from micro-batch 1 on."""
        old, new = sqlite(tmp_path, upsert), sqlite(tmp_path, upsert, take_over=True)
        for sink, number, name in ((old, 0, "p"), (old, 1, "p"), (old, 2, "p"), (new, 1, "anew "), (new, 2, "anew ")):
            self.write(sink, number, name)
        return old, new

    @staticmethod
    def write(sink, number, name):
        sink.write_batch(
            Rows((f"{name}{number}", number)),
            BatchInfo("q", number, f"{name}{number}", lambda n: "p0" if n == 0 else f"{name}{n}"),
        )

    def test_the_old_one_is_told(self, tmp_path, upsert, sinks):
        before = read(tmp_path)
        for old in (sinks[0], sqlite(tmp_path, upsert), sqlite(tmp_path, upsert, take_over=True)):
            with pytest.raises(hf.SinkError, match="has micro-batch 2 of another job with the same query id; 3 of this one"):
                self.write(old, 3, "p")
        assert read(tmp_path) == before
        self.write(sinks[1], 3, "anew ")
        assert ("anew 3", 3) in read(tmp_path)

    def test_one_that_has_begun_does_not_take_over_again(self, tmp_path, upsert, sinks):
        """Neither when it goes on nor when it is started again after a failure."""
        late = sqlite(tmp_path, upsert, take_over=True)
        self.write(late, 3, "anew ")
        self.write(sqlite(tmp_path, upsert), 4, "anew ")
        before = read(tmp_path)
        for _ in range(2):
            with pytest.raises(hf.SinkError, match="micro-batches up to 4") as refused:
                self.write(late, 4, "late ")
            assert "make a new sink" in refused.value.todo
            late.open(None, t.StructType([ROWS["k"], t.StructField("n", t.LongType())]), "q")
        assert read(tmp_path) == before

    def test_one_whose_rows_are_gone_although_the_last_one_is_its_own(self, tmp_path):
        """The savepoint had micro-batch 1 as planned: the restored job writes it as the old one did, and no more."""
        for number in range(4):
            self.write(sqlite(tmp_path, None), number, "p")
        info = BatchInfo("q", 1, "p1", lambda n: {0: "p0", 1: "p1"}.get(n, ""))
        sqlite(tmp_path, None, take_over=True).write_batch(Rows(("p1", 1)), info)
        assert read(tmp_path) == [("p0", 0), ("p1", 1)]
        for number, take_over in ((4, False), (4, True), (3, False)):
            with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id"):
                self.write(sqlite(tmp_path, None, take_over=take_over), number, "p")
        self.write(sqlite(tmp_path, None), 2, "p")
        assert read(tmp_path) == [("p0", 0), ("p1", 1), ("p2", 2)]

    def test_one_below_whose_next_micro_batch_are_rows_of_another(self, tmp_path, upsert):
        """Its checkpoint was restored after micro-batch 0, and rescaled, which took the number 1."""
        for number in range(4):
            self.write(sqlite(tmp_path, upsert), number, "p")
        before = read(tmp_path)
        with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id; 2 of this"):
            self.write(sqlite(tmp_path, upsert, take_over=True), 2, "anew ")
        assert read(tmp_path) == before


@pytest.mark.parametrize("name", ["rowid", "OID", "_rowid_"])
def test_a_column_with_the_name_of_the_number_of_rows(tmp_path, name):
    """By which rows of others would be removed."""
    for query in ("other", "q"):
        for number in range(2):
            sink = sqlite(tmp_path, None)
            sink.write_batch(Rows((query, number + 1), names=("k", name)), BatchInfo(query, number, f"p{number}"))
    sqlite(tmp_path, None, take_over=True).write_batch(Rows(("q", 9), names=("k", name)), BatchInfo("q", 1, "anew"))
    assert read(tmp_path) == [("other", 1), ("other", 2), ("q", 1), ("q", 9)]


CONVERTED = {
    ("INTEGER", pa.string()): "007",
    ("NUMERIC", pa.string()): "1e3",
    ("REAL", pa.int64()): 2**53 + 1,
    ("TEXT", pa.int64()): 7,
    ("TEXT", pa.float64()): 0.1,
    ("DECIMAL(3, 2)", pa.decimal128(3, 2)): decimal.Decimal("1.50"),
    ("INTEGER", pa.duration("us")): datetime.timedelta(seconds=7),
}
KEPT = {
    ("", pa.string()): "007",
    ("BLOB", pa.float64()): 0.1,
    ("NUMERIC", pa.float64()): 0.1,
    ("INTEGER", pa.float64()): 1e300,
    ("VARCHAR(9)", pa.decimal128(3, 2)): decimal.Decimal("1.50"),
    ("BOOLEAN", pa.bool_()): True,
    ("DOUBLE", pa.float64()): 7.0,
    ("INTEGER", pa.binary()): b"7",
    ("TIMESTAMP", pa.timestamp("us")): datetime.datetime(2024, 2, 29),
    ("DATE", pa.date32()): datetime.date(2024, 2, 29),
    ("JSON", pa.list_(pa.int64())): [7],
}


class TestColumnsThatAreThere:
    """SQLite makes numbers of texts, and texts of numbers, as the type of a column suggests."""

    @pytest.mark.parametrize(("declared", "kind"), list(CONVERTED), ids=str)
    @pytest.mark.parametrize("upsert", [None, BY_K])
    def test_types_that_change_values(self, tmp_path, declared, kind, upsert):
        execute(tmp_path, f"CREATE TABLE counts (k TEXT PRIMARY KEY, v {declared})")
        rows = Columns(k=pa.array(["a"]), v=pa.array([CONVERTED[declared, kind]], kind))
        with pytest.raises(hf.SinkError, match="would convert values of the rows") as refused:
            sqlite(tmp_path, upsert).write_batch(rows, BatchInfo("q", 0))
        assert f"v is {declared}; the rows have " in refused.value.detail
        assert read(tmp_path) == []

    @pytest.mark.parametrize(("declared", "kind"), list(KEPT), ids=str)
    def test_types_that_do_not(self, tmp_path, declared, kind):
        execute(tmp_path, f"CREATE TABLE counts (v {declared})")
        rows = Columns(v=pa.array([KEPT[declared, kind]], kind))
        sqlite(tmp_path, None).write_batch(rows, BatchInfo("q", 0))
        hf.sinks.Sqlite(tmp_path / "rows.db", "own").write_batch(rows, BatchInfo("q", 0))
        assert repr(read(tmp_path)) == repr(read(tmp_path, "own"))
