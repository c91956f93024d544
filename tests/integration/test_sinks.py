"""Sinks: whose micro-batch it is, what is there already, and that nothing is lost, doubled or altered."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.ops import savepoint_create, savepoint_restore
from holdfast.spark.sinks import BatchInfo, plan_of, stored_query_id
from holdfast.spark.sinks.plans import plan_digest
from integration.functions import Count

UTC = datetime.timezone.utc
SCHEMA = "k string, n int"


def frame(spark, *rows, schema=SCHEMA):
    return spark.createDataFrame(list(rows), schema)


def table_rows(path, table="counts"):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()


class Place:
    """A sink with what has come into it."""

    def __init__(self, spark, folder, kind):
        self._spark = spark
        self.kind = kind
        self.path = str(folder / ("rows.db" if kind == "sqlite" else "rows"))

    def sink(self, **options):
        if self.kind == "sqlite":
            return hf.sinks.Sqlite(self.path, "counts", **options)
        return hf.sinks.Parquet(self.path, **options)

    def rows(self):
        if self.kind == "sqlite":
            return sorted(table_rows(self.path))
        return sorted((row.k, row.n) for row in self._spark.read.parquet(self.path).collect())


@pytest.fixture(params=["sqlite", "parquet"])
def place(spark, tmp_path, request):
    return Place(spark, tmp_path, request.param)


class TestWhoseItIs:
    def test_a_replay_changes_nothing(self, spark, place):
        for info in (BatchInfo("q", 0, "p0"), BatchInfo("q", 1, "p1"), BatchInfo("q", 1, "p1")):
            place.sink().write_batch(frame(spark, ("a", info.batch_id)), info)
        assert place.rows() == [("a", 0), ("a", 1)]

    def test_a_checkpoint_that_was_taken_back_is_noticed(self, spark, place):
        """Micro-batches 1 and 2 come anew, with other rows; what was written must not stay, nor be taken for them."""
        for number in range(3):
            place.sink().write_batch(frame(spark, ("old", number)), BatchInfo("q", number, f"plan {number}"))
        again = BatchInfo("q", 1, "another plan")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query") as refused:
            place.sink().write_batch(frame(spark, ("new", 1)), again)
        assert "take_over=True" in refused.value.todo
        assert place.rows() == [("old", 0), ("old", 1), ("old", 2)]
        taking = place.sink(take_over=True)
        taking.write_batch(frame(spark, ("new", 1), ("new", 11)), again)
        assert place.rows() == [("new", 1), ("new", 11), ("old", 0)]
        taking.write_batch(frame(spark, ("new", 2)), BatchInfo("q", 2, "plan 2 anew"))
        place.sink().write_batch(frame(spark, ("new", 3)), BatchInfo("q", 3, "plan 3"))
        assert place.rows() == [("new", 1), ("new", 2), ("new", 3), ("new", 11), ("old", 0)]

    def test_the_job_of_a_restored_savepoint_goes_on_as_well(self, spark, place):
        """Both have the query's id. The restored one has taken over from micro-batch 1 on; the old one is told, whether it
        still runs, is started again, or may take over itself."""

        def write(sink, number, name):
            def planned(number):
                return "p0" if number == 0 else f"{name} {number}"

            sink.write_batch(frame(spark, (name, number)), BatchInfo("q", number, planned(number), planned))

        old, new, unaware = place.sink(), place.sink(take_over=True), place.sink(take_over=True)
        for number in range(3):
            write(old, number, "old")
        for number in (1, 2):
            write(new, number, "new")
        for sink in (old, place.sink(), place.sink(take_over=True)):
            with pytest.raises(hf.SinkError, match="has micro-batch 2 of another job with the same query id; 3 of this one"):
                write(sink, 3, "old")
        with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id; 2 of this one"):
            write(unaware, 2, "old")
        write(new, 3, "new")
        assert place.rows() == [("new", 1), ("new", 2), ("new", 3), ("old", 0)]
        if place.kind == "sqlite":
            return
        write(place.sink(take_over=True), 1, "newer")
        with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id; 4 of this one"):
            write(new, 4, "new")
        assert place.rows() == [("newer", 1), ("old", 0)]

    def test_one_whose_rows_are_gone_although_the_last_one_is_its_own(self, spark, place):
        """The savepoint had micro-batch 1 as planned: the restored job writes it as the old one did, and no more."""
        plans = {number: f"p{number}" for number in range(5)}

        def write(sink, number, known):
            rows = frame(spark, ("old", number))
            sink.write_batch(rows, BatchInfo("q", number, f"p{number}", lambda n: plans[n] if n < known else ""))

        for number in range(4):
            write(place.sink(), number, 5)
        write(place.sink(take_over=True), 1, 2)
        assert place.rows() == [("old", 0), ("old", 1)]
        for number, take_over in ((4, False), (4, True), (3, False)):
            with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id"):
                write(place.sink(take_over=take_over), number, 5)
        write(place.sink(), 2, 3)
        assert place.rows() == [("old", 0), ("old", 1), ("old", 2)]

    def test_a_job_that_runs_beside_one_that_was_rescaled(self, spark, place):
        """The restored one goes on with 2, since the change of partitions took 1."""
        running = place.sink()
        running.write_batch(frame(spark, ("a", 0)), BatchInfo("q", 0, "p0"))
        place.sink().write_batch(frame(spark, ("b", 2)), BatchInfo("q", 2, "p2", lambda n: ["p0", "rescaled", "p2"][n]))
        with pytest.raises(hf.SinkError, match=r"micro-batch 2 of another job|micro-batches up to 2 of this"):
            running.write_batch(frame(spark, ("a", 1)), BatchInfo("q", 1, "p1", lambda n: ["p0", "p1"][n]))
        assert place.rows() == [("a", 0), ("b", 2)]

    def test_only_the_first_micro_batch_takes_over(self, spark, place):
        late, successor = (place.sink(take_over=True) for _ in range(2))

        def write(sink, number):
            sink.write_batch(frame(spark, ("a", number)), BatchInfo("q", number, f"p{number}"))

        write(late, 0)
        for number in (1, 2):
            write(successor, number)
        late.open(spark, frame(spark, ("a", 1)).schema, "q")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2") as refused:
            late.write_batch(frame(spark, ("b", 1)), BatchInfo("q", 1, "late"))
        assert "make a new sink" in refused.value.todo
        assert place.rows() == [("a", 0), ("a", 1), ("a", 2)]

    def test_rows_of_a_later_attempt_are_not_left_out_because_of_the_number(self, spark, place):
        """Taken back by one micro-batch, to where the next was not planned yet: the same number, and other rows."""
        place.sink().write_batch(frame(spark, ("old", 0)), BatchInfo("q", 0, "plan"))
        with_more = frame(spark, ("new", 0), ("new", 1))
        if place.kind == "sqlite":
            with pytest.raises(hf.SinkError, match="another 0 comes next"):
                place.sink().write_batch(with_more, BatchInfo("q", 0, "another"))
        place.sink(take_over=True).write_batch(with_more, BatchInfo("q", 0, "another"))
        assert place.rows() == [("new", 0), ("new", 1)]

    def test_what_an_older_version_has_written_goes_on(self, spark, place):
        place.sink().write_batch(frame(spark, ("a", 0)), BatchInfo("q", 0))
        place.sink().write_batch(frame(spark, ("a", 1)), BatchInfo("q", 1))
        as_of_an_older_version(place)
        place.sink().write_batch(frame(spark, ("a", 1)), BatchInfo("q", 1, "plan"))
        place.sink().write_batch(frame(spark, ("a", 2)), BatchInfo("q", 2, "plan"))
        assert place.rows() == [("a", 0), ("a", 1), ("a", 2)]


def as_of_an_older_version(place):
    if place.kind == "parquet":
        for file in (Path(place.path, "_holdfast.json"), *Path(place.path).glob("batch_id=*/_holdfast_plan")):
            file.unlink()
        return
    with closing(sqlite3.connect(place.path)) as database, database:
        database.execute("ALTER TABLE holdfast_batches RENAME TO newer")
        database.execute(
            "CREATE TABLE holdfast_batches"
            " (sink TEXT, query_id TEXT, batch_id INTEGER, PRIMARY KEY (sink, query_id, batch_id))"
        )
        database.execute("INSERT INTO holdfast_batches SELECT sink, query_id, batch_id FROM newer")
        database.execute("DROP TABLE newer")


class TestParquet:
    def test_a_stranger_is_refused_and_nothing_is_overwritten(self, spark, tmp_path):
        path = str(tmp_path / "rows")
        five = frame(spark, *(("a", n) for n in range(5)))
        hf.sinks.Parquet(path).write_batch(five, BatchInfo("first", 0))
        for number in (0, 1):
            with pytest.raises(hf.SinkError, match="has the rows of the query first") as refused:
                hf.sinks.Parquet(path).write_batch(frame(spark, ("b", 1)), BatchInfo("second", number))
            assert "give another path" in refused.value.todo
        assert spark.read.parquet(path).count() == 5
        hf.sinks.Parquet(path, take_over=True).write_batch(frame(spark, ("b", 1)), BatchInfo("second", 0))
        assert [tuple(row) for row in spark.read.parquet(path).collect()] == [("b", 1, 0)]
        with pytest.raises(hf.SinkError, match="has the rows of the query second"):
            hf.sinks.Parquet(path).write_batch(five, BatchInfo("first", 1))

    def test_it_is_refused_when_the_job_starts(self, spark, tmp_path):
        path = str(tmp_path / "rows")
        rows = frame(spark, ("a", 1))
        hf.sinks.Parquet(path).write_batch(rows, BatchInfo("first", 0))
        for query_id in (None, "second"):
            with pytest.raises(hf.SinkError, match="has the rows of the query first"):
                hf.sinks.Parquet(path).open(spark, rows.schema, query_id)
        hf.sinks.Parquet(path).open(spark, rows.schema, "first")
        assert spark.read.parquet(path).count() == 1

    def test_rows_of_which_nobody_knows_whose_they_are(self, spark, tmp_path):
        """An older version did not say it. A new query begins with 0, and that is there."""
        path = str(tmp_path / "rows")
        frame(spark, ("a", 1)).write.parquet(f"{path}/batch_id=0")
        with pytest.raises(hf.SinkError, match="an unknown query"):
            hf.sinks.Parquet(path).write_batch(frame(spark, ("b", 1)), BatchInfo("q", 0))
        assert spark.read.parquet(path).count() == 1

    def test_a_place_that_nothing_was_written_to_can_be_read(self, spark, tmp_path):
        path = str(tmp_path / "rows")
        rows = frame(spark, ("a", 1))
        sink = hf.sinks.Parquet(path)
        sink.open(spark, rows.schema, None)
        empty = spark.read.parquet(path)
        assert empty.columns == ["k", "n", "batch_id"]
        assert empty.count() == 0
        sink.write_batch(rows.limit(0), BatchInfo("q", 0))
        assert spark.read.parquet(path).columns == ["k", "n", "batch_id"]
        sink.write_batch(rows, BatchInfo("q", 1))
        assert [tuple(row) for row in spark.read.parquet(path).collect()] == [("a", 1, 1)]
        assert not (tmp_path / "rows" / "batch_id=-1").exists()

    def test_what_a_crash_leaves_of_a_micro_batch_is_replaced(self, spark, tmp_path):
        path = tmp_path / "rows"
        rows = frame(spark, *(("a", n) for n in range(4))).repartition(4)
        hf.sinks.Parquet(path).write_batch(rows, BatchInfo("q", 0))
        # Some of the files are in their place, and others are not yet.
        parts = sorted((path / "batch_id=0").glob("part-*.parquet"))
        (path / "batch_id=0" / "_SUCCESS").unlink()
        parts[0].unlink()
        left = path / "batch_id=0" / "_temporary" / "0"
        left.mkdir(parents=True)
        shutil.copy(parts[1], left / "part-00000-left.parquet")
        hf.sinks.Parquet(path).write_batch(rows, BatchInfo("q", 0))
        assert sorted(row.n for row in spark.read.parquet(str(path)).collect()) == [0, 1, 2, 3]

    def test_a_column_that_the_directories_would_hide(self, spark, tmp_path):
        rows = frame(spark, (7,), schema="Batch_ID int")
        with pytest.raises(hf.InvalidStep, match="'Batch_ID'"):
            hf.sinks.Parquet(tmp_path / "rows").write_batch(rows, BatchInfo("q", 0))
        with pytest.raises(hf.InvalidStep, match="'Batch_ID'"):
            hf.sinks.Parquet(tmp_path / "rows").open(spark, rows.schema, None)

    def test_a_damaged_note_of_whose_it_is(self, spark, tmp_path):
        hf.sinks.Parquet(tmp_path / "rows").write_batch(frame(spark, ("a", 1)), BatchInfo("q", 0))
        (tmp_path / "rows" / "_holdfast.json").write_text("{")
        with pytest.raises(hf.SinkError, match="is damaged"):
            hf.sinks.Parquet(tmp_path / "rows").write_batch(frame(spark, ("a", 1)), BatchInfo("q", 1))


class TestSqlite:
    @pytest.mark.parametrize("name", ["holdfast_batches", "Holdfast_Batches", "sqlite_master", "a b", "", 'x"y', None])
    def test_names_that_no_table_can_have(self, tmp_path, name):
        with pytest.raises(hf.InvalidStep):
            hf.sinks.Sqlite(tmp_path / "rows.db", name)

    def test_two_queries_have_their_own_micro_batches(self, spark, tmp_path):
        for query in ("first", "second"):
            hf.sinks.Sqlite(tmp_path / "rows.db", "counts").write_batch(frame(spark, (query, 1)), BatchInfo(query, 0))
        assert table_rows(tmp_path / "rows.db") == [("first", 1), ("second", 1)]

    def test_a_table_is_the_same_in_other_letters(self, spark, tmp_path):
        for name in ("counts", "Counts"):
            hf.sinks.Sqlite(tmp_path / "rows.db", name).write_batch(frame(spark, ("a", 1)), BatchInfo("q", 0))
        assert table_rows(tmp_path / "rows.db") == [("a", 1)]

    def test_values_are_what_they_were(self, spark, tmp_path):
        columns = {
            "nan double": math.nan,
            "inf double": math.inf,
            "small float": 0.5,
            "large bigint": -(2**63),
            "yes boolean": True,
            "price decimal(38,18)": decimal.Decimal("0E-18"),
            "at timestamp": datetime.datetime(2024, 2, 29, 5, 6, 7, 891, tzinfo=UTC),
            "wall timestamp_ntz": datetime.datetime(2024, 2, 29, 5, 6, 7),
            "day date": datetime.date(2024, 2, 29),
            "span interval day to second": datetime.timedelta(days=1, microseconds=1),
            "data binary": b"\x00\xff",
            '`a"b` string': 'x"y',
            "many array<double>": [1.0, None, math.nan, -math.inf],
            "both struct<x:int,at:timestamp>": (1, datetime.datetime(2024, 2, 29, tzinfo=UTC)),
            "named map<string,decimal(3,1)>": {"a": decimal.Decimal("1.5"), "b": None},
            "paired map<int,binary>": {1: b"\xff"},
        }
        rows = frame(spark, tuple(columns.values()), schema=", ".join(columns))
        hf.sinks.Sqlite(tmp_path / "rows.db", "counts").write_batch(rows, BatchInfo("q", 0))
        [row] = table_rows(tmp_path / "rows.db")
        assert row == (
            "NaN",
            math.inf,
            0.5,
            -(2**63),
            1,
            "0.000000000000000000",
            "2024-02-29T05:06:07.000891+00:00",
            "2024-02-29T05:06:07",
            "2024-02-29",
            "86400.000001",
            b"\x00\xff",
            'x"y',
            '[1.0, null, "NaN", "-Infinity"]',
            '{"x": 1, "at": "2024-02-29T00:00:00+00:00"}',
            '{"a": "1.5", "b": null}',
            '[[1, "/w=="]]',
        )
        with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
            names = [name for _, name, *_ in database.execute("PRAGMA table_info(counts)")]
        assert names == rows.columns
        assert 'a"b' in names

    def test_a_table_that_is_there(self, spark, tmp_path):
        with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
            database.execute("CREATE TABLE counts (N INTEGER, K TEXT)")
            database.execute("CREATE TABLE others (k TEXT, m INTEGER)")
        hf.sinks.Sqlite(tmp_path / "rows.db", "counts").write_batch(frame(spark, ("a", 1)), BatchInfo("q", 0))
        assert table_rows(tmp_path / "rows.db") == [(1, "a")]
        others = hf.sinks.Sqlite(tmp_path / "rows.db", "others")
        with pytest.raises(hf.SinkError, match="has other columns") as refused:
            others.open(spark, frame(spark, ("a", 1)).schema, None)
        assert "It has k, m" in refused.value.detail
        with pytest.raises(hf.SinkError, match="has other columns"):
            others.write_batch(frame(spark, ("a", 1)), BatchInfo("q", 0))

    def test_rows_that_have_numbers_of_their_own_are_not_removed_by_guess(self, spark, tmp_path):
        with closing(sqlite3.connect(tmp_path / "rows.db")) as database, database:
            database.execute("CREATE TABLE counts (k TEXT, n INTEGER PRIMARY KEY)")
        first, second = (hf.sinks.Sqlite(tmp_path / "rows.db", "counts", take_over=True) for _ in range(2))
        first.write_batch(frame(spark, ("a", 70)), BatchInfo("q", 0, "plan"))
        with pytest.raises(hf.SinkError, match="does not say which rows"):
            second.write_batch(frame(spark, ("a", 71)), BatchInfo("q", 0, "another"))
        assert table_rows(tmp_path / "rows.db") == [("a", 70)]

    @pytest.mark.parametrize("what", ["no directory", "no database"])
    def test_a_path_that_is_none(self, spark, tmp_path, what):
        path = tmp_path / "gone" / "rows.db" if what == "no directory" else tmp_path / "rows.db"
        if what == "no database":
            path.write_bytes(b"something else " * 100)
        for call in (
            lambda sink: sink.open(spark, frame(spark, ("a", 1)).schema, None),
            lambda sink: sink.write_batch(frame(spark, ("a", 1)), BatchInfo("q", 0)),
        ):
            with pytest.raises(hf.SinkError, match="could not be written"):
                call(hf.sinks.Sqlite(path, "counts"))


class TestFunctions:
    def test_a_function_may_have_the_whole_of_it(self, spark):
        seen = []
        rows, info = frame(spark, ("a", 1)), BatchInfo("q", 3, "plan")
        hf.sinks.ForeachBatch(lambda rows, batch: seen.append(batch)).write_batch(rows, info)
        hf.sinks.ForeachBatch(lambda rows, batch, table="x": seen.append((batch, table))).write_batch(rows, info)
        hf.sinks.ForeachBatch(lambda rows, batch, whole: seen.append((batch, whole))).write_batch(rows, info)
        assert seen == [3, (3, "x"), (3, info)]

    def test_a_list_keeps_queries_apart_and_follows_a_checkpoint_back(self, spark):
        sink = hf.sinks.Collect()
        for query, batch, n in [("q", 0, 1), ("q", 1, 2), ("other", 0, 3), ("q", 2, 4), ("q", 1, 5)]:
            sink.write_batch(frame(spark, ("a", n)), BatchInfo(query, batch))
        assert [row.n for row in sink.rows] == [1, 5, 3]


class TestPlans:
    PLAN = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"a":"1"}}\n{"logOffset":0}'

    def test_settings_are_no_part_of_it_and_the_rest_is(self):
        same = self.PLAN.replace(b'"1"', b'"2"')
        assert plan_digest(same) == plan_digest(self.PLAN) != ""
        assert plan_digest(self.PLAN.replace(b"00000,", b"00001,")) != plan_digest(self.PLAN)
        assert plan_digest(self.PLAN.replace(b'Offset":0', b'Offset":1')) != plan_digest(self.PLAN)
        assert plan_digest(b"v1\n{") == ""

    def test_the_plan_of_a_micro_batch(self, feed, run_job, tmp_path):
        source = feed("k string, v int")
        source.add({"k": "a", "v": 1})
        run_job(hf.keyed(source.df, key="k", value="v").par_do(Count(), output=SCHEMA))
        checkpoint = str(tmp_path / "checkpoint")
        assert stored_query_id(None, checkpoint) == json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
        assert stored_query_id(None, str(tmp_path / "none")) is None
        assert plan_of(None, checkpoint, 0) == plan_of(None, checkpoint, 0) != ""
        assert plan_of(None, checkpoint, 9) == ""


class TestJobs:
    @pytest.mark.night
    def test_a_new_checkpoint_on_a_path_that_is_taken(self, spark, feed, tmp_path):
        source = feed("k string, v int")
        source.add(*({"k": "a", "v": n} for n in range(5)))

        def run(checkpoint):
            job = hf.Job("counts", checkpoint=str(tmp_path / checkpoint), trigger="available now", progress=False)
            counts = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=SCHEMA)
            job.write(counts, hf.sinks.Parquet(tmp_path / "rows")).run()

        run("one")
        source.add({"k": "a", "v": 5})
        run("one")
        with pytest.raises(hf.HoldfastError, match="has the rows of the query"):
            run("another")
        assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "rows")).collect()) == [1, 2, 3, 4, 5, 6]
        assert json.loads((tmp_path / "rows" / "_holdfast.json").read_text())["format"] == 1

    def test_a_savepoint_goes_on_and_an_older_one_is_noticed(self, spark, feed, tmp_path):
        source = feed("k string, v int")

        def run(checkpoint, **options):
            job = hf.Job("counts", checkpoint=str(tmp_path / checkpoint), trigger="available now", progress=False)
            counts = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=SCHEMA)
            job.write(counts, hf.sinks.Parquet(tmp_path / "rows", **options)).run()

        def written():
            return sorted(row.n for row in spark.read.parquet(str(tmp_path / "rows")).collect())

        source.add({"k": "a", "v": 0})
        run("one")
        savepoint_create(None, str(tmp_path / "one"), str(tmp_path / "early"))
        for n in (1, 2):
            source.add({"k": "a", "v": n})
            run("one")
        savepoint_create(None, str(tmp_path / "one"), str(tmp_path / "late"))
        savepoint_restore(None, str(tmp_path / "late"), str(tmp_path / "two"))
        source.add({"k": "a", "v": 3})
        run("two")
        assert written() == [1, 2, 3, 4]
        savepoint_restore(None, str(tmp_path / "early"), str(tmp_path / "three"))
        with pytest.raises(hf.HoldfastError, match="micro-batches up to"):
            run("three")
        assert written() == [1, 2, 3, 4]
        run("three", take_over=True)
        assert written() == [1, 2, 3, 4]
