"""Jobs that hold their checkpoint, and are stopped from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.checkpoint import lock as locks
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.lock import LOCK_FILE, LockInfo, current_lock, holding
from holdfast.checkpoint.presence import STOP_FILE, Presence
from holdfast.checkpoint.registry import registered
from holdfast.cli.main import main
from holdfast.errors import CheckpointError, CheckpointLocked
from holdfast.ops.move import stopping
from holdfast.ops.move.savepoint import savepoint_verify
from holdfast.ops.move.stopping import stop
from holdfast.testing.spark_runtime import scripted_session
from holdfast.watch.history import read_history

from . import jobs


@pytest.fixture(autouse=True)
def own_registry(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(locks, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(stopping, "_LOCAL_POLL_SECONDS", 0.02)


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    return str(tmp_path / "checkpoint")


class Pretended:
    """Runs until it is stopped, and no Spark is needed."""

    def __init__(self, checkpoint, name="alerts", stops=True):
        self.runs, self.stops, self.asked = True, stops, 0
        self.presence = Presence(name, checkpoint)
        self.presence.begin(None, runs=lambda: self.runs, stop=self.stop, abandon=lambda taken_by: None)

    def stop(self):
        self.asked += 1
        if self.stops:
            time.sleep(0.05)
            self.runs = False
            self.presence.end()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.runs = False
        self.presence.end()


def until(is_so, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


STAYS = {"turn.json", "graph.json", "history"}


def left(checkpoint):
    return sorted(path.name for path in (Path(checkpoint) / "holdfast").iterdir() if path.name not in STAYS)


@pytest.mark.parametrize("by_name", [True, False])
def test_a_job_is_stopped(checkpoint, fast, capfd, by_name):
    with Pretended(checkpoint) as job:
        assert main(["stop", "alerts" if by_name else checkpoint, "--json"]) == 0
        result = json.loads(capfd.readouterr().out)
        assert (result["job"], result["checkpoint"], result["batch"], result["savepoint"]) == (
            "alerts",
            checkpoint,
            None,
            None,
        )
        assert job.asked == 1
        # In the same process it is known a little earlier that the lock is free than it is gone.
        until(lambda: left(checkpoint) == [])
        assert registered("alerts") == []


def test_for_people(checkpoint, fast, capfd):
    with Pretended(checkpoint):
        assert main(["stop", "alerts"]) == 0
        assert capfd.readouterr().out.startswith("Stopped alerts before its first commit, in ")


def test_no_such_job(checkpoint, tmp_path, capfd):
    assert main(["stop", "alerts"]) == 1
    assert "error: No job 'alerts' is running" in capfd.readouterr().err
    assert main(["stop", str(tmp_path / "nowhere"), "--json"]) == 1
    assert "No job" in json.loads(capfd.readouterr().err)["error"]["what"]
    assert main(["stop", checkpoint]) == 1
    assert f"No job is running on {checkpoint!r}." in capfd.readouterr().err
    assert os.listdir(checkpoint) == ["commits"]


def test_a_tool_is_not_stopped(checkpoint):
    with holding(None, checkpoint, "holdfast rescale"):
        with pytest.raises(CheckpointError, match="it is in use by holdfast rescale"):
            stop(None, checkpoint)
        assert left(checkpoint) == ["lock.json"]


def test_the_time_passes(checkpoint, fast, capfd):
    with Pretended(checkpoint, stops=False) as job:
        assert main(["stop", checkpoint, "--timeout", "0.3"]) == 1
        assert "has not stopped within 0.3 seconds" in capfd.readouterr().err
        assert left(checkpoint) == ["lock.json", "stop.json"]
        # The request stands; it is heeded as soon as that is possible.
        job.stops = True
        until(lambda: left(checkpoint) == [])


def test_a_copy_that_was_made_while_the_job_ran(checkpoint, tmp_path, fast):
    """It has the lock too, but nobody is there to heed a request."""
    copy = str(tmp_path / "copy")
    with Pretended(checkpoint):
        shutil.copytree(checkpoint, copy)
        with pytest.raises(CheckpointError, match=f"it is a copy of {checkpoint!r}") as refused:
            stop(None, copy)
        assert f"holdfast stop {checkpoint}" in str(refused.value)
        with pytest.raises(CheckpointLocked, match=f"{copy!r} is a copy of {checkpoint!r}, made while") as locked:
            holding(None, copy, "holdfast rescale").__enter__()
        assert f"holdfast savepoint create {checkpoint} DEST" in str(locked.value)
        os.symlink(checkpoint, tmp_path / "link")
        with pytest.raises(CheckpointLocked, match="is in use: job alerts on"):
            holding(None, str(tmp_path / "link"), "holdfast rescale").__enter__()
    assert left(copy) == ["lock.json"]
    with holding(None, copy, "holdfast rescale"):
        pass


def test_a_request_to_an_earlier_job_is_ignored(checkpoint, fast):
    path = Path(checkpoint) / STOP_FILE
    path.parent.mkdir()
    for old in ('{"token": "of another", "by": "me"}', "no request at all"):
        path.write_text(old)
        with Pretended(checkpoint) as job:
            until(lambda: not path.exists())
            assert job.asked == 0
            assert current_lock(None, checkpoint) is not None


def test_two_of_a_name(checkpoint, tmp_path, fast):
    with Pretended(checkpoint) as first, Pretended(str(tmp_path / "second")) as second:
        with pytest.raises(CheckpointError, match="2 jobs named 'alerts' are running") as caught:
            stop(None, "alerts")
        assert checkpoint in str(caught.value)
        stop(None, checkpoint)
        assert (first.asked, second.asked) == (1, 0)
        stop(None, "alerts")
        assert second.asked == 1


def test_an_entry_that_was_left_is_recognised(checkpoint, fast):
    with Pretended(checkpoint) as job:
        job.presence._lock.release()
        # As after kill -9: the entry is there, its lock is not.
        assert len(registered("alerts")) == 1
        with Pretended(checkpoint, "another"), pytest.raises(CheckpointError, match="No job 'alerts' is running"):
            stop(None, "alerts")
        assert registered("alerts") == []


def test_a_job_that_dies_while_it_is_asked(checkpoint, fast):
    with Pretended(checkpoint, stops=False) as job:

        def die():
            until(lambda: job.asked)
            (Path(checkpoint) / LOCK_FILE).unlink()

        dying = threading.Thread(target=die)
        dying.start()
        stop(None, checkpoint)
        dying.join()
        assert not (Path(checkpoint) / STOP_FILE).exists()


def test_with_a_savepoint(checkpoint, tmp_path, fast, monkeypatch):
    made = []
    monkeypatch.setattr(stopping, "savepoint_create", lambda *given: made.append((current_lock(*given[:2]), *given[1:])))
    there = tmp_path / "there"
    there.mkdir()
    with Pretended(checkpoint) as job:
        with pytest.raises(CheckpointError, match="the job was not stopped"):
            stop(None, "alerts", savepoint=str(there))
        assert (job.asked, made) == (0, [])
        assert main(["stop", "alerts", "--savepoint", str(tmp_path / "saved")]) == 0
    assert made == [(None, checkpoint, str(tmp_path / "saved"))]


def test_a_savepoint_that_fails_is_told_with_what_was_done(checkpoint, tmp_path, fast, capfd):
    with Pretended(checkpoint):
        # Nothing was ever committed.
        assert main(["stop", "alerts", "--savepoint", str(tmp_path / "saved")]) == 1
    said = capfd.readouterr().err
    assert "is not a checkpoint of a streaming query" in said
    assert "had been stopped" in said
    assert not (tmp_path / "saved").exists()


def test_the_registry_cannot_be_written(checkpoint, tmp_path, monkeypatch, fast):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with Pretended(checkpoint):
        stop(None, checkpoint)


# On Spark


@pytest.fixture(scope="module")
def spark():
    return scripted_session()


@pytest.fixture
def folder(tmp_path):
    jobs.add_file(tmp_path / "in", 0, [("a", 1), ("b", 2)])
    return tmp_path / "in"


@pytest.fixture
def fresh(tmp_path):
    return str(tmp_path / "fresh")


def committed(checkpoint):
    until(lambda: (Path(checkpoint) / "commits" / "0").exists())


def test_run_returns_after_a_stop_from_outside(spark, folder, fresh):
    stopped = []

    def stop_it():
        committed(fresh)
        with pytest.raises(CheckpointLocked, match="job running on"):
            jobs.make_job(spark, folder, fresh, "another").start()
        stopped.append(stop(None, "running", timeout_seconds=60))

    thread = threading.Thread(target=stop_it)
    thread.start()
    jobs.make_job(spark, folder, fresh).run()
    thread.join()
    assert (stopped[0].job, stopped[0].batch) == ("running", 0)
    assert left(fresh) == ["manifest.json"]
    # It goes on where it was.
    jobs.add_file(folder, 1, [("a", 3)])
    sink = hf.sinks.Collect()
    jobs.make_job(spark, folder, fresh, trigger="available now", sink=sink).run()
    assert [tuple(row) for row in sink.rows] == [("a", 2)]


def test_a_job_that_nobody_waits_for_is_stopped_too(spark, folder, fresh):
    job = jobs.make_job(spark, folder, fresh).start()
    committed(fresh)
    with pytest.raises(CheckpointLocked):
        job.start()
    assert stop(None, fresh, timeout_seconds=60).batch == 0
    assert not job.query.isActive
    assert job.wait()


@pytest.mark.night
def test_a_query_that_ends_by_itself_gives_the_lock_back(spark, folder, fresh):
    first = jobs.make_job(spark, folder, fresh, trigger="available now").start()
    first.query.awaitTermination()
    # At once, though nobody has said that the job is over.
    assert current_lock(None, fresh) is None
    second = jobs.make_job(spark, folder, fresh, trigger="available now").start()
    second.query.awaitTermination()
    until(lambda: left(fresh) == ["manifest.json"])
    first.stop()
    second.stop()


@pytest.mark.night
def test_a_start_that_fails_gives_the_lock_back(spark, folder, fresh):
    jobs.make_job(spark, folder, fresh, trigger="available now").run()
    with pytest.raises(hf.StateConflict):
        jobs.make_job(spark, folder, fresh, trigger="available now", step="renamed").run()
    assert left(fresh) == ["manifest.json"]


def test_a_job_whose_lock_is_taken_over_stops_with_an_error(spark, folder, fresh, monkeypatch):
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.2)
    job = jobs.make_job(spark, folder, fresh, tolerated_failures=3)
    taken = LockInfo("job other", locks.ProcessId("far", "far/1", 77, "then"), locks._now(), locks._now(), "other")

    def take_over():
        committed(fresh)
        (Path(fresh) / LOCK_FILE).write_bytes(locks._content(taken))

    thread = threading.Thread(target=take_over)
    thread.start()
    with pytest.raises(CheckpointLocked, match="was taken over by job other on far, process 77"):
        job.run()
    thread.join()
    assert not job.query.isActive
    assert current_lock(None, fresh).token == "other"
    # Whoever has it now writes its history.
    assert [event.event for event in read_history(LocalFiles(), fresh).events] == ["started"]


@pytest.mark.night
def test_a_failed_sign_of_life_does_not_end_a_job(spark, folder, fresh, monkeypatch):
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.1)
    job = jobs.make_job(spark, folder, fresh).start()
    failed = []

    def failing(path, content):
        failed.append(path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job._presence._lock._files, "write", failing)
    until(lambda: len(failed) > 2)
    assert job.query.isActive
    monkeypatch.undo()
    job.stop()
    assert left(fresh) == ["manifest.json"]


@pytest.fixture
def program(folder, fresh):
    """The job as a program, by `holdfast run`."""
    command = [
        sys.executable,
        "-c",
        "from holdfast.cli.main import run; run()",
        "run",
        str(Path(__file__).with_name("jobs.py")),
    ]
    started = []

    def start():
        path = str(Path(hf.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": path}
        child = subprocess.Popen(
            [*command, str(folder), fresh, "program"], stdout=subprocess.PIPE, text=True, env=environment
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.night
def test_a_program_is_stopped_and_another_killed(spark, folder, fresh, program, capfd):
    first = program()
    assert first.stdout.readline() == "batch 0\n"
    committed(fresh)
    assert current_lock(None, fresh).process.number == first.pid
    with pytest.raises(CheckpointLocked, match=f"job program on .*, process {first.pid}, since"):
        jobs.make_job(spark, folder, fresh).start()
    saved = str(folder.parent / "saved")
    assert main(["stop", "program", "--timeout", "60", "--savepoint", saved]) == 0
    said = capfd.readouterr().out
    assert said.startswith("Stopped program after micro-batch 0, in ")
    assert f"Its state is saved in {saved}." in said
    assert savepoint_verify(None, saved)[0].batch == 0
    assert first.communicate(timeout=60)[0] == "ended\n"
    assert first.returncode == 0
    assert (left(fresh), registered("program")) == (["manifest.json"], [])
    jobs.add_file(folder, 1, [("a", 3)])
    second = program()
    assert second.stdout.readline() == "batch 1\n"
    second.kill()
    second.communicate()
    # It is gone, which is known here at once.
    assert current_lock(None, fresh) is None
    with pytest.raises(CheckpointError, match="No job"):
        stop(None, "program")
    jobs.add_file(folder, 2, [("a", 4)])
    sink = hf.sinks.Collect()
    jobs.make_job(spark, folder, fresh, trigger="available now", sink=sink).run()
    assert [tuple(row) for row in sink.rows][-1] == ("a", 3)


@pytest.fixture
def elsewhere(spark, tmp_path):
    """A path that is not local to us: Hadoop leads it to a directory of the test."""
    (tmp_path / "elsewhere").mkdir()
    name = f"elsewhere{os.getpid()}"
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set(f"fs.viewfs.mounttable.{name}.link./data", (tmp_path / "elsewhere").as_uri())
    return f"viewfs://{name}/data/checkpoint"


@pytest.mark.night
def test_on_another_file_system(spark, folder, elsewhere, tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.2)
    local = str(tmp_path / "elsewhere" / "checkpoint")
    job = jobs.make_job(spark, folder, elsewhere).start()
    committed(local)
    first = current_lock(spark, elsewhere)
    # There may have been a sign of life in between.
    assert replace(current_lock(None, local), alive_at=first.alive_at) == first
    until(lambda: current_lock(spark, elsewhere).alive_at > first.alive_at)
    with pytest.raises(CheckpointLocked, match="job running on"):
        jobs.make_job(spark, folder, elsewhere, "another").start()
    assert stop(spark, "running", timeout_seconds=60).checkpoint == elsewhere
    assert job.wait()
    assert current_lock(spark, elsewhere) is None
    put = locks._content(replace(first, process=replace(first.process, started="long ago")))
    (Path(local) / LOCK_FILE).write_bytes(put)
    with holding(spark, elsewhere, "holdfast rescale"):
        assert current_lock(spark, elsewhere).owner == "holdfast rescale"
    assert [name for name in left(local) if not name.startswith(".")] == ["manifest.json"]
