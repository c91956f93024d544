"""An operation on a checkpoint that was killed: whoever comes next names it, and finishes it or takes it back."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.checkpoint.files.choice import files_of
from holdfast.checkpoint.layout import open_checkpoint
from holdfast.checkpoint.lock import current_lock, holding
from holdfast.checkpoint.replacement import finish_replacing
from holdfast.cli.main import main
from holdfast.errors import CheckpointError
from holdfast.ops.inspect.state_frame import read_state
from holdfast.ops.move.rescale import rescale
from holdfast.ops.upkeep.repair import checkpoint_repair
from holdfast.ops.upkeep.verify import checkpoint_verify
from holdfast.spark.job.manifest import open_manifest
from ops.checkpoints import error_of, from_json, moved_copy, run_job, tree, write


class Killed(BaseException):
    pass


def kill_rescale(spark, checkpoint: Path, monkeypatch, renames: int) -> None:
    """Rescales to 16 key groups, and is killed before the first rename, between the two, or after them."""
    files = type(open_checkpoint(None, str(checkpoint)).files)
    real, done = files.move, []

    def move(self, path, to):
        if path.startswith(str(checkpoint)) and {path, to} & {str(checkpoint / "state")}:
            if len(done) == renames:
                raise Killed
            done.append(to)
        real(self, path, to)
        if len(done) == renames == 2:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(files, "move", move)
        with pytest.raises(Killed):
            rescale(spark, str(checkpoint), key_groups=16)
    assert current_lock(None, str(checkpoint)) is None


@pytest.fixture(scope="module")
def killed(spark, history, tmp_path_factory):
    """By how many renames were done, a checkpoint as the kill left it."""

    @functools.cache
    def made(renames: int) -> Path:
        checkpoint = moved_copy(history.checkpoint, tmp_path_factory.mktemp("killed") / "checkpoint")
        with pytest.MonkeyPatch.context() as patch:
            kill_rescale(spark, checkpoint, patch, renames)
        return checkpoint

    return made


@pytest.fixture
def left(killed, tmp_path):
    def copy(renames: int) -> Path:
        made = moved_copy(killed(renames), tmp_path / "left")
        for file in made.glob("holdfast/state-before/*/_metadata/v2/[0-9]*"):
            write(file, file.read_text().replace(str(killed(renames)), str(made)).encode())
        return made

    return copy


GROUPS = {1: (8, 4), 2: (16, 16)}
OTHERS = {1: (16, 16), 2: (8, 4)}


@pytest.mark.parametrize("renames", [pytest.param(1, marks=pytest.mark.night), 2])
def test_a_job_starts_with_the_code_that_fits(spark, history, left, renames):
    """The old number of key groups if it was undone, the new one if it was finished; the other is told which it is."""
    checkpoint = left(renames)
    was = "4 and is 16" if renames == 1 else "16 and is 4"
    with pytest.raises(hf.StateConflict, match=f"key_groups was {was} now"):
        run_job(spark, history.input, checkpoint, key_groups=OTHERS[renames])
    assert sorted(entry.name for entry in (checkpoint / "holdfast").iterdir()) == [
        "graph.json",
        "history",
        "manifest.json",
        "turn.json",
    ]
    assert run_job(spark, history.input, checkpoint, key_groups=GROUPS[renames]) == {}
    assert checkpoint_verify(spark, str(checkpoint), deep=True).problems == []


def test_the_job_says_what_it_did(spark, left):
    checkpoint = left(1)
    notes = open_manifest(spark, str(checkpoint), "history").notes
    operation = "a change of key groups (rescale: cells from 8 to 16, totals from 4 to 16)"
    assert notes == [f"{operation} had been interrupted, and was undone."]


@pytest.mark.parametrize("renames", [1, 2])
def test_tools_name_it(spark, left, tmp_path, renames, capsys):
    checkpoint = left(renames)
    before = tree(checkpoint)
    commands = [
        ["checkpoint", "show", str(checkpoint)],
        ["state", "ls", str(checkpoint)],
        ["state", "show", str(checkpoint)],
        ["savepoint", "create", str(checkpoint), str(tmp_path / "savepoint")],
        ["state", "export", str(checkpoint), str(tmp_path / "export")],
    ]
    for command in commands:
        assert main(command) == 1
        said = error_of(capsys)
        assert "A change of key groups (rescale: cells from 8 to 16, totals from 4 to 16) was interrupted" in said
        assert f"holdfast checkpoint repair {checkpoint}" in said
    with pytest.raises(CheckpointError, match="was interrupted"):
        read_state(spark, str(checkpoint))
    found = checkpoint_verify(None, str(checkpoint), files_only=True)
    assert str(checkpoint / "holdfast" / "state-before") in [problem.path for problem in found.problems]
    assert main(["checkpoint", "verify", "--files-only", str(checkpoint)]) == 1
    assert tree(checkpoint) == before


@pytest.mark.parametrize("renames", [pytest.param(0, marks=pytest.mark.night), 1, 2])
def test_repair(spark, left, renames, capsys):
    checkpoint = left(renames)
    before = tree(checkpoint)
    assert main(["checkpoint", "repair", str(checkpoint), "--dry-run", "--json"]) == 0
    assert "was interrupted" in from_json(capsys)["interrupted"]
    assert tree(checkpoint) == before
    with holding(None, str(checkpoint), "job history"):
        assert main(["checkpoint", "repair", str(checkpoint), "--yes"]) == 1
    assert tree(checkpoint) == before
    capsys.readouterr()
    assert main(["checkpoint", "repair", str(checkpoint), "--yes", "--json"]) == 0
    outcome = ["it had changed nothing", "was undone", "was finished"][renames]
    assert outcome in from_json(capsys)["interrupted"]
    assert sorted(entry.name for entry in (checkpoint / "holdfast").iterdir()) == [
        "graph.json",
        "history",
        "manifest.json",
        "turn.json",
    ]
    assert read_state(spark, str(checkpoint)).count() > 0
    manifest = json.loads((checkpoint / "holdfast" / "manifest.json").read_text())
    assert manifest["steps"]["cells"]["key_groups"] == (16 if renames == 2 else 8)
    assert not checkpoint_repair(None, str(checkpoint), dry_run=True).is_needed
    assert checkpoint_verify(spark, str(checkpoint)).problems == []


@pytest.mark.night
def test_before_the_first_rename_nothing_has_changed(spark, history, left):
    checkpoint = left(0)
    found = checkpoint_verify(None, str(checkpoint), files_only=True)
    assert found.problems == []
    assert [note for note in found.notes if "interrupted before it changed anything" in note]
    assert read_state(spark, str(checkpoint)).count() > 0
    assert run_job(spark, history.input, checkpoint) == {}
    assert sorted(entry.name for entry in (checkpoint / "holdfast").iterdir()) == [
        "graph.json",
        "history",
        "manifest.json",
        "turn.json",
    ]


def test_what_was_to_be_done_need_not_be_known(left):
    """The manifest of the copy is damaged, or gone: the way out is the same."""
    checkpoint = left(1)
    (checkpoint / "holdfast" / "replacement" / "holdfast" / "manifest.json").write_text("[]")
    said = checkpoint_repair(None, str(checkpoint)).interrupted
    assert said == "a replacement of the state (state import, state rm, or rescale) had been interrupted, and was undone"


def test_finishing_is_killed_too(left):
    """While the old state was being removed."""
    checkpoint = left(2)
    for victim in ("holdfast/state-before/0/_metadata", "holdfast/state-before/1"):
        shutil.rmtree(checkpoint / victim)
    files = files_of(None, str(checkpoint))
    assert "was finished" in str(finish_replacing(files, str(checkpoint)))
    assert finish_replacing(files, str(checkpoint)) is None
    assert open_checkpoint(None, str(checkpoint)).manifest["steps"]["cells"]["key_groups"] == 16
    assert checkpoint_verify(None, str(checkpoint), files_only=True).problems == []


def test_an_unfinished_change_of_partitions(spark, history, checkpoint):
    """The job says what it is, and both ways out."""
    rescale(spark, str(checkpoint), partitions=5)
    for name in ("commits/6", "commits/.6.crc"):
        (checkpoint / name).unlink(missing_ok=True)
    before = tree(checkpoint)
    with pytest.raises(CheckpointError, match="from 2 to 5 partitions was not finished") as caught:
        run_job(spark, history.input, checkpoint)
    assert "--partitions 5" in caught.value.todo
    assert "--partitions 2" in caught.value.todo
    assert tree(checkpoint) == before
    assert rescale(spark, str(checkpoint), partitions=2).partitions == 2
    assert run_job(spark, history.input, checkpoint) == {}
