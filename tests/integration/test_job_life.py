"""The life of a job: stopped while it starts, twice, by its own sink; started again after failures; and taken over."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.checkpoint import lock as locks
from holdfast.checkpoint.lock import LOCK_FILE, Lock
from integration.functions import Count
from integration.waiting import until

ROWS = "k string, v string"
OUTPUT = "k string, n int"


class Mortal(hf.DoFn):
    """Takes its worker down with it, the first time."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def __init__(self, mark, times):
        self.mark = mark
        self.times = times

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        tries = len(os.listdir(self.mark))
        if tries < self.times:
            Path(self.mark, str(tries)).touch()
            os._exit(9)
        count.write((count.read() or 0) + 1)
        yield element[0], count.read()


def committed(tmp_path):
    folder = tmp_path / "checkpoint" / "commits"
    return sorted(int(path.name) for path in folder.glob("[0-9]*")) if folder.exists() else []


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.night), signal.SIGTERM])
def test_a_signal_while_run_starts_is_heeded(make, tmp_path, number, capfd):
    sink = hf.sinks.Collect()
    job = make(sink, progress=True)

    def interrupt():
        until(lambda: job._life.phase.value == "starting")
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    before = signal.getsignal(number)
    job.run()
    assert signal.getsignal(number) is before
    assert committed(tmp_path) == []
    assert sink.rows == []
    assert "life: stopping …" in capfd.readouterr().err
    make(sink, trigger="available now").run()
    assert [tuple(row) for row in sink.rows] == [("a", 1)]


def test_the_second_signal_does_not_wait_for_the_micro_batch(make, tmp_path, capfd):
    reached, over = threading.Event(), threading.Event()

    def stuck(rows, batch_id):
        rows.collect()
        reached.set()
        over.wait(120)
        until(lambda: rows.collect() is None)

    job = make(hf.sinks.ForeachBatch(stuck), progress=True)

    def interrupt():
        reached.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: job._life.asked)
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: job._life.asked == 2)
        # Python code cannot be interrupted from outside: it ends at a call of Spark, once the query has been stopped.
        over.set()

    threading.Thread(target=interrupt, daemon=True).start()
    job.run()
    said = capfd.readouterr().err
    assert "life: stopping after micro-batch 0, which is being processed …" in said
    assert "life: stopping at once; micro-batch 0 is left for the next start" in said
    assert "StackOverflowError" not in said
    sink = hf.sinks.Collect()
    make(sink, trigger="available now").run()
    assert [tuple(row) for row in sink.rows] == [("a", 1)]


def test_a_micro_batch_that_does_not_end_in_time_is_interrupted(make, tmp_path):
    reached, over = threading.Event(), threading.Event()

    def slow(rows, batch_id):
        reached.set()
        over.wait(60)
        rows.collect()

    job = make(hf.sinks.ForeachBatch(slow)).start()
    assert reached.wait(60)
    threading.Timer(1, over.set).start()
    job.stop(timeout_seconds=0.2)
    assert not job.query.isActive
    job.wait()
    assert committed(tmp_path) == []


@pytest.mark.night
def test_a_sink_may_stop_its_job(make, tmp_path, source):
    source.add({"k": "a", "v": "x"})
    seen = []

    def enough(rows, batch_id):
        seen.append(batch_id)
        job.stop()

    job = make(hf.sinks.ForeachBatch(enough))
    job.run()
    assert seen == [0]
    assert committed(tmp_path) == [0]


@pytest.mark.night
def test_so_many_micro_batches_each_time(make, source):
    # More than enough: Spark may give two files to one micro-batch after a stop.
    for _ in range(5):
        source.add({"k": "a", "v": "x"})
    seen = []
    job = make(hf.sinks.ForeachBatch(lambda rows, number: seen.append(number)), trigger=hf.Batches(2))
    job.run()
    assert seen == [0, 1]
    job.run()
    assert seen == [0, 1, 2, 3]


@pytest.mark.night
def test_failures_are_counted_from_the_last_progress(make, source):
    source.add({"k": "a", "v": "x"})
    calls = []

    def broken(rows, batch_id):
        calls.append(batch_id)
        if batch_id == 1:
            raise OSError("the sink is away")

    with pytest.raises(hf.JobFailed, match="the sink is away"):
        make(hf.sinks.ForeachBatch(broken), trigger="available now", tolerated_failures=1).run()
    assert calls == [0, 1, 1]


def test_a_worker_that_dies_is_no_failure_of_the_job(make, tmp_path, capfd):
    mark = tmp_path / "mark"
    mark.mkdir()
    sink = hf.sinks.Collect()
    make(sink, Mortal(str(mark), 1), trigger="available now", progress=True).run()
    assert [tuple(row) for row in sink.rows] == [("a", 1)]
    assert "life: a Python worker could not be started, or died; starting again, try 2" in capfd.readouterr().err


@pytest.mark.night
def test_one_that_always_dies_is(make, tmp_path):
    mark = tmp_path / "mark"
    mark.mkdir()
    job = make(hf.sinks.Collect(), Mortal(str(mark), 100), trigger="available now")
    with pytest.raises(hf.JobFailed, match="killed or crashed"):
        job.start().wait()
    assert len(os.listdir(mark)) == 4
    # Its lock is free.
    Lock(None, str(tmp_path / "checkpoint"), "a test").acquire().release()


def test_two_jobs_of_a_name_in_one_session(make, tmp_path, source):
    first = make(hf.sinks.Collect()).start()
    rows = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=OUTPUT)
    second = hf.Job("life", checkpoint=str(tmp_path / "other"), progress=False).write(rows, hf.sinks.Collect())
    with pytest.raises(hf.JobFailed, match="another query of this name"):
        second.start()
    with pytest.raises(hf.CheckpointLocked, match="is running already"):
        first.start()
    first.stop()
    second.start().stop()


def test_a_job_that_was_taken_for_dead_touches_nothing(make, tmp_path, source, monkeypatch):
    monkeypatch.setattr(locks, "_TRUST_SECONDS", 0.0)
    source.add({"k": "a", "v": "x"})
    written, checkpoint = [], str(tmp_path / "checkpoint")

    def sleeps(rows, batch_id):
        written.append(batch_id)
        # While it sleeps, its lock is found stale; another has the checkpoint for a while, and ends.
        Path(checkpoint, LOCK_FILE).unlink()
        Lock(None, checkpoint, "job life").acquire().release()

    job = make(hf.sinks.ForeachBatch(sleeps), tolerated_failures=5)
    with pytest.raises(hf.CheckpointLocked, match="Others have used the checkpoint"):
        job.run()
    assert written == [0]
    assert not Path(checkpoint, LOCK_FILE).exists()


def failing(element):
    raise ValueError("a bad element")


class Failing(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        failing(element)


def check_is_clean(text):
    assert "holdfast.errors.UserCodeError: process of the step 'Failing' raised ValueError: a bad element" in text
    assert "where: step 'Failing', key 'a'" in text
    assert "in failing" in text
    for internal in ("holdfast-error", "/holdfast/spark/", "/holdfast/engine/", "pyspark/worker.py", "transport.py"):
        assert internal not in text


@pytest.mark.night
def test_errors_of_a_plain_query_are_clean(spark, source, tmp_path):
    rows = hf.keyed(source.df, key="k", value="v").par_do(Failing(), output=OUTPUT)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "plain")).start()
    with pytest.raises(Exception, match="a bad element") as caught:
        query.awaitTermination()
    check_is_clean(str(caught.value).partition("=== Streaming Query ===")[0])


def test_errors_of_a_batch_query_are_clean(spark):
    batch = spark.createDataFrame([("a", "x")], ROWS)
    with pytest.raises(Exception, match="a bad element") as caught:
        hf.keyed(batch, key="k", value="v").par_do(Failing(), output=OUTPUT).collect()
    check_is_clean(str(caught.value))


def test_missing_state_is_named_before_the_job_starts(make, tmp_path, source):
    sink = hf.sinks.Collect()
    make(sink, trigger="available now").run()
    for file in (tmp_path / "checkpoint" / "state" / "0" / "0").glob("*1.*"):
        file.unlink()
    source.add({"k": "a", "v": "x"})
    with pytest.raises(hf.CorruptState, match=r"state/0/0/1\.changelog' is missing") as caught:
        make(sink, trigger="available now", tolerated_failures=3).run()
    assert "holdfast checkpoint" in caught.value.todo


@pytest.mark.night
def test_what_a_sink_refuses_comes_whole(make, tmp_path):
    class Full(hf.sinks.Sink):
        def write_batch(self, rows, info):
            raise hf.SinkError("The table is full.", detail="9 of 9 rows", todo="make room")

    with pytest.raises(hf.SinkError, match="The table is full") as caught:
        make(Full(), trigger="available now").run()
    assert (caught.value.detail, caught.value.todo) == ("9 of 9 rows", "make room")
    assert caught.value.context == {"micro_batch": 0, "job": "life"}


def test_a_sink_may_refuse_before_anything_is_processed(make, tmp_path):
    class Elsewhere(hf.sinks.Collect):
        def open(self, spark, schema, query_id):
            assert schema.simpleString() == "struct<k:string,n:int>"
            assert query_id is None
            raise hf.SinkError("The database is elsewhere.")

    with pytest.raises(hf.SinkError, match="elsewhere"):
        make(Elsewhere(), trigger="available now").run()
    assert not (tmp_path / "checkpoint" / "offsets").exists()


@pytest.mark.night
def test_a_parquet_sink_of_a_job_that_wrote_nothing_can_be_read(spark, feed, tmp_path):
    source = feed(ROWS, "nothing")

    def run(checkpoint):
        rows = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=OUTPUT)
        job = hf.Job("nothing", checkpoint=str(tmp_path / checkpoint), trigger="available now", progress=False)
        job.write(rows, hf.sinks.Parquet(tmp_path / "rows")).run()
        return spark.read.parquet(str(tmp_path / "rows"))

    empty = run("checkpoint")
    assert (empty.columns, empty.count()) == (["k", "n", "batch_id"], 0)
    source.add({"k": "a", "v": "x"})
    assert [tuple(row) for row in run("checkpoint").collect()] == [("a", 1, 0)]
    with pytest.raises(hf.SinkError, match="not of this one"):
        run("another")
    assert not (tmp_path / "another" / "offsets").exists()


def test_a_checkpoint_that_was_taken_back_by_one_is_no_replay(source, tmp_path):
    from holdfast.ops import savepoint_create, savepoint_restore

    def run(checkpoint, **options):
        rows = hf.keyed(source.df, key="k", value="v").par_do(Count(), output=OUTPUT)
        job = hf.Job("back", checkpoint=str(tmp_path / checkpoint), trigger="available now", progress=False)
        job.write(rows, hf.sinks.Sqlite(tmp_path / "rows.db", "counts", **options)).run()

    run("checkpoint")
    savepoint_create(None, str(tmp_path / "checkpoint"), str(tmp_path / "savepoint"))
    source.add({"k": "a", "v": "x"})
    run("checkpoint")
    source.add({"k": "a", "v": "x"})
    savepoint_restore(None, str(tmp_path / "savepoint"), str(tmp_path / "restored"))
    with pytest.raises(hf.SinkError):
        run("restored")
    run("restored", take_over=True)
    with sqlite3.connect(tmp_path / "rows.db") as database:
        assert database.execute("SELECT n FROM counts ORDER BY n").fetchall() == [(1,), (2,), (3,)]
