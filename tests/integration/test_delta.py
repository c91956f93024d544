"""Delta tables and the console with jobs: rows of all types, once, whatever comes again or is rolled back."""

from __future__ import annotations

import datetime
import decimal
import json
import math

import pytest

pytest.importorskip("deltalake")

import deltalake

import holdfast as hf
from holdfast.ops import savepoint_create, savepoint_restore
from holdfast.spark.sinks import BatchInfo
from integration.functions import Both, Count

UTC = datetime.timezone.utc
COUNTS = "k string, n int"


def table_rows(path):
    return sorted(tuple(row.values()) for row in deltalake.DeltaTable(path).to_pyarrow_table().to_pylist())


@pytest.fixture
def counts(feed):
    """A stream, and the running counts of its keys."""
    source = feed("k string, v int")
    return source, hf.keyed(source.df, key="k", value="v").par_do(Count(), output=COUNTS)


def job_at(folder, checkpoint="checkpoint"):
    return hf.Job("counts", checkpoint=str(folder / checkpoint), trigger="available now", progress=False)


COLUMNS = {
    "nan double": math.nan,
    "small float": 0.5,
    "tiny tinyint": -128,
    "short smallint": 2**15 - 1,
    "large bigint": -(2**63),
    "yes boolean": True,
    "price decimal(38,18)": decimal.Decimal("1.500000000000000001"),
    "at timestamp": datetime.datetime(2024, 10, 27, 0, 30, 7, 891, tzinfo=UTC),
    "wall timestamp_ntz": datetime.datetime(2024, 10, 27, 2, 30, 7, 891),
    "day date": datetime.date(2024, 2, 29),
    "data binary": b"\x00\xff",
    '`a"b c` string': 'x"y',
    "many array<timestamp>": [datetime.datetime(2024, 10, 27, 1, 30, tzinfo=UTC), None],
    "both struct<x:int,at:timestamp>": {"x": 1, "at": datetime.datetime(2024, 2, 29, tzinfo=UTC)},
    "named map<string,decimal(3,1)>": [("a", decimal.Decimal("1.5")), ("b", None)],
    "deep array<struct<m:map<int,array<string>>>>": [{"m": [(1, ["x"])]}],
}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_values_are_what_they_were(spark, tmp_path, mode):
    """In the time zone of a session that sets its clocks back."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        given = [dict(pair) if name.startswith("named") else pair for name, pair in COLUMNS.items()]
        given[-1] = [{"m": {1: ["x"]}}]
        frame = spark.createDataFrame([tuple(given)], ", ".join(COLUMNS))
        sink = hf.sinks.Delta(tmp_path / "rows")
        if mode == "upsert":
            sink = sink.upserting(hf.sinks.Upsert(("at", "large", "both")))
        sink.open(spark, frame.schema, None)
        for batch in range(2 if mode == "upsert" else 1):
            sink.write_batch(frame, BatchInfo("q", batch))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    [row] = deltalake.DeltaTable(tmp_path / "rows").to_pyarrow_table().to_pylist()
    assert list(row) == frame.columns
    for (name, wanted), found in zip(COLUMNS.items(), row.values(), strict=True):
        assert found == wanted or (math.isnan(wanted) and math.isnan(found)), name


class Falling(hf.sinks.Delta):
    """Ends after it has written a micro-batch, so that Spark does not learn of it."""

    def write_batch(self, rows, info):
        super().write_batch(rows, info)
        if info.batch_id == 1:
            raise OSError("the power is off")


@pytest.mark.parametrize("mode", [pytest.param("append", marks=pytest.mark.night), "upsert"])
def test_a_micro_batch_that_comes_again_changes_nothing(counts, tmp_path, mode):
    source, rows = counts
    how = {"mode": "upsert", "key": "k"} if mode == "upsert" else {}
    source.add({"k": "a", "v": 1}, {"k": "b", "v": 2})
    source.add({"k": "a", "v": 10})
    with pytest.raises(hf.JobFailed, match="the power is off"):
        job_at(tmp_path).write(rows, Falling(tmp_path / "rows"), **how).run()
    wanted = [("a", 1), ("a", 2), ("b", 1)] if mode == "append" else [("a", 2), ("b", 1)]
    assert table_rows(tmp_path / "rows") == wanted
    version = deltalake.DeltaTable(tmp_path / "rows").version()
    job_at(tmp_path).write(rows, hf.sinks.Delta(tmp_path / "rows"), **how).run()
    assert table_rows(tmp_path / "rows") == wanted
    assert deltalake.DeltaTable(tmp_path / "rows").version() == version, "the second time must commit nothing"
    source.add({"k": "a", "v": 100})
    job_at(tmp_path).write(rows, hf.sinks.Delta(tmp_path / "rows"), **how).run()
    assert table_rows(tmp_path / "rows") == sorted([*(row for row in wanted if mode == "append" or row[0] == "b"), ("a", 3)])


@pytest.mark.night
def test_one_output_is_upserted_and_another_appended(feed, tmp_path, capsys):
    """The last row of a key wins, of many over several partitions; the console shows what passes."""
    source = feed("k string, v int")
    source.add(*({"k": f"k{n % 7}", "v": n} for n in range(7 * 60)))
    outputs = hf.keyed(source.df, key="k", value="v").par_do(
        Both(), output="k string, v int, seen int", outputs={"odd": "k string, v int"}
    )
    job = job_at(tmp_path).write(outputs.main, hf.sinks.Delta(tmp_path / "evens"), mode="upsert", key="k")
    job.write(outputs.odd, hf.sinks.Delta(tmp_path / "odds", partition_by="k"))
    job.write(outputs.odd.where("v < 20"), hf.sinks.Console("small", rows=3))
    with pytest.raises(hf.InvalidStep, match="is written by another output"):
        job.write(outputs.odd, hf.sinks.Delta(tmp_path / "odds" / ".." / "evens"))
    with pytest.raises(hf.InvalidStep, match="cannot upsert: what has been printed stays"):
        job.write(outputs.odd, hf.sinks.Console(), mode="upsert", key="k")
    job.run()
    evens = table_rows(tmp_path / "evens")
    assert [(k, v) for k, v, _ in evens] == [(f"k{n}", max(v for v in range(n, 420, 7) if v % 2 == 0)) for n in range(7)]
    odds = deltalake.DeltaTable(tmp_path / "odds").to_pyarrow_table(columns=["k", "v"]).to_pylist()
    assert sorted((row["k"], row["v"]) for row in odds) == sorted((f"k{v % 7}", v) for v in range(1, 420, 2))
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "small: micro-batch 0, 10 rows, the first 3"
    assert len(told) == 6


@pytest.mark.night
def test_a_job_does_not_start_in_another_mode(counts, tmp_path):
    source, rows = counts
    source.add({"k": "a", "v": 1})
    sink = hf.sinks.Delta(tmp_path / "rows")
    job_at(tmp_path).write(rows, sink, mode="upsert", key="k").run()
    with pytest.raises(hf.SinkError, match="is upserted by the key k; rows cannot be appended"):
        job_at(tmp_path).write(rows, sink).start()
    with pytest.raises(hf.SinkError, match="not by n"):
        job_at(tmp_path).write(rows, sink, mode="upsert", key="n").start()
    with pytest.raises(hf.SinkError, match="has the rows of the query"):
        job_at(tmp_path, "another").write(rows, sink, mode="upsert", key="k").start()
    spans = rows.selectExpr("k", "make_dt_interval(n) AS span")
    with pytest.raises(hf.InvalidStep, match="interval day to second"):
        job_at(tmp_path, "another").write(spans, hf.sinks.Delta(tmp_path / "spans")).start()
    assert table_rows(tmp_path / "rows") == [("a", 1)]
    owner = json.loads(deltalake.DeltaTable(tmp_path / "rows").metadata().configuration["holdfast.upsert"])["query"]
    assert owner == json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]


@pytest.mark.night
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_older_savepoint(counts, tmp_path, mode):
    """The table goes back with it, also to values that had been replaced."""
    source, rows = counts
    how = {"mode": "upsert", "key": "k"} if mode == "upsert" else {}

    def run(checkpoint, **options):
        job_at(tmp_path, checkpoint).write(rows, hf.sinks.Delta(tmp_path / "rows", **options), **how).run()

    source.add({"k": "a", "v": 0}, {"k": "b", "v": 0})
    run("one")
    savepoint_create(None, str(tmp_path / "one"), str(tmp_path / "early"))
    for n in (1, 2):
        source.add({"k": "a", "v": n})
        run("one")
    before = table_rows(tmp_path / "rows")
    savepoint_restore(None, str(tmp_path / "early"), str(tmp_path / "two"))
    with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 1 comes next"):
        run("two")
    assert table_rows(tmp_path / "rows") == before
    run("two", take_over=True)
    assert table_rows(tmp_path / "rows") == before
    held = deltalake.DeltaTable(tmp_path / "rows")
    [restored] = [commit["version"] for commit in held.history() if commit["operation"] == "RESTORE"]
    held.load_as_version(restored)
    assert sorted(tuple(row.values()) for row in held.to_pyarrow_table().to_pylist()) == [("a", 1), ("b", 1)]
    source.add({"k": "b", "v": 3})
    run("two")
    assert table_rows(tmp_path / "rows") == sorted([*(row for row in before if mode == "append" or row[0] == "a"), ("b", 2)])
