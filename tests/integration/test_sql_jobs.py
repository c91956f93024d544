"""Jobs with sinks for SQL databases, on real Spark: crashes, restarts of the server, older savepoints, secrets."""

from __future__ import annotations

import threading

import pytest

import holdfast as hf
from holdfast.ops import rescale, savepoint_create, savepoint_restore
from integration.functions import Count
from integration.sql_places import DuckDBPlace

COUNTS = "k string, n int"


@pytest.fixture(params=["duckdb", "postgres"])
def place(request, tmp_path):
    return request.getfixturevalue("postgres") if request.param == "postgres" else DuckDBPlace(tmp_path)


@pytest.fixture
def counts(feed):
    """A stream, and the running counts of its keys."""
    source = feed("k string, v int")
    return source, hf.keyed(source.df, key="k", value="v").par_do(Count(), output=COUNTS)


def job_at(folder, checkpoint="checkpoint", name="sql", **options):
    options = {"trigger": "available now", **options}
    return hf.Job(name, checkpoint=str(folder / checkpoint), progress=False, **options)


class Falling(hf.sinks.Sink):
    """Ends after it has written micro-batch 1, so that Spark does not learn of it."""

    def __init__(self, sink):
        self.sink = sink

    def upserting(self, upsert):
        return Falling(self.sink.upserting(upsert))

    def open(self, spark, schema, query_id):
        self.sink.open(spark, schema, query_id)

    def write_batch(self, rows, info):
        self.sink.write_batch(rows, info)
        if info.batch_id == 1:
            raise OSError("the power is off")


def test_a_micro_batch_that_comes_again_changes_nothing(counts, place, tmp_path):
    """With one output appended and one upserted, in one query."""
    source, rows = counts

    def run(break_it):
        appended, newest = place.sink("all"), place.sink("newest")
        job = job_at(tmp_path).write(rows, appended)
        job.write(rows, Falling(newest) if break_it else newest, mode="upsert", key="k").run()

    source.add({"k": "a", "v": 1}, {"k": "b", "v": 2})
    source.add({"k": "a", "v": 10}, {"k": "a", "v": 11})
    source.add({"k": "b", "v": 10})
    with pytest.raises(hf.JobFailed, match="the power is off"):
        run(break_it=True)
    assert place.rows("newest") == [("a", 3), ("b", 1)]
    run(break_it=False)
    assert place.rows("newest") == [("a", 3), ("b", 2)]
    assert place.rows("all") == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
    noted = place.execute("SELECT sink, batch_id, row_count FROM holdfast_batches ORDER BY sink, batch_id")
    assert noted == [("all", 2, 1), ("newest", 2, 1)]


@pytest.mark.night
def test_an_older_savepoint(counts, postgres, tmp_path):
    """Appended rows go back with it; the rows of another query beside them stay."""
    source, rows = counts

    def run(checkpoint, **options):
        job_at(tmp_path, checkpoint).write(rows, postgres.sink(batch_column="batch", **options)).run()

    source.add({"k": "a", "v": 0})
    run("one")
    savepoint_create(None, str(tmp_path / "one"), str(tmp_path / "early"))
    for n in (1, 2):
        source.add({"k": "a", "v": n})
        run("one")
    run("another")
    beside = [("a", 1), ("a", 2), ("a", 3)]
    assert postgres.rows(columns="k, n") == sorted(2 * beside)
    savepoint_restore(None, str(tmp_path / "early"), str(tmp_path / "two"))
    with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 1 comes next"):
        run("two")
    assert postgres.rows(columns="k, n") == sorted(2 * beside)
    source.add({"k": "b", "v": 0})
    run("two", take_over=True)
    assert postgres.rows(columns="k, n") == sorted([*2 * beside, ("b", 1)])


@pytest.mark.night
def test_the_job_of_a_restored_savepoint_goes_on_as_well(counts, spark, postgres, tmp_path):
    """The restored one, with other partitions, has taken over the table; the old one is started again nevertheless."""
    source, rows = counts

    def run(checkpoint, **options):
        job_at(tmp_path, checkpoint).write(rows, postgres.sink(batch_column="batch", **options)).run()

    for n in range(2):
        source.add({"k": "a", "v": n})
        run("old")
    savepoint_create(None, str(tmp_path / "old"), str(tmp_path / "saved"))
    source.add({"k": "a", "v": 2})
    run("old")
    savepoint_restore(spark, str(tmp_path / "saved"), str(tmp_path / "new"), partitions=1)
    run("new", take_over=True)
    source.add({"k": "b", "v": 0})
    for options in ({}, {"take_over": True}):
        with pytest.raises(hf.SinkError, match="has micro-batch 2 of another job with the same query id; 3 of this one"):
            run("old", **options)
    run("new")
    expected = [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    assert postgres.rows(columns="k, n") == expected
    # A change of the partitions takes a micro-batch, of which the sink knows nothing.
    rescale(spark, str(tmp_path / "new"), partitions=3)
    source.add({"k": "b", "v": 1})
    run("new")
    assert postgres.rows(columns="k, n") == [*expected, ("b", 2)]


@pytest.mark.parametrize("place", [pytest.param("duckdb", marks=pytest.mark.night), "postgres"], indirect=True)
def test_two_jobs_write_to_one_table_at_once(feed, place, tmp_path):
    sources = [feed("k string, v int", name) for name in ("one", "two")]
    jobs = []
    for number, source in enumerate(sources):
        for v in range(4):
            source.add({"k": f"q{number}", "v": v})
        rows = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=COUNTS)
        jobs.append(job_at(tmp_path, f"checkpoint{number}", f"job{number}").write(rows, place.sink()))
    for job in jobs:
        job.start()
    for job in jobs:
        job.wait()
    assert place.rows() == [(f"q{number}", n) for number in range(2) for n in range(1, 5)]


class Counted(hf.sinks.Postgres):
    """Tells of each micro-batch that has been written."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.written = threading.Semaphore(0)

    def write_batch(self, rows, info):
        super().write_batch(rows, info)
        self.written.release()


def test_the_server_is_restarted_while_a_job_runs(counts, postgres, tmp_path):
    """Killed in one of its micro-batches, and away for a while between two."""
    source, rows = counts
    sink = Counted(postgres.server.conninfo, "counts", schema=postgres.schema)
    with job_at(tmp_path, trigger="0 seconds").write(rows, sink).start():
        for number in range(6):
            source.add(*({"k": f"k{n}", "v": 0} for n in range(20)))
            if number == 2:
                postgres.server.restart("QUIT")
            if number == 4:
                postgres.server.stop()
                postgres.server.start()
            assert sink.written.acquire(timeout=120)
    assert postgres.rows() == sorted(((f"k{n}", count) for n in range(20) for count in range(1, 7)), key=repr)


def test_two_outputs_do_not_go_to_one_table_by_two_names(counts, postgres, tmp_path):
    source, rows = counts
    source.add({"k": "a", "v": 1})
    another = postgres.server.conninfo.replace("host=127.0.0.1", "host=localhost hostaddr=127.0.0.1")
    job = job_at(tmp_path).write(rows, postgres.sink())
    with pytest.raises(hf.InvalidStep, match="written by another output"):
        job.write(rows, postgres.sink())
    job.write(rows, hf.sinks.Postgres(another, "counts", schema=postgres.schema))
    with pytest.raises(hf.InvalidStep, match="Two outputs are written to the same place"):
        job.run()
    assert postgres.rows() == []


def test_the_password_is_nowhere(counts, postgres, tmp_path, monkeypatch, caplog, capfd):
    """Neither in the checkpoint, nor in what is shown or logged."""
    source, rows = counts
    secret = postgres.server.password
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("SECRET", secret)
    caplog.set_level("DEBUG")
    source.add({"k": "a", "v": 1})
    job = job_at(tmp_path).write(rows, postgres.sink(password_env="SECRET"))
    shown = [repr(job), str(job.explain()), job._repr_html_()]
    job.run()
    assert postgres.rows() == [("a", 1)]
    assert "Postgres(" in shown[1]
    files = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert len(files) > 5
    output = capfd.readouterr()
    for text in (*shown, caplog.text, output.out, output.err):
        assert secret not in text
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
