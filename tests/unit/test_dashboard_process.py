"""The process of a job's dashboard: it outlives the ends of queries, and a job runs without one that cannot be started."""

from __future__ import annotations

import io
import queue
import subprocess
import sys

import pytest

import holdfast as hf
from holdfast.spark.job.dashboard import Dashboard


class Process:
    """One that has said where it is."""

    said = b'{"url": "http://127.0.0.1:1/"}\n'

    def __init__(self, *_, **__):
        self.stdout = io.BytesIO(self.said)
        self.has_ended = False

    def poll(self):
        return 0 if self.has_ended else None

    def terminate(self):
        self.has_ended = True

    def wait(self, seconds=None):
        return 0


@pytest.fixture
def started(monkeypatch):
    """All processes that were started."""
    found = []

    def start(*_, **__):
        found.append(Process())
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


def test_it_stays_while_queries_end_and_start_again(started):
    dashboard = Dashboard()
    with dashboard.staying():
        dashboard.begin("/checkpoint", lambda note: None)
        dashboard.end()
        dashboard.begin("/checkpoint", lambda note: None)
        [process] = started
        assert not process.has_ended
    assert process.has_ended
    assert dashboard.url is None


def test_without_staying_it_ends_with_the_query(started):
    dashboard = Dashboard()
    dashboard.begin("/checkpoint", lambda note: None)
    dashboard.end()
    dashboard.end()
    assert [process.has_ended for process in started] == [True]


@pytest.mark.parametrize("executable", ["/nowhere/python", "", None])
def test_a_job_runs_without_a_dashboard_that_cannot_be_started(monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    told = []
    dashboard = Dashboard()
    dashboard.begin("/a checkpoint", told.append)
    dashboard.end()
    assert told == ["the dashboard could not be started; see why: holdfast ui '/a checkpoint'"]


def test_one_that_says_nothing(started, monkeypatch):
    monkeypatch.setattr(Process, "said", b"")
    told = queue.Queue()
    dashboard = Dashboard()
    dashboard.begin("/a checkpoint", told.put)
    assert "see why: holdfast ui '/a checkpoint'" in told.get(timeout=60)
    dashboard.end()


def test_a_tolerated_failure_does_not_end_it(started, monkeypatch, tmp_path):
    job = hf.Job("job", checkpoint=str(tmp_path), tolerated_failures=1, progress=False, ui=True)
    failures = iter([hf.JobFailed("not today")])

    def wait():
        job._end()
        for failure in failures:
            raise failure

    monkeypatch.setattr(job, "_check_can_start", lambda: None)
    monkeypatch.setattr(job, "_start", lambda: job._watching.dashboard.begin("/checkpoint", lambda note: None))
    monkeypatch.setattr(job, "wait", wait)
    job.run()
    assert [process.has_ended for process in started] == [True]
