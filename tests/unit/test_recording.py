"""The recorder of a job with reports as Spark makes them: which count, and what is known after a restart."""

from __future__ import annotations

import errno
import os
import threading
from types import SimpleNamespace

import pytest

import holdfast as hf
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.spark.job import job as job_module
from holdfast.spark.job.recording import Recorder
from holdfast.watch.health.judging import judge
from holdfast.watch.history import HistoryFile, read_history
from holdfast.watch.outlets import dispatch as dispatch_module
from holdfast.watch.outlets.dispatch import Dispatch
from holdfast.watch.records import BatchRecord, GroupsRecord, StepRecord

LISTENING = SimpleNamespace(addListener=lambda listener: None, removeListener=lambda listener: None)
SPARK = SimpleNamespace(streams=LISTENING)
AT_MS = 1_767_225_600_000


@pytest.fixture
def recorder():
    return Recorder("job", None, Dispatch([], None, "job"), lambda run: None)


def report(number, phases=("addBatch",)):
    return SimpleNamespace(
        name="job",
        batchId=number,
        timestamp="2026-01-01T00:00:00.000Z",
        runId="run",
        batchDuration=5,
        durationMs=dict.fromkeys(phases, 1),
        numInputRows=number,
        eventTime={},
        observedMetrics={},
        sources=[],
        stateOperators=[],
    )


def numbers(checkpoint):
    return [record.batch for record in read_history(LocalFiles(), str(checkpoint)).batches]


def test_a_report_that_there_was_nothing_to_do_is_of_no_micro_batch(recorder, tmp_path):
    idle = report(1, ("latestOffset", "triggerExecution"))
    recorder.begin(SPARK, str(tmp_path), {}, None)
    recorder.watch(SimpleNamespace(runId="run", lastProgress=idle, recentProgress=[report(0), idle]))
    recorder.catch_up()
    assert numbers(tmp_path) == [0]
    recorder.take(report(1))
    recorder.end()
    assert numbers(tmp_path) == [0, 1]


@pytest.mark.parametrize(("replaced", "partial"), [(False, False), (True, True)])
def test_state_that_was_replaced_meanwhile_is_not_what_was_recorded(recorder, tmp_path, replaced, partial):
    (tmp_path / "state").mkdir()
    seconds = AT_MS / 1000 + (60 if replaced else -60)
    os.utime(tmp_path / "state", (seconds, seconds))
    groups = GroupsRecord(labels=[0], elements=[0], keys=[7], bytes=[70], timers=[0], windows=[0])
    step = StepRecord(key_groups=4, keys=7, state_bytes=70, groups=groups)
    HistoryFile(LocalFiles(), str(tmp_path)).append(BatchRecord(batch=3, at_ms=AT_MS, steps={"step": step}))
    recorder.begin(SPARK, str(tmp_path), {"step": 4}, 3)
    recorder.take(report(4))
    recorder.end()
    last = read_history(LocalFiles(), str(tmp_path)).last
    assert (last.batch, last.steps["step"].keys, last.steps["step"].partial) == (4, 0 if replaced else 7, partial)


def test_an_end_that_is_noticed_late_does_not_end_the_next_run(recorder, tmp_path):
    for run in ("first", "second"):
        recorder.begin(SPARK, str(tmp_path), {}, None)
        recorder.watch(SimpleNamespace(runId=run, lastProgress=None))
        if run == "first":
            recorder.end("it broke", run)
    recorder.end("it broke", "first")
    events = read_history(LocalFiles(), str(tmp_path)).events
    assert [event.event for event in events] == ["started", "failed", "started"]


def test_a_run_that_fails_at_once_has_the_micro_batch_that_was_committed_before(recorder, tmp_path):
    recorder.begin(SPARK, str(tmp_path), {}, None)
    recorder.take(report(0))
    recorder.end("it broke")
    for _ in range(2):
        recorder.begin(SPARK, str(tmp_path), {}, 0)
        recorder.end("it broke")
    history = read_history(LocalFiles(), str(tmp_path))
    assert [event.batch for event in history.events if event.event == "failed"] == [0, 0, 0]
    assert "has not come past micro-batch 1" in judge(history).symptom("reprocessing").evidence


def test_a_start_that_fails_is_a_failure(tmp_path, monkeypatch):
    job = hf.Job("job", checkpoint=str(tmp_path), progress=False)
    monkeypatch.setattr(job_module, "Outline", lambda *_: SimpleNamespace(spark=SPARK))
    monkeypatch.setattr(job_module, "resolved", lambda spark, path: path)
    job._presence = SimpleNamespace(begin=lambda *_, **__: None, check=lambda: None, end=lambda: None)

    def refused(spark, presence, checkpoint, outline):
        job._watching.recorder.begin(spark, checkpoint, {}, None)
        raise RuntimeError("no such class")

    monkeypatch.setattr(job, "_start_query", refused)
    with pytest.raises(RuntimeError):
        job._start()
    events = read_history(LocalFiles(), str(tmp_path)).events
    assert [(event.event, event.text) for event in events] == [("started", ""), ("failed", "no such class")]


def test_a_full_disk_does_not_end_a_history(recorder, tmp_path, monkeypatch, caplog):
    append, full = LocalFiles.append, [True]

    def appended(files, path, content):
        if full:
            append(files, path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        append(files, path, content)

    monkeypatch.setattr(LocalFiles, "append", appended)
    recorder.begin(SPARK, str(tmp_path), {}, None)
    for number in range(20):
        recorder.take(report(number))
    full.clear()
    for number in range(20, 100):
        recorder.take(report(number))
    recorder.end()
    assert [text for text in caplog.messages if "cannot be kept" in text] == [
        "The history of the job 'job' cannot be kept: [Errno 28] No space left on device"
    ]
    found = numbers(tmp_path)
    assert found == list(range(found[0], 100))
    assert 20 <= found[0] < 40


def test_the_listener_does_not_wait_for_outlets(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch_module, "_CLOSING_SECONDS", 1_000.0)
    may_go = threading.Event()
    outlet = SimpleNamespace(event=lambda record: may_go.wait(60), batch=None, close=lambda: None)
    own = Recorder("job", None, Dispatch([outlet], None, "job"), lambda run: own.end("it broke", run))
    own.begin(SPARK, str(tmp_path), {}, None)
    own.watch(SimpleNamespace(runId="run", lastProgress=None))
    listening = threading.Thread(target=own.ended, args=("run",), daemon=True)
    listening.start()
    listening.join(30)
    assert not listening.is_alive()
    may_go.set()
    own.end()
