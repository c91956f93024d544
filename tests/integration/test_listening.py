"""What is heard of a query is the same by text and by PySpark's own listener."""

from __future__ import annotations

import time

import pytest

import holdfast as hf
from holdfast.spark.session import listening
from integration.functions import Count

WAIT_SECONDS = 60


class Heard(listening.Listener):
    def __init__(self):
        self.starts, self.reports, self.ends = [], [], []

    def started(self, query_id):
        self.starts.append(query_id)

    def reported(self, report):
        self.reports.append(report)

    def ended(self, run_id):
        self.ends.append(run_id)

    def of(self, run_id):
        return [report for report in self.reports if str(report.runId) == run_id]


class HearsNothing(listening.Listener):
    pass


@pytest.fixture
def heard(spark, monkeypatch):
    """By text, by member, and by one that wants nothing."""
    by_text, by_member = Heard(), Heard()
    ends = [listening.listen(spark, by_text), listening.listen(spark, HearsNothing())]
    monkeypatch.setattr(listening, "is_known_version", lambda: False)
    ends.append(listening.listen(spark, by_member))
    monkeypatch.undo()
    yield by_text, by_member
    for end in ends:
        end()


def told(reports):
    return [
        (
            str(report.id),
            str(report.runId),
            report.name,
            report.batchId,
            report.timestamp,
            report.batchDuration,
            report.numInputRows,
            dict(report.durationMs),
            [(source.description, source.numInputRows) for source in report.sources],
            [(step.operatorName, step.numRowsTotal, step.memoryUsedBytes) for step in report.stateOperators],
            {name: list(row["reports"]) for name, row in report.observedMetrics.items()},
        )
        for report in reports
    ]


def run(feed, tmp_path):
    source = feed("k string, v int")
    for key in "ab":
        source.add({"k": key, "v": 1})
    counts = hf.keyed(source.df, key="k", value="v").par_do(Count(), output="k string, n long", key_groups=2)
    job = hf.Job("heard", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    return job.write(counts, hf.sinks.Collect()).run()


def test_both_ways_tell_the_same(feed, heard, tmp_path):
    by_text, by_member = heard
    job = run(feed, tmp_path)
    run_id = str(job.query.runId)
    deadline = time.monotonic() + WAIT_SECONDS
    while not (run_id in by_text.ends and run_id in by_member.ends) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert by_text.starts == by_member.starts == [str(job.query.id)]
    # A query of an earlier test may end while these listen.
    assert [heard.ends.count(run_id) for heard in (by_text, by_member)] == [1, 1]
    assert told(by_text.of(run_id)) == told(by_member.of(run_id)) == told(job.query.recentProgress)
    assert any(report.observedMetrics for report in by_text.reports)


@pytest.mark.night
def test_it_ends(feed, spark, tmp_path):
    heard = Heard()
    listening.listen(spark, heard)()
    run(feed, tmp_path)
    assert heard.starts == heard.reports == heard.ends == []
