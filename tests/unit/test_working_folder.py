"""The directory for working files: private, apart for each run, and swept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import holdfast as hf
from holdfast.spark.stages import working_folder
from holdfast.spark.stages.working_folder import remove_run, run_folder, state_dir_property

OWN = f"holdfast-{os.geteuid()}"
HOLD = """
import sys
from holdfast.spark.stages import working_folder
working_folder.task_property = lambda name: sys.argv[1]
print(working_folder.working_folder(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def worker(monkeypatch):
    """Asks for the folder as a task of a run does, in this process."""
    monkeypatch.setattr(working_folder, "_held", {})

    def worker(path, run):
        told = None if path is None else state_dir_property(str(path), run)
        monkeypatch.setattr(working_folder, "task_property", lambda name: told)
        return working_folder.working_folder()

    yield worker
    for _, lock in working_folder._held.values():
        os.close(lock)


@pytest.fixture
def another(tmp_path):
    """Another worker's process, which uses the folder of a run until it is told to end."""
    children = []

    def another(path, run):
        environment = {**os.environ, "PYTHONPATH": str(Path(hf.__file__).parents[1])}
        command = [sys.executable, "-c", HOLD, state_dir_property(str(path), run)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        children.append(child)
        return child, Path(child.stdout.readline().strip())

    yield another
    for child in children:
        child.communicate()


def test_without_a_directory_it_is_sparks_own(worker, monkeypatch, tmp_path):
    monkeypatch.setattr(working_folder.SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    assert worker(None, "") == tmp_path / "holdfast-state"


def test_it_is_made_and_only_the_user_may_enter(worker, tmp_path):
    folder = worker(tmp_path / "not" / "there", "run")
    assert folder.is_dir()
    assert folder.parent == tmp_path / "not" / "there" / OWN
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert worker(tmp_path / "not" / "there", "run") == folder
    assert folder.name.startswith("run-")


def test_each_run_has_its_own_and_another_start_of_the_machine_too(worker, tmp_path, monkeypatch):
    first, second = worker(tmp_path, "one"), worker(tmp_path, "two")
    monkeypatch.setattr(working_folder, "_machine", lambda: "after-a-crash")
    assert len({first, second, run_folder(str(tmp_path), "one")}) == 3


def test_what_nobody_holds_is_swept(worker, another, tmp_path):
    child, theirs = another(tmp_path, "held")
    left = tmp_path / OWN / "killed-machine" / "step"
    left.mkdir(parents=True)
    (left / "0.sqlite").write_bytes(b"state")
    (tmp_path / OWN / "a file").write_bytes(b"not ours")
    assert worker(tmp_path, "mine").is_dir()
    assert theirs.is_dir()
    assert not left.parent.exists()
    assert (tmp_path / OWN / "a file").exists()
    child.communicate()
    later = worker(tmp_path, "later")
    assert sorted(path.name for path in (tmp_path / OWN).iterdir() if path.is_dir()) == sorted(
        path.name for path in (worker(tmp_path, "mine"), later)
    )


def test_a_folder_that_is_being_removed_is_made_anew(worker, tmp_path, monkeypatch):
    """The worker has opened the folder when somebody removes it, before it has the lock."""
    import fcntl

    flock, removed = fcntl.flock, []

    def slow(lock, how):
        if not removed:
            removed.append(run_folder(str(tmp_path), "run"))
            removed[0].rmdir()
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    folder = worker(tmp_path, "run")
    assert removed == [folder]
    assert os.path.samestat(os.fstat(working_folder._held[state_dir_property(str(tmp_path), "run")][1]), folder.stat())


def test_a_run_is_removed(worker, tmp_path):
    folder = worker(tmp_path, "run")
    (folder / "step").mkdir()
    remove_run(str(tmp_path), "other")
    assert folder.exists()
    remove_run(str(tmp_path), "run")
    assert not folder.exists()
    remove_run(str(tmp_path), "run")


def open_to_all(folder):
    folder.chmod(0o755)


def linked(folder):
    folder.rmdir()
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def a_file(folder):
    folder.rmdir()
    folder.write_bytes(b"")


@pytest.mark.parametrize("spoiled", [open_to_all, linked, a_file])
def test_what_is_not_private_is_refused(tmp_path, spoiled):
    own = tmp_path / OWN
    own.mkdir(mode=0o700)
    spoiled(own)
    with pytest.raises(hf.HoldfastError, match="is not a directory that is yours alone") as refused:
        run_folder(str(tmp_path), "run")
    assert f"remove {own}, or give another state_dir" in str(refused.value)


def test_where_everybody_may_replace_it_is_refused(tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    given.chmod(0o777)
    with pytest.raises(hf.HoldfastError, match="everybody may replace what is in it"):
        run_folder(str(given), "run")
    given.chmod(0o1777)
    assert run_folder(str(given), "run").parent == given / OWN


def test_what_cannot_be_a_directory_is_told(worker, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(hf.HoldfastError, match="cannot be used for the working files of the disk backend") as refused:
        worker(tmp_path / "file" / "below", "run")
    assert "hf.Job(state_dir=...)" in str(refused.value)
