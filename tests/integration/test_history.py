"""What a running job tells about itself: a record for each committed micro-batch, once, whatever failed before."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.watch.history import read_history
from integration.functions import Count, Fragile

ROWS = "k string, v string"
IDLE_REPORTS = "spark.sql.streaming.noDataProgressEventInterval"


@pytest.fixture
def history(tmp_path):
    return lambda: read_history(LocalFiles(), str(tmp_path / "checkpoint"))


def counts(source, fn=None, **options):
    return hf.keyed(source.df, key="k", value="v").par_do(fn or Count(), output="k string, n int", **options)


def add(source, *keys):
    source.add(*({"k": key, "v": "x"} for key in keys))


def test_a_record_for_each_micro_batch(feed, run_job, history):
    source = feed(ROWS)
    add(source, "a", "b")
    add(source, "a", "a", "<script>\x1b[0m")
    run_job(counts(source, key_groups=4))
    told = history()
    assert [event.event for event in told.events] == ["started", "stopped"]
    assert [record.batch for record in told.batches] == [0, 1]
    first, second = told.batches
    assert (first.rows, second.rows) == (2, 3)
    assert second.at_ms + second.duration_ms <= time.time_ns() // 1_000_000 + 1
    assert "addBatch" in second.phases_ms
    assert second.operators[0].partitions > 0
    assert second.workers[0].memory_bytes > 0
    step = second.steps["Count"]
    assert (step.key_groups, step.partial, step.keys) == (4, False, 3)
    assert step.counters["elements"] == 3
    assert step.counters["run_micros"] > 0
    assert sum(step.groups.elements) == 3
    assert sum(step.groups.keys) == step.keys
    assert {(found.key, found.count) for found in step.hot} == {("a", 2), ("<script>\\x1b[0m", 1)}


@pytest.mark.night
def test_what_a_step_holds_survives_a_restart(feed, run_job, history, tmp_path):
    source = feed(ROWS)
    add(source, *(f"k{number}" for number in range(40)))
    run_job(counts(source, key_groups=8))
    before = history().last.steps["Count"]
    add(source, "k0")
    run_job(counts(source, key_groups=8))
    after = history().last.steps["Count"]
    assert (before.keys, after.keys, after.partial) == (40, 40, False)
    assert after.state_bytes > before.state_bytes
    assert sum(after.groups.elements) == 1
    # Without the history nobody knows how much is in the key groups to which nothing comes.
    for file in (tmp_path / "checkpoint" / "holdfast" / "history").iterdir():
        file.unlink()
    add(source, "k0")
    run_job(counts(source, key_groups=8))
    assert history().last.steps["Count"].partial
    assert 0 < history().last.steps["Count"].keys < 40


@pytest.mark.night
def test_a_micro_batch_that_failed_is_counted_once(feed, history, tmp_path):
    source = feed(ROWS)
    add(source, "a", "b")
    add(source, "a", "c")
    fails = iter([False, True, False])

    def sink(rows, batch_id):
        rows.collect()
        if next(fails):
            raise RuntimeError("not today")

    job = hf.Job(
        "again",
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available now",
        tolerated_failures=1,
        progress=False,
        outlets=[outlet := Told()],
    )
    job.write(counts(source), hf.sinks.ForeachBatch(sink)).run()
    assert outlet.calls == ["started", (0, "again"), "failed", "close", "started", (1, "again"), "stopped", "close"]
    told = history()
    assert [event.event for event in told.events] == ["started", "failed", "started", "stopped"]
    assert "not today" in told.events[1].text
    assert [event.batch for event in told.events] == [None, 0, 0, 1]
    assert [record.batch for record in told.batches] == [0, 1]
    assert sum(record.steps["Count"].counters["elements"] for record in told.batches) == 4
    assert job.metrics["Count"].elements == 4


@pytest.mark.night
def test_a_query_that_waits_for_rows_does_no_micro_batch(spark, feed, history, tmp_path):
    """Spark reports now and then that there was nothing to do, with the number of the micro-batch that comes next."""
    source = feed(ROWS)
    add(source, "a")
    spark.conf.set(IDLE_REPORTS, "0")
    job = hf.Job("idle", checkpoint=str(tmp_path / "checkpoint"), progress=False)
    job.write(counts(source, key_groups=4), hf.sinks.Collect())
    try:
        job.start()
        wait_for_report(job, 1)
        assert job.metrics["Count"].elements == 1
        assert [record.batch for record in history().batches] == [0]
        add(source, "a", "b")
        wait_for_report(job, 2)
        assert job.metrics["Count"].elements == 3
    finally:
        job.stop()
        spark.conf.unset(IDLE_REPORTS)
    told = history()
    assert [(record.batch, record.rows) for record in told.batches] == [(0, 1), (1, 2)]
    assert [(event.event, event.batch) for event in told.events] == [("started", None), ("stopped", 1)]


def wait_for_report(job, number):
    deadline = time.monotonic() + 120
    while (last := job.query.lastProgress) is None or last.batchId < number:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_failure_that_nobody_waits_for_is_recorded(feed, history, tmp_path):
    source = feed(ROWS)
    source.add({"k": "a", "v": "bad"})
    job = hf.Job("alone", checkpoint=str(tmp_path / "checkpoint"), progress=False)
    job.write(counts(source, Fragile(), name="Fragile"), hf.sinks.Collect()).start()
    deadline = time.monotonic() + 120
    while len(history().events) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert history().events[1].event == "failed"
    with pytest.raises(hf.HoldfastError):
        job.stop()
    assert len(history().events) == 2


@pytest.mark.night
def test_a_history_that_cannot_be_kept_does_not_stop_a_job(feed, run_job, tmp_path, caplog):
    source = feed(ROWS)
    add(source, "a")
    (tmp_path / "checkpoint" / "holdfast").mkdir(parents=True)
    (tmp_path / "checkpoint" / "holdfast" / "history").write_text("a file, where a folder should be")
    assert [tuple(row) for row in run_job(counts(source))[0]] == [("a", 1)]
    assert "cannot be kept" in caplog.text


@pytest.mark.night
def test_functions_that_count_on_their_own(feed, run_job, history):
    class Counting(hf.DoFn):
        def process(self, element):
            hf.Metrics.counter("own", "seen").inc()
            hf.Metrics.gauge("own", "last").set(float("nan"))
            hf.Metrics.distribution("own", "size").update(2)
            yield element[0], 1

    source = feed(ROWS)
    add(source, "a", "b", "a")
    run_job(counts(source, Counting()))
    step = history().last.steps["Counting"]
    assert step.user == {"own/seen": 3}
    assert step.gauges == {}
    assert step.distributions == {"own/size": (3, 6, 2, 2)}


@pytest.mark.night
def test_the_graph_is_beside_it(feed, run_job, tmp_path):
    source = feed(ROWS)
    add(source, "a")
    run_job(counts(source), name="drawn")
    graph = json.loads((tmp_path / "checkpoint" / "holdfast" / "graph.json").read_text())
    assert graph["job"] == "drawn"
    [operator] = graph["operators"]
    assert [step["name"] for step in operator["steps"]] == ["Count"]
    assert operator["steps"][0]["inputs"][0]["origin"]["kind"] == "parquet"
    assert graph["sinks"][0]["inputs"][0]["origin"] == {"step": "Count", "tag": "main"}


class Told:
    """An outlet that notes what it is told, and can be asked to fail."""

    def __init__(self, fails=False):
        self.calls = []
        self._fails = fails

    def batch(self, record, health):
        self.calls.append((record.batch, health.job))
        if self._fails:
            raise RuntimeError("not today")

    def event(self, record):
        self.calls.append(record.event)

    def close(self):
        self.calls.append("close")


@pytest.mark.night
def test_outlets_are_told_in_order_and_cannot_stop_a_job(feed, tmp_path, caplog):
    source = feed(ROWS)
    add(source, "a")
    add(source, "b")
    fine, failing, healths = Told(), Told(fails=True), []
    job = hf.Job(
        "told",
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available now",
        progress=False,
        outlets=[failing, fine],
        on_health=lambda health: healths.append((health.batch, job.metrics["Count"].elements)),
    )
    job.write(counts(source), hf.sinks.Collect()).run()
    assert (job.health.job, job.health.batch) == ("told", 1)
    assert "<table" in job._repr_html_()
    assert fine.calls == failing.calls == ["started", (0, "told"), (1, "told"), "stopped", "close"]
    assert [batch for batch, _ in healths] == [0, 1]
    assert [text for text in caplog.messages if "raised RuntimeError" in text] == [
        "The outlet Told raised RuntimeError; the job goes on."
    ]


def test_a_function_that_is_told_can_stop_the_job(feed, tmp_path):
    source = feed(ROWS)
    add(source, "a")
    job = hf.Job("stopped", checkpoint=str(tmp_path / "checkpoint"), progress=False, on_health=lambda health: job.stop())
    job.write(counts(source), hf.sinks.Collect()).start()
    assert job.wait(120)


@pytest.mark.night
def test_without_a_history_nothing_is_told(feed, tmp_path, history):
    source = feed(ROWS)
    add(source, "a")
    sink = hf.sinks.Collect()
    job = hf.Job("silent", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False, history=False)
    job.write(counts(source), sink).run()
    assert [tuple(row) for row in sink.rows] == [("a", 1)]
    assert history().events == []
    assert job.metrics["Count"].elements == 0


def test_what_is_wrong_with_who_is_told(tmp_path):
    wrong: dict[str, Any] = {"history": False, "outlets": [5], "on_health": 3, "thresholds": {}}
    with pytest.raises(hf.InvalidStep) as raised:
        hf.Job("wrong", checkpoint=str(tmp_path), **wrong)
    for part in ("5 is no outlet", "on_health is 3", "thresholds is {}", "Without a history"):
        assert part in str(raised.value)
