"""`holdfast checkpoint repair`: a commit of a micro-batch that nobody processed is taken back, and a true one never."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.lock import holding
from holdfast.cli.main import main
from holdfast.errors import CheckpointLocked, CorruptState
from holdfast.ops.inspect.state_frame import read_state
from holdfast.ops.upkeep.repair import checkpoint_repair
from holdfast.ops.upkeep.verify import checkpoint_verify
from ops.checkpoints import add_file, error_of, from_json, run_job, tree, write


def take_state(checkpoint: Path, *versions: int) -> None:
    """As a stop leaves it that committed micro-batches which nobody processed."""
    for version in versions:
        for file in checkpoint.glob(f"state/*/[0-9]*/{version}.changelog"):
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def false(checkpoint):
    """Micro-batch 5 is committed, and nobody has processed it."""
    take_state(checkpoint, 6)
    return checkpoint


def test_verify_names_it(false, capsys):
    found = checkpoint_verify(None, str(false), files_only=True)
    assert [problem.path for problem in found.problems] == [str(false / "commits" / "5")]
    assert "it is false: micro-batch 5 was never processed" in found.problems[0].what
    assert (found.whole_batches, found.last_whole_batch) == ([0, 1, 2, 3, 4], 4)
    assert main(["checkpoint", "verify", "--files-only", str(false)]) == 1
    assert f"holdfast checkpoint repair {false}" in capsys.readouterr().out


def test_it_is_taken_back_and_done(spark, history, false, capsys):
    with pytest.raises(CorruptState, match="Micro-batch 5 is committed") as caught:
        run_job(spark, history.input, false)
    assert "holdfast checkpoint repair" in caught.value.todo
    before = tree(false)
    assert main(["checkpoint", "repair", str(false), "--dry-run", "--json"]) == 0
    planned = from_json(capsys)
    assert (planned["false_commits"], planned["removed"], planned["done"]) == ([5], [str(false / "commits" / "5")], False)
    assert tree(false) == before
    assert main(["checkpoint", "repair", str(false), "--yes"]) == 0
    out = capsys.readouterr().out
    assert f"removed: {false / 'commits' / '5'}" in out
    assert "The next start of the job processes micro-batch 5." in out
    assert tree(false).keys() == before.keys() - {"commits/5", "commits/.5.crc"}
    assert run_job(spark, history.input, false) == {5: history.rows[5]}
    assert checkpoint_verify(spark, str(false)).problems == []


@pytest.mark.night
def test_with_a_plan_that_a_restart_has_made(spark, history, false, tmp_path):
    """It would be done in place of the one that was not."""
    offsets = (false / "offsets" / "5").read_text()
    write(false / "offsets" / "6", offsets.encode())
    done = checkpoint_repair(None, str(false))
    assert done.removed == [str(false / "offsets" / "6"), str(false / "commits" / "5")]
    assert checkpoint_verify(None, str(false), files_only=True).problems == []
    source = Path(shutil.copytree(history.input, tmp_path / "input"))
    add_file(source, 5)
    # Where the file source was is a path.
    for file in (false / "sources" / "0").iterdir():
        if file.name.isdigit():
            write(file, file.read_text().replace(str(history.input), str(source)).encode())
    rows = run_job(spark, source, false)
    assert rows[5] == history.rows[5]
    assert set(rows) >= {5, 6}


def test_several(checkpoint):
    take_state(checkpoint, 4, 5, 6)
    done = checkpoint_repair(None, str(checkpoint))
    assert done.false_commits == [3, 4, 5]
    wanted = ["commits/5", "offsets/5", "commits/4", "offsets/4", "commits/3"]
    assert done.removed == [str(checkpoint / name) for name in wanted]
    assert open_checkpoint(None, str(checkpoint)).planned() == [0, 1, 2, 3]


@pytest.mark.parametrize("stop_after", range(5))
def test_killed_on_the_way(checkpoint, monkeypatch, stop_after):
    """As long as it is not done, the first false commit is there, and no start can skip its micro-batch."""
    take_state(checkpoint, 4, 5, 6)
    files = type(open_checkpoint(None, str(checkpoint)).files)
    real, done = files.remove, []

    class Killed(BaseException):
        pass

    def remove(self, path):
        if "/commits/" in path or "/offsets/" in path:
            if len(done) == stop_after:
                raise Killed
            done.append(path)
        real(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(files, "remove", remove)
        with pytest.raises(Killed):
            checkpoint_repair(None, str(checkpoint))
    assert (checkpoint / "commits" / "3").exists()
    assert checkpoint_repair(None, str(checkpoint), dry_run=True).false_commits[0] == 3
    checkpoint_repair(None, str(checkpoint))
    place = open_checkpoint(None, str(checkpoint))
    assert (place.planned(), place.committed()) == ([0, 1, 2, 3], [0, 1, 2])


def test_the_first_micro_batch(checkpoint):
    for number in range(1, 6):
        for log in ("commits", "offsets"):
            (checkpoint / log / str(number)).unlink()
    for partition in checkpoint.glob("state/*/[0-9]*"):
        shutil.rmtree(partition)
    assert checkpoint_repair(None, str(checkpoint)).removed == [str(checkpoint / "commits" / "0")]


@pytest.mark.parametrize("lost", ["state/0/1/6.changelog", "state/0/1", "state/0", "state", "state/0/_metadata"])
def test_a_true_commit_is_never_taken_back(checkpoint, lost, capsys):
    """One operator, or one partition, has the state after it: somebody has processed it."""
    path = checkpoint / lost
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    before = tree(checkpoint)
    assert main(["checkpoint", "repair", str(checkpoint), "--yes"]) == 0
    assert "there is nothing to repair" in capsys.readouterr().out
    assert tree(checkpoint) == before


def test_state_of_which_the_version_before_is_lost_too(checkpoint):
    """Then nothing is proved."""
    take_state(checkpoint, 6)
    (checkpoint / "state" / "0" / "1" / "5.changelog").unlink()
    assert not checkpoint_repair(None, str(checkpoint), dry_run=True).is_needed


def test_files_that_are_named_otherwise_prove_nothing(checkpoint):
    for file in checkpoint.glob("state/*/[0-9]*/*.*"):
        if file.suffix in (".zip", ".changelog"):
            file.rename(file.with_name(f"{file.stem}_7f0c{file.suffix}"))
    assert not checkpoint_repair(None, str(checkpoint), dry_run=True).is_needed


def test_a_query_without_state(checkpoint, capsys):
    shutil.rmtree(checkpoint / "state")
    manifest = json.loads((checkpoint / "holdfast" / "manifest.json").read_text())
    write(checkpoint / "holdfast" / "manifest.json", json.dumps({**manifest, "steps": {}}).encode())
    assert main(["checkpoint", "repair", str(checkpoint), "--yes"]) == 0
    out = capsys.readouterr().out
    assert "there is nothing to repair" in out
    assert "cannot show whether a commit is true" in out


def test_nothing_without_being_told(false, capsys):
    before = tree(false)
    assert main(["checkpoint", "repair", str(false)]) == 1
    assert "--yes" in error_of(capsys)
    with holding(None, str(false), "job history"):
        assert main(["checkpoint", "repair", str(false), "--yes"]) == 1
        assert "is in use: job history" in error_of(capsys)
        with pytest.raises(CheckpointLocked):
            checkpoint_repair(None, str(false))
    assert tree(false) == before


def test_readers_say_what_it_is(spark, false):
    with pytest.raises(CorruptState, match="The state after micro-batch 5"):
        read_state(spark, str(false))
