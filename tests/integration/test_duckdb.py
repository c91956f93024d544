"""DuckDB as a sink: a database that belongs to one process at a time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import duckdb
import pytest
from pyspark.sql import types as t

import holdfast as hf
from holdfast.spark.sinks import BatchInfo, Upsert
from integration.sql_places import DuckDBPlace, rows

BY_K = Upsert(("k",))
SCHEMA = t.StructType([t.StructField("k", t.StringType()), t.StructField("n", t.LongType())])
KEEP_OPEN = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


@pytest.fixture
def place(tmp_path):
    return DuckDBPlace(tmp_path)


def write(sink, batch, *values, query="q", plan="plan"):
    sink.write_batch(rows(*values), BatchInfo(query, batch, plan))


@pytest.fixture
def another_process(place):
    """Another process that has the database open, and ends when its input does."""
    write(place.sink(), 0, ("a", 0))
    with subprocess.Popen(
        [sys.executable, "-c", KEEP_OPEN, place.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "open\n"
        yield process
        process.stdin.close()


def test_while_another_process_has_it_the_sink_waits(place, another_process, caplog):
    with pytest.raises(hf.SinkError, match=r"could not be written: .*Could not set lock") as refused:
        write(place.sink(retry_for=0.3), 1, ("a", 1))
    assert "no other process keeps the database open" in refused.value.todo
    thread = threading.Thread(target=lambda: write(place.sink(), 1, ("a", 1)))
    caplog.clear()
    thread.start()
    deadline = time.monotonic() + 60
    while "trying again" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    another_process.stdin.close()
    thread.join(60)
    assert place.rows() == [("a", 0), ("a", 1)]


def test_others_can_read_between_micro_batches(place):
    write(place.sink(), 0, ("a", 1))
    code = "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).sql('FROM counts').fetchall())"
    done = subprocess.run([sys.executable, "-c", code, place.path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('a', 1)]"


def test_other_connections_of_this_process(place):
    """One that has other settings is told of; one that writes at the same time is waited for."""
    write(place.sink(), 0, ("a", 0))
    with duckdb.connect(place.path) as other:
        other.execute("SET GLOBAL default_collation = 'nocase'")
        write(place.sink("texts").upserting(BY_K), 0, ("a", 1), ("A", 2))
        assert sorted(other.sql("SELECT k, n FROM texts").fetchall()) == [("A", 2), ("a", 1)]
        other.execute("BEGIN")
        other.execute("INSERT INTO counts VALUES ('other', 1)")
        write(place.sink(), 1, ("a", 1))
        other.execute("COMMIT")
    assert place.rows() == [("a", 0), ("a", 1), ("other", 1)]
    with duckdb.connect(place.path, read_only=True), pytest.raises(hf.SinkError, match="different configuration"):
        write(place.sink(), 2, ("a", 2))


@pytest.mark.parametrize("collation", ["nocase", "noaccent", "nfc", "de"])
def test_a_key_whose_collation_takes_two_texts_for_one(place, collation):
    place.execute(f"CREATE TABLE counts (k VARCHAR COLLATE {collation} PRIMARY KEY, n BIGINT)")
    with pytest.raises(hf.SinkError, match="does not keep the key k unique"):
        place.sink().upserting(BY_K).open(None, SCHEMA, None)


def test_names_are_the_same_in_other_letters(place):
    for name in ("counts", "Counts"):
        write(place.sink(name), 0, ("a", 1))
    assert place.rows() == [("a", 1)]
    assert place.sink("Counts").place == place.sink().place
    place.sink().write_batch(rows(("b", 2), names=("K", "N")), BatchInfo("q", 1))
    assert place.rows() == [("a", 1), ("b", 2)]
    with pytest.raises(hf.InvalidStep, match="Two columns have the name 'k'"):
        place.sink().write_batch(rows(("b", 2), names=("K", "k")), BatchInfo("q", 2))


def test_a_column_that_is_generated(place):
    place.execute("CREATE TABLE counts (k VARCHAR, n BIGINT GENERATED ALWAYS AS (1))")
    with pytest.raises(hf.SinkError, match="generated"):
        place.sink().open(None, SCHEMA, None)


def test_links_to_one_file_are_one_place(place, tmp_path):
    write(place.sink(), 0, ("a", 1))
    (tmp_path / "link.duckdb").symlink_to(place.path)
    assert hf.sinks.DuckDB(tmp_path / "link.duckdb", "counts").place == place.sink().place


@pytest.mark.parametrize("path", ["", ":memory:", ":memory:named"])
def test_paths_that_are_no_file(path):
    with pytest.raises(hf.InvalidStep, match="lost with each connection"):
        hf.sinks.DuckDB(path, "t")


@pytest.mark.parametrize("what", ["no directory", "no database"])
def test_a_path_that_is_none(tmp_path, what):
    path = tmp_path / "gone" / "rows.duckdb" if what == "no directory" else tmp_path / "rows.duckdb"
    if what == "no database":
        path.write_bytes(b"something else " * 1000)
    for call in (lambda sink: sink.open(None, SCHEMA, None), lambda sink: write(sink, 0, ("a", 1))):
        with pytest.raises(hf.SinkError, match="cannot be written"):
            call(hf.sinks.DuckDB(path, "counts"))


def test_names_that_duckdb_takes_for_something_else_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(hf.sinks.DuckDB("md:rows", "counts"), 0, ("a", 1))
    assert (tmp_path / "md:rows").is_file()
