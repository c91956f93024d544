"""Jobs: starting, stopping, failing, and starting again."""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import pytest

import holdfast as hf
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.watch.history import read_history
from integration.functions import Count, Fragile
from integration.waiting import until

ROWS = "k string, v string"


def counts(source, fn=None):
    return hf.keyed(source.df, key="k", value="v").par_do(fn or Count(), output="k string, n int")


def test_state_goes_on_where_it_was(feed, run_job):
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"}, {"k": "b", "v": "x"})
    assert sorted(map(tuple, run_job(counts(source))[0])) == [("a", 1), ("b", 1)]
    source.add({"k": "a", "v": "x"})
    assert sorted(map(tuple, run_job(counts(source))[0])) == [("a", 2)]


def test_a_bounded_number_of_micro_batches(feed, tmp_path):
    source = feed(ROWS)
    for _ in range(5):
        source.add({"k": "a", "v": "x"})
    sink = hf.sinks.Collect()
    job = hf.Job("few", checkpoint=str(tmp_path / "checkpoint"), trigger=hf.Batches(2), progress=False)
    job.write(counts(source), sink).run()
    assert [tuple(row) for row in sink.rows] == [("a", 1), ("a", 2)]


def test_a_stop_waits_for_the_micro_batch(feed, tmp_path):
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"})
    begun, written = threading.Event(), []

    def slow(rows, batch_id):
        begun.set()
        taken = rows.collect()
        time.sleep(1)
        written.extend(taken)

    job = hf.Job("slow", checkpoint=str(tmp_path / "checkpoint"), progress=False)
    job.write(counts(source), hf.sinks.ForeachBatch(slow)).start()
    assert begun.wait(60)
    job.stop()
    assert len(written) == 1
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()


def test_sigterm_stops_a_job_cleanly(feed, tmp_path):
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"})
    sink = hf.sinks.Collect()
    job = hf.Job("term", checkpoint=str(tmp_path / "checkpoint"), progress=False).write(counts(source), sink)

    def terminate():
        while not sink.rows:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=terminate, daemon=True).start()
    job.run()
    assert len(sink.rows) == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_failures_are_tolerated_so_many_times(feed, tmp_path):
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"})
    calls = []

    def broken(rows, batch_id):
        rows.collect()
        calls.append(batch_id)
        if len(calls) < 3:
            raise OSError("the sink is away")

    def job(tolerated):
        made = hf.Job(
            "shaky",
            checkpoint=str(tmp_path / f"checkpoint{tolerated}"),
            trigger="available now",
            tolerated_failures=tolerated,
            progress=False,
        )
        return made.write(counts(source), hf.sinks.ForeachBatch(broken))

    with pytest.raises(hf.JobFailed, match="the sink is away"):
        job(1).run()
    assert len(calls) == 2
    calls.clear()
    job(2).run()
    assert len(calls) == 3


def test_the_state_is_as_of_the_last_commit_after_a_failure(feed, run_job):
    source = feed(ROWS)
    source.add({"k": "a", "v": "good"})
    source.add({"k": "a", "v": "bad"})
    with pytest.raises(hf.UserCodeError):
        run_job(counts(source, Fragile()))
    fixed = hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n int", name="Fragile")
    assert [tuple(row) for row in run_job(fixed)[0]] == [("a", 2)]


def test_the_manifest_is_beside_sparks_files(feed, run_job, tmp_path):
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"})
    run_job(counts(source), name="kept")
    manifest = json.loads((tmp_path / "checkpoint" / "holdfast" / "manifest.json").read_text())
    assert manifest["job"] == "kept"
    [step] = manifest["steps"].values()
    assert step["key"] == [{"name": "k", "type": "string"}]
    assert [cell["name"] for cell in step["cells"]] == ["count"]


def test_metrics_reach_the_driver(feed, tmp_path):
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"}, {"k": "b", "v": "x"})
    job = hf.Job("counted", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(counts(source), hf.sinks.Collect()).run()
    assert job.metrics["Count"].elements == 2
    assert job.metrics["Count"].outputs == 2


@pytest.mark.parametrize("sink", ["sqlite", "parquet"])
def test_a_sink_takes_a_micro_batch_once(spark, tmp_path, sink):
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "k string, n int")
    info = hf.sinks.BatchInfo("query", 0)
    made = hf.sinks.Sqlite(tmp_path / "rows.db", "counts") if sink == "sqlite" else hf.sinks.Parquet(str(tmp_path / "rows"))
    made.write_batch(rows, info)
    made.write_batch(rows, info)
    made.write_batch(rows, hf.sinks.BatchInfo("query", 1))
    assert count(spark, tmp_path, sink) == 4


def count(spark, folder, sink):
    if sink == "parquet":
        return spark.read.parquet(str(folder / "rows")).count()
    import sqlite3

    with sqlite3.connect(folder / "rows.db") as database:
        return database.execute("SELECT count(*) FROM counts").fetchone()[0]


def test_what_a_job_refuses(spark, feed, tmp_path):
    source = feed(ROWS)
    job = hf.Job("refuses", checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(hf.InvalidStep, match="Nothing is written"):
        job.start()
    with pytest.raises(hf.InvalidStep, match="no sink"):
        job.write(counts(source), "a path")
    with pytest.raises(hf.InvalidStep, match="streaming DataFrame"):
        job.write(spark.range(1), hf.sinks.Collect())
    with pytest.raises(hf.InvalidStep, match="trigger"):
        hf.Job("refuses", checkpoint="x", trigger="now and then")


@pytest.mark.night
def test_a_pause_ends_with_a_stop_and_the_micro_batch_is_left_for_the_next_start(feed, tmp_path):
    """A pause that would outlast the test: what is done shows that it was begun, and that it was given up."""
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"})
    source.add({"k": "a", "v": "x"})
    checkpoint, sink = tmp_path / "checkpoint", hf.sinks.Collect()
    job = (
        hf.Job("calm", checkpoint=str(checkpoint), min_pause="10 hours", progress=False).write(counts(source), sink).start()
    )
    # It has been planned, so it is the pause that keeps it from being done.
    until((checkpoint / "offsets" / "1").exists)
    job.stop()
    assert [tuple(row) for row in sink.rows] == [("a", 1)]
    assert not (checkpoint / "commits" / "1").exists()
    again = hf.sinks.Collect()
    options = {"trigger": hf.Batches(1), "min_pause": "10 hours", "progress": False}
    hf.Job("calm", checkpoint=str(checkpoint), **options).write(counts(source), again).run()
    assert [tuple(row) for row in again.rows] == [("a", 2)]


@pytest.mark.night
def test_between_two_micro_batches_there_is_the_pause(feed, tmp_path):
    source = feed(ROWS)
    source.add({"k": "a", "v": "x"})
    source.add({"k": "a", "v": "x"})
    times = []

    def note(rows, batch_id):
        times.append(time.monotonic())
        rows.collect()
        times.append(time.monotonic())

    options = {"trigger": hf.Batches(2), "min_pause": "1.5 seconds", "progress": False}
    job = hf.Job("calm", checkpoint=str(tmp_path / "checkpoint"), **options)
    job.write(counts(source), hf.sinks.ForeachBatch(note)).run()
    _, ended, began, _ = times
    assert began - ended >= 1.5
    history = read_history(LocalFiles(), str(tmp_path / "checkpoint"))
    pauses = {record.batch: record.phases_ms.get("pause", 0) for record in history.batches}
    assert pauses == {number: job._pause.millis(number) for number in (0, 1)}
