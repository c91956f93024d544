"""The lock on a checkpoint: one holder at a time, whoever dies on the way."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.checkpoint import lock as locks
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.host import ProcessId, has_ended, this_process
from holdfast.checkpoint.lock import LOCK_FILE, Lock, LockInfo, current_lock, holding
from holdfast.checkpoint.turns import TURN_FILE
from holdfast.errors import CheckpointError, CheckpointLocked

from .contenders import contend, guarded

# Where the other processes find them.
sys.path.insert(0, str(Path(__file__).parents[1]))
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["holdfast.checkpoint.lock"])


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "checkpoint")


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.05)
    monkeypatch.setattr(locks, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(locks, "_AGAIN_SECONDS", 0.02)


def file_of(checkpoint) -> Path:
    return Path(checkpoint) / LOCK_FILE


def stored(checkpoint) -> dict:
    return json.loads(file_of(checkpoint).read_text())


def put(checkpoint, **changes):
    """A lock that somebody has left."""
    process = this_process()
    gone = replace(process, number=changes.pop("number", process.number), started=changes.pop("started", "long ago"))
    gone = replace(gone, machine=changes.pop("machine", gone.machine))
    at = locks._now() - timedelta(seconds=changes.pop("age", 3600))
    file_of(checkpoint).parent.mkdir(parents=True, exist_ok=True)
    file_of(checkpoint).write_bytes(locks._content(LockInfo("job alerts", gone, at, at, changes.pop("token", "old"))))
    assert not changes


def until(is_so, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_is_taken_and_given_back(checkpoint):
    assert current_lock(None, checkpoint) is None
    with holding(None, checkpoint, "holdfast rescale"):
        info = current_lock(None, checkpoint)
        assert (info.owner, info.process) == ("holdfast rescale", this_process())
    assert not file_of(checkpoint).exists()
    assert current_lock(None, checkpoint) is None


def test_it_is_given_back_after_an_error(checkpoint):
    with pytest.raises(ZeroDivisionError), holding(None, checkpoint, "holdfast rescale"):
        raise ZeroDivisionError
    assert current_lock(None, checkpoint) is None


def test_a_second_holder_is_told_who_has_it(checkpoint):
    with holding(None, checkpoint, "job alerts"):
        before = file_of(checkpoint).read_bytes()
        with pytest.raises(CheckpointLocked) as caught, holding(None, checkpoint, "holdfast rescale"):
            pass
        text = str(caught.value)
        assert f"is in use: job alerts on {this_process().host}, process {os.getpid()}, since 20" in text
        assert f"holdfast stop {checkpoint}" in text
        assert file_of(checkpoint).read_bytes() == before
    with holding(None, checkpoint, "holdfast rescale"), pytest.raises(CheckpointLocked, match="rescale") as caught:
        Lock(None, checkpoint, "job alerts").acquire()
    assert "wait until it is done" in str(caught.value)


def test_a_lock_can_be_taken_again(checkpoint):
    lock = Lock(None, checkpoint, "job alerts")
    for _ in range(3):
        assert lock.acquire().is_held
        lock.release()
        lock.release()
    assert not lock.is_held


@pytest.mark.parametrize(
    "left",
    [
        {"number": 2**22 + 5},
        {"number": os.getpid(), "started": "another time"},
        {"started": this_process().started, "token": "its removal failed"},
        {"machine": "elsewhere", "age": 61},
    ],
    ids=["no such process", "the number was given again", "left over by this process", "no sign of life"],
)
def test_a_stale_lock_is_taken_over(checkpoint, left, fast):
    put(checkpoint, **left)
    assert current_lock(None, checkpoint) is None
    with holding(None, checkpoint, "job new"):
        assert current_lock(None, checkpoint).owner == "job new"
        assert sorted(os.listdir(file_of(checkpoint).parent)) == ["lock.json", "turn.json"]


def test_another_host_with_signs_of_life_has_it(checkpoint):
    put(checkpoint, machine="elsewhere", age=30)
    assert current_lock(None, checkpoint).owner == "job alerts"
    with pytest.raises(CheckpointLocked):
        Lock(None, checkpoint, "job new").acquire()


def test_another_host_whose_clock_is_slow_has_it(checkpoint, fast, monkeypatch):
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 1.0)
    put(checkpoint, machine="elsewhere", age=3600)
    renewal = threading.Timer(0.2, lambda: put(checkpoint, machine="elsewhere", age=3590))
    renewal.start()
    with pytest.raises(CheckpointLocked):
        Lock(None, checkpoint, "job new").acquire()
    renewal.join()


def test_a_sign_of_life_from_the_future_says_nothing(checkpoint, fast, monkeypatch):
    """As after a clock was set back, or a machine came up before it knew the time."""
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 1.0)
    put(checkpoint, machine="elsewhere", age=-3600)
    renewal = threading.Timer(0.2, lambda: put(checkpoint, machine="elsewhere", age=-3590))
    renewal.start()
    with pytest.raises(CheckpointLocked):
        Lock(None, checkpoint, "job new").acquire()
    renewal.join()
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.05)
    Lock(None, checkpoint, "job new").acquire().release()


@pytest.mark.parametrize("content", [b"", b"{", b'{"lock_version": 2}', b"[]"], ids=["empty", "cut", "newer", "other"])
def test_a_lock_that_cannot_be_read_counts_by_its_age(checkpoint, content, fast):
    put(checkpoint)
    file_of(checkpoint).write_bytes(content)
    assert current_lock(None, checkpoint).owner == "somebody"
    with pytest.raises(CheckpointLocked, match="somebody"):
        Lock(None, checkpoint, "job new").acquire()
    long_ago = time.time() - 100
    os.utime(file_of(checkpoint), (long_ago, long_ago))
    assert current_lock(None, checkpoint) is None
    Lock(None, checkpoint, "job new").acquire().release()


def test_signs_of_life(checkpoint, fast):
    with holding(None, checkpoint, "job alerts"):
        first = stored(checkpoint)
        until(lambda: stored(checkpoint)["alive_at"] > first["alive_at"])
        assert {**stored(checkpoint), "alive_at": ""} == {**first, "alive_at": ""}


def test_a_sign_of_life_that_fails_is_tried_again(checkpoint, fast, monkeypatch):
    lock = Lock(None, checkpoint, "job alerts").acquire()
    full, write = [True], lock._files.write

    def failing(path, content):
        if full[0]:
            full.append(True)
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(lock._files, "write", failing)
    before = stored(checkpoint)
    until(lambda: len(full) > 3)
    assert stored(checkpoint) == before
    full[0] = False
    until(lambda: stored(checkpoint)["alive_at"] > before["alive_at"])
    lock.release()
    assert lock.lost is None


def test_a_lock_that_is_gone_is_made_again(checkpoint, fast):
    with holding(None, checkpoint, "job alerts"):
        first = stored(checkpoint)
        file_of(checkpoint).unlink()
        until(file_of(checkpoint).exists)
        assert stored(checkpoint)["token"] == first["token"]


def test_who_was_taken_for_dead_is_told(checkpoint, fast):
    told = []
    lock = Lock(None, checkpoint, "job alerts", on_lost=told.append).acquire()
    put(checkpoint, machine="elsewhere", age=0, token="new")
    until(lambda: told)
    assert told == [lock.lost]
    with pytest.raises(CheckpointLocked, match="was taken over by job alerts"):
        lock.check()
    lock.release()
    assert stored(checkpoint)["token"] == "new"


def test_who_wakes_when_the_one_that_took_over_has_ended_is_told(checkpoint, monkeypatch):
    monkeypatch.setattr(locks, "_TRUST_SECONDS", 0.0)
    lock = Lock(None, checkpoint, "job alerts").acquire()
    lock.confirm()
    # Its process sleeps: another takes over, works, and gives the lock back.
    put(checkpoint, machine="elsewhere", age=0, token=lock._token)
    file_of(checkpoint).unlink()
    Lock(None, checkpoint, "job alerts").acquire().release()
    with pytest.raises(CheckpointLocked, match="Others have used the checkpoint"):
        lock.confirm()
    assert not lock.is_held
    assert not file_of(checkpoint).exists()


def test_a_lock_that_was_seen_a_moment_ago_is_not_read_again(checkpoint, monkeypatch):
    with holding(None, checkpoint, "job alerts") as lock:
        monkeypatch.setattr(lock._files, "read", lambda path: pytest.fail("was read"))
        lock.confirm()
        monkeypatch.undo()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"turn": "x", "token": 1}', b"[" * 100_000])
def test_a_damaged_turn_is_nobodys(checkpoint, content, monkeypatch):
    monkeypatch.setattr(locks, "_TRUST_SECONDS", 0.0)
    with holding(None, checkpoint, "job alerts") as lock:
        (Path(checkpoint) / TURN_FILE).write_bytes(content)
        with pytest.raises(CheckpointLocked):
            lock.confirm()
    with holding(None, checkpoint, "job alerts") as lock:
        lock.confirm()


def test_what_is_no_longer_needed_is_given_to_the_next_one_at_once(checkpoint):
    needed = [True]
    first = Lock(None, checkpoint, "job first", in_use=lambda: needed[0]).acquire()
    second = Lock(None, checkpoint, "job second")
    with pytest.raises(CheckpointLocked):
        second.acquire()
    needed[0] = False
    assert current_lock(None, checkpoint) is None
    second.acquire()
    assert not first.is_held
    second.release()


def test_what_others_left_is_swept(checkpoint):
    folder = file_of(checkpoint).parent
    folder.mkdir(parents=True)
    old, new, other = (folder / name for name in (".lock.json.1.1.tmp", "lock.json.abc", "manifest.json"))
    for path in (old, new, other):
        path.write_text("")
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    with holding(None, checkpoint, "holdfast rescale"):
        assert sorted(os.listdir(folder)) == ["lock.json", "lock.json.abc", "manifest.json", "turn.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_no_permission(tmp_path):
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o755)
    tmp_path.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(CheckpointError, match="could not be written: Permission denied") as caught:
            Lock(None, str(tmp_path), "job alerts").acquire()
    finally:
        os.seteuid(0)
    assert "choose a path that you may write to" in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_full_disk(checkpoint, monkeypatch):
    def full(self, path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(LocalFiles, "create", full)
    with pytest.raises(CheckpointError, match="could not be written: No space left on device") as caught:
        Lock(None, checkpoint, "job alerts").acquire()
    assert "free some space there" in str(caught.value)


def test_processes_are_told_apart():
    assert has_ended(this_process()) is False
    assert has_ended(replace(this_process(), started="then")) is True
    assert has_ended(replace(this_process(), machine="elsewhere")) is None
    assert has_ended(ProcessId("", "", 0, "")) is None


def test_a_process_that_was_killed_and_not_yet_waited_for_has_ended():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = replace(this_process(), number=child.pid)
    from holdfast.checkpoint.host import _started

    process = replace(process, started=_started(child.pid))
    assert has_ended(process) is False
    child.kill()
    until(lambda: has_ended(process))
    child.communicate()


@pytest.mark.parametrize("stale", [False, True], ids=["free", "stale"])
def test_of_many_processes_one_gets_it(checkpoint, stale):
    count, rounds = 6, 25
    barrier, results = processes.Barrier(count + 1), processes.Queue()
    started = [processes.Process(target=contend, args=(checkpoint, barrier, results, rounds)) for _ in range(count)]
    for process in started:
        process.start()
    for _ in range(rounds):
        if stale:
            put(checkpoint)
        barrier.wait(60)
        won = [results.get(timeout=60) for _ in range(count)]
        assert len([pid for pid in won if pid is not None]) == 1
        barrier.wait(60)
        barrier.wait(60)
    for process in started:
        process.join(60)
        assert process.exitcode == 0


def test_no_two_work_at_the_same_time_though_some_are_killed(checkpoint, tmp_path):
    place, stop = tmp_path / "place", tmp_path / "stop"
    place.mkdir()
    workers = [processes.Process(target=guarded, args=(checkpoint, str(place), str(stop))) for _ in range(4)]
    for worker in workers:
        worker.start()
    killed = []
    for victim in workers[:3]:
        until(lambda victim=victim: Path(f"{stop}.{victim.pid}.worked").exists(), 60)
        # As likely as not while it holds the lock.
        until(lambda: file_of(checkpoint).exists(), 60)
        os.kill(victim.pid, signal.SIGKILL)
        killed.append(victim)
    last = workers[3]
    time.sleep(0.5)
    worked = Path(f"{stop}.{last.pid}.worked")
    worked.unlink(missing_ok=True)
    until(worked.exists, 60)
    stop.touch()
    last.join(60)
    assert last.exitcode == 0
    for victim in killed:
        victim.join(60)
        assert victim.exitcode == -signal.SIGKILL


def test_killed_while_it_holds_the_lock(checkpoint):
    code = (
        "import sys, time; from holdfast.checkpoint.lock import Lock; Lock(None, sys.argv[1], 'job alerts').acquire(); "
        "print(1, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, checkpoint], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "1\n"
    assert current_lock(None, checkpoint).process.number == child.pid
    with pytest.raises(CheckpointLocked, match=f"process {child.pid}"):
        Lock(None, checkpoint, "job alerts").acquire()
    child.kill()
    child.communicate()
    Lock(None, checkpoint, "job alerts").acquire().release()


def test_a_process_that_ends_in_good_order_leaves_no_lock(checkpoint):
    code = "import sys; from holdfast.checkpoint.lock import Lock; Lock(None, sys.argv[1], 'job alerts').acquire()"
    subprocess.run([sys.executable, "-c", code, checkpoint], check=True)
    assert os.listdir(file_of(checkpoint).parent) == ["turn.json"]
